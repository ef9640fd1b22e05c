//! The real program in a temporary home.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    Frontend, LIMIT,
    builder::{Builder, Start},
    process,
};

/// A running daemon. Dropped, it is killed and its home removed; after a failed test its log is shown.
pub(crate) struct Daemon {
    child: Child,
    builder: Builder,
    socket: PathBuf,
}

impl Daemon {
    #[track_caller]
    pub(super) fn start(builder: Builder) -> Self {
        let mut daemon = Self {
            child: builder.spawn(),
            socket: builder.socket_path(),
            builder,
        };
        daemon.wait_until_it_answers();
        daemon
    }

    /// Begins to describe a daemon.
    pub(crate) fn builder() -> Builder {
        Builder::new()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its `HOME`.
    pub(crate) fn home(&self) -> &Path {
        self.builder.home()
    }

    /// What it wrote to stdout and stderr so far.
    pub(crate) fn log(&self) -> String {
        self.builder.stderr()
    }

    /// The command line of `hermesd-mcp` with any arguments, in this home.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.builder.command(arguments)
    }

    /// A text that is in the arguments of a fake server's processes, and of no others.
    pub(crate) fn marker(&self, server: &str) -> String {
        self.builder.marker_of(server)
    }

    /// The living processes of a fake server.
    pub(crate) fn processes(&self, server: &str) -> Vec<u32> {
        process::with_argument(&self.marker(server))
    }

    /// The lines that a fake server received, over all its starts.
    pub(crate) fn received(&self, server: &str) -> Vec<String> {
        let bytes = fs::read(self.builder.log_path(server)).unwrap_or_default();
        String::from_utf8_lossy(&bytes)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// The messages of one method that a fake server received.
    pub(crate) fn received_method(&self, server: &str, method: &str) -> Vec<Value> {
        self.received(server)
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["method"] == method)
            .collect()
    }

    /// How often a fake server was started.
    pub(crate) fn starts(&self, server: &str) -> usize {
        self.received(server)
            .iter()
            .filter(|line| line.starts_with("# start "))
            .count()
    }

    /// A new frontend.
    #[track_caller]
    pub(crate) fn frontend(&self) -> Frontend {
        Frontend::connect(&self.socket).unwrap_or_else(|error| {
            panic!("connecting to {}: {error}\n{}", self.socket.display(), self.log())
        })
    }

    /// The entry of one server in `hermes/status`.
    #[track_caller]
    pub(crate) fn status_of(&self, server: &str) -> Value {
        let status = self.frontend().result("hermes/status", json!({"server": server}));
        let servers = status["servers"]
            .as_array()
            .unwrap_or_else(|| panic!("no servers in {status}"));
        servers
            .iter()
            .find(|entry| entry["name"] == server)
            .unwrap_or_else(|| panic!("no {server} in {status}"))
            .clone()
    }

    /// Waits until a server is in a state.
    #[track_caller]
    pub(crate) fn wait_state(&self, server: &str, state: &str) {
        self.wait_status(server, state, |status| status["state"] == state);
    }

    /// Waits until a server's status is as wanted, and returns it.
    #[track_caller]
    pub(crate) fn wait_status(&self, server: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            let status = self.status_of(server);
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "{server} is not {what}: {status:#}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        wait_for_exit(&mut self.child, limit)
            .unwrap_or_else(|| panic!("the daemon runs on after {limit:?}\n{}", self.log()))
    }

    /// Kills it without a chance to clean up, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts another one in the same home, with the same configuration.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.child = self.builder.spawn();
        self.wait_until_it_answers();
    }

    /// Starts a second one beside this one, where it must refuse.
    #[track_caller]
    pub(crate) fn start_second(&self) -> Start {
        self.builder.start_and_fail()
    }

    /// Starts a second one and returns it as a plain process.
    pub(crate) fn spawn_second(&self) -> Child {
        self.builder.spawn()
    }

    /// The socket's inode.
    pub(crate) fn socket_inode(&self) -> u64 {
        fs::symlink_metadata(&self.socket).unwrap().ino()
    }

    /// Checks that no process of a server is alive, 5 s being the time that they may take to go.
    #[track_caller]
    pub(crate) fn assert_no_leftovers(&self) {
        process::assert_gone(Duration::from_secs(5), &self.builder.marker);
    }

    #[track_caller]
    fn wait_until_it_answers(&mut self) {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the daemon ended with {status}:\n{}", self.log());
            }
            if let Ok(mut frontend) = Frontend::connect(&self.socket) {
                let hello = frontend.result("hermes/hello", json!({}));
                if hello["pid"] == self.pid() {
                    return;
                }
            }
            assert!(Instant::now() < end, "the daemon doesn't answer:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!("--- the daemon's log ---\n{tail}\n------------------------");
        }
        self.signal(Signal::TERM);
        if wait_for_exit(&mut self.child, Duration::from_secs(10)).is_none() {
            self.kill();
        }
        // A test that failed may have left processes; a test that passed said so itself.
        for pid in process::with_argument(&self.builder.marker) {
            process::signal(pid, Signal::KILL);
        }
    }
}

/// Waits for a process to end; none if it doesn't.
pub(super) fn wait_for_exit(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            _ => return None,
        }
    }
}
