//! Progress of every kind: it keeps a call alive, but not for ever, and reaches its caller in order (PROG-01 … 03).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Ward;
use crate::support::{Daemon, LIMIT};

/// Calls the tool `progress` in MCP's way. Returns the values of all progress messages before the answer, in the order
/// in which they came, and the answer's text.
#[track_caller]
fn call(ward: &mut Ward, arguments: Value) -> (Vec<f64>, String) {
    let params = json!({
        "name": "mcp_a_progress", "arguments": arguments, "_meta": {"progressToken": "mine"},
    });
    ward.frontend.send("progress", "tools/call", params);
    let mut values = Vec::new();
    loop {
        let message = ward.frontend.next();
        if message.method.as_deref() == Some("notifications/progress") {
            let params = message.params.clone().unwrap();
            assert_eq!(params["progressToken"], "mine", "PROG-01");
            values.push(params["progress"].as_f64().unwrap());
        } else if message.id.as_deref() == Some("\"progress\"") {
            let text = message.value()["content"][0]["text"].clone();
            return (values, text.as_str().unwrap().to_owned());
        }
    }
}

#[track_caller]
fn ward(timeout: u64) -> Ward {
    let mut ward = Ward::of(Daemon::builder().fake_with("a", &[], json!({"timeout": timeout})));
    ward.wait_state(LIMIT, "a", "connected");
    ward
}

#[track_caller]
fn assert_increasing(values: &[f64]) {
    assert!(
        values.windows(2).all(|pair| pair[0] < pair[1]),
        "PROG-02: {values:?}"
    );
}

#[test]
fn progress_comes_in_order_and_before_the_answer() {
    let mut ward = ward(10);
    let arguments = json!({"count": 10, "interval_ms": 150, "text": "the end"});
    let (values, text) = call(&mut ward, arguments);
    assert_eq!(text, "the end");
    assert!(!values.is_empty());
    assert_increasing(&values);
    // Nothing comes after the answer: the next message is that of the next request.
    ward.frontend.send("next", "ping", json!({}));
    assert_eq!(ward.frontend.next().id.as_deref(), Some("\"next\""), "PROG-02");
}

/// The server reads nothing for a while, twice, with large requests in its pipe. The call between them was written
/// together with the second large one, which is stuck; its progress comes all the same.
#[test]
fn progress_does_not_wait_for_the_pipe() {
    let mut ward = ward(30);
    let call =
        |tool: &str, arguments: Value| json!({"name": format!("mcp_a_{tool}"), "arguments": arguments});
    let large = || call("echo", json!({"text": "x".repeat(1 << 20)}));
    let mut with_progress = call(
        "progress",
        json!({"count": 5, "interval_ms": 150, "text": "done"}),
    );
    with_progress["_meta"] = json!({"progressToken": "mine"});
    for (id, params) in [
        ("stop 1", call("stop_reading", json!({"seconds": 1}))),
        ("large 1", large()),
        ("progress", with_progress),
        ("stop 2", call("stop_reading", json!({"seconds": 4}))),
        ("large 2", large()),
    ] {
        ward.frontend.send(id, "tools/call", params);
    }
    let mut values = Vec::new();
    let mut answered = Vec::new();
    while answered.len() < 5 {
        let message = ward.frontend.next();
        match message.id {
            None => values.push(message.params.unwrap()["progress"].as_f64().unwrap()),
            Some(id) => answered.push(id),
        }
    }
    let place = |id: &str| answered.iter().position(|it| *it == format!("\"{id}\""));
    assert!(place("progress") < place("large 2"), "{answered:?}");
    assert_increasing(&values);
    assert!(!values.is_empty(), "PROG-01: all of it was lost");
}

#[test]
fn progress_keeps_a_long_call_alive() {
    let mut ward = ward(1);
    let arguments = json!({"count": 40, "interval_ms": 100, "text": "after 4 s"});
    assert_eq!(call(&mut ward, arguments).1, "after 4 s", "CANC-02");
}

#[test]
fn progress_for_ever_keeps_no_call_alive_for_ever() {
    let keys = json!({"timeout": 1, "max_total_timeout": 3});
    let mut ward = Ward::of(Daemon::builder().fake_with("a", &[], keys));
    ward.wait_state(LIMIT, "a", "connected");
    let params = json!({
        "server": "a", "tool": "progress", "arguments": {"interval_ms": 50}, "_meta": {"progressToken": 1},
    });
    ward.frontend.send("endless", "hermes/call", params);
    let answer = ward
        .frontend
        .answer_within(Duration::from_secs(60), "endless")
        .value();
    assert_eq!(answer["code"], 1006, "CANC-02: {answer}");
    ward.wait(LIMIT, "CANC-02: the server is told", |daemon| {
        !daemon.received_method("a", "notifications/cancelled").is_empty()
    });
    assert_eq!(ward.daemon.starts("a"), 1);
}

#[test]
fn progress_that_does_not_increase_is_dropped() {
    let mut ward = ward(30);
    let arguments =
        json!({"count": 8, "interval_ms": 150, "values": [1, 2, 2, 1, 3, 0.5, -1, 4], "text": "x"});
    let (values, text) = call(&mut ward, arguments);
    assert_eq!(text, "x");
    assert_increasing(&values);
    assert_eq!(values.last(), Some(&4.0), "{values:?}");
}

#[test]
fn a_thousand_progress_messages_are_thinned_out_and_the_last_one_stays() {
    let mut ward = ward(30);
    let start = Instant::now();
    let (values, text) = call(&mut ward, json!({"count": 1000, "interval_ms": 1, "text": "all"}));
    assert_eq!(text, "all");
    assert_increasing(&values);
    assert_eq!(values.last(), Some(&1000.0), "PROG-03: the last one wins");
    let most = 10.0 * start.elapsed().as_secs_f64() + 2.0;
    assert!(
        values.len() as f64 <= most,
        "PROG-03: {} messages in {:?}",
        values.len(),
        start.elapsed()
    );
}
