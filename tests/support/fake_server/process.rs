//! What it is as a process: how it dies, what it leaves behind, what it prints before it speaks.

use std::{
    io::Write,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::{options::Options, output};

/// Whether the end of a pipe is no reason to exit (mode `ignores-eof`).
static IGNORES_EOF: AtomicBool = AtomicBool::new(false);

/// A process that a broken test left behind goes away by itself after this time.
const LONGEST_LIFE: Duration = Duration::from_secs(600);

/// Everything that happens before the first message. May not return.
pub(crate) fn prepare(options: &Options) {
    if options.mode("ignores-eof") || options.mode("stubborn") {
        IGNORES_EOF.store(true, Ordering::Relaxed);
    }
    if options.mode("ignores-term") || options.mode("stubborn") {
        ignore_sigterm();
    }
    if let Some(log) = &options.log {
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(log)
            .expect("--log opens");
        writeln!(file, "# start {}", std::process::id()).expect("--log is writable");
    }
    if let Some(text) = &options.stderr {
        eprintln!("{text}");
    }
    if options.sleeper {
        sleep_on();
    }
    if options.mode("stderr-for-ever") {
        thread::spawn(write_stderr_for_ever);
    }
    if options.grandchild {
        spawn_grandchild(&options.marker);
    }
    if options.mode("exit-at-once") {
        std::process::exit(options.exit_code);
    }
    if options.mode("banner") {
        output::write("Starting v1.2 \u{1f680}\n\n[info] listening\n".as_bytes());
    }
    if options.mode("never-reads") {
        sleep_on();
    }
}

/// One MB a second, evenly.
fn write_stderr_for_ever() {
    let line = format!("{}\n", "noise ".repeat(170));
    while std::io::stderr().write_all(line.as_bytes()).is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a process that holds our pipes open and doesn't end with us. Returns its id.
pub(crate) fn spawn_grandchild(marker: &str) -> u32 {
    Command::new(std::env::current_exe().expect("own path"))
        .args(["--sleeper", "--marker", marker])
        .stdin(Stdio::null())
        .spawn()
        .expect("the grandchild starts")
        .id()
}

/// The other end of stdout was closed.
pub(crate) fn stdout_is_gone() -> ! {
    end_of_input()
}

/// The end of stdin: the polite moment to exit.
pub(crate) fn end_of_input() -> ! {
    if IGNORES_EOF.load(Ordering::Relaxed) {
        sleep_on();
    }
    std::process::exit(0)
}

/// Does nothing for as long as a test could need it.
pub(crate) fn sleep_on() -> ! {
    thread::sleep(LONGEST_LIFE);
    std::process::exit(0)
}

/// Writes `count` times `piece` to stdout, without a newline.
pub(crate) fn flood(count: usize, piece: &[u8]) {
    for _ in 0..count {
        output::write(piece);
    }
}

/// Starts this program again with SIGTERM ignored: an ignored signal stays ignored over `exec`, and a shell can
/// say so without unsafe code.
#[cfg(unix)]
fn ignore_sigterm() {
    const AGAIN: &str = "FAKE_SERVER_IGNORES_TERM";
    if std::env::var_os(AGAIN).is_none() {
        exec(r#"trap "" TERM; exec "$@""#, AGAIN);
    }
}

/// Becomes a process that has closed its stdout, keeps stdin open and ignores SIGTERM (B01).
#[cfg(unix)]
pub(crate) fn become_leaky() {
    exec(
        &format!(
            r#"exec >&-; trap "" TERM; sleep {}; : "$@""#,
            LONGEST_LIFE.as_secs()
        ),
        "FAKE_SERVER_LEAKS",
    );
}

#[cfg(unix)]
fn exec(script: &str, variable: &str) {
    use std::os::unix::process::CommandExt;
    let error = Command::new("/bin/sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().expect("own path"))
        .args(std::env::args_os().skip(1))
        .env(variable, "1")
        .exec();
    panic!("exec of /bin/sh: {error}");
}

#[cfg(not(unix))]
fn ignore_sigterm() {}

#[cfg(not(unix))]
pub(crate) fn become_leaky() {
    sleep_on();
}
