//! Frontends never see each other (B60), and one that misbehaves costs the others nothing (B57).

use std::{collections::HashMap, io::Write, thread, time::Duration};

use serde_json::json;

use crate::support::{Daemon, process, wait_until, wait_within};

#[test]
fn the_same_ids_and_tokens_of_two_frontends_are_told_apart() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut first = daemon.frontend();
    let mut second = daemon.frontend();
    let call = |steps: u64| {
        json!({
            "name": "mcp_a_slow", "arguments": {"seconds": 2, "steps": steps}, "_meta": {"progressToken": "t"},
        })
    };
    first.send(1, "tools/call", call(10));
    wait_until("the first call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    second.send(1, "tools/call", call(20));
    wait_until("both calls are there", || {
        daemon.received_method("a", "tools/call").len() == 2
    });
    second.notify("notifications/cancelled", json!({"requestId": 1}));

    assert_eq!(
        first.answer(1).value()["content"][0]["text"],
        "done after 2 s",
        "B60"
    );
    let calls = daemon.received_method("a", "tools/call");
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_ne!(
        calls[0]["params"]["_meta"]["progressToken"],
        calls[1]["params"]["_meta"]["progressToken"]
    );
    let cancelled = daemon.received_method("a", "notifications/cancelled");
    assert_eq!(cancelled.len(), 1, "B60");
    assert_eq!(
        cancelled[0]["params"]["requestId"], calls[1]["id"],
        "B60: the second one's upstream id"
    );

    // What the first one kept are its ten progress messages and nothing of the other's twenty.
    let mut totals = Vec::new();
    while let Some(message) = first.next_within(Duration::from_millis(1)) {
        totals.push(message.params.unwrap()["total"].as_u64().unwrap());
    }
    assert_eq!(totals, [10; 10], "B60");
    second.send(2, "ping", json!({}));
    loop {
        let message = second.next();
        if message.id.is_some() {
            assert_eq!(
                message.id.as_deref(),
                Some("2"),
                "B60: no answer to what was cancelled"
            );
            break;
        }
        assert_eq!(message.params.unwrap()["total"], 20, "B60");
    }
}

#[test]
fn twenty_frontends_with_fifty_calls_each_see_only_their_own() {
    let daemon = Daemon::builder().fake("a", &[]).fake("b", &[]).start_connected();
    thread::scope(|scope| {
        for number in 0..20u64 {
            let daemon = &daemon;
            scope.spawn(move || {
                let mut frontend = daemon.frontend();
                let text = |call: u64| format!("frontend {number} call {call}");
                for call in 0..50 {
                    let server = if (number + call) % 2 == 0 { "a" } else { "b" };
                    let delay = (number * 31 + call * 17) % 40;
                    frontend.send(
                        call,
                        "tools/call",
                        json!({
                            "name": format!("mcp_{server}_echo"),
                            "arguments": {"text": text(call), "delay_ms": delay},
                        }),
                    );
                }
                let mut answers = HashMap::new();
                for _ in 0..50 {
                    let message = frontend.next();
                    let id: u64 = message.id.as_deref().unwrap().parse().unwrap();
                    assert!(
                        answers.insert(id, message.value()).is_none(),
                        "B60: {id} was answered twice"
                    );
                }
                for call in 0..50 {
                    assert_eq!(answers[&call]["content"][0]["text"], text(call), "B60");
                }
            });
        }
    });
}

#[test]
fn more_requests_than_may_be_in_flight_are_all_answered() {
    let daemon = Daemon::builder()
        .fake("a", &[])
        .settings(json!({"limits": {"in_flight": 4}}))
        .start_connected();
    let mut frontend = daemon.frontend();
    for id in 0..100 {
        let arguments = json!({"text": id.to_string(), "delay_ms": 5});
        frontend.send(
            id,
            "tools/call",
            json!({"name": "mcp_a_echo", "arguments": arguments}),
        );
    }
    for id in 0..100 {
        assert_eq!(frontend.answer(id).value()["content"][0]["text"], id.to_string());
    }
}

#[test]
fn a_frontend_that_does_not_read_loses_no_answer_and_costs_others_nothing() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut lazy = daemon.frontend();
    let calls = 400;
    let lines: String = (0..calls)
        .map(|id| {
            let params = json!({"name": "mcp_a_big", "arguments": {"bytes": 100_000}});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string() + "\n"
        })
        .collect();
    // The daemon stops to read as well once too much waits for this one, so the sender may have to wait.
    let mut writer = lazy.writer();
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(lines.as_bytes()).unwrap());
        let mut other = daemon.frontend();
        for index in 0..50 {
            let text = index.to_string();
            assert_eq!(other.call_text("mcp_a_echo", json!({"text": text})), text, "B57");
        }
        if let Some(kib) = process::resident_kib(daemon.pid()) {
            assert!(kib < 64 << 10, "B57: bounded memory, not {kib} KiB");
        }
        for id in 0..calls {
            let text = lazy.answer(id).value()["content"][0]["text"]
                .as_str()
                .unwrap()
                .len();
            assert_eq!(text, 100_000, "answers are never dropped");
        }
    });
}

#[test]
fn answers_do_not_wait_behind_ten_thousand_notifications() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut deaf = daemon.frontend();
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "d", "version": "1"}});
    deaf.send(1, "initialize", initialize);
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_notify", "arguments": {"count": 10_000, "bytes": 1_000}}),
    );
    let answer = frontend.answer_within(Duration::from_secs(10), 1);
    assert_eq!(answer.value()["content"][0]["text"], "sent", "B57");
    if let Some(kib) = process::peak_resident_kib(daemon.pid()) {
        assert!(kib < 64 << 10, "B57: bounded memory, not {kib} KiB");
    }
}

#[test]
fn one_frontend_too_many_is_told_so_and_a_place_becomes_free_again() {
    let daemon = Daemon::builder()
        .settings(json!({"limits": {"connections": 3}}))
        .start();
    // The harness's own first frontend may still be on its way out.
    wait_until("three are connected, the fourth is not served", || {
        let mut three: Vec<_> = (0..3).map(|_| daemon.frontend()).collect();
        let served = three.iter_mut().all(|frontend| {
            frontend
                .try_send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
                .is_ok()
                && frontend
                    .next_within(Duration::from_secs(5))
                    .is_some_and(|answer| answer.error.is_none())
        });
        if !served {
            return false;
        }
        let messages = {
            let mut fourth = daemon.frontend();
            let _ = fourth.try_send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
            fourth.until_closed()
        };
        messages
            .iter()
            .all(|message| message.error.as_ref().is_some_and(|error| error["code"] == 1008))
    });
    wait_within(Duration::from_secs(5), "a place is free again", || {
        let mut frontend = daemon.frontend();
        frontend
            .try_send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
            .is_ok()
            && frontend
                .next_within(Duration::from_secs(1))
                .is_some_and(|answer| answer.result.as_deref() == Some("{}"))
    });
}
