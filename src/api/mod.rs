//! The socket: who may connect, line framing, one task per frontend, and the two families of methods. May import
//! [`crate::call`] and everything below it.
//!
//! Always true: an answer goes to the frontend that asked, with its own id; answers are never dropped, streams may
//! be; a frontend that does not read or sends garbage disturbs nobody else.

mod app;
mod control;
mod events;
pub mod listener;
mod mcp;
mod outgoing;
mod params;
mod session;
mod status;
mod stream;

pub use app::{App, ConfigInfo};
pub use listener::{ListenError, Listener};
pub(crate) use session::{serve, turn_away};
