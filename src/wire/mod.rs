//! Newline-delimited JSON-RPC 2.0: framing, envelopes, error codes and limits, for both the socket and stdio
//! servers. Imports nothing of this crate.

mod limits;

pub use limits::{Limits, STOP_GRACE};
