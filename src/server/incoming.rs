//! What a server sends, understood: raw answers to whoever waits for them, everything that is rmcp's business to rmcp.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, atomic::Ordering},
};

use rmcp::{
    RoleClient,
    model::{ClientNotification, ClientRequest, JsonRpcMessage, RequestId, ServerResult},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    channel::{Channel, Kind},
    link::Link,
    request::Reply,
};
use crate::{text, wire::Envelope};

/// What one line from the server means for rmcp.
pub(super) enum Incoming {
    /// Nothing.
    Handled,
    /// A message rmcp has to see.
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// The connection is of no use any more.
    Broken(String),
}

/// What is needed to understand what comes from a server, however it comes.
pub(super) struct Reading {
    server: Arc<str>,
    pub(super) channel: Channel,
    /// Requests of rmcp's own, whose answers it has to see.
    typed: HashSet<i64>,
    /// The id of `initialize`, until it is answered.
    initialize: Option<i64>,
    pub(super) link: Arc<Link>,
    depth: usize,
}

impl Reading {
    pub(super) fn new(server: Arc<str>, channel: Channel, link: Arc<Link>, depth: usize) -> Self {
        Self {
            server,
            channel,
            typed: HashSet::new(),
            initialize: None,
            link,
            depth,
        }
    }

    /// Queues a message of rmcp's own: the handshake, and answers to the server's requests.
    pub(super) fn enqueue(&mut self, message: &TxJsonRpcMessage<RoleClient>) -> io::Result<()> {
        let kind = match message {
            JsonRpcMessage::Request(request) => {
                let RequestId::Number(id) = request.id else {
                    return Err(io::Error::other("rmcp gave a request an id that is not a number"));
                };
                self.channel.reserve(id);
                self.typed.insert(id);
                match request.request {
                    ClientRequest::InitializeRequest(_) => {
                        self.initialize = Some(id);
                        Kind::Initialize(id)
                    }
                    _ => Kind::Request {
                        id,
                        is_tool_call: false,
                    },
                }
            }
            JsonRpcMessage::Notification(notification) => match notification.notification {
                ClientNotification::InitializedNotification(_) => Kind::Initialized,
                _ => Kind::Other,
            },
            _ => Kind::Other,
        };
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.channel.push(line, kind)
    }

    /// Whether the request with this id still has no answer.
    pub(super) fn awaits(&self, id: i64) -> bool {
        self.typed.contains(&id) || self.channel.is_waiting(id)
    }

    /// Takes one message in.
    pub(super) fn line(&mut self, line: &mut [u8]) -> Incoming {
        let line = match line {
            [0xef, 0xbb, 0xbf, rest @ ..] => rest,
            line => line,
        };
        if line.trim_ascii().is_empty() {
            return Incoming::Handled;
        }
        // A cut emoji would make a strict reader behind us drop the whole answer (B17).
        text::repair_surrogates(line);
        match std::str::from_utf8(line) {
            Ok(_) => self.message(line),
            Err(_) => self.message(String::from_utf8_lossy(line).as_bytes()),
        }
    }

    fn message(&mut self, line: &[u8]) -> Incoming {
        let envelope = match Envelope::parse(line, self.depth) {
            Ok(envelope) => envelope,
            Err(error) => return self.noise(line, &error.to_string()),
        };
        match (&envelope.method, envelope.id) {
            (Some(method), Some(id)) => self.request(line, method, id),
            (Some(method), None) => self.notification(line, method, envelope.params),
            (None, Some(id)) => self.response(id, &envelope),
            (None, None) => self.noise(line, "neither a method nor an id"),
        }
    }

    /// Servers must not print anything else on stdout, yet many do (B12, STDIO-02). Nothing is sent back.
    fn noise(&self, line: &[u8], why: &str) -> Incoming {
        let shown = text::one_line(text::truncate(&String::from_utf8_lossy(line), 120).as_ref()).into_owned();
        let is_first = Link::count(&self.link.noise) == 0;
        match (is_first, self.channel.is_pipe()) {
            (true, true) => tracing::warn!(
                server = &*self.server,
                line = shown,
                why,
                "the server prints on stdout what is no MCP message; such lines are skipped"
            ),
            (true, false) => tracing::warn!(
                server = &*self.server,
                line = shown,
                why,
                "the server sends what is no MCP message; that is skipped"
            ),
            (false, _) => tracing::debug!(
                server = &*self.server,
                line = shown,
                why,
                "skipped what is no MCP message"
            ),
        }
        Incoming::Handled
    }

    fn request(&self, line: &[u8], method: &str, id: &RawValue) -> Incoming {
        // rmcp answers: a ping as one does, everything else with an error, as no capability was declared for it.
        if method != "ping" {
            Link::count(&self.link.refused);
            tracing::debug!(server = &*self.server, method, "refused a request of the server");
        }
        match serde_json::from_slice(line) {
            Ok(message) => Incoming::Message(Box::new(message)),
            Err(error) => {
                Link::count(&self.link.malformed);
                tracing::debug!(server = &*self.server, %error, "refused a malformed request of the server");
                self.channel.send_later(format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{{\"code\":-32600,\"message\":\"malformed request\"}}}}\n",
                    id.get()
                ), Kind::Other);
                Incoming::Handled
            }
        }
    }

    fn notification(&mut self, line: &[u8], method: &str, params: Option<&RawValue>) -> Incoming {
        match method {
            "notifications/progress" => self.progress(params),
            "notifications/tools/list_changed" => self.link.tools_changed.notify_one(),
            // The server gives up a request of its own: rmcp has to know.
            "notifications/cancelled" => {
                if let Ok(message) = serde_json::from_slice(line) {
                    return Incoming::Message(Box::new(message));
                }
                Link::count(&self.link.malformed);
            }
            _ => tracing::trace!(server = &*self.server, method, "notification"),
        }
        Incoming::Handled
    }

    fn progress(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Report<'a> {
            #[serde(borrow)]
            progress_token: &'a RawValue,
            #[serde(borrow)]
            progress: Option<&'a RawValue>,
        }
        let Some(params) = params else { return };
        let Ok(report) = serde_json::from_str::<Report<'_>>(params.get()) else {
            return;
        };
        // Progress for a request that is finished or never asked for it is dropped (PROG-02).
        let way = number(report.progress_token).and_then(|id| self.channel.progress_of(id));
        let value = report.progress.and_then(|value| value.get().parse().ok());
        if way.is_some_and(|way| !way.report(value, params)) {
            Link::count(&self.link.dropped_progress);
        }
    }

    fn response(&mut self, id: &RawValue, envelope: &Envelope<'_>) -> Incoming {
        // Some servers write a number they were given as a string (B19).
        let Some(id) = number(id) else {
            Link::count(&self.link.unclaimed);
            return Incoming::Handled;
        };
        if let Some((waiting, others)) = self.channel.take(id) {
            self.link.busy_poll.message(others);
            let reply = match (envelope.error, envelope.result) {
                (Some(error), _) => Reply::Error(error.to_owned()),
                (None, Some(result)) => {
                    if waiting.is_tool_call {
                        self.link.proven.store(true, Ordering::Relaxed);
                    }
                    Reply::Result(result.to_owned())
                }
                (None, None) => Reply::Error(neither_result_nor_error()),
            };
            if waiting.reply.send(Ok(reply)).is_err() {
                Link::count(&self.link.unclaimed);
            }
            return Incoming::Handled;
        }
        if self.typed.remove(&id) {
            return self.typed_response(id, envelope);
        }
        // Late, repeated or made up: never an answer to somebody else's request (LIFE-02).
        Link::count(&self.link.unclaimed);
        tracing::debug!(
            server = &*self.server,
            id,
            "dropped an answer that nobody waits for"
        );
        Incoming::Handled
    }

    fn typed_response(&mut self, id: i64, envelope: &Envelope<'_>) -> Incoming {
        let is_initialize = self.initialize.take_if(|initialize| *initialize == id).is_some();
        let (member, value) = match (envelope.error, envelope.result) {
            (Some(error), _) => ("error", error),
            (None, Some(result)) => ("result", result),
            (None, None) => return Incoming::Broken("answered with neither a result nor an error".into()),
        };
        if is_initialize && member == "result" {
            self.link.keep_initialize_result(value);
        }
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{}}}"#, value.get());
        match serde_json::from_str(&line) {
            Ok(message) => Incoming::Message(Box::new(message)),
            Err(error) if is_initialize => {
                Incoming::Broken(format!("its answer to initialize is not valid MCP: {error}"))
            }
            Err(error) => {
                Link::count(&self.link.malformed);
                tracing::debug!(server = &*self.server, %error, "an answer that is not valid MCP");
                let empty = JsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(id));
                Incoming::Message(Box::new(empty))
            }
        }
    }
}

/// An id or token as the number that it was given as.
fn number(raw: &RawValue) -> Option<i64> {
    raw.get().trim_matches('"').parse().ok()
}

fn neither_result_nor_error() -> Box<RawValue> {
    const TEXT: &str = r#"{"code":-32603,"message":"the server's answer has neither a result nor an error"}"#;
    RawValue::from_string(TEXT.into()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
