//! The floor: a client that blocks and parses nothing. Nobody's client is as fast; it shows what the daemon adds.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use memchr::memmem;

use crate::{lines::TEXT, support::fake_server};

/// Sends lines and counts answers.
pub(crate) struct Blocking {
    read: BufReader<Box<dyn Read>>,
    write: Box<dyn Write>,
    line: Vec<u8>,
    tool: String,
    server: Option<Child>,
}

impl Blocking {
    /// Starts a server and speaks to it directly.
    pub(crate) fn spawn(tool: &str) -> Self {
        let mut server = Command::new(fake_server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut client = Self {
            read: BufReader::with_capacity(64 << 10, Box::new(server.stdout.take().expect("piped"))),
            write: Box::new(server.stdin.take().expect("piped")),
            line: Vec::new(),
            tool: tool.into(),
            server: Some(server),
        };
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#;
        client.exchange(initialize);
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    /// Connects to the daemon.
    pub(crate) fn connect(socket: &Path, tool: &str) -> Self {
        let stream = UnixStream::connect(socket).expect("the daemon listens");
        Self {
            read: BufReader::with_capacity(64 << 10, Box::new(stream.try_clone().expect("a second handle"))),
            write: Box::new(stream),
            line: Vec::new(),
            tool: tool.into(),
            server: None,
        }
    }

    /// One line out, one line in.
    pub(crate) fn exchange(&mut self, request: &str) -> &[u8] {
        self.send(request);
        self.receive();
        &self.line
    }

    /// Echoes 64 bytes this often, one after the other; the time of each.
    pub(crate) fn one_by_one(&mut self, calls: usize) -> Vec<Duration> {
        (0..calls)
            .map(|id| {
                let request = self.echo(id);
                let start = Instant::now();
                self.exchange(&request);
                let time = start.elapsed();
                self.check();
                time
            })
            .collect()
    }

    fn echo(&self, id: usize) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{}","arguments":{{"text":"{TEXT}"}}}}}}"#,
            self.tool
        )
    }

    fn send(&mut self, line: &str) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.write.write_all(&bytes).expect("the other side reads");
    }

    fn receive(&mut self) {
        self.line.clear();
        let read = self
            .read
            .read_until(b'\n', &mut self.line)
            .expect("the other side writes");
        assert!(read > 0, "the other side has gone");
    }

    fn check(&self) {
        let fine = memmem::find(&self.line, TEXT.as_bytes()).is_some();
        assert!(fine, "not an echo: {}", String::from_utf8_lossy(&self.line));
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
