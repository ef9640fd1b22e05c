//! One request to a server, from its bytes to the raw answer.
//!
//! Requests and their answers do not pass through rmcp's types, which lose unknown content and re-order keys, nor
//! through its queue and tasks, which cost as much as the whole way through the daemon (measured). rmcp does the
//! handshake and answers the server's own requests on the same connection.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};

use super::channel::Channel;

/// A server's answer, in its own bytes.
#[derive(Debug)]
pub enum Reply {
    /// The `result` member.
    Result(Box<RawValue>),
    /// The `error` member.
    Error(Box<RawValue>),
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The connection was gone before the request was written: it was certainly not carried out.
    #[error("connection lost before the request was sent")]
    NotSent,
    /// The server takes nothing in any more: too much waits to be written to it already (STDIO-11).
    #[error("it does not read its input, so the request was not sent")]
    Unread,
    /// The connection broke after the request was written: it may have been carried out.
    #[error("connection lost while the request was running")]
    Unknown,
    /// The server does not know the session any more, so it did not carry the request out (HTTP-06).
    #[error("its session is gone, so the request was not carried out")]
    SessionGone,
    /// The server's answer is beyond the limit. A child's connection was given up.
    #[error("its answer has more than {limit} bytes (limits.message_bytes)")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The server answered, but not with a message of the protocol.
    #[error("{0}")]
    Http(Arc<HttpFailure>),
}

/// An HTTP answer that is not the answer to the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct HttpFailure {
    /// The status.
    pub status: u16,
    /// The sentence for people, without any secret.
    pub text: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl HttpFailure {
    /// Whether the status says that the request was certainly not carried out.
    pub fn is_refusal(&self) -> bool {
        (300..500).contains(&self.status) || self.status == 503
    }

    /// Whether the same request may well succeed a little later.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    /// Whether credentials are missing, wrong or not enough.
    pub fn is_about_credentials(&self) -> bool {
        matches!(self.status, 401 | 403)
    }
}

/// The parameters of a request as they are written.
#[derive(Debug, Default, Clone)]
pub struct Params {
    /// The members of `params` as JSON text without the braces and without `_meta`.
    pub members: String,
    /// Further members of `params._meta`, likewise; the progress token is added when the request is written.
    pub meta: String,
    /// Whether to ask for progress.
    pub progress: bool,
}

/// What comes next of a request.
#[derive(Debug)]
pub enum Step {
    /// The server is at work: the `params` of the newest progress notification since the last step, if there is one
    /// that says more than those before.
    Progress(Option<Box<RawValue>>),
    /// The end.
    Answer(Result<Reply, Lost>),
}

/// A request on its way. Dropping it before the answer is there tells the server to cancel (CANC-05).
pub struct PendingRequest {
    pub(super) channel: Channel,
    pub(super) id: i64,
    pub(super) reply: oneshot::Receiver<Result<Reply, Lost>>,
    pub(super) progress: Option<Arc<Progress>>,
    pub(super) is_sent: bool,
}

impl PendingRequest {
    /// Sends the request if that is still to be done, and waits for what comes next. Cancel-safe. Nothing comes after
    /// the answer, and the last progress comes before it.
    pub async fn step(&mut self) -> Step {
        loop {
            tokio::select! {
                biased;
                // A pipe that breaks here breaks for the reader too; then the answer says that it is lost.
                _ = self.channel.flush(), if !self.is_sent => self.is_sent = true,
                // While this waits for the pipe, another's flush may have sent it.
                latest = news(self.progress.as_deref()) => return Step::Progress(latest),
                // The channel forgets a request only with its answer, its cancellation, or the connection's end.
                answer = &mut self.reply => return Step::Answer(answer.unwrap_or(Err(Lost::Unknown))),
            }
        }
    }

    /// Waits for the end, whatever the progress.
    ///
    /// # Errors
    /// [`Lost`] as soon as the connection is gone.
    pub async fn answer(&mut self) -> Result<Reply, Lost> {
        loop {
            if let Step::Answer(answer) = self.step().await {
                return answer;
            }
        }
    }

    /// Tells the server that nobody waits any more.
    pub fn cancel(self, reason: &str) {
        self.channel.cancel(self.id, reason);
    }
}

/// The next progress; never comes for a request that didn't ask for any.
async fn news(progress: Option<&Progress>) -> Option<Box<RawValue>> {
    match progress {
        Some(progress) => {
            progress.news.notified().await;
            progress.newest().latest.take()
        }
        None => std::future::pending().await,
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.channel
            .cancel(self.id, "nobody waits for the answer any more");
    }
}

/// The way of progress from the transport to whoever waits for the request. It holds the newest message only: progress
/// is a state, and a slow reader wants the last one (PROG-03).
#[derive(Debug, Default)]
pub(super) struct Progress {
    newest: Mutex<Newest>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Newest {
    latest: Option<Box<RawValue>>,
    value: Option<f64>,
}

impl Progress {
    /// Takes a notification in. One that doesn't say more than the last one is a sign of life and nothing else
    /// (PROG-02); gives whether it was more, or had to replace one that nobody saw.
    pub(super) fn report(&self, value: Option<f64>, params: &RawValue) -> bool {
        let kept = {
            let mut newest = self.newest();
            let is_more = match (value, newest.value) {
                (Some(value), Some(last)) => value > last,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if is_more {
                newest.value = value;
                newest.latest.replace(params.to_owned()).is_none()
            } else {
                false
            }
        };
        self.news.notify_one();
        kept
    }

    /// Never held across an await.
    fn newest(&self) -> std::sync::MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
