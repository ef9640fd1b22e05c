//! The real daemon in a temporary home, with echo servers.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::clients::Frontend;

pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    _home: tempfile::TempDir,
}

impl Daemon {
    /// Starts the daemon with servers of so many tools each, and waits until all are connected.
    pub(crate) async fn start(servers: &[(&str, usize)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let mut config = String::from("mcp_servers:\n");
        for (name, tools) in servers {
            writeln!(
                config,
                "  {name}:\n    command: {}\n    args: [echo-server, --tools, '{tools}']",
                program.display()
            )
            .unwrap();
        }
        let path = home.path().join("config.yaml");
        std::fs::write(&path, config).unwrap();
        let socket = home.path().join("mcp.sock");
        let child = Command::new(env!("CARGO_BIN_EXE_hermesd-mcp"))
            .args(["serve", "--config"])
            .arg(&path)
            .arg("--socket")
            .arg(&socket)
            .env("HERMES_HOME", home.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self {
            child,
            socket,
            _home: home,
        };
        for _ in 0..600 {
            if daemon.socket.exists() {
                let status = Frontend::connect(&daemon.socket).await.status().await;
                let servers = status["servers"].as_array().unwrap();
                if servers.iter().all(|server| server["connected"] == true) {
                    return daemon;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the servers did not connect within 30 s");
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Resident memory of the daemon itself, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_field("VmRSS:")
    }

    /// How often the daemon gave up the processor because it had nothing to do.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.status_field("voluntary_ctxt_switches:")
    }

    fn status_field(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM, so that the daemon takes its children down.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
