//! Why a handshake failed, for people.

use rmcp::service::ClientInitializeError;

use super::{
    connection::{Connection, ListError},
    link::Link,
    machine::Failure,
    peer::Peer,
    remote,
    request::Lost,
};

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// rmcp's reason.
    #[error(transparent)]
    Handshake(#[from] Box<ClientInitializeError>),
    #[error("it wants protocol version '{0}', which is not one of {known}", known = Connection::versions())]
    Version(String),
    #[error(transparent)]
    List(#[from] ListError),
}

impl OpenError {
    /// The sentence for people, with what the peer had to say, and whether another try may help.
    pub(super) async fn into_reason(self, link: &Link, peer: &mut Peer) -> (Failure, String) {
        let what = match self {
            Self::Handshake(error) => match *error {
                ClientInitializeError::JsonRpcError(error) => {
                    format!("it refused initialize: {} (code {})", error.message, error.code.0)
                }
                ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
                    return peer.why_closed(link, " before it answered initialize").await;
                }
                _ => "its answer to initialize is not an initialize result".into(),
            },
            Self::List(ListError::Lost(Lost::Http(failure))) => {
                let (how, text) = remote::end_of(&failure);
                return (how, format!("no tools: {text}"));
            }
            Self::List(ListError::Lost(_)) => {
                return peer.why_closed(link, " before it answered tools/list").await;
            }
            error @ (Self::List(_) | Self::Version(_)) => error.to_string(),
        };
        (Failure::Transient, peer.with_stderr(what).await)
    }
}
