//! ONE configured server: its process, its connection, its state. May import [`crate::config`] and the ground row.
//!
//! Always true: at most one process tree per server; a view says [`State::Connected`] only together with a
//! connection; a request ends in the server's own bytes or in [`Lost`].

mod actor;
mod attempt;
mod channel;
mod child;
mod connection;
pub mod death_watch;
mod era;
mod incoming;
mod link;
mod list;
mod machine;
mod open_error;
mod param_headers;
mod peer;
mod relist;
mod remote;
mod request;
mod stateless;
pub mod stdio;
mod tools;
mod view;

pub use actor::{ServerHandle, Surroundings, connect_error, settled};
pub use connection::{Capabilities, Connection, ServerInfo};
pub use era::{Eras, is_header_mismatch, is_missing_capability};
pub use list::{ListError, Listed};
pub(crate) use remote::HttpClients;
pub use request::{HttpFailure, Lost, Params, PendingRequest, Reply, Step};
pub use view::{Counters, ListedTool, ServerView, State};
