//! The two eras of the protocol over pipes (LIFE-08 to LIFE-11, MRTR-01, MRTR-02). `tests/remote.rs` has them over HTTP.

use serde_json::{Value, json};

use crate::support::Daemon;

const STATELESS: &[&str] = &["--mode", "stateless", "--tool", "rounds"];

#[test]
fn a_program_that_refuses_the_handshake_is_started_again_without_one() {
    let daemon = Daemon::builder().fake("new", STATELESS).start_connected();
    assert_eq!(daemon.starts("new"), 2, "the first start is for the handshake");
    let status = daemon.status_of("new");
    assert_eq!(status["protocol_version"], "2026-07-28", "{status}");
    assert_eq!(
        daemon.frontend().call_text("mcp_new_echo", json!({"text": "x"})),
        "x"
    );
    assert_eq!(daemon.received_method("new", "initialize").len(), 1);
    assert!(
        daemon
            .received_method("new", "notifications/initialized")
            .is_empty()
    );

    // The verdict is remembered: another start needs no handshake.
    daemon
        .frontend()
        .result("hermes/restart", json!({"server": "new"}));
    daemon.wait_status("new", "started again", |status| {
        status["state"] == "connected" && daemon.starts("new") == 3
    });
    assert_eq!(daemon.received_method("new", "initialize").len(), 1, "LIFE-11");
}

#[test]
fn a_program_with_a_handshake_is_never_asked_for_anything_before_it() {
    let daemon = Daemon::builder()
        .fake("old", &["--mode", "discover-dies"])
        .start_connected();
    assert_eq!(daemon.starts("old"), 1);
    assert!(daemon.received_method("old", "server/discover").is_empty());
}

#[test]
fn the_configuration_decides_the_era() {
    let daemon = Daemon::builder()
        .fake_with("new", STATELESS, json!({"protocol": "stateless"}))
        .fake_with(
            "legacy",
            STATELESS,
            json!({"protocol": "legacy", "connect_timeout": 5}),
        )
        .fake_with("old", &[], json!({"protocol": "stateless", "connect_timeout": 5}))
        .start();
    daemon.wait_state("new", "connected");
    assert_eq!(daemon.starts("new"), 1);
    assert!(daemon.received_method("new", "initialize").is_empty());
    for (name, never) in [("legacy", "server/discover"), ("old", "initialize")] {
        let status = daemon.wait_status(name, "refused", |status| status["error"].is_string());
        let error = status["error"].as_str().unwrap();
        assert!(error.contains("protocol"), "{name}: what to do is said: {error}");
        assert!(daemon.received_method(name, never).is_empty());
    }
}

#[test]
fn a_version_that_is_refused_and_then_named_is_asked_for_once_more() {
    let flags = ["--mode", "stateless,refuses-once"];
    let daemon = Daemon::builder()
        .fake_with("new", &flags, json!({"protocol": "stateless"}))
        .start_connected();
    assert_eq!(daemon.starts("new"), 1, "LIFE-09");
    assert_eq!(daemon.received_method("new", "server/discover").len(), 2);
}

#[test]
fn a_stateless_program_tells_about_changed_tools() {
    let daemon = Daemon::builder().fake("new", STATELESS).start_connected();
    let mut frontend = daemon.frontend();
    frontend.call_text("mcp_new_change_tools", json!({"add": "fresh"}));
    daemon.wait_status("new", "told", |_| {
        daemon
            .frontend()
            .tool_names()
            .contains(&"mcp_new_fresh".to_owned())
    });
    assert_eq!(daemon.received_method("new", "subscriptions/listen").len(), 1);
}

#[test]
fn results_that_want_the_request_again_get_it_with_their_state() {
    let daemon = Daemon::builder().fake("new", STATELESS).start_connected();
    let mut frontend = daemon.frontend();
    assert_eq!(
        frontend.call_text("mcp_new_rounds", json!({"text": "3"})),
        "after 3 rounds"
    );
    let calls = daemon.received_method("new", "tools/call");
    let states: Vec<&Value> = calls.iter().map(|call| &call["params"]["requestState"]).collect();
    assert_eq!(
        states,
        [
            &Value::Null,
            &json!("round 1"),
            &json!("round 2"),
            &json!("round 3")
        ]
    );
    let ids: std::collections::HashSet<i64> = calls.iter().map(|call| call["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), calls.len(), "each round is a request of its own");

    let params = json!({"name": "mcp_new_rounds", "arguments": {"text": "100"}});
    assert_eq!(frontend.request("tools/call", params).code(), 1011);
    assert_eq!(
        daemon.received_method("new", "tools/call").len(),
        4 + 9,
        "the first and 8 rounds"
    );
}

#[test]
fn a_result_that_needs_a_person_is_an_error_that_says_so() {
    let daemon = Daemon::builder().fake("new", STATELESS).start_connected();
    let mut frontend = daemon.frontend();
    let asks = json!({
        "resultType": "input_required",
        "inputRequests": {"who": {"method": "elicitation/create", "params": {"message": "your name?"}}},
        "requestState": "s",
    });
    let mut fail = |result: &str| {
        let params = json!({"name": "mcp_new_raw_result", "arguments": {"result": result}});
        frontend.error("tools/call", params)
    };
    let failure = fail(&asks.to_string());
    assert_eq!(failure["code"], 1014, "{failure}");
    assert!(failure.to_string().contains("elicitation/create"), "{failure}");
    let unknown = fail(r#"{"resultType":"task"}"#);
    assert_eq!(unknown["code"], 1011, "LIFE-10: {unknown}");
    assert_eq!(
        frontend.call_text("mcp_new_echo", json!({"text": "still here"})),
        "still here"
    );
}
