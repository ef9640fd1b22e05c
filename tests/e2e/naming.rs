//! Exposed names: their form, their uniqueness, their routes (TOOL-03, TOOL-04).

use std::collections::HashSet;

use serde_json::json;

use crate::support::Daemon;

#[test]
fn names_follow_the_documented_examples() {
    let daemon = Daemon::builder()
        .fake("filesystem", &["--no-default-tools", "--tool", "read_file"])
        .fake("github", &["--no-default-tools", "--tool", "list-issues"])
        .fake(
            "my-api",
            &["--no-default-tools", "--tool", "fetch.data", "--tool", "größe"],
        )
        .start_connected();
    let names = daemon.frontend().tool_names();
    for name in [
        "mcp_filesystem_read_file",
        "mcp_github_list_issues",
        "mcp_my_api_fetch_data",
    ] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
    for name in &names {
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            "{name}"
        );
    }
}

#[test]
fn the_format_of_hermes_0_19_is_a_setting() {
    let daemon = Daemon::builder()
        .settings(json!({"tool_name_format": "mcp__{server}__{tool}"}))
        .fake("a-b", &["--no-default-tools", "--tool", "c.d"])
        .start_connected();
    let mut frontend = daemon.frontend();
    assert_eq!(frontend.tool_names(), ["mcp__a_b__c_d"]);
    assert_eq!(frontend.call_text("mcp__a_b__c_d", json!({"text": "x"})), "x");
}

#[test]
fn names_that_collide_stay_apart_and_reach_their_own_server() {
    let daemon = Daemon::builder()
        .fake("a-b", &["--no-default-tools", "--tool", "x"])
        .fake(
            "a_b",
            &[
                "--no-default-tools",
                "--tool",
                "x",
                "--tool",
                "x-y",
                "--tool",
                "x_y",
            ],
        )
        .fake("a", &["--no-default-tools", "--tool", "b_x"])
        .start_connected();
    let mut frontend = daemon.frontend();
    let list = frontend.result("hermes/tools", json!({}));
    let tools = list["tools"].as_array().unwrap();
    let names: HashSet<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!((tools.len(), names.len()), (5, 5), "TOOL-04: {list:#}");
    for tool in tools {
        let server = tool["server"].as_str().unwrap();
        let before = daemon.received_method(server, "tools/call").len();
        frontend.call_text(tool["name"].as_str().unwrap(), json!({"text": "here"}));
        let calls = daemon.received_method(server, "tools/call");
        assert_eq!(calls.len(), before + 1, "TOOL-04: {tool}");
        assert_eq!(calls[before]["params"]["name"], tool["tool"], "TOOL-04");
    }
    // The same configuration gives the same names, whatever connected first.
    let mut again = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    again.sort();
    drop(frontend);
    let mut daemon = daemon;
    daemon.kill();
    daemon.start_again();
    ["a-b", "a_b", "a"]
        .iter()
        .for_each(|name| daemon.wait_state(name, "connected"));
    let mut after = daemon.frontend().tool_names();
    after.sort();
    assert_eq!(after, again, "TOOL-04: deterministic");
}

#[test]
fn long_names_are_cut_and_stay_unique() {
    let long = "a_tool_with_a_name_that_is_much_longer_than_any_model_interface_allows_";
    let first = format!("{long}first");
    let second = format!("{long}second");
    let daemon = Daemon::builder()
        .fake(
            "server",
            &["--no-default-tools", "--tool", &first, "--tool", &second],
        )
        .start_connected();
    let mut frontend = daemon.frontend();
    let names = frontend.tool_names();
    assert_eq!(
        names.iter().collect::<HashSet<_>>().len(),
        2,
        "TOOL-04: {names:?}"
    );
    for name in &names {
        assert!(name.len() <= 64, "TOOL-04: {name}");
        assert_eq!(frontend.call_text(name, json!({"text": "x"})), "x");
    }
    let called: HashSet<String> = daemon
        .received_method("server", "tools/call")
        .iter()
        .map(|call| call["params"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(called, HashSet::from([first, second]));
}
