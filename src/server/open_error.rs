//! Why a handshake failed, for people.

use rmcp::service::ClientInitializeError;

use super::{
    connection::Connection,
    era::{self, Era},
    link::Link,
    list::ListError,
    machine::Failure,
    peer::Peer,
    remote,
    request::Lost,
};
use crate::config::ProtocolEra;

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
    /// `server/discover` has no answer.
    #[error("no answer to server/discover: {0}")]
    Discover(Lost),
    /// It is of the other era.
    #[error("{}", refusal(*.0))]
    OtherEra(Era),
    /// It is of the stateless era, and cannot be talked to.
    #[error("{0}")]
    Unusable(String),
}

fn refusal(wanted: Era) -> &'static str {
    match wanted {
        Era::Handshake => "it does not know server/discover",
        Era::Stateless => "it does not know initialize",
    }
}

/// What a server that seems to want the other era is told about in its entry.
pub(super) fn hint(configured: ProtocolEra) -> &'static str {
    match configured {
        ProtocolEra::Legacy => {
            "; it may speak the protocol without a handshake only: its entry says 'protocol: legacy', try 'protocol: auto'"
        }
        ProtocolEra::Stateless => {
            "; it may need a handshake: its entry says 'protocol: stateless', try 'protocol: auto'"
        }
        ProtocolEra::Auto => "; the other era of the protocol was tried before, without success",
    }
}

impl OpenError {
    /// The era in which the server is to be tried instead, if the answer says so, or at least doesn't say anything about
    /// the one that was tried.
    pub(super) fn other_era(&self, tried: Era) -> Option<Era> {
        match (self, tried) {
            (Self::OtherEra(era), _) => Some(*era),
            // No evidence; but a handshake that succeeds is one.
            (Self::Discover(Lost::Http(failure)), _) => {
                let is_silent = !failure.is_about_credentials() && !failure.is_passing();
                is_silent.then_some(Era::Handshake)
            }
            (Self::Handshake(error), Era::Handshake) => match &**error {
                ClientInitializeError::JsonRpcError(error) => {
                    era::refuses_handshake(error.code.0.into()).then_some(Era::Stateless)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The sentence for people, with a hint and with what the peer had to say, and whether another try may help.
    pub(super) async fn into_reason(self, link: &Link, peer: &mut Peer, hint: &str) -> (Failure, String) {
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
            Self::Discover(Lost::Http(failure)) => {
                let (how, text) = remote::end_of(&failure);
                return (how, format!("no answer to server/discover: {text}{hint}"));
            }
            Self::Discover(_) => return peer.why_closed(link, " before it answered server/discover").await,
            Self::List(ListError::Lost(Lost::Http(failure))) => {
                let (how, text) = remote::end_of(&failure);
                return (how, format!("no tools: {text}"));
            }
            Self::List(ListError::Lost(_)) => {
                return peer.why_closed(link, " before it answered tools/list").await;
            }
            error @ (Self::List(_) | Self::Version(_) | Self::OtherEra(_) | Self::Unusable(_)) => {
                error.to_string()
            }
        };
        (
            Failure::Transient,
            peer.with_stderr(format!("{what}{hint}")).await,
        )
    }
}
