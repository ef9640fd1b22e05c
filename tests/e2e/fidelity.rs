//! What is handed on is handed on byte for byte.

use serde_json::{Value, json};

use crate::support::Daemon;

#[test]
fn mcp_callers_get_the_servers_result_to_the_byte() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for result in [
        r#"{"content":[]}"#,
        r#"{}"#,
        r#"{"content":[{"text":"key order","type":"text"}],"a":1,"Z":2,"_meta":{"z":1,"a":2}}"#,
        r#"{"structuredContent":{"big":18446744073709551616,"one":1.0,"huge":1e400,"tiny":-0.0,"e":1E+2,"d":1.10}}"#,
        r#"{"structuredContent":{"twice":1,"twice":2,"twice":{"twice":3}}}"#,
        r#"{"content":[{"type":"text","text":"\u00e9\/\u2028 é \ud83d\ude00 😀 \u0000\t\\"}]}"#,
        r#"{ "content" : [ ] ,  "spaces":	"kept" }"#,
        r#"{"content":[{"type":"resource_link","uri":"x:y"}],"isError":false,"future":[null,true,{}]}"#,
        r#"{"content":"not even a list"}"#,
        r#"{"content":[{"type":"text"}],"resultType":"x-unknown"}"#,
    ] {
        let message = frontend.request(
            "tools/call",
            json!({"name": "mcp_a_raw_result", "arguments": {"result": result}}),
        );
        assert_eq!(message.result.as_deref(), Some(result), "{}", message.raw);
    }
}

#[test]
fn servers_get_the_callers_arguments_to_the_byte() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for (id, arguments) in [
        r#"{"b":1.0,"a":18446744073709551616,"c":1e400,"d":-0.0,"e":12345678901234567890123}"#,
        r#"{"twice":1,"twice":2}"#,
        r#"{"u":"\u00e9 é \/ \ud83d\ude00 😀"}"#,
        r#"{ "spaces" : [ 1 , 2 ] }"#,
        r#"{"x":null,"nested":{"z":{},"a":[]}}"#,
    ]
    .into_iter()
    .enumerate()
    {
        for (method, offset) in [("tools/call", 0), ("hermes/call", 100)] {
            let id = id + offset;
            frontend.send_line(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"mcp_a_raw_args","arguments":{arguments}}}}}"#
            ));
            let result = frontend.answer(id).value();
            let text = if offset == 0 {
                &result["content"][0]["text"]
            } else {
                &result["result"]
            };
            assert_eq!(text, arguments, "{method}");
        }
    }
}

#[test]
fn missing_and_null_arguments_are_an_empty_object() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for (params, seen) in [
        (json!({"name": "mcp_a_raw_args"}), "{}"),
        (json!({"name": "mcp_a_raw_args", "arguments": null}), "{}"),
        (json!({"name": "mcp_a_raw_args", "arguments": {}}), "{}"),
        (
            json!({"name": "mcp_a_raw_args", "arguments": {"x": null}}),
            r#"{"x":null}"#,
        ),
    ] {
        let result = frontend.result("tools/call", params.clone());
        assert_eq!(result["content"][0]["text"], seen, "B50: {params}");
        assert_eq!(
            frontend.result("hermes/call", params.clone())["result"],
            seen,
            "B50: {params}"
        );
    }
    let before = daemon.received_method("a", "tools/call").len();
    for arguments in [json!([1]), json!("x"), json!(1), json!(true)] {
        for method in ["tools/call", "hermes/call"] {
            let error = frontend.error(method, json!({"name": "mcp_a_raw_args", "arguments": arguments}));
            assert_eq!(error["code"], -32602, "B50: {method} {arguments}");
        }
    }
    assert_eq!(
        daemon.received_method("a", "tools/call").len(),
        before,
        "B50: nothing was sent"
    );
}

#[test]
fn every_kind_of_content_arrives() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for is_error in [false, true] {
        let result = frontend.call("mcp_a_blocks", json!({"is_error": is_error}));
        let kinds: Vec<&str> = result["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "text",
                "image",
                "audio",
                "resource",
                "resource",
                "resource_link",
                "x-chart"
            ],
            "B51"
        );
        assert_eq!(
            result["content"][6],
            json!({"type": "x-chart", "points": [1, 2.5, 3], "title": "unknown"})
        );
        assert_eq!(
            result["structuredContent"],
            json!({"zebra": 1, "apple": "extra", "n": 1.0}),
            "B51"
        );
        assert_eq!(result["isError"], is_error, "B51");
        assert_eq!(result["_meta"], json!({"com.example/a": 1}), "B51");
        assert_eq!(result["x-vendor"], true, "B51");
    }
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for id in [
        "0",
        "-7",
        r#""""#,
        r#""7""#,
        r#""sp ace""#,
        "9007199254740993",
        r#""ünï""#,
    ] {
        for (method, params) in [
            ("ping", json!({})),
            (
                "tools/call",
                json!({"name": "mcp_a_echo", "arguments": {"text": "x"}}),
            ),
            ("nonsense", json!({})),
        ] {
            frontend.send_line(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
            ));
            let answer = frontend.next();
            assert_eq!(answer.id.as_deref(), Some(id), "{method}: {}", answer.raw);
        }
    }
}

#[test]
fn twelve_megabytes_in_small_pieces_arrive_whole() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let bytes = 12 << 20;
    // B16 (a). Pauses of the writer cost time and show nothing that pieces don't.
    let text = frontend.call_text("mcp_a_big", json!({"bytes": bytes, "chunk": 4096}));
    assert_eq!(text.len(), bytes);
    assert!(
        text.bytes()
            .zip((b'a'..=b'z').cycle())
            .all(|(seen, sent)| seen == sent),
        "B16: intact"
    );
    let result: Value = frontend.result(
        "hermes/call",
        json!({"name": "mcp_a_big", "arguments": {"bytes": 100}}),
    );
    assert_eq!(result["result"].as_str().unwrap().len(), 100);
}

#[test]
fn megabytes_of_arguments_arrive_whole() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let text = "0123456789abcdef".repeat(512 << 10);
    assert_eq!(
        daemon.frontend().call_text("mcp_a_echo", json!({"text": text})),
        text
    );
}
