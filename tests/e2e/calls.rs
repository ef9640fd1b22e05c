//! One call: its shape for Hermes, its limits in time, its cancellation, its loss.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use serde_json::{Value, json};

use crate::support::{Daemon, wait_until, wait_within};

#[test]
fn hermes_call_has_hermes_shape() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let mut call = |tool: &str, arguments: Value| {
        frontend.result(
            "hermes/call",
            json!({"name": format!("mcp_a_{tool}"), "arguments": arguments}),
        )
    };
    let raw = |result: Value| json!({"result": result.to_string()});
    assert_eq!(call("echo", json!({"text": "hi"})), json!({"result": "hi"}));
    assert_eq!(
        call("fail", json!({"text": "disk full"})),
        json!({"error": "disk full"})
    );
    let text = |text: &str| json!({"type": "text", "text": text});
    for (result, shape) in [
        (
            json!({"content": [text("a"), text("b")]}),
            json!({"result": "a\nb"}),
        ),
        (json!({"content": []}), json!({"result": ""})),
        (
            json!({"content": [], "structuredContent": {"n": 1}}),
            json!({"result": {"n": 1}}),
        ),
        (
            json!({"content": [text("a")], "structuredContent": {"n": 1}}),
            json!({"result": "a", "structuredContent": {"n": 1}}),
        ),
        (
            json!({"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "inside"}}]}),
            json!({"result": "inside"}),
        ),
        (
            json!({"content": [], "isError": true}),
            json!({"error": "MCP tool returned an error"}),
        ),
    ] {
        assert_eq!(call("raw_result", raw(result.clone())), shape, "{result}");
    }
    let unknown = json!({"content": [{"type": "x-chart", "data": "secret curve"}]});
    let shown = call("raw_result", raw(unknown))["result"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        shown.contains("x-chart") && !shown.contains("curve"),
        "a note of what was left out: {shown}"
    );
}

#[test]
fn hermes_call_takes_original_names() {
    let daemon = Daemon::builder()
        .fake("my-api", &["--no-default-tools", "--tool", "fetch.data"])
        .start_connected();
    let result = daemon.frontend().result(
        "hermes/call",
        json!({"server": "my-api", "tool": "fetch.data", "arguments": {"text": "x"}}),
    );
    assert_eq!(result, json!({"result": "x"}));
}

#[test]
fn hermes_call_redacts_error_texts() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let text = "401 Authorization: Bearer sk-abc123def456 https://x/mcp?api_key=SECRET1 ghp_0123456789abcdef";
    let result = daemon.frontend().result(
        "hermes/call",
        json!({"name": "mcp_a_fail", "arguments": {"text": text}}),
    );
    let shown = result["error"].as_str().unwrap();
    for secret in ["sk-abc123def456", "SECRET1", "ghp_0123456789abcdef"] {
        assert!(!shown.contains(secret), "B63: {shown}");
    }
    assert!(
        shown.contains("[REDACTED]") && shown.contains("401"),
        "B63: {shown}"
    );
}

#[test]
fn media_is_saved_for_the_owner_alone_and_named() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let result = daemon
        .frontend()
        .result("hermes/call", json!({"name": "mcp_a_blocks"}));
    let text = result["result"].as_str().unwrap();
    let files: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("MEDIA:"))
        .collect();
    assert_eq!(files.len(), 2, "an image and a sound: {text}");
    for file in &files {
        assert!(file.contains(".hermes/cache/mcp/"), "{file}");
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(fs::read(files[0]).unwrap()[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(fs::read(files[1]).unwrap()[..4], *b"RIFF");
    for part in ["first", "embedded", "fake://linked"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(result["structuredContent"]["zebra"], 1);
}

#[test]
fn a_call_that_takes_too_long_is_error_1006_and_is_cancelled_at_the_server() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"timeout": 1}))
        .start_connected();
    let mut frontend = daemon.frontend();
    let error = frontend.error(
        "tools/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}}),
    );
    assert_eq!(error["code"], 1006, "CANC-01: {error}");
    assert_eq!(error["data"]["server"], "a", "{error}");
    assert_eq!(error["data"]["origin"], "gateway", "{error}");
    let id = daemon.received_method("a", "tools/call")[0]["id"].clone();
    wait_until("CANC-01: the server was told", || {
        let cancelled = daemon.received_method("a", "notifications/cancelled");
        cancelled.len() == 1 && cancelled[0]["params"]["requestId"] == id
    });
    assert_eq!(
        frontend.call_text("mcp_a_echo", json!({"text": "still"})),
        "still"
    );
}

#[test]
fn hermes_call_has_a_timeout_of_its_own() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let message = frontend.request(
        "hermes/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}, "timeout": 0.5}),
    );
    let text = message.failure();
    assert!(text.contains("0.5") || text.contains("timed out"), "{text}");
    wait_until("the server was told", || {
        !daemon.received_method("a", "notifications/cancelled").is_empty()
    });
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server_and_ends() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let slow = json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}});
    let slow_ones = || {
        let mut calls = daemon.received_method("a", "tools/call");
        calls.retain(|call| call["params"]["name"] == "slow");
        calls
    };
    for (method, calls) in [("tools/call", 1), ("hermes/call", 2)] {
        frontend.send("mine", method, slow.clone());
        wait_until("the call is there", || slow_ones().len() == calls);
        frontend.notify(
            "notifications/cancelled",
            json!({"requestId": "mine", "reason": "changed my mind"}),
        );
        let id = slow_ones()[calls - 1]["id"].clone();
        wait_until("the server was told", || {
            let cancelled = daemon.received_method("a", "notifications/cancelled");
            cancelled.len() == calls && cancelled[calls - 1]["params"]["requestId"] == id
        });
        // MCP wants no answer to what was cancelled; our own methods always have one.
        if method == "hermes/call" {
            assert_eq!(frontend.answer("mine").code(), 1007, "B60");
        }
        frontend.send(
            calls,
            "tools/call",
            json!({"name": "mcp_a_echo", "arguments": {"text": "on"}}),
        );
        assert_eq!(frontend.next().id, Some(calls.to_string()), "nothing else comes");
    }
}

#[test]
fn a_late_answer_and_a_late_cancel_are_silent() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let slow = json!({"name": "mcp_a_slow", "arguments": {"seconds": 0.5, "ignore_cancel": true}});
    frontend.send(1, "tools/call", slow);
    wait_until("the call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    frontend.notify("notifications/cancelled", json!({"requestId": 1}));
    // CANC-04: cancels of what is over, never was, or isn't an id at all.
    for id in [json!(1), json!(77), json!("x"), json!({"a": 1})] {
        frontend.notify("notifications/cancelled", json!({"requestId": id}));
    }
    let echo = json!({"name": "mcp_a_echo", "arguments": {"text": "next", "delay_ms": 800}});
    frontend.send(2, "tools/call", echo);
    let next = frontend.next();
    assert_eq!(
        next.id.as_deref(),
        Some("2"),
        "CANC-04: nothing in between: {}",
        next.raw
    );
}

#[test]
fn a_frontend_that_dies_cancels_its_calls() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for id in 0..3 {
        frontend.send(
            id,
            "tools/call",
            json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}}),
        );
    }
    wait_until("the calls are there", || {
        daemon.received_method("a", "tools/call").len() == 3
    });
    drop(frontend);
    wait_within(
        Duration::from_secs(5),
        "CANC-05: the server was told of all three",
        || daemon.received_method("a", "notifications/cancelled").len() == 3,
    );
}

#[test]
fn a_server_that_dies_fails_its_calls_at_once() {
    let daemon = Daemon::builder()
        .fake_with("mortal", &[], json!({"timeout": 300}))
        .fake("other", &[])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_mortal_slow", "arguments": {"seconds": 200}}),
    );
    frontend.send(2, "tools/call", json!({"name": "mcp_mortal_die"}));
    for id in [1, 2] {
        let text = frontend.answer_within(Duration::from_secs(5), id).failure();
        assert!(
            text.contains("mortal") && text.contains("connection lost"),
            "B08: {text}"
        );
        assert!(!text.contains("timed out"), "B08: {text}");
    }
    assert_eq!(
        frontend.call_text("mcp_other_echo", json!({"text": "fine"})),
        "fine"
    );
    wait_until("B08: it is back", || daemon.starts("mortal") == 2);
    daemon.wait_state("mortal", "connected");
    assert_eq!(
        frontend.call_text("mcp_mortal_echo", json!({"text": "back"})),
        "back"
    );
    let calls = daemon.received_method("mortal", "tools/call");
    assert_eq!(calls.len(), 3, "B22: no call is done twice");
}

#[test]
fn a_call_to_a_server_that_is_down_says_so_and_why() {
    let daemon = Daemon::builder()
        .fake(
            "down",
            &["--mode", "exit-at-once", "--stderr", "ModuleNotFoundError: yaml"],
        )
        .fake("up", &[])
        .start();
    daemon.wait_state("up", "connected");
    daemon.wait_status("down", "failing", |status| status["error"].is_string());
    let mut frontend = daemon.frontend();
    let by_name = json!({"server": "down", "tool": "echo", "arguments": {"text": "x"}});
    let text = frontend.request("hermes/call", by_name).failure();
    assert!(text.contains("MCP server 'down' is not connected"), "{text}");
}

#[test]
fn a_server_that_stops_reading_blocks_nobody() {
    let mut daemon = Daemon::builder()
        .fake_with("deaf", &[], json!({"timeout": 1}))
        .fake("other", &[])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.call_text("mcp_deaf_stop_reading", json!({"seconds": 300}));
    // More than any pipe takes, so that the daemon is left in the middle of a line.
    let text = "x".repeat(4 << 20);
    for id in 0..3 {
        frontend.send(
            id,
            "tools/call",
            json!({"name": "mcp_deaf_echo", "arguments": {"text": text}}),
        );
    }
    let echo = json!({"text": "fine"});
    assert_eq!(
        daemon.frontend().call_text("mcp_other_echo", echo.clone()),
        "fine"
    );
    for id in 0..3 {
        let answer = frontend.answer_within(Duration::from_secs(10), id);
        assert!(!answer.failure().is_empty());
    }
    assert_eq!(frontend.call_text("mcp_other_echo", echo), "fine");
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(daemon.wait_exit(Duration::from_secs(10)).code(), Some(0));
    daemon.assert_no_leftovers();
}

#[test]
fn a_restart_ends_the_calls_in_flight() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}}),
    );
    wait_until("the call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    daemon
        .frontend()
        .request("hermes/restart", json!({"server": "a"}));
    let text = frontend.answer_within(Duration::from_secs(10), 1).failure();
    assert!(text.contains("'a'") && !text.contains("timed out"), "{text}");
    daemon.wait_status("a", "connected again", |status| {
        status["state"] == "connected" && daemon.starts("a") == 2
    });
    assert_eq!(
        daemon.received_method("a", "tools/call").len(),
        1,
        "B22: it is not done again"
    );
}
