//! Why a handshake failed, for people.

use rmcp::service::ClientInitializeError;

use super::{
    child::Child,
    connection::{Connection, ListError},
    link::Link,
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
    /// The sentence for people, with what the child had to say.
    pub(super) async fn into_reason(self, link: &Link, child: &mut Child) -> String {
        match self {
            Self::Handshake(error) => match *error {
                ClientInitializeError::JsonRpcError(error) => {
                    child
                        .with_stderr(format!(
                            "it refused initialize: {} (code {})",
                            error.message, error.code.0
                        ))
                        .await
                }
                ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
                    child.why_closed(link, " before it answered initialize").await
                }
                _ => {
                    child
                        .with_stderr("its answer to initialize is not an initialize result".into())
                        .await
                }
            },
            Self::List(ListError::Lost(_)) => child.why_closed(link, " before it answered tools/list").await,
            error @ (Self::List(_) | Self::Version(_)) => child.with_stderr(error.to_string()).await,
        }
    }
}
