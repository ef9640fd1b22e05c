//! The way to a child and back: requests with ids of our own, written in order, and those that wait for an answer.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use serde_json::value::RawValue;
use tokio::{
    process::ChildStdin,
    sync::{mpsc, oneshot},
};

use super::outbox::Outbox;
use crate::server::request::{Lost, PROGRESS_QUEUE, Params, PendingRequest, Reply};

/// A request of ours that waits for its answer.
pub(super) struct Waiting {
    pub(super) is_tool_call: bool,
    pub(super) reply: oneshot::Sender<Result<Reply, Lost>>,
    pub(super) progress: Option<mpsc::Sender<Box<RawValue>>>,
}

/// Shared by the transport, which reads answers, and everybody who makes requests.
#[derive(Clone)]
pub(crate) struct Channel(Arc<Inner>);

struct Inner {
    outbox: Outbox,
    /// `None` once the connection is over.
    waiting: Mutex<Option<HashMap<i64, Waiting>>>,
    next_id: AtomicI64,
}

impl Channel {
    /// Writes to `stdin`; holds at most `limit` bytes that the child did not read yet.
    pub(super) fn new(stdin: ChildStdin, limit: usize) -> Self {
        Self(Arc::new(Inner {
            outbox: Outbox::new(stdin, limit),
            waiting: Mutex::new(Some(HashMap::new())),
            next_id: AtomicI64::new(0),
        }))
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// Takes care that ids of ours are never ones that rmcp used for a request of its own.
    pub(super) fn reserve(&self, id: i64) {
        self.0.next_id.fetch_max(id + 1, Ordering::Relaxed);
    }

    /// Queues a request; waiting for its answer sends it.
    ///
    /// # Errors
    /// [`Lost::NotSent`] when the connection is over or the child does not read.
    pub(crate) fn request(&self, method: &'static str, params: Params) -> Result<PendingRequest, Lost> {
        // LIFE-01: a counter per connection, so that no id is ever used twice.
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply_sender, reply) = oneshot::channel();
        let (progress_sender, progress) = match params.progress {
            true => {
                let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE);
                (Some(sender), Some(receiver))
            }
            false => (None, None),
        };
        let line = encode(id, method, &params);
        {
            let mut waiting = self.waiting();
            let waiting = waiting.as_mut().ok_or(Lost::NotSent)?;
            self.0.outbox.push(line).map_err(|error| {
                tracing::debug!(%error, "a request was not sent");
                Lost::NotSent
            })?;
            let is_tool_call = method == "tools/call";
            waiting.insert(
                id,
                Waiting {
                    is_tool_call,
                    reply: reply_sender,
                    progress: progress_sender,
                },
            );
        }
        // From here on dropping the request cancels it.
        Ok(PendingRequest {
            channel: self.clone(),
            id,
            reply,
            progress,
        })
    }

    /// Forgets a request and tells the server, unless its answer is there already (CANC-03).
    pub(crate) fn cancel(&self, id: i64, reason: &str) {
        if self.take(id).is_none() {
            return;
        }
        let reason = crate::wire::to_json(&reason);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":{reason}}}}}\n"
        );
        self.send_later(line);
    }

    /// Queues a line and sees to it that it is written. A server that doesn't read doesn't get it.
    pub(super) fn send_later(&self, line: String) {
        if self.0.outbox.push(line.into_bytes()).is_ok()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let channel = self.clone();
            runtime.spawn(async move { channel.0.outbox.flush().await });
        }
    }

    /// The request that an answer belongs to, once, and how many others wait.
    pub(super) fn take(&self, id: i64) -> Option<(Waiting, usize)> {
        let mut waiting = self.waiting();
        let waiting = waiting.as_mut()?;
        Some((waiting.remove(&id)?, waiting.len()))
    }

    /// The way for the progress of a request, if it asked for any.
    pub(super) fn progress_of(&self, id: i64) -> Option<mpsc::Sender<Box<RawValue>>> {
        self.waiting().as_ref()?.get(&id)?.progress.clone()
    }

    /// Ends the connection: everybody who waits learns it now, and the child's stdin is closed.
    pub(super) async fn close(&self) {
        self.forget();
        self.0.outbox.close().await;
    }

    /// Everybody who waits learns that no answer will come; new requests are refused.
    pub(super) fn forget(&self) {
        self.fail(Lost::Unknown);
    }

    /// The same with a reason.
    pub(super) fn fail(&self, lost: Lost) {
        for (_, waiting) in self.waiting().take().into_iter().flatten() {
            // Who doesn't wait any more needs no reason.
            let _ = waiting.reply.send(Err(lost));
        }
    }

    /// Held for a lookup, never across an await; there is one thread, so it is never contended.
    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<i64, Waiting>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes everything that is queued.
    ///
    /// # Errors
    /// The pipe's error.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        self.0.outbox.flush().await
    }
}

fn encode(id: i64, method: &str, params: &Params) -> Vec<u8> {
    let mut line = String::with_capacity(params.members.len() + params.meta.len() + 128);
    // Writing to a String cannot fail.
    let _ = write!(
        line,
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{}"#,
        params.members
    );
    if params.progress || !params.meta.is_empty() {
        let comma = if params.members.is_empty() { "" } else { "," };
        let _ = write!(line, r#"{comma}"_meta":{{{}"#, params.meta);
        if params.progress {
            // Our own token per connection: the id, which is unique on it (PROG-01, B60).
            let comma = if params.meta.is_empty() { "" } else { "," };
            let _ = write!(line, r#"{comma}"progressToken":{id}"#);
        }
        line.push('}');
    }
    line.push_str("}}\n");
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_one_line_with_everything_where_it_belongs() {
        let encoded = |members: &str, meta: &str, progress: bool| {
            let params = Params {
                members: members.into(),
                meta: meta.into(),
                progress,
            };
            String::from_utf8(encode(7, "tools/call", &params)).unwrap()
        };
        let head = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"#;
        for (members, meta, progress, expected) in [
            ("", "", false, "{}"),
            (r#""name":"a""#, "", false, r#"{"name":"a"}"#),
            ("", "", true, r#"{"_meta":{"progressToken":7}}"#),
            (r#""a":1.0"#, "", true, r#"{"a":1.0,"_meta":{"progressToken":7}}"#),
            (r#""a":1"#, r#""x/y":2"#, false, r#"{"a":1,"_meta":{"x/y":2}}"#),
            (
                r#""a":1"#,
                r#""x/y":2"#,
                true,
                r#"{"a":1,"_meta":{"x/y":2,"progressToken":7}}"#,
            ),
        ] {
            assert_eq!(encoded(members, meta, progress), format!("{head}{expected}}}\n"));
        }
    }
}
