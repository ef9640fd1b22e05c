//! The socket as other processes meet it: another umask, another user, a killed, a stopped and a starved daemon.
//!
//! The test program runs itself again as those processes: `daemon` and `frontend` below are their mains.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixStream,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    time::Duration,
};

use hermesd_mcp::{
    api::listener::Listener,
    paths::{Origin, SocketPath},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Tells a copy of this program which socket to use.
const SOCKET: &str = "TEST_SOCKET";
const AUTOMATIC: &str = "TEST_AUTOMATIC";
const PATIENCE: Duration = Duration::from_secs(30);

/// Listens, says so, and greets every frontend with its pid and uid, until stdin ends.
#[test]
#[ignore = "the other tests run it as a process of its own"]
fn daemon() {
    let Some(path) = std::env::var_os(SOCKET) else {
        return;
    };
    let origin = match std::env::var_os(AUTOMATIC) {
        Some(_) => Origin::HermesHome,
        None => Origin::Option,
    };
    let socket = SocketPath::new(Path::new(&path), origin).unwrap();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let code = runtime.block_on(async {
        let listener = match Listener::bind(&socket).await {
            Ok(listener) => listener,
            Err(error) => {
                eprintln!("{error}");
                return error.exit_code();
            }
        };
        println!("listening");
        let serving = async {
            loop {
                let mut connection = listener.accept().await;
                tokio::spawn(async move {
                    let peer = connection.peer;
                    let greeting = format!("hello {} {}\n", peer.pid.unwrap_or_default(), peer.uid);
                    let _ = connection.stream.write_all(greeting.as_bytes()).await;
                    let _ = connection.stream.read(&mut [0; 1]).await;
                });
            }
        };
        let (told, asked) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = told.send(());
        });
        tokio::select! {
            () = serving => {}
            _ = asked => {}
        }
        0
    });
    std::process::exit(code.into());
}

/// Connects and prints what it hears.
#[test]
#[ignore = "the other tests run it as a process of its own"]
fn frontend() {
    let Some(path) = std::env::var_os(SOCKET) else {
        return;
    };
    match UnixStream::connect(path) {
        Ok(mut stream) => {
            let mut heard = String::new();
            let mut buffer = [0; 256];
            match stream.read(&mut buffer) {
                Ok(n) => heard.push_str(str::from_utf8(&buffer[..n]).unwrap()),
                Err(error) => heard = format!("({})", error.kind()),
            }
            println!("heard={heard:?}");
        }
        Err(error) => println!("refused={}", error.kind()),
    }
}

/// A copy of this program that runs `main`, started by the shell line `before`.
fn copy_of(exe: &Path, main: &str, socket: &Path, before: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(exe)
        .args([main, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(SOCKET, socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct Daemon {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Daemon {
    fn spawn(socket: &Path, before: &str) -> Self {
        Self::spawned(&mut copy_of(
            &std::env::current_exe().unwrap(),
            "daemon",
            socket,
            before,
        ))
    }

    fn spawned(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            stderr: child.stderr.take(),
            child,
        }
    }

    fn start(socket: &Path, before: &str) -> Self {
        let mut daemon = Self::spawn(socket, before);
        assert!(daemon.is_listening(), "{}", daemon.ended().1);
        daemon
    }

    /// Waits until it listens, or ends.
    fn is_listening(&mut self) -> bool {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if line.contains("listening") {
                return true;
            }
            line.clear();
        }
        false
    }

    /// Waits for its end: its exit code and what it said.
    fn ended(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            stderr.read_to_string(&mut text).unwrap();
        }
        (self.child.wait().unwrap().code(), text)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it in good order, and gives what it said.
    fn stop(mut self) -> String {
        drop(self.child.stdin.take());
        let (code, text) = self.ended();
        assert_eq!(code, Some(0), "{text}");
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn private_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn greeting(stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!(
            "skipped: only root can become another user; run as root, or in CI's container, to test this"
        );
    }
    root
}

#[test]
fn b66_modes_are_private_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let place = private_folder();
        let socket = place.path().join("a/b/x.sock");
        let daemon = Daemon::start(&socket, &format!("umask {umask};"));
        for (path, expected) in [
            ("a", 0o700),
            ("a/b", 0o700),
            ("a/b/x.sock", 0o600),
            ("a/b/x.sock.lock", 0o600),
        ] {
            assert_eq!(mode(&place.path().join(path)), expected, "{path}, umask {umask}");
        }
        daemon.stop();
        assert!(!socket.exists());
    }
}

#[test]
fn b73_a_killed_daemon_leaves_nothing_in_the_way() {
    let place = private_folder();
    let socket = place.path().join("x.sock");
    let mut killed = Daemon::start(&socket, "");
    killed.signal(Signal::KILL);
    killed.ended();
    assert!(socket.exists(), "the dead socket is still there");

    let daemon = Daemon::start(&socket, "");
    let stream = UnixStream::connect(&socket).unwrap();
    let (pid, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
    if cfg!(target_os = "linux") {
        assert_eq!(greeting(&stream), format!("hello {pid} {uid}\n"));
    } else {
        assert!(greeting(&stream).ends_with(&format!(" {uid}\n")));
    }
    daemon.stop();
}

#[test]
fn b73_a_stopped_daemon_is_not_replaced() {
    let place = private_folder();
    let socket = place.path().join("x.sock");
    let daemon = Daemon::start(&socket, "");
    let inode = fs::metadata(&socket).unwrap().ino();
    daemon.signal(Signal::STOP);

    let (code, text) = Daemon::spawn(&socket, "").ended();
    assert_eq!(code, Some(75), "{text}");
    assert!(
        text.contains(&format!("already running, pid {}, on socket", daemon.child.id())),
        "{text}"
    );
    assert_eq!(fs::metadata(&socket).unwrap().ino(), inode);

    daemon.signal(Signal::CONT);
    assert!(greeting(&UnixStream::connect(&socket).unwrap()).starts_with("hello"));
    daemon.stop();
}

#[test]
fn b73_twenty_processes_at_once_make_one_daemon() {
    let place = private_folder();
    let socket = place.path().join("new/x.sock");
    let mut starts: Vec<_> = (0..20).map(|_| Daemon::spawn(&socket, "")).collect();
    let listening: Vec<_> = starts.iter_mut().map(Daemon::is_listening).collect();
    assert_eq!(listening.iter().filter(|listening| **listening).count(), 1);

    let winner = listening.iter().position(|listening| *listening).unwrap();
    let winner = starts.swap_remove(winner);
    let text = format!("already running, pid {}, ", winner.child.id());
    for start in &mut starts {
        let (code, said) = start.ended();
        assert_eq!(code, Some(75), "{said}");
        assert!(said.contains(&text), "{said}");
    }
    assert!(greeting(&UnixStream::connect(&socket).unwrap()).starts_with("hello"));
    winner.stop();
}

#[test]
fn a_daemon_without_free_descriptors_goes_on_when_there_are_some() {
    let place = private_folder();
    let socket = place.path().join("x.sock");
    let daemon = Daemon::start(&socket, "ulimit -n 40;");
    let mut streams: Vec<_> = (0..80).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // Only after these does it run out: all that it can take are greeted first.
    let first: Vec<_> = streams.drain(..20).collect();
    for stream in &first {
        assert!(greeting(stream).starts_with("hello"));
    }
    // From the front, as they were accepted, so that each that leaves makes room for one that waits.
    drop(first);
    for stream in streams {
        assert!(greeting(&stream).starts_with("hello"));
    }
    let said = daemon.stop();
    assert_eq!(
        said.matches("cannot accept connections").count().min(1),
        1,
        "{said}"
    );
}

/// A copy of this program where another user can run it.
fn for_everybody(place: &Path) -> PathBuf {
    fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
    let exe = place.join("program");
    // By a process of its own: a child that another test starts meanwhile would inherit our descriptor of the copy, and
    // a file that is open for writing cannot be run ("text file busy").
    let own = std::env::current_exe().unwrap();
    assert!(
        std::process::Command::new("cp")
            .arg(own)
            .arg(&exe)
            .status()
            .unwrap()
            .success()
    );
    exe
}

#[cfg(target_os = "linux")]
#[test]
fn b66_another_user_gets_no_answer() {
    if !is_root() {
        return;
    }
    let place = private_folder();
    let exe = for_everybody(place.path());
    let socket = place.path().join("x.sock");
    let daemon = Daemon::start(&socket, "");
    let other_user = |uid: u32| {
        let output = copy_of(&exe, "frontend", &socket, "")
            .uid(uid)
            .gid(uid)
            .current_dir(place.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = other_user(12345);
    assert!(said.contains("refused=permission denied"), "{said}");

    // Even if the mode were wrong, the peer's uid decides.
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    for uid in [12345, 65534] {
        let said = other_user(uid);
        assert!(
            said.contains("heard=\"\"") || said.contains("heard=\"(connection reset)\""),
            "{said}"
        );
    }
    assert!(other_user(0).contains("heard=\"hello"));
    let said = daemon.stop();
    assert!(said.contains("it comes from uid 12345"), "{said}");
    assert!(
        said.contains("it comes from a user of another namespace"),
        "{said}"
    );
}

#[test]
fn b66_a_folder_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let place = private_folder();
    for mode in [0o777, 0o755, 0o700] {
        let folder = place.path().join(format!("theirs-{mode:o}"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&folder, Some(12345), Some(12345)).unwrap();

        let (code, said) = Daemon::spawn(&folder.join("x.sock"), "").ended();
        assert_eq!(code, Some(78), "{said}");
        assert!(
            said.contains("belongs to uid 12345, not to this user (uid 0)"),
            "{said}"
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn b66_a_socket_of_another_user_stays() {
    if !is_root() {
        return;
    }
    let place = private_folder();
    let socket = place.path().join("x.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    std::os::unix::fs::chown(&socket, Some(12345), None).unwrap();
    let (code, said) = Daemon::spawn(&socket, "").ended();
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("is a socket of uid 12345"), "{said}");
    assert!(socket.exists());
}

#[test]
fn nobody_is_told_to_use_a_user_of_its_own() {
    if !is_root() {
        return;
    }
    let place = private_folder();
    let exe = for_everybody(place.path());
    let mut command = copy_of(&exe, "daemon", &place.path().join("x.sock"), "");
    command.uid(65534).gid(65534).current_dir(place.path());
    let (code, said) = Daemon::spawned(&mut command).ended();
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("runs as uid 65534 (nobody)"), "{said}");
}

#[test]
fn an_automatic_folder_has_to_be_private() {
    let place = private_folder();
    let folder = place.path().join("run");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let socket = folder.join("mcp.sock");

    let mut command = copy_of(&std::env::current_exe().unwrap(), "daemon", &socket, "");
    let (code, said) = Daemon::spawned(command.env(AUTOMATIC, "1")).ended();
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("run: chmod 700"), "{said}");
    assert_eq!(mode(&folder), 0o755, "never repaired silently");

    Daemon::start(&socket, "").stop();
}
