//! One request to a server, from its bytes to the raw answer.
//!
//! Requests and their answers do not pass through rmcp's types, which lose unknown content and re-order keys, nor
//! through its queue and tasks, which cost as much as the whole way through the daemon (measured). rmcp does the
//! handshake and answers the server's own requests on the same connection.

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::stdio::Channel;

/// Progress notifications of one call that may wait for its frontend. More are dropped: progress is a stream.
pub(super) const PROGRESS_QUEUE: usize = 64;

/// A server's answer, in its own bytes.
#[derive(Debug)]
pub enum Reply {
    /// The `result` member.
    Result(Box<RawValue>),
    /// The `error` member.
    Error(Box<RawValue>),
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The connection was gone before the request was written: it was certainly not carried out.
    #[error("connection lost before the request was sent")]
    NotSent,
    /// The connection broke after the request was written: it may have been carried out.
    #[error("connection lost while the request was running")]
    Unknown,
    /// The server wrote a line beyond the limit, and the connection was given up.
    #[error("connection lost: it wrote a message of more than {limit} bytes (limits.message_bytes)")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// The parameters of a request as they are written.
#[derive(Debug, Default)]
pub struct Params {
    /// The members of `params` as JSON text without the braces and without `_meta`.
    pub members: String,
    /// Further members of `params._meta`, likewise; the progress token is added when the request is written.
    pub meta: String,
    /// Whether to ask for progress.
    pub progress: bool,
}

/// A request on its way. Dropping it before the answer is there tells the server to cancel (CANC-05).
pub struct PendingRequest {
    pub(super) channel: Channel,
    pub(super) id: i64,
    pub(super) reply: oneshot::Receiver<Result<Reply, Lost>>,
    pub(super) progress: Option<mpsc::Receiver<Box<RawValue>>>,
}

impl PendingRequest {
    /// Sends the request, waits for the answer and gives every progress notification's `params` to `on_progress` before it, in order.
    ///
    /// # Errors
    /// [`Lost`] as soon as the connection is gone.
    pub async fn answer(&mut self, mut on_progress: impl FnMut(&RawValue)) -> Result<Reply, Lost> {
        tokio::select! {
            biased;
            // A pipe that breaks here breaks for the reader too; then the answer says that it is lost.
            _ = self.channel.flush() => {}
            // Another's flush may have sent it.
            answer = &mut self.reply => return answer.unwrap_or(Err(Lost::Unknown)),
        }
        let answer = loop {
            let Some(progress) = &mut self.progress else {
                break (&mut self.reply).await;
            };
            tokio::select! {
                biased;
                Some(params) = progress.recv() => on_progress(&params),
                answer = &mut self.reply => {
                    while let Ok(params) = progress.try_recv() {
                        on_progress(&params);
                    }
                    break answer;
                }
            }
        };
        // The channel forgets a request only with its answer, its cancellation, or the connection's end.
        answer.unwrap_or(Err(Lost::Unknown))
    }

    /// Tells the server that nobody waits any more.
    pub fn cancel(self, reason: &str) {
        self.channel.cancel(self.id, reason);
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.channel
            .cancel(self.id, "nobody waits for the answer any more");
    }
}
