//! A client as one writes it by hand: asynchronous lines over any pair of streams, answers parsed. The same code speaks
//! to a server directly and to the daemon, so that both pay the same for it.

use std::{path::Path, process::Stdio, time::Duration, time::Instant};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
};

use crate::support::fake_server;

/// 64 bytes.
pub(crate) const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A client without any library.
pub(crate) struct Lines {
    read: BufReader<Box<dyn AsyncRead + Unpin>>,
    write: Box<dyn AsyncWrite + Unpin>,
    line: String,
    tool: &'static str,
    last_id: u64,
    _server: Option<Child>,
}

impl Lines {
    /// Starts a server and speaks to it directly.
    pub(crate) async fn spawn() -> Self {
        let mut server = Command::new(fake_server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let read = Box::new(server.stdout.take().expect("piped"));
        let write = Box::new(server.stdin.take().expect("piped"));
        let mut lines = Self::new(read, write, "echo", Some(server));
        let info = json!({"name": "load", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        lines.request("initialize", params).await;
        lines
    }

    /// Connects to the daemon.
    pub(crate) async fn connect(socket: &Path, tool: &'static str) -> Self {
        let stream = UnixStream::connect(socket).await.expect("the daemon listens");
        let (read, write) = stream.into_split();
        Self::new(Box::new(read), Box::new(write), tool, None)
    }

    fn new(
        read: Box<dyn AsyncRead + Unpin>,
        write: Box<dyn AsyncWrite + Unpin>,
        tool: &'static str,
        server: Option<Child>,
    ) -> Self {
        Self {
            read: BufReader::with_capacity(64 << 10, read),
            write,
            line: String::new(),
            tool,
            last_id: 0,
            _server: server,
        }
    }

    /// A request and its result.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        let mut answer = self.receive().await;
        assert_eq!(answer["id"], self.last_id, "{answer}");
        answer["result"].take()
    }

    /// The time from a request to its answer's last byte, unparsed.
    pub(crate) async fn time_of(&mut self, method: &str, params: Value) -> Duration {
        let start = Instant::now();
        self.send(method, params).await;
        self.receive_line().await;
        start.elapsed()
    }

    /// Echoes 64 bytes this often, one after the other; the time of each.
    pub(crate) async fn one_by_one(&mut self, calls: usize) -> Vec<Duration> {
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let start = Instant::now();
            let result = self.request("tools/call", self.echo()).await;
            assert_eq!(result["content"][0]["text"], TEXT);
            times.push(start.elapsed());
        }
        times
    }

    /// Echoes this often with so many calls on their way; calls in a second.
    pub(crate) async fn at_once(&mut self, in_flight: usize, calls: usize) -> f64 {
        let start = Instant::now();
        let mut sent = 0;
        for done in 0..calls {
            while sent < calls && sent - done < in_flight {
                self.send("tools/call", self.echo()).await;
                sent += 1;
            }
            let answer = self.receive().await;
            assert_eq!(answer["result"]["content"][0]["text"], TEXT);
        }
        calls as f64 / start.elapsed().as_secs_f64()
    }

    fn echo(&self) -> Value {
        json!({"name": self.tool, "arguments": {"text": TEXT}})
    }

    async fn send(&mut self, method: &str, params: Value) {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.write
            .write_all(format!("{request}\n").as_bytes())
            .await
            .expect("the other side reads");
    }

    async fn receive(&mut self) -> Value {
        self.receive_line().await;
        serde_json::from_str(&self.line).expect("JSON")
    }

    async fn receive_line(&mut self) {
        self.line.clear();
        let read = self
            .read
            .read_line(&mut self.line)
            .await
            .expect("the other side writes");
        assert!(read > 0, "the other side has gone");
    }
}
