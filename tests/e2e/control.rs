//! The control methods: `hermes/…` (DESIGN.md "The wire").

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, wait_until};

#[test]
fn hello_says_who_serves_and_within_which_limits() {
    let daemon = Daemon::builder().start();
    let hello = daemon.frontend().result(
        "hermes/hello",
        json!({"client": {"name": "test", "version": "1"}, "capabilities": {}}),
    );

    assert_eq!(hello["api"], 1);
    assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(hello["pid"], daemon.pid());
    assert!(hello["generation"].is_u64(), "{hello}");
    assert!(
        hello["instance"]
            .as_str()
            .is_some_and(|instance| !instance.is_empty()),
        "{hello}"
    );
    assert!(
        hello["features"].is_array() || hello["features"].is_object(),
        "{hello}"
    );
    for (limit, value) in [
        ("message_bytes", 16 << 20),
        ("json_depth", 128),
        ("list_pages", 50),
        ("list_items", 5_000),
        ("connections", 256),
        ("in_flight", 64),
        ("queue_messages", 1_024),
        ("queue_bytes", 8 << 20),
        ("stderr_bytes", 64 << 10),
    ] {
        assert_eq!(hello["limits"][limit], value, "{limit}");
    }
}

#[test]
fn hello_shows_the_limits_of_the_configuration() {
    let daemon = Daemon::builder()
        .settings(json!({"limits": {"message_bytes": 65536, "in_flight": 3}}))
        .start();
    let limits = daemon.frontend().result("hermes/hello", json!({}))["limits"].clone();
    assert_eq!(limits["message_bytes"], 65536);
    assert_eq!(limits["in_flight"], 3);
    assert_eq!(limits["json_depth"], 128);
}

#[test]
fn status_has_the_keys_of_hermes_and_our_own() {
    let daemon = Daemon::builder()
        .fake("good", &[])
        .fake_with("off", &[], json!({"enabled": false}))
        .fake("broken", &["--mode", "exit-at-once", "--stderr", "last words"])
        .start();
    daemon.wait_state("good", "connected");
    daemon.frontend().call_text("mcp_good_echo", json!({"text": "x"}));
    daemon.frontend().call("mcp_good_fail", json!({}));

    let status = daemon.frontend().result("hermes/status", json!({}));
    assert!(status["generation"].is_u64(), "{status}");
    assert!(status["uptime_s"].is_number(), "{status}");
    assert!(
        status["config"]["path"]
            .as_str()
            .unwrap()
            .ends_with(".hermes/config.yaml"),
        "{status}"
    );
    assert!(!status["config"]["loaded_at"].is_null(), "{status}");
    let names: Vec<&Value> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| &server["name"])
        .collect();
    assert_eq!(names, ["good", "off", "broken"], "the order of the file");

    let good = daemon.status_of("good");
    assert_eq!(good["transport"], "stdio");
    assert!(good["tools"].as_u64().unwrap() > 10, "{good}");
    assert_eq!(good["connected"], true);
    assert_eq!(good["disabled"], false);
    assert_eq!(good["status"], "connected");
    assert_eq!(good["state"], "connected");
    assert!(!good["since"].is_null(), "{good}");
    assert_eq!(json!(daemon.processes("good")), json!([good["pid"]]));
    assert_eq!(good["calls"], 2);
    assert!(good["errors"].is_u64(), "{good}");
    assert_eq!(good["reconnects"], 0);
    assert_eq!(good["protocol_version"], "2025-11-25");
    assert_eq!(good["server_info"]["name"], "good");
    assert!(good.get("error").is_none_or(Value::is_null), "{good}");

    let off = daemon.status_of("off");
    assert_eq!(off["state"], "disabled");
    assert_eq!(off["status"], "disabled");
    assert_eq!(off["disabled"], true);
    assert_eq!(off["connected"], false);
    assert_eq!(off["tools"], 0);
    assert_eq!(daemon.starts("off"), 0, "a disabled server is never started");

    let broken = daemon.wait_status("broken", "marked with an error", |status| {
        status["error"].is_string()
    });
    assert_eq!(broken["connected"], false);
    assert!(
        broken["stderr_tail"].to_string().contains("last words"),
        "{broken}"
    );
    assert_ne!(broken["status"], "connected");
    assert_eq!(broken["tools"], 0);
}

#[test]
fn an_unknown_server_is_error_1001_that_names_it() {
    let daemon = Daemon::builder().fake("files", &[]).start_connected();
    let mut frontend = daemon.frontend();
    for (method, params) in [
        ("hermes/status", json!({"server": "fils"})),
        ("hermes/logs", json!({"server": "fils"})),
        ("hermes/restart", json!({"server": "fils"})),
        ("hermes/call", json!({"server": "fils", "tool": "echo"})),
    ] {
        let error = frontend.error(method, params);
        assert_eq!(error["code"], 1001, "{method}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains("fils"),
            "{method}: {error}"
        );
        assert_eq!(error["data"]["origin"], "gateway", "{method}: {error}");
        assert!(error["data"]["retryable"].is_boolean(), "{method}: {error}");
    }
}

#[test]
fn tools_are_what_hermes_registers() {
    let daemon = Daemon::builder()
        .fake(
            "my-api",
            &["--no-default-tools", "--tool", "fetch.data", "--tool", "a b"],
        )
        .fake_with(
            "par",
            &["--no-default-tools", "--tools", "2"],
            json!({"supports_parallel_tool_calls": true}),
        )
        .start_connected();
    let mut frontend = daemon.frontend();
    let list = frontend.result("hermes/tools", json!({}));
    let tools = list["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 4, "{list}");

    let fetch = tools.iter().find(|tool| tool["tool"] == "fetch.data").unwrap();
    assert_eq!(fetch["name"], "mcp_my_api_fetch_data");
    assert_eq!(fetch["description"], "Echoes a text, under the name fetch.data");
    assert_eq!(fetch["parameters"]["properties"]["text"]["type"], "string");
    assert_eq!(fetch["toolset"], "mcp-my-api");
    assert_eq!(fetch["server"], "my-api");
    assert!(fetch["kind"].is_string(), "{fetch}");
    assert_eq!(fetch["parallel_safe"], false);
    let generated = tools.iter().find(|tool| tool["tool"] == "tool_001").unwrap();
    assert_eq!(generated["parallel_safe"], true);
    assert_eq!(generated["annotations"]["readOnlyHint"], true);

    let one = frontend.result("hermes/tools", json!({"server": "par"}));
    assert_eq!(one["tools"].as_array().unwrap().len(), 2);
    for toolset in ["mcp-par", "par"] {
        let one = frontend.result("hermes/tools", json!({"toolset": toolset}));
        assert_eq!(one["tools"].as_array().unwrap().len(), 2, "{toolset}");
    }

    let same = frontend.result("hermes/tools", json!({"if_generation": list["generation"]}));
    assert_eq!(same["unchanged"], true);
    assert_eq!(same["generation"], list["generation"]);
    assert!(same.get("tools").is_none(), "{same}");
    let other = frontend.result("hermes/tools", json!({"if_generation": 999_999}));
    assert_eq!(other["tools"].as_array().unwrap().len(), 4);
}

#[test]
fn a_toolset_exists_only_with_tools() {
    let daemon = Daemon::builder()
        .fake("two", &["--no-default-tools", "--tools", "2"])
        .fake("none", &["--no-default-tools"])
        .start_connected();
    let toolsets = daemon.frontend().result("hermes/toolsets", json!({}));
    assert_eq!(
        toolsets["toolsets"],
        json!([{"name": "mcp-two", "alias": "two", "tools": ["mcp_two_tool_000", "mcp_two_tool_001"]}])
    );
}

#[test]
fn logs_are_the_last_lines_of_stderr() {
    let daemon = Daemon::builder()
        .fake("talker", &["--stderr", "hello from the start"])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.call_text("mcp_talker_stderr", json!({"text": "a later line", "times": 3}));
    wait_until("both texts are in the log", || {
        let logs = frontend
            .result("hermes/logs", json!({"server": "talker"}))
            .to_string();
        logs.contains("hello from the start") && logs.matches("a later line").count() == 3
    });
}

#[test]
fn restart_replaces_the_process_and_loses_no_tool() {
    let daemon = Daemon::builder().fake("a", &[]).fake("b", &[]).start_connected();
    let mut frontend = daemon.frontend();
    let before = [daemon.processes("a"), daemon.processes("b")];
    let tools = frontend.tool_names();

    frontend.result("hermes/restart", json!({"server": "a"}));
    wait_until("a has another process", || {
        let now = daemon.processes("a");
        now.len() == 1 && now != before[0]
    });
    daemon.wait_state("a", "connected");
    assert_eq!(daemon.processes("b"), before[1], "b is not concerned");
    assert_eq!(frontend.tool_names(), tools);
    assert_eq!(
        frontend.call_text("mcp_a_echo", json!({"text": "again"})),
        "again"
    );
}

#[test]
fn restart_tries_a_failed_server_at_once() {
    let daemon = Daemon::builder()
        .fake("dying", &["--mode", "exit-at-once"])
        .start();
    daemon.wait_status("dying", "failing", |status| status["error"].is_string());
    let starts = daemon.starts("dying");
    // Whether the answer tells of success or failure is in its text; that there was an attempt is what counts.
    daemon
        .frontend()
        .request("hermes/restart", json!({"server": "dying"}));
    wait_until("there was another start", || daemon.starts("dying") > starts);
}

#[test]
fn shutdown_answers_and_leaves_nothing() {
    let mut daemon = Daemon::builder()
        .fake("a", &["--grandchild"])
        .fake("b", &[])
        .start_connected();
    let mut frontend = daemon.frontend();
    assert!(frontend.request("hermes/shutdown", json!({})).error.is_none());
    let status = daemon.wait_exit(Duration::from_secs(10));
    assert_eq!(status.code(), Some(0), "{}", daemon.log());
    daemon.assert_no_leftovers();
    assert!(!daemon.socket().exists(), "the socket is gone");
}

#[test]
fn no_servers_is_said_in_the_words_that_users_search_for() {
    let daemon = Daemon::builder().config_text("model: x\n").start();
    let mut frontend = daemon.frontend();
    assert_eq!(frontend.result("hermes/status", json!({}))["servers"], json!([]));
    assert_eq!(frontend.tool_names(), Vec::<String>::new());
    assert!(
        daemon.log().contains("No MCP servers configured"),
        "{}",
        daemon.log()
    );
}
