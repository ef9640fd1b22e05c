//! The plain MCP side of the socket.

use serde_json::{Value, json};

use crate::support::{Daemon, Frontend, wait_until};

fn initialize(frontend: &mut Frontend, version: &str) -> Value {
    let params = json!({
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    frontend.result("initialize", params)
}

#[test]
fn initialize_agrees_on_a_version() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut frontend = daemon.frontend();
        let result = initialize(&mut frontend, asked);
        assert_eq!(result["protocolVersion"], agreed, "asked for {asked}");
        assert_eq!(result["serverInfo"]["name"], "hermesd-mcp");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["capabilities"]["tools"].is_object(), "{result}");
        frontend.notify("notifications/initialized", json!({}));
        assert_eq!(frontend.result("ping", json!({})), json!({}));
        assert!(frontend.tool_names().contains(&"mcp_a_echo".to_owned()));
    }
}

#[test]
fn list_and_call_need_no_handshake() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let list = frontend.result("tools/list", json!({}));
    let echo = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "mcp_a_echo")
        .unwrap();
    assert_eq!(echo["description"], "Returns its text");
    assert_eq!(echo["inputSchema"]["required"], json!(["text"]));
    assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "hi"})), "hi");
    assert_eq!(frontend.call_text("mcp_a_add", json!({"a": 2, "b": 40})), "42");
}

#[test]
fn params_may_be_left_out() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for (id, method) in [
        (1, "ping"),
        (2, "tools/list"),
        (3, "hermes/status"),
        (4, "hermes/hello"),
    ] {
        frontend.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
        assert!(frontend.answer(id).error.is_none(), "{method}");
    }
}

#[test]
fn a_tools_own_error_is_a_result_with_is_error() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let result = daemon.frontend().call("mcp_a_fail", json!({"text": "disk full"}));
    assert_eq!(
        result,
        json!({"content": [{"type": "text", "text": "disk full"}], "isError": true})
    );
}

#[test]
fn a_servers_json_rpc_error_keeps_its_members() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let line =
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32050,"message":"quota used up","data":{"left":0}}}"#;
    let mut frontend = daemon.frontend();
    let params = json!({"name": "mcp_a_raw_line", "arguments": {"line": line}});
    let error = frontend.error("tools/call", params.clone());
    assert_eq!(error["code"], -32050, "{error}");
    assert_eq!(error["message"], "quota used up", "{error}");
    assert_eq!(error["data"]["left"], 0, "{error}");
    let text = frontend.request("hermes/call", params).failure();
    assert!(text.contains("quota used up"), "{text}");
}

#[test]
fn an_unknown_tool_is_error_1003_with_the_nearest_names() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for method in ["tools/call", "hermes/call"] {
        let error = frontend.error(method, json!({"name": "mcp_a_ecoh", "arguments": {}}));
        assert_eq!(error["code"], 1003, "{method}: {error}");
        let near = error["data"]["did_you_mean"].as_array().unwrap();
        assert!(near.contains(&json!("mcp_a_echo")), "{method}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains("mcp_a_ecoh"),
            "{method}: {error}"
        );
    }
}

#[test]
fn an_unknown_method_is_not_found_and_costs_nothing() {
    let daemon = Daemon::builder().start();
    let mut frontend = daemon.frontend();
    for method in ["hermes/nonsense", "tools/nonsense", "nonsense", "rpc.discover"] {
        assert_eq!(frontend.error(method, json!({}))["code"], -32601, "{method}");
    }
    frontend.notify("notifications/nonsense", json!({"x": 1}));
    assert_eq!(frontend.result("ping", json!({})), json!({}));
}

#[test]
fn wrong_params_are_invalid_params() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!([1])),
        ("hermes/call", json!({})),
        ("hermes/call", json!({"server": "a"})),
        ("hermes/logs", json!({})),
        ("hermes/restart", json!({"server": 1})),
    ] {
        let error = frontend.error(method, params.clone());
        assert_eq!(error["code"], -32602, "{method} {params}: {error}");
    }
}

#[test]
fn progress_arrives_with_the_frontends_token_in_order_and_before_the_result() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    for token in [json!("t"), json!(7), json!("7"), json!(0)] {
        let mut frontend = daemon.frontend();
        frontend.send(
            1,
            "tools/call",
            json!({
                "name": "mcp_a_slow", "arguments": {"seconds": 0.2, "steps": 20},
                "_meta": {"progressToken": token},
            }),
        );
        let mut seen = Vec::new();
        let result = loop {
            let message = frontend.next();
            if message.id.is_some() {
                break message.value();
            }
            assert_eq!(message.method.as_deref(), Some("notifications/progress"));
            let params = message.params.unwrap();
            assert_eq!(params["progressToken"], token);
            assert_eq!(params["total"], 20);
            seen.push(params["progress"].as_u64().unwrap());
        };
        // At most ten a second (PROG-03), and the last one always.
        assert!(seen.is_sorted() && seen.len() <= 5, "{seen:?}");
        assert_eq!((seen[0], seen[seen.len() - 1]), (1, 20));
        assert_eq!(result["content"][0]["text"], "done after 0.2 s");
    }
}

#[test]
fn without_a_token_there_is_no_progress() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 0.1, "steps": 5}}),
    );
    let first = frontend.next();
    assert_eq!(first.id.as_deref(), Some("1"), "{}", first.raw);
}

#[test]
fn other_request_meta_reaches_the_server() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let meta = json!({"com.example/trace": "abc", "progressToken": "t"});
    let result = frontend.result(
        "tools/call",
        json!({"name": "mcp_a_raw_params", "arguments": {"x": 1}, "_meta": meta}),
    );
    let params: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        params["name"], "raw_params",
        "the original name goes to the server"
    );
    assert_eq!(params["_meta"]["com.example/trace"], "abc");
    assert_ne!(params["_meta"]["progressToken"], "t", "the token is ours (B60)");
}

#[test]
fn a_changed_list_moves_the_generation_and_the_routes() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let before = frontend.result("hermes/tools", json!({}))["generation"]
        .as_u64()
        .unwrap();
    frontend.call_text("mcp_a_change_tools", json!({"add": "fresh", "remove": "counter"}));
    wait_until("the list has changed", || {
        let names = frontend.tool_names();
        names.contains(&"mcp_a_fresh".to_owned()) && !names.contains(&"mcp_a_counter".to_owned())
    });
    assert!(
        frontend.result("hermes/tools", json!({}))["generation"]
            .as_u64()
            .unwrap()
            > before
    );
    assert_eq!(frontend.call_text("mcp_a_fresh", json!({"text": "new"})), "new");
    assert_eq!(
        frontend.error("tools/call", json!({"name": "mcp_a_counter"}))["code"],
        1003
    );
}
