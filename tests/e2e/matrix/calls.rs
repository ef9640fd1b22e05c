//! Servers that fail in a call: each call ends, with the right error, and is never silently done twice (CANC-07).

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Ward;
use crate::support::{Daemon, LIMIT, process};

#[test]
fn a_call_that_is_never_answered_is_1006_and_is_cancelled() {
    let builder = Daemon::builder().fake_with("hangs", &["--mode", "mute-calls"], json!({"timeout": 1}));
    let mut ward = Ward::of(builder);
    ward.wait_state(LIMIT, "hangs", "connected");
    let text = ward.call_fails("hangs", "echo", json!({"text": "x"}), &[1006]);
    assert!(text.contains('1') && text.contains("hangs"), "CANC-01: {text}");
    ward.wait(LIMIT, "CANC-01: the server is told", |daemon| {
        !daemon
            .received_method("hangs", "notifications/cancelled")
            .is_empty()
    });
    let id = |message: &Value, path: &str| message.pointer(path).cloned();
    let call = ward.daemon.received_method("hangs", "tools/call").remove(0);
    let cancelled = ward
        .daemon
        .received_method("hangs", "notifications/cancelled")
        .remove(0);
    assert_eq!(id(&cancelled, "/params/requestId"), id(&call, "/id"));
    assert_eq!(ward.daemon.status_of("hangs")["state"], "connected");
    assert_eq!(ward.daemon.starts("hangs"), 1);
}

#[test]
fn answers_that_are_none_are_failures_and_cost_the_connection_nothing() {
    let modes = ["result-and-error", "wrong-shape"];
    let mut builder = Daemon::builder();
    for mode in modes {
        builder = builder.fake_with(mode, &["--mode", mode], json!({"timeout": 5}));
    }
    let mut ward = Ward::of(builder);
    for mode in modes {
        ward.wait_state(LIMIT, mode, "connected");
        for _ in 0..3 {
            ward.call_fails(mode, "echo", json!({"text": "x"}), &[1010, 1011]);
        }
        assert_eq!(ward.daemon.starts(mode), 1, "B19: {mode}");
    }
}

#[test]
fn a_server_that_dies_in_a_call_leaves_its_outcome_unknown_and_comes_back() {
    let builder = Daemon::builder()
        .fake("dies", &[])
        .fake("floods", &[])
        .fake("leaves", &["--grandchild"]);
    let mut ward = Ward::of(builder);
    for server in ["dies", "floods", "leaves"] {
        ward.wait_state(LIMIT, server, "connected");
    }
    for (server, tool, arguments, code) in [
        ("dies", "die", json!({"code": 7}), 1015),
        ("floods", "flood", json!({"bytes": 32 << 20}), 1012),
        ("leaves", "die", json!({}), 1015),
    ] {
        let text = ward.call_fails(server, tool, arguments, &[code]);
        assert!(text.contains(server), "{text}");
        ward.wait(LIMIT, "it was started again", |daemon| daemon.starts(server) == 2);
        ward.wait_state(LIMIT, server, "connected");
        assert_eq!(ward.echo(server, "on"), "on");
        assert_eq!(ward.daemon.status_of(server)["reconnects"], 1, "{server}");
    }
    assert_eq!(
        ward.daemon.processes("leaves").len(),
        2,
        "B01: the first one's grandchild is gone"
    );
    assert_eq!(process::zombies_of(ward.daemon.pid()), Vec::<u32>::new(), "B01");
}

#[test]
fn a_server_that_dies_at_every_third_call_loses_only_those() {
    let mut ward = Ward::of(Daemon::builder().fake("frail", &["--crash-after", "3"]));
    ward.wait_state(LIMIT, "frail", "connected");
    for call in 1..=12 {
        let answer = ward.call("frail", "echo", json!({"text": call.to_string()}));
        if call % 3 == 0 {
            assert_eq!(answer["code"], 1015, "call {call}: {answer}");
        } else {
            assert_eq!(answer["result"], call.to_string(), "call {call}: {answer}");
        }
    }
    ward.wait(LIMIT, "one start for each loss, and the first", |daemon| {
        daemon.starts("frail") == 5
    });
}

#[test]
fn what_may_have_been_done_is_not_done_again() {
    let mut ward = Ward::of(Daemon::builder().fake("a", &[]));
    ward.wait_state(LIMIT, "a", "connected");
    let file = ward.daemon.home().join("appended");
    let arguments = json!({"file": file, "line": "once"});
    ward.call_fails("a", "append", arguments, &[1015]);
    ward.wait(LIMIT, "it was started again", |daemon| daemon.starts("a") == 2);
    ward.wait_state(LIMIT, "a", "connected");
    assert_eq!(ward.echo("a", "on"), "on", "what was queued before is through");
    assert_eq!(lines(&file), ["once"], "CANC-07");
    assert_eq!(ward.daemon.received_method("a", "tools/call").len(), 2, "CANC-07");
}

#[test]
fn what_may_be_done_twice_is_repeated_once() {
    let mut ward = Ward::of(Daemon::builder().fake("a", &[]));
    ward.wait_state(LIMIT, "a", "connected");
    for (starts, tool) in [(2, "read_only_once"), (3, "idempotent_once")] {
        let file = ward.daemon.home().join(tool);
        let answer = ward.call("a", tool, json!({"file": file, "line": tool}));
        assert_eq!(answer["result"], "the second time", "CANC-07: {tool}: {answer}");
        assert_eq!(lines(&file), [tool, tool], "CANC-07");
        assert_eq!(ward.daemon.starts("a"), starts);
    }
}

/// The server doesn't read: a large request is stuck in its pipe, and the one behind it was never written.
#[test]
fn what_was_never_written_has_no_unknown_outcome() {
    let mut ward = Ward::of(Daemon::builder().fake("a", &[]));
    ward.wait_state(LIMIT, "a", "connected");
    ward.call("a", "stop_reading", json!({"seconds": 60}));
    let echo = |text: String| json!({"server": "a", "tool": "echo", "arguments": {"text": text}});
    for (id, text) in [
        ("stuck", "x".repeat(1 << 20)),
        ("behind it", "never written".into()),
    ] {
        ward.frontend.send(id, "hermes/call", echo(text));
    }
    ward.wait(LIMIT, "both are counted as calls", |daemon| {
        daemon.status_of("a")["calls"] == 3
    });
    let pid = ward.daemon.status_of("a")["pid"].as_u64().unwrap();
    process::signal_group(u32::try_from(pid).unwrap(), Signal::KILL);
    let stuck = ward.frontend.answer("stuck").value();
    assert_eq!(stuck["code"], 1015, "a part of it was written: {stuck}");
    let behind = ward.frontend.answer("behind it").value();
    assert!(
        behind["result"] == "never written" || behind["code"] == 1002,
        "CANC-07: repeated, or certainly not carried out: {behind}"
    );
}

#[test]
fn twelve_megabytes_in_pieces_arrive_whole_and_hold_nobody_up() {
    let mut ward = Ward::of(Daemon::builder().fake("big", &[]));
    ward.wait_state(LIMIT, "big", "connected");
    let arguments = json!({"bytes": 12 << 20, "chunk": 4096, "pause_us": 50});
    let answer = ward.call("big", "big", arguments);
    let text = answer["result"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(text.len(), 12 << 20, "B16");
    assert!(
        text.bytes()
            .zip((b'a'..=b'z').cycle())
            .all(|(got, sent)| got == sent),
        "B16"
    );
    assert_eq!(ward.daemon.starts("big"), 1);
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}
