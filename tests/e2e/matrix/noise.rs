//! Servers that are loud or odd and still do their work: they are connected, with their first process, and answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Ward;
use crate::support::{Daemon, LIMIT};

/// Each of these servers is connected, answers an echo that begins with what was sent, and was started once.
#[track_caller]
fn all_work(ward: &mut Ward, servers: &[&str]) {
    for server in servers {
        ward.wait_state(LIMIT * 2, server, "connected");
        for text in ["one", "two", "three"] {
            let echo = ward.echo(server, text);
            assert!(echo.starts_with(text), "{server}: {echo:?}");
        }
        assert!(ward.listed(server), "{server}");
        assert_eq!(ward.daemon.starts(server), 1, "{server}: still its first process");
    }
}

#[test]
fn odd_bytes_around_and_in_the_answers() {
    let modes = [
        "banner",
        "invalid-json",
        "crlf",
        "string-ids",
        "stray-ids",
        "lone-surrogate",
        "byte-ff",
        "stderr-flood",
        "stderr-for-ever",
    ];
    let mut builder = Daemon::builder();
    for mode in modes {
        builder = builder.fake(mode, &["--mode", mode]);
    }
    let mut ward = Ward::of(builder);
    all_work(&mut ward, &modes);
    for mode in ["lone-surrogate", "byte-ff"] {
        let echo = ward.echo(mode, "cut ");
        assert_eq!(echo, "cut \u{fffd}", "B17: {mode}");
    }
    for (mode, counter) in [
        ("banner", "noise_lines"),
        ("invalid-json", "noise_lines"),
        ("stray-ids", "unclaimed_answers"),
    ] {
        let status = ward.daemon.status_of(mode);
        assert!(
            status[counter].as_u64().is_some_and(|count| count > 0),
            "STDIO-02: {status:#}"
        );
    }
}

#[test]
fn odd_lists() {
    let builder = Daemon::builder()
        .fake("same-cursor", &["--mode", "same-cursor"])
        .fake("broken-tools", &["--mode", "broken-tools"])
        .fake("shuffle", &["--mode", "shuffle"])
        .fake("storm", &["--mode", "list-changed-storm"])
        .fake("loop", &["--mode", "list-changed-loop"])
        .fake("both", &["--mode", "list-changed-loop,list-changed-storm"]);
    let mut ward = Ward::of(builder);
    all_work(
        &mut ward,
        &["same-cursor", "broken-tools", "shuffle", "storm", "loop", "both"],
    );
}

#[test]
fn lists_without_end_and_without_a_usable_tool_are_cut() {
    let builder = Daemon::builder()
        .fake("endless-pages", &["--mode", "endless-pages"])
        .fake("bad-schemas", &["--mode", "bad-schemas"]);
    let mut ward = Ward::of(builder);
    for server in ["endless-pages", "bad-schemas"] {
        ward.wait_state(LIMIT, server, "connected");
        assert!(ward.listed(server), "{server}");
        assert_eq!(ward.daemon.starts(server), 1, "{server}");
    }
    let lists = ward.daemon.received_method("endless-pages", "tools/list").len();
    assert_eq!(lists, 50, "PAGE-02: limits.list_pages");
}

#[test]
fn a_burst_of_a_hundred_notices_costs_at_most_two_readings() {
    let mut ward = Ward::of(Daemon::builder().fake("storm", &["--mode", "list-changed-storm"]));
    let lists = |daemon: &Daemon| daemon.received_method("storm", "tools/list").len();
    ward.wait(LIMIT, "the storm was followed", |daemon| lists(daemon) >= 2);
    let generation = ward.frontend.result("hermes/status", json!({}))["generation"].clone();
    wait_out(&mut ward, Duration::from_secs(4));
    let count = lists(&ward.daemon);
    assert!(
        count <= 3,
        "CACHE-04: the first list and at most two more, not {count}"
    );
    let now = ward.frontend.result("hermes/status", json!({}))["generation"].clone();
    assert_eq!(now, generation, "TOOL-13: nothing really changed");
}

#[test]
fn a_loop_of_list_and_notice_is_damped() {
    let builder = Daemon::builder()
        .fake("loop", &["--mode", "list-changed-loop"])
        .fake("both", &["--mode", "list-changed-loop,list-changed-storm"]);
    let mut ward = Ward::of(builder);
    for server in ["loop", "both"] {
        ward.wait_state(LIMIT, server, "connected");
    }
    let start = Instant::now();
    let lists =
        |daemon: &Daemon| ["loop", "both"].map(|server| daemon.received_method(server, "tools/list").len());
    let before = lists(&ward.daemon);
    wait_out(&mut ward, Duration::from_secs(6));
    let seconds = start.elapsed().as_secs() as usize + 1;
    for (before, after) in before.into_iter().zip(lists(&ward.daemon)) {
        assert!(
            after - before <= 2 * seconds,
            "CACHE-04: about one reading a second, not {} in {seconds} s",
            after - before
        );
    }
}

#[test]
fn an_expired_cursor_begins_the_list_anew_once() {
    let flags = ["--mode", "bad-cursor-once", "--page-size", "10"];
    let mut ward = Ward::of(Daemon::builder().fake("expired", &flags));
    ward.wait_state(LIMIT, "expired", "connected");
    let tools = |daemon: &Daemon, server: &str| daemon.status_of(server)["tools"].as_u64();
    assert_eq!(
        tools(&ward.daemon, "expired"),
        tools(&ward.daemon, "ok"),
        "PAGE-04: the whole list"
    );
}

#[test]
fn requests_and_silences_of_a_server_in_a_session() {
    let modes = [
        "pings-client",
        "samples-at-idle",
        "no-ping",
        "mute-ping",
        "undeclared-dies",
    ];
    let mut builder = Daemon::builder();
    for mode in modes {
        builder = builder.fake(mode, &["--mode", mode]);
    }
    let mut ward = Ward::of(builder);
    all_work(&mut ward, &modes);

    let answers = |daemon: &Daemon, server: &str, id: &str| -> Vec<Value> {
        daemon
            .received(server)
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["id"] == id && message["method"].is_null())
            .collect()
    };
    ward.wait(LIMIT, "both are answered", |daemon| {
        !answers(daemon, "pings-client", "idle-ping").is_empty()
            && !answers(daemon, "samples-at-idle", "idle-sampling").is_empty()
    });
    let pong = answers(&ward.daemon, "pings-client", "idle-ping");
    assert_eq!(pong.len(), 1);
    assert_eq!(pong[0]["result"], json!({}), "PING-01");
    let refusal = answers(&ward.daemon, "samples-at-idle", "idle-sampling");
    assert_eq!(refusal.len(), 1);
    assert!(refusal[0]["error"]["code"].is_i64(), "SAMP-05: {refusal:?}");
    let status = ward.daemon.status_of("samples-at-idle");
    assert_eq!(status["refused_requests"], 1, "SAMP-05: {status}");

    // Inside of a call there is nobody to ask either, as no frontend said that it can.
    let params = json!({"messages": [], "maxTokens": 16});
    let arguments = json!({"method": "sampling/createMessage", "params": params});
    let answer = ward.call("ok", "ask", arguments)["result"].to_string();
    assert!(answer.contains("error"), "{answer}");
}

#[test]
fn a_ping_that_is_refused_is_an_answer_and_one_that_is_lost_is_not() {
    let builder = Daemon::builder()
        .fake_with(
            "no-ping",
            &["--mode", "no-ping"],
            json!({"keepalive_interval": 5}),
        )
        .fake_with(
            "mute-ping",
            &["--mode", "mute-ping"],
            json!({"keepalive_interval": 5}),
        )
        .fake("unasked", &["--mode", "mute-ping"]);
    let mut ward = Ward::of(builder);
    let pings = |daemon: &Daemon, server: &str| daemon.received_method(server, "ping").len();
    ward.wait(LIMIT * 3, "a silent server is started anew", |daemon| {
        daemon.starts("mute-ping") >= 2
    });
    ward.wait(LIMIT * 3, "the other one was pinged twice", |daemon| {
        pings(daemon, "no-ping") >= 2
    });
    assert_eq!(ward.daemon.starts("no-ping"), 1, "PING-02: -32601 is an answer");
    assert_eq!(ward.daemon.status_of("no-ping")["state"], "connected");
    assert_eq!(pings(&ward.daemon, "unasked"), 0, "only where it is configured");
    assert_eq!(ward.daemon.starts("unasked"), 1);
}

/// Lets time pass in which something must not happen, while the healthy server is asked.
#[track_caller]
fn wait_out(ward: &mut Ward, time: Duration) {
    let end = Instant::now() + time;
    ward.wait(time * 10, "the time is over", |_| Instant::now() >= end);
}
