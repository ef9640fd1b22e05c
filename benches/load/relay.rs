//! What a process between a frontend and a server costs on this runtime when it does nothing: bytes in, bytes out,
//! nothing looked at. What the daemon takes beyond this is its own work; what this takes beyond a direct call is the way.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    net::UnixListener,
    process::{Child, Command},
    time::sleep,
};

use crate::support::fake_server;

/// The argument that makes this program the relay.
pub(crate) const FLAG: &str = "--relay";

/// A running relay.
pub(crate) struct Relay {
    folder: tempfile::TempDir,
    _process: Child,
}

impl Relay {
    /// Starts this program again, as the relay.
    pub(crate) async fn spawn() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let relay = Self {
            _process: Command::new(std::env::current_exe().expect("own path"))
                .arg(FLAG)
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

/// Serves one connection with one server of its own, on one thread as the daemon does.
pub(crate) fn serve(socket: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = UnixListener::bind(socket).expect("the socket is free");
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
