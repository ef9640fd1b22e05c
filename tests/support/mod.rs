//! What the end-to-end tests stand on: the real daemon in a home of its own, and a frontend that talks to it.
//!
//! Nothing here sleeps for a fixed time: everything waits for a condition, with [`LIMIT`] as the moment to give up.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary and bench takes what it needs"
)]

mod builder;
mod daemon;
mod frontend;
pub(crate) mod process;

use std::{
    io::Write,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

pub(crate) use builder::Builder;
pub(crate) use daemon::Daemon;
pub(crate) use frontend::{Frontend, Message};

/// The longest that anything may take that isn't itself a measured bound.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_within(LIMIT, what, condition);
}

/// Waits until a condition holds, at most for a time.
#[track_caller]
pub(crate) fn wait_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Says why a test did nothing. Written past the capture of the test harness, which hides it otherwise.
pub(crate) fn skipped(why: &str) {
    let name = thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped {name}: {why}");
}

/// The daemon's program.
pub(crate) fn hermesd_mcp() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_hermesd-mcp"))
}

/// The fake server's program, which is an example of this crate and so lies beside the daemon.
#[track_caller]
pub(crate) fn fake_server() -> PathBuf {
    let path = hermesd_mcp()
        .with_file_name("examples")
        .join(format!("fake-server{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --examples` (with the same profile) first",
        path.display()
    );
    path
}
