//! Servers that don't want to end: whatever they ignore, nothing of them is left (STDIO-05, STDIO-07, B01, B04).

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::Ward;
use crate::support::{Builder, Daemon, LIMIT, process};

/// What a stop may take: a drain of 1 s, the ladder of 2 + 2 s, and room for a busy machine.
const STOP: Duration = Duration::from_secs(20);

/// What is connected when the end comes.
const CONNECTED: [(&str, &[&str]); 6] = [
    ("ignores-eof", &["--mode", "ignores-eof"]),
    ("ignores-term", &["--mode", "ignores-term"]),
    ("stubborn", &["--mode", "stubborn"]),
    ("grandchild", &["--grandchild"]),
    ("stubborn-family", &["--mode", "stubborn", "--grandchild"]),
    ("mute-calls", &["--mode", "mute-calls"]),
];

fn ward() -> Ward {
    let mut builder: Builder = Daemon::builder()
        .settings(json!({"drain_timeout": 1}))
        .fake("mute", &["--mode", "mute"])
        .fake("never-reads", &["--mode", "never-reads", "--grandchild"])
        .fake("exit-at-once", &["--mode", "exit-at-once", "--grandchild"])
        .fake("leaky", &["--mode", "leaky"]);
    for (name, flags) in CONNECTED {
        builder = builder.fake(name, flags);
    }
    let mut ward = Ward::of(builder);
    for (name, _) in CONNECTED {
        ward.wait_state(LIMIT, name, "connected");
    }
    // One call is in flight that will never be answered.
    let params = json!({"server": "mute-calls", "tool": "echo", "arguments": {"text": "x"}});
    ward.frontend.send("hangs", "hermes/call", params);
    ward.wait(LIMIT, "the call is there", |daemon| {
        !daemon.received_method("mute-calls", "tools/call").is_empty()
    });
    assert_eq!(ward.daemon.processes("stubborn-family").len(), 2);
    ward
}

#[test]
fn a_stop_leaves_nothing_of_anybody() {
    let mut ward = ward();
    ward.daemon.signal(Signal::TERM);
    let status = ward.daemon.wait_exit(STOP);
    assert_eq!(status.code(), Some(0));
    ward.daemon.assert_no_leftovers();
}

#[test]
fn a_kill_leaves_nothing_of_anybody() {
    let mut ward = ward();
    let marker = ward.daemon.marker("");
    let marker = marker.trim_end_matches('.').to_owned();
    ward.daemon.kill();
    process::assert_gone(STOP, &marker);
}

#[test]
fn a_restart_has_one_tree_at_a_time() {
    let mut ward = ward();
    for (name, flags) in CONNECTED {
        let most = if flags.contains(&"--grandchild") { 2 } else { 1 };
        ward.frontend
            .send(name, "hermes/restart", json!({"server": name}));
        ward.wait(STOP, "B01: it was started again", |daemon| {
            let processes = daemon.processes(name);
            assert!(processes.len() <= most, "B01: {name}: {processes:?}");
            daemon.starts(name) == 2
        });
        ward.wait_state(LIMIT, name, "connected");
    }
    assert_eq!(process::zombies_of(ward.daemon.pid()), Vec::<u32>::new());
}
