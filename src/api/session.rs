//! One frontend: its lines in, its requests side by side, its answers out, all in one task.
//!
//! Reading stops while too many requests are in flight or too much waits to be written, so a frontend that floods or
//! doesn't read only slows itself down.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    io::AsyncWriteExt,
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    App, control,
    events::Events,
    listener::Connection,
    mcp,
    outgoing::Outgoing,
    stream::{Stream, from_portable, has_hung_up, split},
};
use crate::wire::{
    Code, Envelope, EnvelopeError, LineError, LineReader, RequestId, RpcError, to_json, write_error,
    write_notification, write_result,
};

/// How long a full queue may stay full before the frontend is disconnected.
const SLOW_READER: Duration = Duration::from_secs(10);
/// How often a frontend that closed its side is asked whether it still listens (CANC-05: within a second).
const HANGUP_POLL: Duration = Duration::from_millis(250);
/// Progress messages of all calls of one frontend that may wait for its task.
const STREAM_QUEUE: usize = 256;

/// The answer to one request.
pub(super) enum Answer {
    /// JSON text of the result.
    Result(Box<str>),
    /// The result in a server's own bytes.
    Raw(Box<RawValue>),
    /// A result that many answers share.
    Shared(Arc<str>),
    /// An error of the daemon.
    Error(RpcError),
    /// JSON text of a server's own error object.
    RawError(Box<str>),
    /// Nothing is sent: the request was cancelled, and MCP wants no answer then.
    Silence,
}

impl Answer {
    /// The answer for a value or an error.
    pub(super) fn of(result: Result<impl serde::Serialize, RpcError>) -> Self {
        match result {
            Ok(value) => Self::Result(to_json(&value).into()),
            Err(error) => Self::Error(error),
        }
    }

    fn write(&self, out: &mut Vec<u8>, id: &RequestId) {
        match self {
            Self::Result(json) => write_result(out, id, json),
            Self::Raw(json) => write_result(out, id, json.get()),
            Self::Shared(json) => write_result(out, id, json),
            Self::Error(error) => write_error(out, Some(id), &to_json(error)),
            Self::RawError(json) => write_error(out, Some(id), json),
            Self::Silence => {}
        }
    }
}

/// What a request turns into.
pub(super) enum Work {
    /// It is answered already.
    Now(Answer),
    /// It takes time.
    Later(BoxFuture<'static, Answer>),
}

impl Work {
    pub(super) fn now(result: Result<impl serde::Serialize, RpcError>) -> Self {
        Self::Now(Answer::of(result))
    }
}

/// What a method may know of the session it was called on.
pub(super) struct Context<'a> {
    /// Its number.
    pub(super) frontend: u64,
    stream: &'a mpsc::Sender<Vec<u8>>,
}

impl Context<'_> {
    /// The way for progress of a call back to this frontend.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            stream: self.stream.clone(),
        }
    }
}

/// Sends progress to one frontend.
pub(super) struct Progress {
    stream: mpsc::Sender<Vec<u8>>,
}

/// Sends progress to one frontend under its own token.
pub(super) struct Forward {
    stream: mpsc::Sender<Vec<u8>>,
    token: Option<Box<RawValue>>,
}

impl Progress {
    /// Under which token; none means that the frontend did not ask.
    pub(super) fn to(self, token: Option<Box<RawValue>>) -> Forward {
        Forward {
            stream: self.stream,
            token,
        }
    }
}

impl Forward {
    /// Hands on a server's progress with the frontend's token in place of ours (PROG-01).
    pub(super) fn send(&self, params: &RawValue) {
        let Some(token) = &self.token else { return };
        let Ok(mut members) = serde_json::from_str::<indexmap::IndexMap<String, &RawValue>>(params.get())
        else {
            return;
        };
        members.insert("progressToken".into(), token);
        let mut line = Vec::new();
        write_notification(&mut line, "notifications/progress", &to_json(&members));
        // A full queue means a slow frontend: progress is a stream, and streams may lose messages.
        let _ = self.stream.try_send(line);
    }
}

struct Finished {
    id: RequestId,
    answer: Answer,
}

/// Serves one frontend until it is gone or the daemon stops.
pub(crate) async fn serve(app: Arc<App>, connection: Connection) {
    let pid = connection.peer.pid;
    let stream = match from_portable(connection.stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "a connection cannot be used"),
    };
    tracing::debug!(frontend = pid, "a frontend connected");
    let mut session = Session::new(app);
    let ended = session.run(stream).await;
    let dropped = session.out.dropped();
    match ended {
        Ok(()) => tracing::debug!(frontend = pid, dropped, "a frontend is gone"),
        Err(reason) => tracing::debug!(frontend = pid, dropped, %reason, "a frontend was disconnected"),
    }
}

/// Tells a frontend that there is no room for it, and closes.
pub(crate) async fn turn_away(connection: Connection, limit: usize) {
    let error = RpcError::new(
        Code::Busy,
        format!("{limit} frontends are connected already; see limits.connections"),
    );
    let mut line = Vec::new();
    write_error(&mut line, None, &to_json(&error));
    if let Ok(mut stream) = from_portable(connection.stream) {
        // One short line fits into an empty socket buffer; whoever is gone misses nothing.
        let _ = split(&mut stream).1.write_all(&line).await;
    }
}

struct Session {
    /// Unique over the daemon's life.
    number: u64,
    app: Arc<App>,
    out: Outgoing,
    requests: FuturesUnordered<BoxFuture<'static, Finished>>,
    /// By the id's own JSON text.
    in_flight: HashMap<Box<str>, CancellationToken>,
    streams: (mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>),
    mcp: mcp::Dialect,
    /// What it subscribed to.
    events: Option<Events>,
    had_line: bool,
    reading: Reading,
}

/// Whether more is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    /// The daemon stops: finish what was asked and refuse what comes, then close.
    Stopping,
    /// The frontend closed its side: finish what was asked, then close.
    Ended,
    /// The frontend broke the rules: write what there is, run nothing any more.
    Refused,
}

/// What woke the session.
enum Event {
    Line,
    Ended,
    Broken(LineError),
    Finished(Finished),
    Stream(Vec<u8>),
    Written(io::Result<usize>),
    Directory,
    Change,
    Poll,
    Slow,
    Stopping,
}

impl Session {
    fn new(app: Arc<App>) -> Self {
        Self {
            number: app.frontends.fetch_add(1, Ordering::Relaxed),
            out: Outgoing::new(&app.limits),
            mcp: mcp::Dialect::new(&app),
            events: None,
            app,
            requests: FuturesUnordered::new(),
            in_flight: HashMap::new(),
            streams: mpsc::channel(STREAM_QUEUE),
            had_line: false,
            reading: Reading::Open,
        }
    }

    async fn run(&mut self, mut stream: Stream) -> Result<(), String> {
        let (reader, mut writer) = split(&mut stream);
        let mut lines = LineReader::new(reader, self.app.limits.message_bytes);
        let mut directory = self.app.directory.clone();
        let mut changes = self.app.changes.clone();
        let stopping = self.app.stopping.clone();
        let mut full_since: Option<Instant> = None;
        loop {
            match self.reading {
                Reading::Ended | Reading::Stopping if self.requests.is_empty() && self.out.is_empty() => {
                    return Ok(());
                }
                Reading::Refused if self.out.is_empty() => return Err("it sent what is no JSON-RPC".into()),
                _ => {}
            }
            full_since = self
                .out
                .is_full()
                .then(|| full_since.unwrap_or_else(Instant::now));
            let may_read = matches!(self.reading, Reading::Open | Reading::Stopping)
                && self.requests.len() < self.app.limits.in_flight
                && full_since.is_none();
            let event = tokio::select! {
                line = lines.next(), if may_read => match line {
                    Ok(Some(line)) => {
                        self.app.busy_poll.message(self.requests.len());
                        self.line(line);
                        Event::Line
                    }
                    Ok(None) => Event::Ended,
                    Err(error) => Event::Broken(error),
                },
                Some(finished) = self.requests.next(), if !self.requests.is_empty() => Event::Finished(finished),
                Some(line) = self.streams.1.recv() => Event::Stream(line),
                written = writer.write(self.out.pending()), if !self.out.is_empty() => Event::Written(written),
                Ok(()) = directory.changed(), if self.mcp.wants_list_changed() => Event::Directory,
                Ok(()) = changes.changed(), if self.events.is_some() && full_since.is_none() => Event::Change,
                () = pause(HANGUP_POLL), if self.reading == Reading::Ended => Event::Poll,
                () = until(full_since), if full_since.is_some() => Event::Slow,
                () = stopping.cancelled(), if self.reading == Reading::Open => Event::Stopping,
            };
            match event {
                Event::Line => {}
                Event::Ended => self.reading = Reading::Ended,
                Event::Stopping => {
                    self.reading = Reading::Stopping;
                    if self.events.is_some() {
                        self.out.stream(&Events::stopping());
                    }
                }
                Event::Broken(LineError::TooLong { limit }) => self.refuse(RpcError::new(
                    Code::TooLarge,
                    format!("a line of more than {limit} bytes; see limits.message_bytes"),
                )),
                Event::Broken(LineError::Io(error)) => return Err(error.to_string()),
                Event::Finished(finished) => {
                    self.finish(finished);
                    // What is ready by now goes out in the same write.
                    while let Some(Some(finished)) = self.requests.next().now_or_never() {
                        self.finish(finished);
                    }
                }
                Event::Stream(line) => self.out.stream(&line),
                Event::Written(Ok(0)) => return Err("it does not take its answers".into()),
                Event::Written(Ok(count)) => {
                    self.out.advance(count);
                    full_since = None;
                }
                Event::Written(Err(error)) => return Err(error.to_string()),
                Event::Directory => self.mcp.list_changed(&self.app, &mut self.out),
                Event::Change => {
                    let lines = self.events.as_mut().map(|events| events.changes(&self.app));
                    lines.iter().flatten().for_each(|line| self.out.stream(line));
                }
                Event::Poll if has_hung_up(&writer) => {
                    return Err("it closed while requests were running".into());
                }
                Event::Poll => {}
                Event::Slow => return Err(format!("it did not read for {} s", SLOW_READER.as_secs())),
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let is_first = !std::mem::replace(&mut self.had_line, true);
        let envelope = match Envelope::parse(line, self.app.limits.json_depth) {
            Ok(envelope) => envelope,
            Err(error @ EnvelopeError::Batch) if !is_first => {
                let error = RpcError::new(Code::InvalidRequest, error.to_string());
                return self.out.answer(|out| write_error(out, None, &to_json(&error)));
            }
            Err(error) => {
                let code = match &error {
                    EnvelopeError::Malformed(json) if json.is_data() => Code::InvalidRequest,
                    EnvelopeError::Malformed(_) | EnvelopeError::NotAnObject => Code::ParseError,
                    EnvelopeError::Batch | EnvelopeError::TooDeep { .. } => Code::InvalidRequest,
                };
                return self.refuse(RpcError::new(code, format!("{error}; the connection is closed")));
            }
        };
        // Left out is fine: the protocol is the only one here.
        if envelope
            .jsonrpc
            .as_deref()
            .is_some_and(|version| version != "2.0")
        {
            return self.invalid("'jsonrpc' is \"2.0\"");
        }
        match (&envelope.method, envelope.id) {
            (Some(method), Some(id)) => match RequestId::parse(id) {
                Some(id) => self.request(id, method, envelope.params),
                None => self.invalid("an id is a string of at most 128 bytes or an integer"),
            },
            (Some(method), None) => self.notification(method, envelope.params),
            // The daemon asks nothing of a frontend yet, so there is nothing that this could answer.
            (None, Some(_)) if envelope.result.is_some() || envelope.error.is_some() => {}
            (None, _) => self.invalid("a message has a 'method'"),
        }
    }

    fn request(&mut self, id: RequestId, method: &str, params: Option<&RawValue>) {
        if self.in_flight.contains_key(id.as_json()) {
            return self.invalid(&format!(
                "id {} is in use by a request that is still running",
                id.as_json()
            ));
        }
        if self.app.stopping.is_cancelled() {
            let error = RpcError::new(Code::ShuttingDown, "the daemon is stopping");
            return self
                .out
                .answer(|out| write_error(out, Some(&id), &to_json(&error)));
        }
        let context = Context {
            frontend: self.number,
            stream: &self.streams.0,
        };
        let is_control = method.starts_with("hermes/");
        let work = match is_control {
            true if method == "hermes/subscribe" => self.subscribe(params),
            true => control::handle(&self.app, &context, method, params),
            false => self.mcp.handle(&self.app, &context, method, params),
        };
        match work {
            Work::Now(answer) => self.out.answer(|out| answer.write(out, &id)),
            Work::Later(work) => {
                let cancel = CancellationToken::new();
                self.in_flight.insert(id.as_json().into(), cancel.clone());
                self.requests.push(Box::pin(async move {
                    let answer = tokio::select! {
                        answer = work => answer,
                        // MCP wants no answer to a cancelled request; our own methods say that they ended.
                        () = cancel.cancelled() => match is_control {
                            true => Answer::Error(RpcError::new(Code::Cancelled, "cancelled by the frontend")),
                            false => Answer::Silence,
                        },
                    };
                    Finished { id, answer }
                }));
            }
        }
    }

    fn subscribe(&mut self, params: Option<&RawValue>) -> Work {
        Work::now(Events::subscribe(&self.app, params).map(|(events, now)| {
            self.events = Some(events);
            now
        }))
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: &'a RawValue,
        }
        match method {
            "notifications/cancelled" => {
                let cancelled = params.and_then(|raw| serde_json::from_str::<Cancelled<'_>>(raw.get()).ok());
                // A cancel for a request that is over, or never was, is no fault (CANC-04).
                if let Some(token) = cancelled.and_then(|it| self.in_flight.get(it.request_id.get())) {
                    token.cancel();
                }
            }
            "notifications/initialized" => self.mcp.initialized(),
            _ => {}
        }
    }

    fn finish(&mut self, finished: Finished) {
        // Progress of a call comes before its answer, and none after it (PROG-02).
        while let Some(Some(line)) = self.streams.1.recv().now_or_never() {
            self.out.stream(&line);
        }
        self.in_flight.remove(finished.id.as_json());
        if !matches!(finished.answer, Answer::Silence) {
            self.out.answer(|out| finished.answer.write(out, &finished.id));
        }
    }

    fn invalid(&mut self, why: &str) {
        let error = RpcError::new(Code::InvalidRequest, why);
        self.out.answer(|out| write_error(out, None, &to_json(&error)));
    }

    /// Says why, and runs nothing of this connection any more (S-21).
    fn refuse(&mut self, error: RpcError) {
        self.requests.clear();
        self.in_flight.clear();
        self.out.answer(|out| write_error(out, None, &to_json(&error)));
        self.reading = Reading::Refused;
    }
}

/// `select!` makes even the futures it does not poll; this one looks at the clock only when it is polled.
async fn pause(time: Duration) {
    sleep(time).await;
}

async fn until(full_since: Option<Instant>) {
    match full_since {
        Some(since) => sleep_until(since + SLOW_READER).await,
        None => std::future::pending().await,
    }
}
