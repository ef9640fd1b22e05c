//! Servers that break the protocol. Each costs at most itself (B12, B16, B17, B19, B44).

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, process, wait_until};

#[test]
fn banners_and_log_lines_on_stdout_are_skipped_in_silence() {
    let daemon = Daemon::builder()
        .fake("noisy", &["--mode", "banner"])
        .start_connected();
    let mut frontend = daemon.frontend();
    for call in 0..100 {
        let text = call.to_string();
        assert_eq!(
            frontend.call_text("mcp_noisy_echo", json!({"text": text})),
            text,
            "B12"
        );
    }
    assert_eq!(daemon.starts("noisy"), 1, "B12: still the first connection");
    assert!(
        daemon
            .received("noisy")
            .iter()
            .all(|line| !line.contains("-32700") && !line.contains("-32600")),
        "B12: nothing is sent back about noise"
    );
}

#[test]
fn ids_as_strings_are_the_same_ids() {
    let daemon = Daemon::builder()
        .fake("a", &["--mode", "string-ids"])
        .start_connected();
    let mut frontend = daemon.frontend();
    for text in ["one", "two", "three"] {
        assert_eq!(
            frontend.call_text("mcp_a_echo", json!({"text": text})),
            text,
            "B19 (a)"
        );
    }
}

#[test]
fn answers_to_nothing_are_dropped() {
    let daemon = Daemon::builder()
        .fake("a", &["--mode", "stray-ids"])
        .start_connected();
    let mut frontend = daemon.frontend();
    for text in ["one", "two", "three"] {
        assert_eq!(
            frontend.call_text("mcp_a_echo", json!({"text": text})),
            text,
            "B19 (b)"
        );
    }
}

#[test]
fn an_answer_with_both_members_is_an_error() {
    let daemon = Daemon::builder()
        .fake("a", &["--mode", "result-and-error"])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_echo", "arguments": {"text": "x"}}),
    );
    frontend.answer_within(Duration::from_secs(5), 1).failure();
}

#[test]
fn answers_of_a_wrong_shape_end_the_call_and_not_the_link() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let pid = daemon.processes("a");
    for line in [
        r#"{"jsonrpc":"2.0","id":$ID,"error":"oops"}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":"x","message":7}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":$ID}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":"a string"}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":null}"#,
    ] {
        frontend.send(
            1,
            "tools/call",
            json!({"name": "mcp_a_raw_line", "arguments": {"line": line}}),
        );
        let answer = frontend.answer_within(Duration::from_secs(5), 1);
        assert!(
            answer.error.is_some() || answer.value()["isError"] == true,
            "{line}: {}",
            answer.raw
        );
        assert_eq!(
            frontend.call_text("mcp_a_echo", json!({"text": "on"})),
            "on",
            "{line}"
        );
    }
    assert_eq!(daemon.processes("a"), pid);
}

#[test]
fn what_looks_like_an_answer_is_none() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"timeout": 1}))
        .start_connected();
    let mut frontend = daemon.frontend();
    let pid = daemon.processes("a");
    for line in [
        // A request of the server that happens to have the id of ours.
        r#"{"jsonrpc":"2.0","id":$ID,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"whose?"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"id":$ID,"result":{}}}"#,
        r#"{"jsonrpc":"2.0","id":$ID.5,"result":{}}"#,
    ] {
        let error = frontend.error(
            "tools/call",
            json!({"name": "mcp_a_raw_line", "arguments": {"line": line}}),
        );
        assert_eq!(error["code"], 1006, "{line}: {error}");
        // Also lets the circuit breaker forget.
        assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "on"})), "on");
    }
    assert_eq!(daemon.processes("a"), pid);
}

#[test]
fn the_first_of_two_answers_counts() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let answer = |text: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
    };
    let line = format!("{}\n{}", answer("first"), answer("second"));
    for _ in 0..3 {
        assert_eq!(
            frontend.call_text("mcp_a_raw_line", json!({"line": line})),
            "first"
        );
        assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "on"})), "on");
    }
}

#[test]
fn text_that_is_no_unicode_settles_its_own_call_only() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let pid = daemon.processes("a");
    for cut in [r"\ud83d", r"\udc00", r"\ud83d\u0041", "$FF"] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"cut {cut}"}}]}}}}"#
        );
        for method in ["tools/call", "hermes/call"] {
            frontend.send(
                1,
                method,
                json!({"name": "mcp_a_raw_line", "arguments": {"line": line}}),
            );
            let answer = frontend.answer_within(Duration::from_secs(5), 1);
            if answer.error.is_none() {
                let result = answer.value();
                let text = result["content"][0]["text"]
                    .as_str()
                    .or(result["result"].as_str());
                let text = text
                    .or(result["error"].as_str())
                    .unwrap_or_else(|| panic!("B17: {}", answer.raw));
                assert!(
                    text.starts_with("cut \u{fffd}")
                        || result["isError"] == true
                        || !result["error"].is_null(),
                    "B17: {cut}: {}",
                    answer.raw
                );
            }
        }
        assert_eq!(
            frontend.call_text("mcp_a_echo", json!({"text": "on"})),
            "on",
            "B17: {cut}"
        );
    }
    assert_eq!(daemon.processes("a"), pid, "B17");
}

#[test]
fn an_answer_over_the_limit_fails_clearly() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"timeout": 60}))
        .fake("other", &[])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_big", "arguments": {"bytes": 40 << 20}}),
    );
    assert_eq!(
        frontend.call_text("mcp_other_echo", json!({"text": "x"})),
        "x",
        "B16"
    );
    let answer = frontend.answer(1);
    let text = answer.failure();
    assert!(
        answer.error.as_ref().is_some_and(|error| error["code"] == 1012) || text.contains("large"),
        "B16: {}",
        answer.raw
    );
    if let Some(kib) = process::peak_resident_kib(daemon.pid()) {
        assert!(kib < (16 + 64) << 10, "B16: bounded memory, not {kib} KiB");
    }
    daemon.wait_state("a", "connected");
    assert_eq!(
        frontend.call_text("mcp_a_echo", json!({"text": "on"})),
        "on",
        "B16"
    );
}

#[test]
fn a_servers_own_limit_is_lower() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"max_result_bytes": 100_000}))
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.call_text("mcp_a_big", json!({"bytes": 90_000}));
    let answer = frontend.request(
        "tools/call",
        json!({"name": "mcp_a_big", "arguments": {"bytes": 200_000}}),
    );
    answer.failure();
    daemon.wait_state("a", "connected");
    assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "on"})), "on");
}

#[test]
fn an_endless_line_costs_only_its_server() {
    let daemon = Daemon::builder()
        .fake("endless", &["--mode", "flood"])
        .fake("other", &[])
        .start();
    daemon.wait_state("other", "connected");
    let status = daemon.wait_status("endless", "failing", |status| status["error"].is_string());
    let error = status["error"].as_str().unwrap();
    assert!(
        error.contains("large") || error.contains("limit"),
        "B16 (b): {error}"
    );
    let mut frontend = daemon.frontend();
    assert_eq!(
        frontend.call_text("mcp_other_echo", json!({"text": "x"})),
        "x",
        "B16 (b)"
    );
    if let Some(kib) = process::peak_resident_kib(daemon.pid()) {
        assert!(kib < (16 + 64) << 10, "B16 (b): bounded memory, not {kib} KiB");
    }
}

#[test]
fn ten_megabytes_of_stderr_block_nobody() {
    let daemon = Daemon::builder()
        .fake("loud", &["--mode", "stderr-flood"])
        .start_connected();
    let mut frontend = daemon.frontend();
    assert_eq!(frontend.call_text("mcp_loud_echo", json!({"text": "x"})), "x");
    let logs = frontend
        .result("hermes/logs", json!({"server": "loud"}))
        .to_string();
    assert!(
        logs.contains("noise") && logs.len() <= 80 << 10,
        "64 KiB are kept, not {}",
        logs.len()
    );
}

#[test]
fn a_server_that_answers_garbage_is_told_apart_from_a_silent_one() {
    let daemon = Daemon::builder()
        .fake_with("garbage", &["--mode", "garbage"], json!({"connect_timeout": 2}))
        .fake_with("mute", &["--mode", "mute"], json!({"connect_timeout": 1}))
        .fake_with("deaf", &["--mode", "never-reads"], json!({"connect_timeout": 1}))
        .fake("other", &[])
        .start();
    daemon.wait_state("other", "connected");
    for (name, parts) in [
        ("garbage", ["garbage", "2"]),
        ("mute", ["no answer", "1 s"]),
        ("deaf", ["no answer", "1 s"]),
    ] {
        let status = daemon.wait_status(name, "failing", |status| status["error"].is_string());
        let error = status["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("Failed to connect to MCP server '{name}'")),
            "{error}"
        );
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "B03: {parts:?} in {error}"
        );
    }
    assert_eq!(
        daemon
            .frontend()
            .call_text("mcp_other_echo", json!({"text": "x"})),
        "x"
    );
}

#[test]
fn methods_of_undeclared_capabilities_are_never_sent() {
    let daemon = Daemon::builder()
        .fake("frail", &["--mode", "undeclared-dies"])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.tool_names();
    assert_eq!(frontend.call_text("mcp_frail_echo", json!({"text": "x"})), "x");
    assert_eq!(daemon.starts("frail"), 1);
    for method in [
        "resources/list",
        "prompts/list",
        "logging/setLevel",
        "server/discover",
    ] {
        assert_eq!(
            daemon.received_method("frail", method),
            Vec::<Value>::new(),
            "{method}"
        );
    }
}

#[test]
fn requests_of_a_server_are_answered() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let ask = |method: &str| json!({"method": method, "params": {}});
    let pong: Value = serde_json::from_str(&frontend.call_text("mcp_a_ask", ask("ping"))).unwrap();
    assert_eq!(pong["result"], json!({}));
    let unknown: Value = serde_json::from_str(&frontend.call_text("mcp_a_ask", ask("x/unknown"))).unwrap();
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[test]
fn the_handshake_is_the_documented_one() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let received = daemon.received("a");
    let messages: Vec<Value> = received
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(messages[0]["method"], "initialize");
    assert_eq!(messages[0]["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(messages[0]["params"]["clientInfo"]["name"], "hermesd-mcp");
    assert_eq!(messages[1]["method"], "notifications/initialized");
    assert_eq!(messages[2]["method"], "tools/list");
    wait_until("there is nothing else in an idle connection", || {
        messages.len() == 3
    });
}

#[test]
fn any_protocol_version_of_a_server_that_we_know_is_accepted() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let daemon = Daemon::builder()
            .fake("a", &["--protocol", version])
            .start_connected();
        assert_eq!(daemon.status_of("a")["protocol_version"], version);
        assert_eq!(
            daemon.frontend().call_text("mcp_a_echo", json!({"text": "x"})),
            "x"
        );
    }
}
