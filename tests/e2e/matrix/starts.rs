//! Servers that never get ready, or not for long: backoff, one process at a time, and in the end parked (LIFE-16).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{UNTIL_PARKED, Ward};
use crate::support::{Daemon, LIMIT};

struct Case {
    name: &'static str,
    flags: &'static [&'static str],
    keys: Value,
    /// What the reason says.
    words: &'static [&'static str],
    /// With which codes a call may fail once it is parked, which also wakes it.
    codes: &'static [i64],
}

fn cases() -> Vec<Case> {
    let case = |name, flags, keys, words, codes| Case {
        name,
        flags,
        keys,
        words,
        codes,
    };
    let short = || json!({"connect_timeout": 1});
    vec![
        case(
            "exit-at-once",
            &["--mode", "exit-at-once", "--exit-code", "3"],
            json!({}),
            &["3"],
            &[1002],
        ),
        case(
            "exit-after-init",
            &[
                "--mode",
                "exit-after-init",
                "--exit-delay",
                "0",
                "--exit-code",
                "4",
            ],
            json!({}),
            &["4"],
            &[1002, 1015],
        ),
        case(
            "after-100-ms",
            &[
                "--mode",
                "exit-after-init",
                "--exit-delay",
                "100",
                "--exit-code",
                "5",
            ],
            json!({}),
            &["5"],
            &[1002, 1015],
        ),
        case(
            "mute",
            &["--mode", "mute"],
            short(),
            &["initialize", "1 s"],
            &[1002],
        ),
        case(
            "never-reads",
            &["--mode", "never-reads"],
            short(),
            &["initialize", "1 s"],
            &[1002],
        ),
        case("garbage", &["--mode", "garbage"], short(), &["1 s"], &[1002]),
        case("flood", &["--mode", "flood"], json!({}), &["large"], &[1002]),
        case(
            "no-tools-array",
            &["--mode", "no-tools-array"],
            json!({}),
            &["tools"],
            &[1002],
        ),
    ]
}

#[test]
fn what_never_gets_ready_is_parked_with_its_reason() {
    let mut builder = Daemon::builder();
    for case in cases() {
        builder = builder.fake_with(case.name, case.flags, case.keys);
    }
    let mut ward = Ward::of(builder);
    let mut seen: Vec<BTreeSet<String>> = vec![BTreeSet::new(); cases().len()];
    ward.wait(UNTIL_PARKED, "all are parked", |daemon| {
        let mut all_parked = true;
        for (case, seen) in cases().iter().zip(&mut seen) {
            let processes = daemon.processes(case.name);
            assert!(processes.len() <= 1, "B03: {}: {processes:?}", case.name);
            let status = daemon.status_of(case.name);
            let state = status["state"].as_str().unwrap().to_owned();
            if state == "backoff" {
                assert_eq!(status["connected"], false, "{status:#}");
                assert!(status["error"].is_string(), "{status:#}");
            }
            all_parked &= state == "parked";
            seen.insert(state);
        }
        all_parked
    });
    for (case, seen) in cases().iter().zip(seen) {
        let name = case.name;
        let known = ["connecting", "connected", "backoff", "parked"];
        assert!(
            seen.iter().all(|state| known.contains(&state.as_str())),
            "{name}: {seen:?}"
        );
        assert!(seen.contains("backoff"), "LIFE-16: {name}: {seen:?}");
        let starts = ward.daemon.starts(name);
        assert!(
            (4..=6).contains(&starts),
            "LIFE-16: 3 retries, or 5 after a first connection, not {starts} starts: {name}"
        );
        let status = ward.daemon.status_of(name);
        let error = status["error"].as_str().unwrap_or_default();
        assert!(
            error.contains(&format!("Failed to connect to MCP server '{name}'")),
            "{status:#}"
        );
        for word in case.words {
            assert!(error.contains(word), "{name}: {word:?} in {error}");
        }
        assert_eq!(status["tools"], 0, "{status:#}");
        assert!(
            !ward.listed(name),
            "a parked server's tools are withdrawn: {name}"
        );
        // It is parked at once; a process that ignores the end of its stdin takes a moment longer.
        ward.wait(LIMIT, "B01: no process is left", |daemon| {
            daemon.processes(name).is_empty()
        });
        let text = ward.call_fails(name, "echo", json!({"text": "x"}), case.codes);
        assert!(text.contains(name), "{text}");
    }
    assert_eq!(ward.daemon.starts("ok"), 1);
}

#[test]
fn what_cannot_be_started_at_all_has_failed_and_is_not_tried_again() {
    let builder = Daemon::builder().server("missing", json!({"command": "/nonexistent/server"}));
    let mut ward = Ward::of(builder);
    ward.wait_state(LIMIT, "missing", "failed");
    let text = ward.call_fails("missing", "echo", json!({}), &[1002]);
    assert!(text.contains("/nonexistent/server"), "STDIO-12: {text}");
    assert!(!ward.listed("missing"));
}

#[test]
fn a_restart_revives_what_is_parked() {
    let flags = ["--mode", "exit-at-once"];
    let mut ward = Ward::of(Daemon::builder().fake("dead", &flags));
    ward.wait_state(UNTIL_PARKED, "dead", "parked");
    let starts = ward.daemon.starts("dead");
    ward.frontend.result("hermes/restart", json!({"server": "dead"}));
    ward.wait(LIMIT, "it was started again", |daemon| {
        daemon.starts("dead") > starts
    });
}

#[test]
fn a_call_revives_what_is_parked() {
    let flags = ["--mode", "exit-at-once"];
    let mut ward = Ward::of(Daemon::builder().fake("dead", &flags));
    ward.wait_state(UNTIL_PARKED, "dead", "parked");
    let starts = ward.daemon.starts("dead");
    ward.call_fails("dead", "echo", json!({"text": "x"}), &[1002]);
    ward.wait(LIMIT, "it was started again", |daemon| {
        daemon.starts("dead") > starts
    });
}
