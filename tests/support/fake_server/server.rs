//! The loop: one line in, one message out.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::File,
    io::{BufRead, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{calls, definitions, options::Options, output::Output, process, stateless};

/// One message, as far as everybody needs it.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// The server and what it remembers.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) output: Arc<Output>,
    pub(crate) tools: Vec<Value>,
    /// Calls in threads, by the JSON text of their ids; true means cancelled.
    pub(crate) running: Arc<Mutex<HashMap<String, Arc<AtomicBool>>>>,
    /// Calls that wait for an answer of the client, by our request id.
    pub(crate) asking: HashMap<String, String>,
    pub(crate) calls: u64,
    pub(crate) count: u64,
    /// How often `tools/list` was answered with its last page.
    lists: u64,
    /// Whether it had a request already (mode `refuses-once`).
    pub(crate) was_asked: bool,
    /// Whether a cursor was refused (mode `bad-cursor-once`).
    refused_cursor: bool,
    log: Option<File>,
}

impl Server {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            output: Arc::new(Output::new(&options)),
            tools: definitions::tools(&options),
            running: Arc::default(),
            asking: HashMap::new(),
            calls: 0,
            count: 0,
            lists: 0,
            was_asked: false,
            refused_cursor: false,
            log: options
                .log
                .as_ref()
                .map(|path| File::options().append(true).open(path).expect("--log opens")),
            options,
        }
    }

    /// Serves until stdin ends.
    pub(crate) fn run(mut self) -> ! {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::with_capacity(64 << 10);
        loop {
            line.clear();
            match stdin.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => process::end_of_input(),
                Ok(_) => {}
            }
            if let Some(log) = &mut self.log {
                log.write_all(&line).expect("--log is writable");
            }
            if !self.options.mode("mute") {
                self.handle(&line);
            }
        }
    }

    fn handle(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            return self.output.error("null", -32700, "parse error");
        };
        let id = message.id.map(RawValue::get);
        let params = message.params.map_or("{}", RawValue::get);
        if let (Some(method), Some(id)) = (message.method.as_deref(), id) {
            if self.options.mode("discover-dies") && method == "server/discover" {
                std::process::exit(self.options.exit_code);
            }
            if self.options.mode("stateless") && stateless::request(self, method, id, params) {
                return;
            }
        }
        match (message.method.as_deref(), id) {
            (Some("tools/call"), Some(id)) => calls::call(self, id, params),
            (Some(method), Some(id)) => self.request(method, id, params),
            (Some(method), None) => self.notification(method, params),
            (None, Some(id)) => self.answer(id, line),
            (None, None) => {}
        }
    }

    fn request(&mut self, method: &str, id: &str, params: &str) {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let text = |key: &str| params[key].as_str().unwrap_or_default();
        if self.options.mode("undeclared-dies") && !self.declares(method) {
            eprintln!("fatal: unexpected method {method}");
            std::process::exit(self.options.exit_code);
        }
        let result = match method {
            "initialize" => return self.initialize(id, &params),
            "ping" if self.options.mode("mute-ping") => return,
            "ping" if !self.options.mode("no-ping") => json!({}),
            "logging/setLevel" => json!({}),
            "tools/list" => return self.list_tools(id, &params),
            "resources/list" if self.has("resources") => {
                self.page("resources", &definitions::resources(), &params)
            }
            "resources/templates/list" if self.has("resources") => json!({"resourceTemplates": []}),
            "resources/read" if self.has("resources") => match definitions::resource(text("uri")) {
                Some(contents) => contents,
                None => {
                    return self
                        .output
                        .error(id, -32002, &format!("no resource {}", text("uri")));
                }
            },
            "prompts/list" if self.has("prompts") => self.page("prompts", &definitions::prompts(), &params),
            "prompts/get" if self.has("prompts") => {
                let who = params["arguments"]["who"].as_str().unwrap_or("nobody");
                match definitions::prompt(text("name"), who) {
                    Some(prompt) => prompt,
                    None => {
                        return self
                            .output
                            .error(id, -32602, &format!("no prompt {}", text("name")));
                    }
                }
            }
            "completion/complete" if self.has("completions") => {
                json!({"completion": {"values": ["one", "two"]}})
            }
            _ => {
                return self
                    .output
                    .error(id, -32601, &format!("method not found: {method}"));
            }
        };
        self.output.result(id, &result.to_string());
    }

    fn initialize(&mut self, id: &str, params: &Value) {
        pause(self.options.initialize_delay_ms);
        if self.options.mode("stderr-flood") {
            let line = format!("{}\n", "noise ".repeat(170));
            for _ in 0..10 * 1024 {
                std::io::stderr()
                    .write_all(line.as_bytes())
                    .expect("stderr is writable");
            }
        }
        if self.options.mode("flood") {
            process::flood(1 << 14, &[b'x'; 1 << 16]);
        }
        let mut capabilities = json!({"tools": {"listChanged": true}});
        for capability in &self.options.capabilities {
            capabilities[capability] = json!({});
        }
        let asked = params["protocolVersion"].as_str().unwrap_or("2025-11-25");
        let result = json!({
            "protocolVersion": self.options.protocol.as_deref().unwrap_or(asked),
            "capabilities": capabilities,
            "serverInfo": {"name": self.options.name, "version": "1.0.0"},
        });
        self.output.result(id, &result.to_string());
    }

    fn list_tools(&mut self, id: &str, params: &Value) {
        pause(self.options.list_delay_ms);
        if self.options.mode("bad-cursor-once") && params["cursor"].is_string() && !self.refused_cursor {
            self.refused_cursor = true;
            return self.output.error(id, -32602, "that cursor has expired");
        }
        let result = if self.options.mode("no-tools-array") {
            json!({})
        } else {
            self.page("tools", &self.tools, params)
        };
        self.output.result(id, &result.to_string());
        if result["nextCursor"].is_null() {
            self.lists += 1;
            self.after_list();
        }
        if self.options.mode("leaky") {
            pause(200);
            process::become_leaky();
        }
    }

    /// What it says unasked once its list was read.
    fn after_list(&self) {
        let storm = self.options.mode("list-changed-storm");
        let is_first = self.lists == 1;
        if self.options.mode("list-changed-loop") || (storm && is_first) {
            self.list_changed(if storm { 100 } else { 1 });
        }
        for (mode, request) in [
            (
                "pings-client",
                json!({"jsonrpc": "2.0", "id": "idle-ping", "method": "ping"}),
            ),
            ("samples-at-idle", sampling("idle-sampling")),
        ] {
            if self.options.mode(mode) && is_first {
                self.output.line(request.to_string().as_bytes());
            }
        }
    }

    /// Says so many times that its tools changed.
    pub(crate) fn list_changed(&self, times: u64) {
        for _ in 0..times {
            self.output
                .notification("notifications/tools/list_changed", &json!({}));
        }
    }

    /// One page of a list. A cursor is the index of the page's first item.
    fn page(&self, key: &str, items: &[Value], params: &Value) -> Value {
        let start = params["cursor"]
            .as_str()
            .and_then(|cursor| cursor.parse().ok())
            .unwrap_or(0usize);
        let size = self.options.page_size.unwrap_or(items.len());
        if self.options.mode("endless-pages") {
            let item = definitions::echo_like(&format!("page_{start}"));
            return json!({key: [item], "nextCursor": (start + 1).to_string()});
        }
        let end = (start + size).min(items.len());
        let mut page = json!({key: items.get(start..end).unwrap_or_default()});
        if self.options.mode("same-cursor") {
            page["nextCursor"] = json!("0");
        } else if end < items.len() {
            page["nextCursor"] = json!(end.to_string());
        }
        page
    }

    fn notification(&self, method: &str, params: &str) {
        match method {
            "notifications/initialized" if self.options.mode("exit-after-init") => {
                pause(self.options.exit_delay_ms);
                std::process::exit(self.options.exit_code);
            }
            "notifications/cancelled" => {
                #[derive(Deserialize)]
                struct Cancelled<'a> {
                    #[serde(borrow, rename = "requestId")]
                    request_id: &'a RawValue,
                }
                if let Ok(cancelled) = serde_json::from_str::<Cancelled<'_>>(params)
                    && let Some(flag) = self.running.lock().unwrap().get(cancelled.request_id.get())
                {
                    flag.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// The client answered a question of the tool `ask`: the answer is the call's text.
    fn answer(&mut self, id: &str, line: &[u8]) {
        if let Some(call) = self.asking.remove(id) {
            let text = String::from_utf8_lossy(line);
            self.output.result(&call, &calls::text_result(text.trim_end()));
        }
    }

    fn has(&self, capability: &str) -> bool {
        self.options.capabilities.contains(capability)
    }

    fn declares(&self, method: &str) -> bool {
        match method.split_once('/') {
            Some(("resources" | "prompts" | "logging", _)) => self.has(method.split_once('/').unwrap().0),
            Some(("completion", _)) => self.has("completions"),
            Some(("tools", _)) => true,
            Some(_) => false,
            None => matches!(method, "initialize" | "ping"),
        }
    }
}

fn sampling(id: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hello?"}});
    let params = json!({"messages": [message], "maxTokens": 16});
    json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params})
}

/// Sleeps, if there is anything to sleep.
pub(crate) fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        thread::sleep(Duration::from_millis(milliseconds));
    }
}
