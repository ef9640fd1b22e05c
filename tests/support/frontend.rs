//! A blocking frontend: one socket, lines out, lines in.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::LIMIT;

/// One line from the daemon.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The line without its end.
    pub(crate) raw: String,
    /// The id as JSON text.
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    /// The result as JSON text, byte for byte.
    pub(crate) result: Option<String>,
    pub(crate) error: Option<Value>,
    pub(crate) params: Option<Value>,
}

/// A connection to the daemon.
pub(crate) struct Frontend {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// Messages that arrived while another one was waited for.
    waiting: VecDeque<Message>,
    last_id: u64,
}

impl Frontend {
    /// Connects.
    pub(crate) fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::connect(socket)?,
            buffer: Vec::new(),
            waiting: VecDeque::new(),
            last_id: 0,
        })
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes as they are; that the daemon has hung up is fine.
    pub(crate) fn try_send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends one line.
    pub(crate) fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Sends a request with an id of the caller's.
    pub(crate) fn send(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    /// Sends a notification.
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// A second handle for sending, where a full pipe may block the sender.
    pub(crate) fn writer(&self) -> UnixStream {
        self.stream.try_clone().unwrap()
    }

    /// Says that nothing more will be sent.
    pub(crate) fn close_write(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The next message; panics after [`LIMIT`] or at the end.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Message {
        match self.waiting.pop_front() {
            Some(message) => message,
            None => self
                .receive(LIMIT)
                .expect("a message, not the end of the connection"),
        }
    }

    /// The next message if one comes in time; none at the end of the connection too.
    #[track_caller]
    pub(crate) fn next_within(&mut self, limit: Duration) -> Option<Message> {
        match self.waiting.pop_front() {
            Some(message) => Some(message),
            None => match self.read_line(limit) {
                Ok(line) => line.map(Message::parse),
                Err(_) => None,
            },
        }
    }

    /// The answer to a request. Other messages are kept.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: impl Into<Value>) -> Message {
        self.answer_within(LIMIT, id)
    }

    /// Likewise, at most for a time.
    #[track_caller]
    pub(crate) fn answer_within(&mut self, limit: Duration, id: impl Into<Value>) -> Message {
        let id = id.into().to_string();
        let is_it =
            |message: &Message| message.method.is_none() && message.id.as_deref() == Some(id.as_str());
        if let Some(index) = self.waiting.iter().position(is_it) {
            return self.waiting.remove(index).unwrap();
        }
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self
                .receive(left)
                .unwrap_or_else(|| panic!("the connection ended before the answer to {id}"));
            if is_it(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// A request and its answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Message {
        self.last_id += 1;
        let id = format!("t{}", self.last_id);
        self.send(id.clone(), method, params);
        self.answer(id)
    }

    /// A request's result.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        self.request(method, params).value()
    }

    /// A request's error.
    #[track_caller]
    pub(crate) fn error(&mut self, method: &str, params: Value) -> Value {
        let message = self.request(method, params);
        message
            .error
            .unwrap_or_else(|| panic!("{method} was to fail: {}", message.raw))
    }

    /// MCP's `tools/call`: its result.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// MCP's `tools/call`: the text of its first block. An error result is a failure.
    #[track_caller]
    pub(crate) fn call_text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool} returned no text: {result}"))
            .to_owned()
    }

    /// The merged list's exposed names, from `tools/list`.
    #[track_caller]
    pub(crate) fn tool_names(&mut self) -> Vec<String> {
        let list = self.result("tools/list", json!({}));
        let tools = list["tools"]
            .as_array()
            .unwrap_or_else(|| panic!("no tools in {list}"));
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until the daemon ends the connection, and returns what it sent before.
    #[track_caller]
    pub(crate) fn until_closed(&mut self) -> Vec<Message> {
        let mut messages: Vec<Message> = self.waiting.drain(..).collect();
        let end = Instant::now() + LIMIT;
        while let Some(message) = self.receive(end.saturating_duration_since(Instant::now())) {
            messages.push(message);
        }
        messages
    }

    #[track_caller]
    fn receive(&mut self, limit: Duration) -> Option<Message> {
        match self.read_line(limit) {
            Ok(line) => line.map(Message::parse),
            Err(error) => panic!("nothing from the daemon within {limit:?}: {error}"),
        }
    }

    /// One line; none at the end. A daemon that hangs up with our bytes unread resets, which is an end too.
    fn read_line(&mut self, limit: Duration) -> io::Result<Option<String>> {
        let end = Instant::now() + limit;
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(String::from_utf8(line).expect("the daemon speaks UTF-8")));
            }
            searched = self.buffer.len();
            let left = end
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left))?;
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    assert!(
                        self.buffer.is_empty(),
                        "half a line at the end: {:?}",
                        self.buffer
                    );
                    return Ok(None);
                }
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Message {
    #[track_caller]
    fn parse(raw: String) -> Self {
        // Raw pieces, because a result may hold numbers that no `Value` can.
        #[derive(Deserialize)]
        struct Envelope<'a> {
            jsonrpc: &'a str,
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            method: Option<String>,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<Value>,
            params: Option<Value>,
        }
        let envelope: Envelope<'_> = serde_json::from_str(&raw)
            .unwrap_or_else(|error| panic!("the daemon sent no JSON-RPC message: {error}: {raw}"));
        assert_eq!(envelope.jsonrpc, "2.0", "{raw}");
        let text = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned());
        Self {
            id: text(envelope.id),
            method: envelope.method,
            result: text(envelope.result),
            error: envelope.error,
            params: envelope.params,
            raw,
        }
    }

    /// The result, parsed; panics at an error.
    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        let result = self
            .result
            .as_deref()
            .unwrap_or_else(|| panic!("no result: {}", self.raw));
        serde_json::from_str(result).unwrap()
    }

    /// The error's code; panics at a result.
    #[track_caller]
    pub(crate) fn code(&self) -> i64 {
        let error = self
            .error
            .as_ref()
            .unwrap_or_else(|| panic!("no error: {}", self.raw));
        error["code"].as_i64().unwrap()
    }

    /// The text of a failure, in whichever of the three shapes it came: a JSON-RPC error, MCP's `isError`, Hermes'
    /// `{"error": …}`. Panics at a success.
    #[track_caller]
    pub(crate) fn failure(&self) -> String {
        if let Some(error) = &self.error {
            return error["message"].as_str().unwrap().to_owned();
        }
        let result = self.value();
        let text = if result["isError"] == true {
            &result["content"][0]["text"]
        } else {
            &result["error"]
        };
        text.as_str()
            .unwrap_or_else(|| panic!("this was to be a failure: {}", self.raw))
            .to_owned()
    }
}
