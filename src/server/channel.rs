//! The way to a server and back: requests with ids of our own, and those that wait for an answer.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use reqwest::header::HeaderMap;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    era::{Era, REQUEST_META},
    param_headers::ParamHeaders,
    request::{Lost, Params, PendingRequest, Progress, Reply},
    stdio::Outbox,
};

/// Requests that the daemon makes for itself: they don't keep an idle server awake.
const UPKEEP: [&str; 4] = ["ping", "server/discover", "subscriptions/listen", "tools/list"];

/// A request of ours that waits for its answer.
pub(super) struct Waiting {
    pub(super) is_tool_call: bool,
    is_upkeep: bool,
    /// The number of its line in the outbox.
    line: u64,
    pub(super) reply: oneshot::Sender<Result<Reply, Lost>>,
    pub(super) progress: Option<Arc<Progress>>,
}

/// Requests in flight.
struct Open {
    waiting: HashMap<i64, Waiting>,
    /// When somebody last used the connection.
    used_at: Instant,
}

/// Shared by the transport, which reads answers, and everybody who makes requests.
#[derive(Clone)]
pub(crate) struct Channel(Arc<Inner>);

struct Inner {
    way: Way,
    era: Era,
    /// Which arguments of the server's tools have to be in headers.
    param_headers: Mutex<ParamHeaders>,
    /// `None` once the connection is over.
    open: Mutex<Option<Open>>,
    next_id: AtomicI64,
}

/// How lines get to the server.
pub(super) enum Way {
    /// Into a child's stdin, one after the other.
    Pipe(Outbox),
    /// Each as an HTTP request of its own.
    Posts(mpsc::UnboundedSender<Post>),
}

/// A message for a remote server.
pub(super) struct Post {
    pub(super) line: String,
    pub(super) kind: Kind,
    /// What a stateless request repeats of itself.
    pub(super) headers: HeaderMap,
}

/// What a message is, as far as the way to the server has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request with its id.
    Request { id: i64, is_tool_call: bool },
    /// `initialize` with its id.
    Initialize(i64),
    /// `notifications/initialized`.
    Initialized,
    /// `notifications/cancelled` for the request with this id.
    Cancel(i64),
    /// Any other notification, or an answer.
    Other,
}

impl Kind {
    /// The id that an answer will have, if one is owed.
    pub(super) fn id(self) -> Option<i64> {
        match self {
            Self::Request { id, .. } | Self::Initialize(id) => Some(id),
            Self::Initialized | Self::Cancel(_) | Self::Other => None,
        }
    }
}

impl Way {
    /// Takes a line; gives its number among those of a pipe.
    fn push(&self, line: String, kind: Kind, headers: HeaderMap) -> io::Result<u64> {
        match self {
            Self::Pipe(outbox) => outbox.push(line.into_bytes()),
            Self::Posts(posts) => match posts.send(Post { line, kind, headers }) {
                Ok(()) => Ok(0),
                Err(_) => Err(io::ErrorKind::NotConnected.into()),
            },
        }
    }

    /// The number of the last line that may have been written.
    fn taken(&self) -> u64 {
        match self {
            Self::Pipe(outbox) => outbox.taken(),
            Self::Posts(_) => 0,
        }
    }

    /// Takes a line of a pipe back of which nothing was written yet; gives whether that was so.
    fn withdraw(&self, number: u64) -> bool {
        match self {
            Self::Pipe(outbox) => outbox.withdraw(number),
            Self::Posts(_) => false,
        }
    }

    async fn flush(&self) -> io::Result<()> {
        match self {
            Self::Pipe(outbox) => outbox.flush().await,
            Self::Posts(_) => Ok(()),
        }
    }

    async fn close(&self) {
        match self {
            Self::Pipe(outbox) => outbox.close().await,
            Self::Posts(_) => {}
        }
    }
}

impl Channel {
    /// A channel without requests.
    pub(super) fn new(way: Way, era: Era) -> Self {
        Self(Arc::new(Inner {
            way,
            era,
            param_headers: Mutex::default(),
            open: Mutex::new(Some(Open {
                waiting: HashMap::new(),
                used_at: Instant::now(),
            })),
            next_id: AtomicI64::new(0),
        }))
    }

    /// Takes a line that is not one of our requests. Somebody has to flush.
    ///
    /// # Errors
    /// The connection is over, or the server does not read.
    pub(super) fn push(&self, line: String, kind: Kind) -> io::Result<()> {
        self.0.way.push(line, kind, HeaderMap::new()).map(drop)
    }

    /// Takes care that ids of ours are never ones that rmcp used for a request of its own.
    pub(super) fn reserve(&self, id: i64) {
        self.0.next_id.fetch_max(id + 1, Ordering::Relaxed);
    }

    /// Queues a request; waiting for its answer sends it.
    ///
    /// # Errors
    /// [`Lost::NotSent`] when the connection is over, [`Lost::Unread`] when the child does not read.
    pub(crate) fn request(&self, method: &'static str, params: &Params) -> Result<PendingRequest, Lost> {
        // LIFE-01: a counter per connection, so that no id is ever used twice.
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply_sender, reply) = oneshot::channel();
        let progress = params.progress.then(Arc::<Progress>::default);
        let line = encode(id, method, params, self.0.era);
        let headers = self.headers(method, params);
        let is_tool_call = method == "tools/call";
        {
            let mut open = self.open();
            let open = open.as_mut().ok_or(Lost::NotSent)?;
            let line = self
                .0
                .way
                .push(line, Kind::Request { id, is_tool_call }, headers)
                .map_err(|error| {
                    tracing::debug!(%error, "a request was not sent");
                    match error.kind() {
                        io::ErrorKind::NotConnected => Lost::NotSent,
                        _ => Lost::Unread,
                    }
                })?;
            open.waiting.insert(
                id,
                Waiting {
                    is_tool_call,
                    is_upkeep: UPKEEP.contains(&method),
                    line,
                    reply: reply_sender,
                    progress: progress.clone(),
                },
            );
        }
        // From here on dropping the request cancels it.
        Ok(PendingRequest {
            channel: self.clone(),
            id,
            reply,
            progress,
            is_sent: false,
        })
    }

    /// Forgets a request, and tells the server if that may know of it and has not answered yet (CANC-03).
    pub(crate) fn cancel(&self, id: i64, reason: &str) {
        let Some((waiting, _)) = self.take(id) else { return };
        if self.0.way.withdraw(waiting.line) {
            return;
        }
        let reason = crate::wire::to_json(&reason);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":{reason}}}}}\n"
        );
        self.send_later(line, Kind::Cancel(id));
    }

    /// Queues a line and sees to it that it is written. A server that doesn't read doesn't get it.
    pub(super) fn send_later(&self, line: String, kind: Kind) {
        if self.0.way.push(line, kind, HeaderMap::new()).is_ok()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let channel = self.clone();
            runtime.spawn(async move { channel.0.way.flush().await });
        }
    }

    /// Ends one request without an answer.
    pub(super) fn lose(&self, id: i64, lost: Lost) {
        if let Some((waiting, _)) = self.take(id) {
            // Who doesn't wait any more needs no reason.
            let _ = waiting.reply.send(Err(lost));
        }
    }

    /// Whether a request still waits for its answer.
    pub(super) fn is_waiting(&self, id: i64) -> bool {
        self.open()
            .as_ref()
            .is_some_and(|open| open.waiting.contains_key(&id))
    }

    /// The request that an answer belongs to, once, and how many others wait.
    pub(super) fn take(&self, id: i64) -> Option<(Waiting, usize)> {
        let mut open = self.open();
        let open = open.as_mut()?;
        let taken = open.waiting.remove(&id)?;
        if !taken.is_upkeep {
            open.used_at = Instant::now();
        }
        Some((taken, open.waiting.len()))
    }

    /// The way for the progress of a request, if it asked for any.
    pub(super) fn progress_of(&self, id: i64) -> Option<Arc<Progress>> {
        self.open().as_ref()?.waiting.get(&id)?.progress.clone()
    }

    /// Since when nobody uses the connection; `None` while a request runs or when it is over.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        self.open().as_ref().and_then(Open::unused_since)
    }

    /// Ends the connection if nobody uses it: from here on requests are not taken, and none was lost. Gives whether it
    /// is over.
    pub(crate) fn close_if_unused(&self) -> bool {
        let is_used = self
            .open()
            .as_ref()
            .is_some_and(|open| open.unused_since().is_none());
        if !is_used {
            self.forget();
        }
        !is_used
    }

    /// Ends the connection: everybody who waits learns it now, and the child's stdin is closed.
    pub(super) async fn close(&self) {
        self.forget();
        self.0.way.close().await;
    }

    /// Which era the connection is of.
    pub(super) fn era(&self) -> Era {
        self.0.era
    }

    /// Whether requests repeat parts of themselves in headers.
    pub(super) fn has_headers(&self) -> bool {
        self.0.era == Era::Stateless && !self.is_pipe()
    }

    /// Takes what the server's tools want to see in headers.
    pub(super) fn set_param_headers(&self, headers: ParamHeaders) {
        *self.param_headers() = headers;
    }

    fn headers(&self, method: &'static str, params: &Params) -> HeaderMap {
        match self.has_headers() {
            true => self.param_headers().headers(method, params),
            false => HeaderMap::new(),
        }
    }

    /// Held for a lookup, never across an await.
    fn param_headers(&self) -> MutexGuard<'_, ParamHeaders> {
        self.0
            .param_headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests are still taken.
    pub(super) fn is_open(&self) -> bool {
        let is_closed = matches!(&self.0.way, Way::Posts(posts) if posts.is_closed());
        !is_closed && self.open().is_some()
    }

    /// Whether lines are written one after the other into a pipe.
    pub(super) fn is_pipe(&self) -> bool {
        matches!(self.0.way, Way::Pipe(_))
    }

    /// Everybody who waits learns that no answer will come; new requests are refused.
    pub(super) fn forget(&self) {
        self.fail(Lost::Unknown);
    }

    /// The same with a reason.
    pub(super) fn fail(&self, lost: Lost) {
        let Some(open) = self.open().take() else { return };
        let taken = self.0.way.taken();
        for waiting in open.waiting.into_values() {
            let lost = match waiting.line > taken {
                true => Lost::NotSent,
                false => lost.clone(),
            };
            // Who doesn't wait any more needs no reason.
            let _ = waiting.reply.send(Err(lost));
        }
    }

    /// Held for a lookup, never across an await; there is one thread, so it is never contended.
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes everything that is queued.
    ///
    /// # Errors
    /// The pipe's error.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        self.0.way.flush().await
    }
}

impl Open {
    fn unused_since(&self) -> Option<Instant> {
        let is_used = self.waiting.values().any(|waiting| !waiting.is_upkeep);
        (!is_used).then_some(self.used_at)
    }
}

fn encode(id: i64, method: &str, params: &Params, era: Era) -> String {
    let mut line = String::with_capacity(params.members.len() + params.meta.len() + 128);
    // Writing to a String cannot fail.
    let _ = write!(
        line,
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{}"#,
        params.members
    );
    let own = match era {
        Era::Handshake => "",
        Era::Stateless => REQUEST_META,
    };
    if params.progress || !params.meta.is_empty() || !own.is_empty() {
        let comma = |is_first: bool| if is_first { "" } else { "," };
        let _ = write!(line, r#"{}"_meta":{{"#, comma(params.members.is_empty()));
        let _ = write!(
            line,
            "{own}{}{}",
            comma(own.is_empty() || params.meta.is_empty()),
            params.meta
        );
        if params.progress {
            // Our own token per connection: the id, which is unique on it (PROG-01, B60).
            let is_first = own.is_empty() && params.meta.is_empty();
            let _ = write!(line, r#"{}"progressToken":{id}"#, comma(is_first));
        }
        line.push('}');
    }
    line.push_str("}}\n");
    line
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
            encode(7, "tools/call", &params, Era::Handshake)
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

    #[test]
    fn stateless_requests_say_what_they_need() {
        // LIFE-08
        for (members, meta, progress) in [("", "", false), (r#""a":1"#, r#""x/y":2"#, true), ("", "", true)] {
            let params = Params {
                members: members.into(),
                meta: meta.into(),
                progress,
            };
            let line = encode(7, "tools/call", &params, Era::Stateless);
            let request: serde_json::Value = serde_json::from_str(&line).unwrap();
            let seen = &request["params"]["_meta"];
            assert_eq!(seen["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            assert_eq!(seen["io.modelcontextprotocol/clientInfo"]["name"], "hermesd-mcp");
            assert!(seen["io.modelcontextprotocol/clientCapabilities"].is_object());
            assert_eq!(seen["progressToken"].as_i64(), progress.then_some(7));
            assert_eq!(seen["x/y"].as_i64(), (!meta.is_empty()).then_some(2));
        }
    }
}
