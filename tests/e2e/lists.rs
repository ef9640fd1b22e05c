//! Tool lists that are broken, long or endless (TOOL-07).

use serde_json::{Value, json};

use crate::support::Daemon;

#[test]
fn what_is_no_tool_costs_only_itself() {
    let daemon = Daemon::builder()
        .fake(
            "a",
            &[
                "--mode",
                "broken-tools",
                "--no-default-tools",
                "--tool",
                "good",
                "--tool",
                "fine",
            ],
        )
        .start_connected();
    let mut frontend = daemon.frontend();
    let names = frontend.tool_names();
    for name in ["mcp_a_good", "mcp_a_fine"] {
        assert!(names.contains(&name.to_owned()), "TOOL-07: {names:?}");
    }
    let list = frontend.result("tools/list", json!({}));
    for tool in list["tools"].as_array().unwrap() {
        assert!(!tool["name"].as_str().unwrap().is_empty(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool.get("description").is_none_or(Value::is_string), "{tool}");
    }
    assert_eq!(frontend.call_text("mcp_a_good", json!({"text": "x"})), "x");
}

#[test]
fn a_list_without_its_array_is_an_error_of_that_server() {
    let daemon = Daemon::builder()
        .fake("empty", &["--mode", "no-tools-array"])
        .fake("other", &[])
        .start();
    daemon.wait_state("other", "connected");
    let status = daemon.wait_status("empty", "settled", |status| status["state"] != "connecting");
    assert_eq!(status["tools"], 0, "{status}");
    assert_eq!(
        daemon
            .frontend()
            .call_text("mcp_other_echo", json!({"text": "x"})),
        "x"
    );
}

#[test]
fn lists_come_in_pages_and_never_without_end() {
    let daemon = Daemon::builder()
        .fake(
            "pages",
            &["--no-default-tools", "--tools", "30", "--page-size", "7"],
        )
        .fake(
            "same",
            &[
                "--no-default-tools",
                "--tools",
                "5",
                "--page-size",
                "5",
                "--mode",
                "same-cursor",
            ],
        )
        .fake("endless", &["--no-default-tools", "--mode", "endless-pages"])
        .start();
    daemon.wait_state("pages", "connected");
    assert_eq!(daemon.status_of("pages")["tools"], 30);
    for name in ["same", "endless"] {
        let status = daemon.wait_status(name, "settled", |status| status["state"] != "connecting");
        assert!(status["tools"].as_u64().unwrap() <= 50, "{status}");
        let pages = daemon.received_method(name, "tools/list").len();
        assert!(pages <= 50 * daemon.starts(name), "50 pages at most, not {pages}");
    }
    assert_eq!(
        daemon
            .frontend()
            .call_text("mcp_pages_tool_029", json!({"query": "x"})),
        ""
    );
}
