//! What a process between a frontend and a server costs when it does nothing: bytes in, bytes out, nothing looked at.
//! What the daemon takes beyond this is its own work; what this takes beyond a direct call is the way.

use std::{
    io::{Read, Write},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::support::fake_server;

/// How a relay waits for bytes.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// As the daemon does: one thread on tokio.
    Tokio,
    /// A thread for each direction that blocks in `read`: nothing between two system calls.
    Threads,
}

impl Way {
    /// The argument that makes this program such a relay.
    fn flag(self) -> &'static str {
        match self {
            Self::Tokio => "--relay-tokio",
            Self::Threads => "--relay-threads",
        }
    }
}

/// A running relay.
pub(crate) struct Relay {
    folder: tempfile::TempDir,
    _process: Child,
}

impl Relay {
    /// Starts this program again, as the relay.
    pub(crate) async fn spawn(way: Way) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let relay = Self {
            _process: Command::new(std::env::current_exe().expect("own path"))
                .arg(way.flag())
                .arg(folder.path().join("sock"))
                .kill_on_drop(true)
                .spawn()
                .expect("it starts"),
            folder,
        };
        while !relay.socket().exists() {
            sleep(Duration::from_millis(5)).await;
        }
        relay
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("sock")
    }
}

/// Whether the command line asks for a relay; then it has served one connection with a server of its own.
pub(crate) fn serve_if_asked() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let Some(flag) = arguments.next() else {
        return false;
    };
    let serve = match flag {
        flag if flag == Way::Tokio.flag() => on_tokio,
        flag if flag == Way::Threads.flag() => on_threads,
        _ => return false,
    };
    serve(Path::new(&arguments.next().expect("the relay's socket")));
    true
}

fn on_tokio(socket: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::bind(socket).expect("the socket is free");
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut server = Command::new(fake_server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let (mut from, mut to) = (
            server.stdout.take().expect("piped"),
            server.stdin.take().expect("piped"),
        );
        let (mut read, mut write) = stream.split();
        tokio::select! {
            _ = tokio::io::copy(&mut read, &mut to) => {}
            _ = tokio::io::copy(&mut from, &mut write) => {}
        }
    });
}

fn on_threads(socket: &Path) {
    let listener = UnixListener::bind(socket).expect("the socket is free");
    let (stream, _) = listener.accept().expect("a connection");
    let mut server = std::process::Command::new(fake_server())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let (from, to) = (
        server.stdout.take().expect("piped"),
        server.stdin.take().expect("piped"),
    );
    let writer = stream.try_clone().expect("a second handle");
    let back = std::thread::spawn(|| copy(from, writer));
    // The frontend's end closes the server's stdin, and that ends the server and the way back.
    copy(stream, to);
    let _ = server.wait();
    back.join().expect("no panic");
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
