//! The life of a server's process: start, death, restart (B01, B03, B07, B58).

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Daemon, process, wait_until, wait_within};

#[test]
fn the_list_never_waits_for_sick_servers() {
    let daemon = Daemon::builder()
        .fake("ok", &[])
        .fake("hang", &["--mode", "mute"])
        .fake("slow", &["--initialize-delay", "60000"])
        .server("missing", json!({"command": "/nonexistent/server"}))
        .start();
    daemon.wait_state("ok", "connected");
    let mut frontend = daemon.frontend();
    let start = Instant::now();
    let names = frontend.tool_names();
    assert!(start.elapsed() < Duration::from_secs(2), "B58");
    assert!(names.contains(&"mcp_ok_echo".to_owned()), "B58");
    assert!(
        names.iter().all(|name| name.starts_with("mcp_ok_")),
        "B58: {names:?}"
    );
    assert_eq!(daemon.status_of("hang")["state"], "connecting", "B58");
    assert_eq!(daemon.status_of("slow")["state"], "connecting", "B58");
    assert_eq!(
        frontend.call_text("mcp_ok_echo", json!({"text": "x"})),
        "x",
        "B58"
    );
    let missing = daemon.wait_status("missing", "failing", |status| status["error"].is_string());
    let error = missing["error"].as_str().unwrap();
    assert!(
        error.contains("Failed to connect to MCP server 'missing'"),
        "{error}"
    );
    assert!(error.contains("/nonexistent/server"), "{error}");
    let text = frontend
        .request(
            "hermes/call",
            json!({"server": "missing", "tool": "x", "arguments": {}}),
        )
        .failure();
    assert!(text.contains("missing"), "B58: an immediate, clear error: {text}");
}

#[test]
fn servers_start_in_parallel() {
    let mut builder = Daemon::builder();
    for index in 0..8 {
        builder = builder.fake(&format!("s{index}"), &["--initialize-delay", "1000"]);
    }
    let start = Instant::now();
    let _daemon = builder.start_connected();
    assert!(
        start.elapsed() < Duration::from_secs(6),
        "not one after the other: {:?}",
        start.elapsed()
    );
}

#[test]
fn a_server_that_exits_at_once_backs_off_and_says_why() {
    let crash = json!({"command": "sh", "args": ["-c", "echo 'ModuleNotFoundError: yaml' >&2; exit 3"]});
    let daemon = Daemon::builder()
        .server("crash", crash)
        .fake(
            "init",
            &[
                "--mode",
                "exit-after-init",
                "--exit-code",
                "4",
                "--stderr",
                "going down",
            ],
        )
        .start();
    let status = daemon.wait_status("crash", "failing", |status| status["error"].is_string());
    let error = status["error"].as_str().unwrap();
    assert!(
        error.contains("Failed to connect to MCP server 'crash'"),
        "B07: {error}"
    );
    assert!(
        error.contains('3') && error.contains("ModuleNotFoundError: yaml"),
        "B07: {error}"
    );
    // 1 + 2 + 4 s of waiting with jitter allow at most four starts in 6 s; full speed would be hundreds.
    let end = Instant::now() + Duration::from_secs(6);
    wait_until("6 s are over", || Instant::now() >= end);
    assert!(
        daemon.starts("init") <= 5,
        "B07: {} starts",
        daemon.starts("init")
    );
    let lines = daemon.log().lines().filter(|line| line.contains("crash")).count();
    assert!(lines <= 12, "B07: {lines} lines about one server");
    let status = daemon.wait_status("init", "failing", |status| status["error"].is_string());
    let error = status["error"].as_str().unwrap();
    assert!(
        error.contains('4') && error.contains("going down"),
        "B07: {error}"
    );
}

#[test]
fn a_server_that_never_answers_is_one_process_at_a_time() {
    let daemon = Daemon::builder()
        .fake_with("mute", &["--mode", "mute"], json!({"connect_timeout": 1}))
        .fake("ok", &[])
        .start();
    daemon.wait_state("ok", "connected");
    let mut most = 0;
    wait_until("three attempts", || {
        most = most.max(daemon.processes("mute").len());
        daemon.starts("mute") >= 3
    });
    assert!(most <= 1, "B03: {most} processes at the same time");
    let files = process::open_files(daemon.pid());
    wait_until("a fourth attempt", || daemon.starts("mute") >= 4);
    assert!(
        process::open_files(daemon.pid()) <= files + 5,
        "B03: no pipe is kept"
    );
    let error = daemon.status_of("mute")["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("initialize") && error.contains("1 s"),
        "B03: {error}"
    );
    assert!(
        daemon.frontend().tool_names().contains(&"mcp_ok_echo".to_owned()),
        "B03"
    );
}

#[test]
fn a_server_that_closes_stdout_is_stopped_before_the_next_starts() {
    let daemon = Daemon::builder().fake("leaky", &["--mode", "leaky"]).start();
    let mut most = 0;
    wait_until("B01: it was started again", || {
        most = most.max(daemon.processes("leaky").len());
        daemon.starts("leaky") >= 2
    });
    assert!(most <= 1, "B01: {most} processes at the same time");
    assert_eq!(process::zombies_of(daemon.pid()), Vec::<u32>::new(), "B01");
}

#[test]
fn a_killed_server_comes_back_with_its_tools() {
    let daemon = Daemon::builder().fake("a", &["--grandchild"]).start_connected();
    let mut frontend = daemon.frontend();
    let tools = frontend.tool_names();
    let first = daemon.status_of("a")["pid"].as_u64().unwrap() as u32;
    process::signal(first, rustix::process::Signal::KILL);
    wait_until(
        "B71: it is not called connected any more, or is a new one",
        || {
            let status = daemon.status_of("a");
            status["state"] != "connected" || status["pid"] != first
        },
    );
    wait_until("another process", || daemon.starts("a") == 2);
    daemon.wait_state("a", "connected");
    assert_eq!(frontend.tool_names(), tools);
    let status = daemon.status_of("a");
    assert_eq!(status["reconnects"], 1, "{status}");
    wait_within(
        Duration::from_secs(10),
        "B01: the old one's grandchild is gone",
        || daemon.processes("a").len() == 2,
    );
}

#[test]
fn a_crash_in_a_call_is_counted_and_healed() {
    let daemon = Daemon::builder()
        .fake("a", &["--crash-after", "3"])
        .start_connected();
    let mut frontend = daemon.frontend();
    for text in ["one", "two"] {
        assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": text})), text);
    }
    frontend
        .request(
            "tools/call",
            json!({"name": "mcp_a_echo", "arguments": {"text": "three"}}),
        )
        .failure();
    wait_until("another process", || daemon.starts("a") == 2);
    daemon.wait_state("a", "connected");
    assert_eq!(frontend.call_text("mcp_a_echo", json!({"text": "four"})), "four");
    let status = daemon.status_of("a");
    assert_eq!(status["calls"], 4, "{status}");
    assert_eq!(status["errors"], 1, "{status}");
}
