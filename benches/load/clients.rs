//! The three clients that are compared.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, ClientConfig, ProtocolVersion},
    service::RunningService,
    transport::TokioChildProcess,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, ChildStdin, ChildStdout, Command},
};

pub(crate) trait Client {
    async fn echo(&mut self, text: &str);
}

fn echo_server() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("echo-server").kill_on_drop(true);
    command
}

/// Newline-delimited JSON-RPC as one would write it by hand.
struct Lines<R, W> {
    reader: BufReader<R>,
    writer: W,
    next: u64,
    line: String,
    tool: &'static str,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    fn new(reader: R, writer: W, tool: &'static str) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            writer,
            next: 0,
            line: String::new(),
            tool,
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        self.answer()
    }

    /// Sends a request and reads the line that answers it.
    async fn send(&mut self, method: &str, params: Value) {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.writer
            .write_all(format!("{request}\n").as_bytes())
            .await
            .unwrap();
        self.line.clear();
        self.reader.read_line(&mut self.line).await.unwrap();
    }

    fn answer(&self) -> Value {
        let mut answer: Value = serde_json::from_str(&self.line).unwrap();
        assert_eq!(answer["id"], self.next, "{answer}");
        answer["result"].take()
    }

    async fn echo(&mut self, text: &str) {
        let result = self
            .request(
                "tools/call",
                json!({"name": self.tool, "arguments": {"text": text}}),
            )
            .await;
        assert_eq!(result["content"][0]["text"], text, "{result}");
    }
}

/// A stdio client of its own, without any library.
pub(crate) struct Direct {
    lines: Lines<ChildStdout, ChildStdin>,
    _child: Child,
}

impl Direct {
    pub(crate) async fn start() -> Self {
        let mut child = echo_server()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = Lines::new(child.stdout.take().unwrap(), child.stdin.take().unwrap(), "echo");
        lines
            .request(
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
            )
            .await;
        Self { lines, _child: child }
    }
}

impl Client for Direct {
    async fn echo(&mut self, text: &str) {
        self.lines.echo(text).await;
    }
}

/// rmcp's own client over its own child transport.
pub(crate) struct Rmcp(RunningService<RoleClient, ClientConfig>);

impl Rmcp {
    pub(crate) async fn start() -> Self {
        let mut config = ClientConfig::default();
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        Self(
            config
                .serve(TokioChildProcess::new(echo_server()).unwrap())
                .await
                .unwrap(),
        )
    }

    fn call(&self, text: &str) -> impl Future<Output = ()> + use<> {
        let peer = self.0.peer().clone();
        let mut params = CallToolRequestParams::new("echo");
        params.arguments = json!({"text": text}).as_object().cloned();
        async move {
            let result = peer.call_tool(params).await.unwrap();
            assert_eq!(result.content.len(), 1);
        }
    }

    /// Calls per second with `in_flight` calls at a time.
    pub(crate) async fn many(&mut self, count: usize, in_flight: usize) -> f64 {
        let text = "x".repeat(64);
        let start = Instant::now();
        let mut running = FuturesUnordered::new();
        let (mut sent, mut done) = (0, 0);
        while done < count {
            while sent < count && running.len() < in_flight {
                running.push(self.call(&text));
                sent += 1;
            }
            running.next().await.unwrap();
            done += 1;
        }
        count as f64 / start.elapsed().as_secs_f64()
    }
}

impl Client for Rmcp {
    async fn echo(&mut self, text: &str) {
        self.call(text).await;
    }
}

/// A frontend on the daemon's socket.
pub(crate) struct Frontend(Lines<OwnedReadHalf, OwnedWriteHalf>);

impl Frontend {
    pub(crate) async fn connect(socket: &Path) -> Self {
        let (reader, writer) = UnixStream::connect(socket).await.unwrap().into_split();
        Self(Lines::new(reader, writer, "mcp_echo_echo"))
    }

    pub(crate) async fn status(&mut self) -> Value {
        self.0.request("hermes/status", json!({})).await
    }

    /// The number of tools, and how long their line took to arrive. Reading the line is the client's own business.
    pub(crate) async fn list(&mut self) -> (usize, Duration) {
        let start = Instant::now();
        self.0.send("tools/list", json!({})).await;
        let took = start.elapsed();
        (self.0.answer()["tools"].as_array().unwrap().len(), took)
    }

    /// Calls per second with `in_flight` calls at a time on this one connection.
    pub(crate) async fn many(&mut self, count: usize, in_flight: usize) -> f64 {
        let text = "x".repeat(64);
        let lines = &mut self.0;
        let start = Instant::now();
        let (mut sent, mut done) = (0, 0);
        let mut batch = String::new();
        while done < count {
            batch.clear();
            while sent < count && sent - done < in_flight {
                lines.next += 1;
                sent += 1;
                let call = json!({
                    "jsonrpc": "2.0", "id": lines.next, "method": "tools/call",
                    "params": {"name": lines.tool, "arguments": {"text": text}},
                });
                batch.push_str(&format!("{call}\n"));
            }
            lines.writer.write_all(batch.as_bytes()).await.unwrap();
            loop {
                lines.line.clear();
                lines.reader.read_line(&mut lines.line).await.unwrap();
                let answer: Value = serde_json::from_str(&lines.line).unwrap();
                assert_eq!(answer["result"]["content"][0]["text"], text.as_str(), "{answer}");
                done += 1;
                if !lines.reader.buffer().contains(&b'\n') {
                    break;
                }
            }
        }
        count as f64 / start.elapsed().as_secs_f64()
    }
}

impl Client for Frontend {
    async fn echo(&mut self, text: &str) {
        self.0.echo(text).await;
    }
}
