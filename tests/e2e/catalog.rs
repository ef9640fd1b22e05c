//! The merged list: filters, utility tools, repaired schemas, order.

use serde_json::{Value, json};

use crate::support::{Builder, Daemon, Frontend};

fn github(tools: Value) -> Builder {
    let flags = [
        "--no-default-tools",
        "--tool",
        "list_issues",
        "--tool",
        "List_all",
        "--tool",
        "delete_repo",
        "--tool",
        "a.b",
    ];
    Daemon::builder().fake_with("gh", &flags, json!({"tools": tools}))
}

#[test]
fn filters_name_original_tools_and_hold_at_call_time() {
    let daemon = github(json!({"include": ["list_*"], "exclude": ["list_issues"]})).start_connected();
    let mut frontend = daemon.frontend();
    assert_eq!(
        frontend.tool_names(),
        ["mcp_gh_list_issues"],
        "B43 (1): include beats exclude, case counts"
    );
    for params in [
        json!({"name": "mcp_gh_delete_repo", "arguments": {"text": "x"}}),
        json!({"name": "delete_repo", "arguments": {"text": "x"}}),
        json!({"name": "mcp_gh_List_all", "arguments": {"text": "x"}}),
    ] {
        assert_eq!(
            frontend.error("tools/call", params.clone())["code"],
            1003,
            "B43: {params}"
        );
    }
    let raw = json!({"server": "gh", "tool": "delete_repo", "arguments": {"text": "x"}});
    frontend.request("hermes/call", raw).failure();
    assert_eq!(
        daemon.received_method("gh", "tools/call"),
        Vec::<Value>::new(),
        "B43: nothing was sent"
    );
}

#[test]
fn an_empty_include_offers_no_tool() {
    let daemon = github(json!({"include": []})).start_connected();
    assert_eq!(daemon.frontend().tool_names(), Vec::<String>::new(), "B43 (2)");
}

#[test]
fn exclude_takes_the_named_ones_away() {
    let daemon = github(json!({"exclude": ["a.b"]})).start_connected();
    let mut names = daemon.frontend().tool_names();
    names.sort();
    assert_eq!(
        names,
        ["mcp_gh_List_all", "mcp_gh_delete_repo", "mcp_gh_list_issues"],
        "B43 (3)"
    );
    let daemon = github(json!({"exclude": "*_*"})).start_connected();
    assert_eq!(daemon.frontend().tool_names(), ["mcp_gh_a_b"]);
}

const WITH_BOTH: [&str; 5] = [
    "--no-default-tools",
    "--tool",
    "x",
    "--capabilities",
    "resources,prompts",
];

#[test]
fn utility_tools_follow_capability_and_configuration() {
    let daemon = Daemon::builder()
        .fake("both", &WITH_BOTH)
        .fake_with("no-res", &WITH_BOTH, json!({"tools": {"resources": false}}))
        .fake_with(
            "neither",
            &WITH_BOTH,
            json!({"tools": {"resources": "no", "prompts": "off"}}),
        )
        .fake("without", &["--no-default-tools", "--tool", "x"])
        .start_connected();
    let mut names = daemon.frontend().tool_names();
    names.sort();
    assert_eq!(
        names,
        [
            "mcp_both_get_prompt",
            "mcp_both_list_prompts",
            "mcp_both_list_resources",
            "mcp_both_read_resource",
            "mcp_both_x",
            "mcp_neither_x",
            "mcp_no_res_get_prompt",
            "mcp_no_res_list_prompts",
            "mcp_no_res_x",
            "mcp_without_x",
        ]
    );
}

#[test]
fn utility_tools_answer_in_hermes_shape() {
    let daemon = Daemon::builder().fake("u", &WITH_BOTH).start_connected();
    let mut frontend = daemon.frontend();
    let resources = utility(&mut frontend, "list_resources", json!({}));
    assert_eq!(resources["resources"][0]["uri"], "fake://greeting");
    assert_eq!(resources["resources"][0]["name"], "greeting");
    let read = utility(&mut frontend, "read_resource", json!({"uri": "fake://greeting"}));
    assert_eq!(read, json!({"result": "hello from a resource"}));
    let prompts = utility(&mut frontend, "list_prompts", json!({}));
    assert_eq!(prompts["prompts"][0]["name"], "greet");
    assert_eq!(prompts["prompts"][0]["arguments"][0]["required"], true);
    let prompt = utility(
        &mut frontend,
        "get_prompt",
        json!({"name": "greet", "arguments": {"who": "Ada"}}),
    );
    assert_eq!(prompt["messages"][0]["role"], "user");
    assert!(
        prompt["messages"][0]["content"]
            .to_string()
            .contains("Say hello to Ada"),
        "{prompt}"
    );

    let missing = frontend
        .request(
            "hermes/call",
            json!({"name": "mcp_u_read_resource", "arguments": {"uri": "fake://none"}}),
        )
        .failure();
    assert!(missing.contains("fake://none"), "{missing}");
    let text = frontend.call_text("mcp_u_read_resource", json!({"uri": "fake://greeting"}));
    assert!(text.contains("hello from a resource"), "{text}");
}

fn utility(frontend: &mut Frontend, tool: &str, arguments: Value) -> Value {
    frontend.result(
        "hermes/call",
        json!({"name": format!("mcp_u_{tool}"), "arguments": arguments}),
    )
}

#[test]
fn a_native_tool_wins_over_a_utility_tool_of_its_name() {
    let flags = [
        "--no-default-tools",
        "--tool",
        "read_resource",
        "--capabilities",
        "resources",
    ];
    let daemon = Daemon::builder().fake("a", &flags).start_connected();
    let mut frontend = daemon.frontend();
    assert_eq!(
        frontend.call_text("mcp_a_read_resource", json!({"text": "native"})),
        "native"
    );
    let list = frontend.result("hermes/tools", json!({}));
    let names: Vec<&str> = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names
            .iter()
            .filter(|name| **name == "mcp_a_read_resource")
            .count(),
        1,
        "{names:?}"
    );
}

#[test]
fn malformed_schemas_are_repaired() {
    let daemon = Daemon::builder()
        .fake("s", &["--mode", "bad-schemas"])
        .start_connected();
    let mut frontend = daemon.frontend();
    let list = frontend.result("hermes/tools", json!({}));
    let parameters = |number: usize| {
        let name = format!("bad_{number}");
        let tools = list["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["tool"] == name.as_str());
        tool.unwrap_or_else(|| panic!("B44: {name} is missing"))["parameters"].clone()
    };
    assert_eq!(
        parameters(1),
        json!({"type": "object", "properties": {}}),
        "B44 (1)"
    );
    assert_eq!(
        parameters(2),
        json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        "B44 (2)"
    );
    assert_eq!(
        parameters(3),
        json!({"type": "object", "properties": {}}),
        "B44 (3)"
    );
    assert_eq!(
        parameters(4),
        json!({"type": "object", "properties": {}}),
        "B44 (4)"
    );
    let w = parameters(5)["properties"]["w"].clone();
    assert_eq!(w["type"], "string", "B44 (5)");
    assert_eq!(w.get("default"), Some(&Value::Null), "B44 (5)");
    assert!(w.get("anyOf").is_none(), "B44 (5)");
    assert!(parameters(6)["properties"]["t"]["items"].is_object(), "B44 (6)");
    let additional = parameters(7).get("additionalProperties").cloned();
    assert!(
        additional.is_none_or(|value| value.is_boolean() || value.is_object()),
        "B44 (7)"
    );

    let mcp = frontend.result("tools/list", json!({}));
    let tools = mcp["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 7, "B44: all are listed");
    assert!(
        tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"),
        "B44: {mcp}"
    );
}

#[test]
fn the_list_is_the_same_to_the_byte_whatever_the_order_of_arrival() {
    let mut daemon = Daemon::builder()
        .fake(
            "slow",
            &["--tools", "20", "--mode", "shuffle", "--initialize-delay", "200"],
        )
        .fake("quick", &["--tools", "20", "--mode", "shuffle"])
        .fake(
            "middle",
            &["--tools", "20", "--mode", "shuffle", "--initialize-delay", "100"],
        )
        .start_connected();
    let bytes = |daemon: &Daemon| {
        let mut frontend = daemon.frontend();
        let mcp = frontend.request("tools/list", json!({})).result.unwrap();
        let hermes = frontend.result("hermes/tools", json!({}))["tools"].to_string();
        (mcp, hermes)
    };
    let first = bytes(&daemon);
    let generation = daemon.frontend().result("hermes/tools", json!({}))["generation"].clone();
    for server in ["quick", "slow"] {
        daemon
            .frontend()
            .result("hermes/restart", json!({"server": server}));
        daemon.wait_status(server, "connected again", |status| {
            status["state"] == "connected" && daemon.starts(server) == 2
        });
        assert_eq!(bytes(&daemon), first, "B47");
    }
    let list = daemon
        .frontend()
        .result("hermes/tools", json!({"if_generation": generation}));
    assert_eq!(
        list["unchanged"], true,
        "B47: a mere reorder, and a reconnect, is no change"
    );
    daemon.kill();
    daemon.start_again();
    ["slow", "quick", "middle"]
        .iter()
        .for_each(|name| daemon.wait_state(name, "connected"));
    assert_eq!(bytes(&daemon), first, "B47: over a restart of the daemon too");
}

#[test]
fn five_hundred_tools_are_listed_in_one_answer() {
    let mut builder = Daemon::builder();
    for index in 0..10 {
        builder = builder.fake(&format!("s{index}"), &["--no-default-tools", "--tools", "50"]);
    }
    let daemon = builder.start_connected();
    let mut frontend = daemon.frontend();
    assert_eq!(frontend.tool_names().len(), 500);
    assert_eq!(frontend.call_text("mcp_s7_tool_049", json!({"text": "x"})), "x");
}
