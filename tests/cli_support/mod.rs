//! A daemon of this crate in a home of its own, driven through the command line alone.

#![allow(dead_code, reason = "each test binary takes what it needs")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// The moment to give up; nothing here should come near it.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The program under test.
pub(crate) fn program() -> PathBuf {
    PathBuf::from(assert_cmd::cargo::cargo_bin!("hermesd-mcp"))
}

/// A home folder with a configuration, and no variable of this machine that could lead elsewhere.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new(config: &str) -> Self {
        // Not below a TMPDIR that may be long: a socket's path has a limit (B74).
        let base = if cfg!(unix) {
            PathBuf::from("/tmp")
        } else {
            std::env::temp_dir()
        };
        let dir = tempfile::Builder::new().prefix("hmcli").tempdir_in(base).unwrap();
        fs::create_dir(dir.path().join(".hermes")).unwrap();
        let home = Self { dir };
        fs::write(home.config(), config).unwrap();
        home
    }

    /// A home whose one server is the built-in demo server.
    pub(crate) fn with_demo_server() -> Self {
        Self::new(&demo_server_entry())
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join(".hermes").join("config.yaml")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("USERPROFILE", self.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs with an expected exit code and gives stdout and stderr.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}\n{stdout}\n{stderr}"
        );
        (stdout, stderr)
    }

    /// Starts a daemon and waits until it answers and no server is connecting any more.
    #[track_caller]
    pub(crate) fn serve(&self) -> Daemon<'_> {
        let log = File::create(self.path().join("daemon.log")).unwrap();
        let child = self
            .command(&["serve"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Daemon { home: self, child };
        daemon.wait_status("every server is settled", |status| {
            let servers = status["servers"].as_array().unwrap();
            servers.iter().all(|server| server["state"] != "connecting")
        });
        daemon
    }
}

/// The configuration of the built-in server.
pub(crate) fn demo_server_entry() -> String {
    let program = serde_json::to_string(&program()).unwrap();
    format!("mcp_servers:\n  demo:\n    command: {program}\n    args: [demo-server]\n")
}

/// A running daemon; ended with the value.
pub(crate) struct Daemon<'a> {
    pub(crate) home: &'a Home,
    pub(crate) child: Child,
}

impl Daemon<'_> {
    /// Polls `status --json` until a condition holds.
    #[track_caller]
    pub(crate) fn wait_status(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let output = self.home.run(&["status", "--json"]);
            if let Ok(status) = serde_json::from_slice::<Value>(&output.stdout)
                && condition(&status)
            {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "not in time: {what}\n{}{}\n{}",
                text(&output.stdout),
                text(&output.stderr),
                fs::read_to_string(self.home.path().join("daemon.log")).unwrap_or_default()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The socket's path.
    pub(crate) fn socket(&self) -> String {
        self.home.expect(0, &["socket"]).0.trim_end().to_owned()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.home.run(&["stop"]);
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
