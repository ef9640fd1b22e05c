//! The socket as a stream of lines: what is refused, what is survived (S-21, DESIGN.md "The wire").

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, Frontend, Message, wait_until};

const COUNT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_a_counter"}}"#;

/// The daemon goes on serving, and the tool `counter` was never called before.
#[track_caller]
fn assert_nothing_was_done(daemon: &Daemon) {
    assert_eq!(
        daemon.frontend().call_text("mcp_a_counter", json!({})),
        "1",
        "S-21: nothing was executed"
    );
}

#[test]
fn http_is_not_served() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    for start in [
        "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut frontend = daemon.frontend();
        frontend.send_bytes(format!("{start}{COUNT}\n").as_bytes());
        assert!(
            frontend
                .until_closed()
                .iter()
                .all(|message| message.result.is_none()),
            "{start}"
        );
    }
    assert_nothing_was_done(&daemon);
}

#[test]
fn the_first_line_that_is_no_object_ends_the_connection() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    for line in [
        "garbage",
        "{",
        "42",
        "null",
        "\"text\"",
        "{\"id\":1,}",
        "\u{feff}{}",
        "{}{}",
    ] {
        let mut frontend = daemon.frontend();
        assert_eq!(frontend.result("ping", json!({})), json!({}));
        frontend.send_bytes(format!("{line}\n{COUNT}\n").as_bytes());
        for message in frontend.until_closed() {
            assert!(message.result.is_none(), "{line}: {}", message.raw);
            assert!(
                matches!(message.code(), -32700 | -32600),
                "{line}: {}",
                message.raw
            );
            assert_eq!(
                message.id, None,
                "{line}: an id that can't be known is null: {}",
                message.raw
            );
        }
    }
    assert_nothing_was_done(&daemon);
}

#[test]
fn a_batch_is_refused_and_nothing_of_it_is_done() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    for (greets, batch) in [(false, ""), (true, ""), (false, COUNT), (true, COUNT)] {
        let mut frontend = daemon.frontend();
        if greets {
            assert_eq!(frontend.result("ping", json!({})), json!({}));
        }
        frontend.send_bytes(format!("[{batch}]\n").as_bytes());
        frontend.close_write();
        let answers = frontend.until_closed();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!((answers[0].code(), &answers[0].id), (-32600, &None));
    }
    assert_nothing_was_done(&daemon);
}

#[test]
fn bytes_that_are_not_utf8_end_the_connection() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"mcp_a_counter\",\"x\":\"\xff\"}}\n";
    frontend.send_bytes(line);
    assert!(
        frontend
            .until_closed()
            .iter()
            .all(|message| message.result.is_none())
    );
    assert_nothing_was_done(&daemon);
}

#[test]
fn an_object_that_is_no_request_is_an_invalid_request() {
    let daemon = Daemon::builder().start();
    for line in [
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
    ] {
        let mut frontend = daemon.frontend();
        frontend.send_line(line);
        assert_eq!(frontend.next().code(), -32600, "{line}");
    }
}

#[test]
fn an_id_that_is_in_use_is_refused() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let arguments = json!({"text": "first", "delay_ms": 500});
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_echo", "arguments": arguments}),
    );
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_echo", "arguments": {"text": "second"}}),
    );
    let refusal = frontend.next();
    assert_eq!(refusal.code(), -32600, "{}", refusal.raw);
    assert_eq!(frontend.answer(1).value()["content"][0]["text"], "first");
    frontend.send(1, "ping", json!({}));
    assert_eq!(frontend.answer(1).value(), json!({}), "it is free again");
}

#[test]
fn answers_that_nobody_asked_for_are_ignored() {
    let daemon = Daemon::builder().start();
    let mut frontend = daemon.frontend();
    frontend.send_line(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    frontend.send_line(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#);
    frontend.send(9, "ping", json!({}));
    assert_eq!(frontend.next().id.as_deref(), Some("9"));
}

#[test]
fn line_ends_and_pieces_do_not_matter() {
    let daemon = Daemon::builder().start();
    let mut frontend = daemon.frontend();
    frontend.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n");
    assert_eq!(frontend.answer(1).value(), json!({}));
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n" {
        frontend.send_bytes(&[*byte]);
    }
    assert_eq!(frontend.answer(2).value(), json!({}));
    let many: String = (10..60)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"))
        .collect();
    frontend.send_bytes(many.as_bytes());
    for id in 10..60 {
        assert_eq!(frontend.answer(id).value(), json!({}));
    }
}

#[test]
fn whoever_stops_sending_still_gets_every_answer() {
    // The one-line use with socat or netcat: send, shut down the write side, read to the end.
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for id in 0..10 {
        let arguments = json!({"text": id.to_string(), "delay_ms": 300 - 20 * id});
        frontend.send(
            id,
            "tools/call",
            json!({"name": "mcp_a_echo", "arguments": arguments}),
        );
    }
    frontend.close_write();
    let answers = frontend.until_closed();
    let mut ids: Vec<u64> = answers
        .iter()
        .map(|message| message.id.as_deref().unwrap().parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
    assert!(answers.iter().all(|message| message.error.is_none()));
}

#[test]
fn a_last_line_without_its_end_is_not_a_request() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    frontend.send_bytes(&COUNT.as_bytes()[..COUNT.len() - 20]);
    frontend.close_write();
    assert!(
        frontend
            .until_closed()
            .iter()
            .all(|message| message.result.is_none())
    );
    assert_nothing_was_done(&daemon);
}

#[test]
fn a_line_over_the_limit_is_refused_in_bounded_memory() {
    let daemon = Daemon::builder()
        .fake("a", &[])
        .settings(json!({"limits": {"message_bytes": 65536}}))
        .start_connected();
    let mut other = daemon.frontend();

    let fits = "x".repeat(60_000);
    assert_eq!(other.call_text("mcp_a_echo", json!({"text": fits})), fits);

    let mut frontend = daemon.frontend();
    let long = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "mcp_a_counter", "arguments": {"text": "x".repeat(70_000)}},
    });
    let _ = frontend.try_send_bytes(format!("{long}\n").as_bytes());
    assert_too_large(&mut frontend);

    let mut endless = daemon.frontend();
    let piece = [b'x'; 1 << 16];
    for _ in 0..1024 {
        if endless.try_send_bytes(&piece).is_err() {
            break;
        }
    }
    assert_too_large(&mut endless);
    assert_eq!(
        other.call_text("mcp_a_counter", json!({})),
        "1",
        "nothing was executed"
    );
}

/// The connection was ended, or the line was, with the error for it.
#[track_caller]
fn assert_too_large(frontend: &mut Frontend) {
    let answers: Vec<Message> = std::iter::from_fn(|| frontend.next_within(Duration::from_secs(5)))
        .take(1)
        .collect();
    for answer in answers {
        assert_eq!(answer.code(), 1012, "{}", answer.raw);
    }
}

#[test]
fn deep_nesting_is_refused_and_survived() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    for depth in [200, 100_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let mut frontend = daemon.frontend();
        frontend.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"mcp_a_counter","arguments":{{"deep":{deep}}}}}}}"#
        ));
        let answer = frontend.next_within(Duration::from_secs(5));
        assert!(
            answer.is_none_or(|answer| answer.error.is_some()),
            "depth {depth}"
        );
    }
    let mut frontend = daemon.frontend();
    let fine = format!("{}{}", "[".repeat(100), "]".repeat(100));
    frontend.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"mcp_a_raw_args","arguments":{{"d":{fine}}}}}}}"#
    ));
    assert!(frontend.answer(1).error.is_none());
    assert_nothing_was_done(&daemon);
}

#[test]
fn every_error_has_the_documented_data() {
    let daemon = Daemon::builder()
        .fake_with("a", &[], json!({"timeout": 1}))
        .start_connected();
    let mut frontend = daemon.frontend();
    for (method, params) in [
        ("hermes/status", json!({"server": "zzz"})),
        ("tools/call", json!({"name": "zzz"})),
        (
            "tools/call",
            json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}}),
        ),
    ] {
        let error = frontend.error(method, params.clone());
        assert!(
            error["code"].as_i64().unwrap() > 1000,
            "{method} {params}: {error}"
        );
        assert!(
            error["message"].as_str().is_some_and(|text| !text.is_empty()),
            "{error}"
        );
        assert!(
            ["gateway", "server"]
                .map(Value::from)
                .contains(&error["data"]["origin"]),
            "{error}"
        );
        assert!(error["data"]["retryable"].is_boolean(), "{error}");
    }
}

#[test]
fn many_short_connections_leave_nothing_behind() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let files = crate::support::process::open_files(daemon.pid());
    for index in 0..300 {
        let mut frontend = daemon.frontend();
        match index % 3 {
            0 => drop(frontend),
            1 => frontend.send_bytes(b"{\"jsonrpc\":"),
            _ => assert_eq!(frontend.result("ping", json!({})), json!({})),
        }
    }
    wait_until("every connection's file is closed", || {
        crate::support::process::open_files(daemon.pid()) <= files + 2
    });
}
