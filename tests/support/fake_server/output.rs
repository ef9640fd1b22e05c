//! Standard output: whole messages, one write each, with the faults that were asked for.

use std::io::Write;

use crate::options::Options;

/// Writes messages. Shared by the main loop and the threads of slow calls.
pub(crate) struct Output {
    banner: bool,
    invalid_json: bool,
    crlf: bool,
    garbage: bool,
    string_ids: bool,
    stray_ids: bool,
}

impl Output {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            banner: options.mode("banner"),
            invalid_json: options.mode("invalid-json"),
            crlf: options.mode("crlf"),
            garbage: options.mode("garbage"),
            string_ids: options.mode("string-ids"),
            stray_ids: options.mode("stray-ids"),
        }
    }

    /// Answers a request. `id` and `result` are JSON text.
    pub(crate) fn result(&self, id: &str, result: &str) {
        self.answer(id, &[r#","result":"#, result, "}\n"]);
    }

    /// Answers a request with an error.
    pub(crate) fn error(&self, id: &str, code: i64, message: &str) {
        let error = serde_json::json!({"code": code, "message": message}).to_string();
        self.answer(id, &[r#","error":"#, &error, "}\n"]);
    }

    /// Answers a request with any members after the id, as JSON text that starts with a comma.
    pub(crate) fn members(&self, id: &str, members: &str) {
        self.answer(id, &[members, "}\n"]);
    }

    /// Answers a request with one text block. `text` is JSON text.
    pub(crate) fn echo(&self, id: &str, text: &str) {
        self.answer(
            id,
            &[r#","result":{"content":[{"type":"text","text":"#, text, "}]}}\n"],
        );
    }

    /// Sends a notification.
    pub(crate) fn notification(&self, method: &str, params: &serde_json::Value) {
        let message = serde_json::json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line(message.to_string().as_bytes());
    }

    /// Sends any bytes as one line.
    pub(crate) fn line(&self, line: &[u8]) {
        let mut bytes = line.to_vec();
        bytes.extend_from_slice(if self.crlf { b"\r\n" } else { b"\n" });
        write(&bytes);
    }

    fn answer(&self, id: &str, rest: &[&str]) {
        if self.garbage {
            write(b"{\"jsonrpc\":\"2.0\",\"id\":\nnull\n[1,2]\n\"text\"\n42\n{}\n");
            return;
        }
        let quoted = (self.string_ids && !id.starts_with('"')).then(|| format!("\"{id}\""));
        let id = quoted.as_deref().unwrap_or(id);
        let mut bytes = Vec::with_capacity(64 + rest.iter().map(|part| part.len()).sum::<usize>());
        if self.banner {
            bytes.extend_from_slice(b"DEBUG got request\n");
        }
        if self.invalid_json {
            bytes.extend_from_slice(
                b"{\"jsonrpc\":\"2.0\",\"id\":\n{\"jsonrpc\":\"2.0\",\"result\":{}]\n{'id': 1}\n",
            );
        }
        if self.stray_ids {
            bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":999999,"result":{"content":[],"tools":[]}}"#);
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        bytes.extend_from_slice(id.as_bytes());
        for part in rest {
            bytes.extend_from_slice(part.as_bytes());
        }
        if self.crlf && bytes.pop().is_some() {
            bytes.extend_from_slice(b"\r\n");
        }
        write(&bytes);
    }
}

/// Writes bytes as they are. The reader's end being gone is a reason to go, quietly.
pub(crate) fn write(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        crate::process::stdout_is_gone();
    }
}
