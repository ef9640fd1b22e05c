//! Why a request to the daemon did not end in a result.

use std::{io, path::PathBuf, time::Duration};

use serde::Deserialize;
use serde_json::Value;

/// The daemon could not be reached, or did not answer with a result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say what the fields are")]
pub enum ClientError {
    /// Nothing at the path.
    #[error("no daemon is running: there is no socket at {}", path.display())]
    NoSocket { path: PathBuf },
    /// A socket file that nobody listens on: the daemon died without removing it.
    #[error("no daemon is running: nobody listens on the socket {}", path.display())]
    Stale { path: PathBuf },
    /// Another kind of file at the path.
    #[error("{} is not a socket", path.display())]
    NotASocket { path: PathBuf },
    /// A socket of another user. Never used: its owner could read arguments and forge results.
    #[error("refusing the socket {}: it belongs to user id {owner}, and we are {own}", path.display())]
    ForeignOwner { path: PathBuf, owner: u32, own: u32 },
    /// The system does not let us connect.
    #[error("no permission to connect to the socket {}", path.display())]
    Permission { path: PathBuf },
    /// Any other failure to connect.
    #[error("cannot connect to the socket {}: {source}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    /// The daemon does not take connections.
    #[error("the daemon at {} did not take the connection within {} s", path.display(), after.as_secs_f32())]
    Unresponsive { path: PathBuf, after: Duration },
    /// No answer in time.
    #[error("no {what} from the daemon at {} within {} s", path.display(), after.as_secs_f32())]
    Timeout {
        what: String,
        path: PathBuf,
        after: Duration,
    },
    /// The connection ended before the answer. What was asked may have been done.
    #[error(
        "the daemon at {} went away before it answered {method}{}",
        path.display(),
        source.as_ref().map(|error| format!(": {error}")).unwrap_or_default()
    )]
    Gone {
        method: String,
        path: PathBuf,
        source: Option<io::Error>,
    },
    /// The daemon's JSON-RPC error.
    #[error("{}", .0.message)]
    Rpc(RpcError),
    /// The peer does not speak our protocol.
    #[error("the program behind {} does not speak hermesd-mcp's protocol: {reason}", path.display())]
    Protocol { path: PathBuf, reason: String },
    /// Ctrl-C; the daemon was told to cancel.
    #[error("interrupted; the daemon was told to cancel the call")]
    Interrupted,
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RpcError {
    /// JSON-RPC's own codes are negative, the daemon's are 1001 and up.
    pub code: i64,
    /// What went wrong, for people.
    #[serde(default)]
    pub message: String,
    /// Details, such as `server`, `did_you_mean`, `retryable`; `null` when there are none.
    #[serde(default)]
    pub data: Value,
}

impl ClientError {
    /// Whether no daemon could be reached at all, so that nothing was asked of it.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. }
                | Self::Stale { .. }
                | Self::NotASocket { .. }
                | Self::ForeignOwner { .. }
                | Self::Permission { .. }
                | Self::Connect { .. }
                | Self::Unresponsive { .. }
        )
    }
}
