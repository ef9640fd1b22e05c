//! One call from its name to its result: find the tool, send, cancel, shape. May import the servers' row and below.
//!
//! Always true: a call ends in the server's answer or in a [`CallError`], within its time; arguments and results are
//! the sender's own bytes; nothing is sent for a tool that the catalog doesn't offer.

mod admission;
mod caller;
mod error;
mod exchange;
mod media;
mod route;
pub mod shape;
mod stateless;
mod utility;

pub use caller::{Caller, Request};
pub use error::{CallError, TimeLimit};
pub use media::{MediaError, MediaStore, Saved};
pub use route::Target;
