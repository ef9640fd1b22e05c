//! What to start: a configuration of fake servers, an environment, a place for the socket.

use std::{
    fs::{self, File},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{
    LIMIT,
    daemon::{Daemon, wait_for_exit},
    fake_server, hermesd_mcp,
};

/// Says what to start. `Daemon::builder().fake("a", &[]).start()` is the shortest use.
pub(crate) struct Builder {
    home: TempDir,
    /// A text in the arguments of every process of this test, and of no others.
    pub(super) marker: String,
    servers: Map<String, Value>,
    settings: Value,
    text: Option<String>,
    environment: Vec<(String, String)>,
    socket: Socket,
    wrapper: Vec<String>,
}

/// Where the daemon is told to listen.
enum Socket {
    /// `--socket` with the usual place in the temporary home.
    Usual,
    /// `--socket` with another place.
    At(PathBuf),
    /// Not told: `hermesd-mcp socket` says where.
    Default,
}

/// How a start ended that wasn't meant to go on.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

impl Builder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let home = tempfile::Builder::new().prefix("hm").tempdir().unwrap();
        for folder in ["run", ".hermes"] {
            fs::DirBuilder::new()
                .mode(0o700)
                .create(home.path().join(folder))
                .unwrap();
        }
        Self {
            home,
            marker: format!(
                "e2e-{}-{}-",
                std::process::id(),
                NUMBER.fetch_add(1, Ordering::Relaxed)
            ),
            servers: Map::new(),
            settings: json!({}),
            text: None,
            environment: Vec::new(),
            socket: Socket::Usual,
            wrapper: Vec::new(),
        }
    }

    /// A fake server with these flags. It also gets `--name`, `--marker` and `--log`.
    pub(crate) fn fake(self, name: &str, flags: &[&str]) -> Self {
        self.fake_with(name, flags, json!({}))
    }

    /// Likewise, with further keys for its entry.
    pub(crate) fn fake_with(self, name: &str, flags: &[&str], keys: Value) -> Self {
        let marker = self.marker_of(name);
        let log = self.log_path(name);
        let mut args = vec![
            "--name",
            name,
            "--marker",
            &marker,
            "--log",
            log.to_str().unwrap(),
        ];
        args.extend(flags);
        let mut entry = json!({"command": fake_server(), "args": args});
        entry
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        self.server(name, entry)
    }

    /// A fake server that keeps no record of what it receives, for measurements.
    pub(crate) fn fake_quiet(self, name: &str, flags: &[&str]) -> Self {
        self.fake_quiet_with(name, flags, json!({}))
    }

    /// Likewise, with further keys for its entry.
    pub(crate) fn fake_quiet_with(self, name: &str, flags: &[&str], keys: Value) -> Self {
        let mut args = vec![String::from("--marker"), self.marker_of(name)];
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        let mut entry = json!({"command": fake_server(), "args": args});
        entry
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        self.server(name, entry)
    }

    /// Any entry of `mcp_servers`.
    pub(crate) fn server(mut self, name: &str, entry: Value) -> Self {
        self.servers.insert(name.into(), entry);
        self
    }

    /// The key `hermesd`.
    pub(crate) fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    /// The configuration as text, instead of everything else.
    pub(crate) fn config_text(mut self, text: &str) -> Self {
        self.text = Some(text.into());
        self
    }

    /// A variable of the daemon's own environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Another place for the socket.
    pub(crate) fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Socket::At(path.into());
        self
    }

    /// No `--socket`: the place follows from the environment.
    pub(crate) fn default_socket(mut self) -> Self {
        self.socket = Socket::Default;
        self
    }

    /// A program that starts the daemon, such as `sh -c '… exec "$@"' sh`.
    pub(crate) fn wrapper(mut self, words: &[&str]) -> Self {
        self.wrapper = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// The temporary folder: the daemon's `HOME`.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn marker_of(&self, name: &str) -> String {
        format!("{}{name}.", self.marker)
    }

    pub(super) fn log_path(&self, name: &str) -> PathBuf {
        self.home().join(format!("received-{name}.log"))
    }

    fn config_path(&self) -> PathBuf {
        self.home().join(".hermes/config.yaml")
    }

    pub(super) fn socket_path(&self) -> PathBuf {
        match &self.socket {
            Socket::Usual => self.home().join("run/hermesd-mcp/mcp.sock"),
            Socket::At(path) => path.clone(),
            Socket::Default => {
                let output = self.command(&["socket"]).output().unwrap();
                assert!(
                    output.status.success(),
                    "{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                String::from_utf8(output.stdout).unwrap().trim_end().into()
            }
        }
    }

    fn stderr_path(&self) -> PathBuf {
        self.home().join("daemon.stderr")
    }

    pub(super) fn write_config(&self) {
        // JSON is YAML too, and needs no thought about quoting.
        let text = self.text.clone().unwrap_or_else(|| {
            let config = json!({"hermesd": self.settings, "mcp_servers": self.servers});
            serde_json::to_string_pretty(&config).unwrap()
        });
        fs::write(self.config_path(), text).unwrap();
    }

    /// The command line of `hermesd-mcp` with any arguments, in this home and a clean environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = hermesd_mcp();
        let mut command = match self.wrapper.split_first() {
            Some((wrapper, rest)) => {
                let mut command = Command::new(wrapper);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home())
            .env("XDG_RUNTIME_DIR", self.home().join("run"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .current_dir(self.home())
            .stdin(Stdio::null());
        // Coverage runs of the daemon write where the tests' own do.
        if let Some(file) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", file);
        }
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    pub(super) fn spawn(&self) -> Child {
        let stderr = File::options()
            .append(true)
            .create(true)
            .open(self.stderr_path())
            .unwrap();
        let mut command = self.command(&["serve", "--config"]);
        command.arg(self.config_path());
        if !matches!(self.socket, Socket::Default) {
            command.arg("--socket").arg(self.socket_path());
        }
        command
            .stdout(stderr.try_clone().unwrap())
            .stderr(stderr)
            .spawn()
            .unwrap()
    }

    /// Starts the daemon and waits until it answers.
    #[track_caller]
    pub(crate) fn start(self) -> Daemon {
        self.write_config();
        Daemon::start(self)
    }

    /// Starts it and waits until the named servers are connected as well.
    #[track_caller]
    pub(crate) fn start_connected(self) -> Daemon {
        let names: Vec<String> = self.servers.keys().cloned().collect();
        let daemon = self.start();
        names.iter().for_each(|name| daemon.wait_state(name, "connected"));
        daemon
    }

    /// Starts it where it must refuse, and waits for its end.
    #[track_caller]
    pub(crate) fn start_and_fail(&self) -> Start {
        self.write_config();
        let mut child = self.spawn();
        let status = wait_for_exit(&mut child, LIMIT).unwrap_or_else(|| {
            let _ = child.kill();
            panic!("the daemon was to refuse, but runs:\n{}", self.stderr());
        });
        Start {
            code: status.code(),
            stderr: self.stderr(),
        }
    }

    pub(super) fn stderr(&self) -> String {
        fs::read(self.stderr_path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}
