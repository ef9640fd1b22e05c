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
mod incoming;
mod link;
mod machine;
mod open_error;
mod peer;
mod relist;
mod remote;
mod request;
pub mod stdio;
mod tools;
mod view;

pub use actor::{ServerHandle, Surroundings, connect_error, settled};
pub use connection::{Capabilities, Connection, ListError, Listed, ServerInfo};
pub(crate) use remote::HttpClients;
pub use request::{HttpFailure, Lost, Params, PendingRequest, Reply, Step};
pub use view::{Counters, ListedTool, ServerView, State};
