//! The built-in demo server as a process: concurrency, cancelling, garbage, the end of stdin.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// The moment to give up; nothing here should come near it.
const LIMIT: Duration = Duration::from_secs(20);

struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("hermesd-mcp"))
            .arg("demo-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender
                    .send(serde_json::from_str(&line.unwrap()).unwrap())
                    .is_err()
                {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn request(&mut self, id: u32, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(LIMIT).expect("a line in time")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_slow_call_does_not_hold_up_a_quick_one_and_reports_progress() {
    let mut server = Server::start();
    let arguments = json!({"seconds": 0.2, "steps": 2});
    server.request(
        1,
        "tools/call",
        json!({"name": "slow", "arguments": arguments, "_meta": {"progressToken": "p"}}),
    );
    server.request(
        2,
        "tools/call",
        json!({"name": "echo", "arguments": {"text": "quick"}}),
    );
    assert_eq!(server.next()["id"], 2, "the quick one first");
    for step in [1, 2] {
        let progress = server.next();
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"]["progress"], step);
        assert_eq!(progress["params"]["progressToken"], "p");
    }
    assert_eq!(server.next()["id"], 1);
}

#[test]
fn a_cancelled_call_is_never_answered() {
    let mut server = Server::start();
    server.request(
        1,
        "tools/call",
        json!({"name": "slow", "arguments": {"seconds": 0.2, "steps": 1}}),
    );
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    // A longer one that began later: had the first gone on, its answer would have come before.
    server.request(
        2,
        "tools/call",
        json!({"name": "slow", "arguments": {"seconds": 0.6, "steps": 1}}),
    );
    assert_eq!(server.next()["id"], 2);
}

#[test]
fn garbage_is_answered_and_survived_and_the_end_of_stdin_ends_it() {
    let mut server = Server::start();
    server
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\xff\xfe{\n\n[1,2]\nnot json\n")
        .unwrap();
    for code in [-32700, -32600, -32700] {
        assert_eq!(server.next()["error"]["code"], code);
    }
    server.request(1, "initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(server.next()["result"]["protocolVersion"], "2025-06-18");

    // A call in flight does not keep the process alive.
    server.request(
        2,
        "tools/call",
        json!({"name": "slow", "arguments": {"seconds": 3600}}),
    );
    drop(server.stdin.take());
    let status = server.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}
