//! Newline-delimited JSON-RPC 2.0: framing, envelopes, error codes and limits, for both the socket and stdio
//! servers. Imports only [`crate::name`].

mod error;
mod limits;
mod lines;
mod message;

pub use error::{Code, ErrorData, Origin, RpcError};
pub use limits::{Limits, STOP_GRACE};
pub use lines::{LineError, LineReader};
pub use message::{
    Envelope, EnvelopeError, RequestId, is_reserved_meta, read_object, to_json, write_error,
    write_notification, write_result,
};
