//! What all requests of one connection to a remote server share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{RoleClient, service::RxJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::endpoint::Endpoint;
use crate::{
    server::{
        incoming::{Incoming, Reading},
        machine::Failure,
        request::Lost,
    },
    text::Redactor,
};

/// The only version in which several messages may come as one array (HTTP-19).
const VERSION_WITH_BATCHES: &str = "2025-03-26";

/// What rmcp has to see.
pub(super) type Message = RxJsonRpcMessage<RoleClient>;

/// Why the connection is over.
#[derive(Debug)]
pub(super) struct End {
    pub(super) failure: Failure,
    pub(super) reason: String,
    pub(super) cause: Cause,
}

/// What the end means for what is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The server forgot the session: there is nothing to delete, and the others learn the same in a moment.
    SessionGone,
    /// It cannot be reached: there is nobody to tell.
    Unreachable,
    /// Anything else.
    Other,
}

impl End {
    pub(super) fn broken(reason: impl Into<String>) -> Self {
        Self {
            failure: Failure::Transient,
            reason: reason.into(),
            cause: Cause::Other,
        }
    }
}

/// How a server is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// HTTP+SSE: answers come on one stream for all.
    Legacy,
    /// Streamable HTTP with a handshake and mostly a session.
    Session,
    /// Streamable HTTP in which every request stands for itself.
    Stateless,
}

/// What all requests of one connection share.
pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) style: Style,
    reading: Mutex<Reading>,
    inbox: mpsc::Sender<Message>,
    pub(super) redactor: Arc<Redactor>,
    /// Bytes that one message may have, after decompression.
    pub(super) message_bytes: usize,
}

impl Shared {
    pub(super) fn new(
        endpoint: Endpoint,
        style: Style,
        reading: Reading,
        inbox: mpsc::Sender<Message>,
        redactor: Arc<Redactor>,
        message_bytes: usize,
    ) -> Self {
        Self {
            endpoint,
            style,
            reading: Mutex::new(reading),
            inbox,
            redactor,
            message_bytes,
        }
    }

    /// Takes in what the server sent: one message, or several where its version allows that.
    pub(super) async fn take(&self, bytes: &mut [u8]) -> Result<(), End> {
        let is_batch = bytes.trim_ascii_start().first() == Some(&b'[');
        if is_batch && self.endpoint.has_version(VERSION_WITH_BATCHES) {
            // What is no JSON is told as one message that is none.
            if let Ok(messages) = serde_json::from_slice::<Vec<Box<RawValue>>>(bytes) {
                for message in messages {
                    self.take_one(&mut message.get().as_bytes().to_vec()).await?;
                }
                return Ok(());
            }
        }
        self.take_one(bytes).await
    }

    async fn take_one(&self, bytes: &mut [u8]) -> Result<(), End> {
        let incoming = {
            let mut reading = self.reading();
            let is_open = reading.link.initialize_result().is_some();
            let incoming = reading.line(bytes);
            // The next request names the version already.
            if !is_open && let Some(result) = reading.link.initialize_result() {
                self.endpoint.keep_version(&version_of(result));
            }
            incoming
        };
        match incoming {
            Incoming::Handled => Ok(()),
            Incoming::Message(message) => {
                // Without rmcp the connection is over, and the driver knows.
                let _ = self.inbox.send(*message).await;
                Ok(())
            }
            Incoming::Broken(reason) => Err(End::broken(reason)),
        }
    }

    /// Whether the request with this id still has no answer.
    pub(super) fn awaits(&self, id: i64) -> bool {
        self.reading().awaits(id)
    }

    /// Ends one request without an answer.
    pub(super) fn lose(&self, id: i64, lost: Lost) {
        let channel = self.reading().channel.clone();
        channel.lose(id, lost);
    }

    /// Something makes it worth asking whether the server is still there.
    pub(super) fn doubt(&self) {
        self.reading().link.doubt.notify_one();
    }

    /// Held for a lookup, never across an await.
    pub(super) fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version_of(initialize_result: &RawValue) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chosen {
        protocol_version: String,
    }
    serde_json::from_str::<Chosen>(initialize_result.get())
        .map(|chosen| chosen.protocol_version)
        .unwrap_or_default()
}
