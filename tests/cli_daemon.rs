//! The command line against a real daemon with the built-in server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli_support;

use std::{
    io::Write,
    process::Stdio,
    time::{Duration, Instant},
};

use cli_support::{Daemon, Home, text};
use serde_json::{Value, json};

#[test]
fn the_demo_shows_the_whole_path_and_leaves_nothing_behind() {
    let home = Home::new("");
    let temp = home.path().join("t");
    std::fs::create_dir(&temp).unwrap();
    let started = Instant::now();
    let output = home.command(&["demo"]).env("TMPDIR", &temp).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{stdout}\n{}",
        text(&output.stderr)
    );
    for part in [
        "$ hermesd-mcp serve",
        "$ hermesd-mcp tools",
        "mcp_demo_echo(text: string)",
        "$ hermesd-mcp call mcp_demo_time",
        "+02:00\n",
        "hello from one daemon\n",
        "3 of 3",
        "$ hermesd-mcp status",
        "connected",
        "$ hermesd-mcp stop",
        "Done in",
    ] {
        assert!(stdout.contains(part), "{part:?} is missing in\n{stdout}");
    }
    assert_eq!(
        std::fs::read_dir(&temp).unwrap().count(),
        0,
        "the temporary home is gone"
    );
    // The promise is 5 s; a loaded machine gets the fourfold before this is called a fault.
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn status_tools_and_stop() {
    let home = Home::with_demo_server();
    let mut daemon = home.serve();

    let (status, _) = home.expect(0, &["status"]);
    assert!(status.contains("1 of 1 server connected"), "{status}");
    let (json, _) = home.expect(0, &["status", "demo", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["servers"][0]["state"], "connected");

    let (tools, _) = home.expect(0, &["tools"]);
    assert!(
        tools.contains("mcp_demo_slow(seconds?: number = 2, steps?: integer = 4)"),
        "{tools}"
    );
    assert!(tools.contains("text  required  What to give back"), "{tools}");
    let (json, _) = home.expect(0, &["tools", "demo", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(
        json["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tool| tool["name"] == "mcp_demo_time")
    );

    let (_, error) = home.expect(1, &["tools", "dmeo"]);
    assert!(error.contains("demo"), "the nearest name: {error}");

    assert_eq!(home.expect(0, &["stop"]).0, "stopped\n");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    home.expect(69, &["status"]);
}

#[test]
fn call_types_its_arguments_and_prints_the_result() {
    let home = Home::with_demo_server();
    let _daemon = home.serve();

    assert_eq!(home.expect(0, &["call", "mcp_demo_echo", "text=42"]).0, "42\n");
    assert_eq!(
        home.expect(0, &["call", "mcp_demo_echo", "--json", r#"{"text":"a\nb"}"#])
            .0,
        "a\nb\n"
    );
    let (slow, _) = home.expect(0, &["call", "mcp_demo_slow", "seconds=0.05", "steps=1"]);
    assert_eq!(slow, "done after 0.05 s in 1 steps\n");
    let (raw, _) = home.expect(0, &["call", "mcp_demo_echo", "text=x", "--raw"]);
    assert_eq!(
        serde_json::from_str::<Value>(&raw).unwrap(),
        json!({"result": "x"})
    );

    let mut child = home
        .command(&["call", "mcp_demo_echo", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"{\n  \"text\": \"from stdin\"\n}\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*text(&output.stdout)),
        (Some(0), "from stdin\n")
    );
}

#[test]
fn a_call_that_cannot_work_says_why_and_what_to_do() {
    let home = Home::with_demo_server();
    let daemon = home.serve();

    let (_, error) = home.expect(2, &["call", "mcp_demo_echo", "txt=a"]);
    assert!(
        error.contains("no argument is called 'txt'; did you mean 'text'?"),
        "{error}"
    );
    assert!(error.contains("'text' is required"), "{error}");
    assert!(
        error.contains("mcp_demo_echo(text: string)"),
        "the signature: {error}"
    );
    home.expect(2, &["call", "mcp_demo_slow", "steps=many"]);
    home.expect(2, &["call", "mcp_demo_echo", "--json", "[]"]);
    let status = daemon.wait_status("an answer", |_| true);
    assert_eq!(
        status["servers"][0]["calls"], 0,
        "nothing of it reached the server"
    );

    let (out, error) = home.expect(1, &["call", "mcp_demo_time", "timezone=Mars"]);
    assert_eq!(out, "");
    assert!(
        error.contains("timezone must be an offset from UTC"),
        "the tool's own words: {error}"
    );
    home.expect(1, &["call", "mcp_demo_echo", "nope=1", "--no-check"]);
    let (raw, _) = home.expect(1, &["call", "mcp_demo_time", "timezone=Mars", "--raw"]);
    assert!(serde_json::from_str::<Value>(&raw).unwrap()["error"].is_string());

    let (_, error) = home.expect(1, &["call", "mcp_demo_ecko", "text=a"]);
    assert!(error.contains("mcp_demo_echo"), "the nearest name: {error}");
    assert!(error.contains("`hermesd-mcp tools`"), "{error}");

    let (_, error) = home.expect(
        1,
        &[
            "call",
            "mcp_demo_slow",
            "seconds=600",
            "steps=1",
            "--timeout",
            "0.1",
        ],
    );
    assert!(error.contains("--timeout"), "{error}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_the_call() {
    let home = Home::with_demo_server();
    let daemon = home.serve();
    let call = home
        .command(&["call", "mcp_demo_slow", "seconds=600", "steps=1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    daemon.wait_status("the call is counted", |status| status["servers"][0]["calls"] == 1);
    let pid = rustix::process::Pid::from_raw(i32::try_from(call.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = call.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("interrupted"),
        "{}",
        text(&output.stderr)
    );
    // The daemon is well and takes the next call.
    assert_eq!(
        home.expect(0, &["call", "mcp_demo_echo", "text=next"]).0,
        "next\n"
    );
}

#[cfg(unix)]
#[test]
fn a_server_that_is_down_is_explained_with_its_last_words() {
    let config = "mcp_servers:\n  crash:\n    command: sh\n    args: [-c, 'echo ModuleNotFoundError: yaml >&2; exit 3']\n  \
                  gone:\n    command: no-such-program-anywhere\n";
    let home = Home::new(config);
    let daemon = home.serve();
    daemon.wait_status("the crash is seen", |status| {
        status["servers"][0]["stderr_tail"].is_array()
    });

    let (status, _) = home.expect(0, &["status"]);
    for part in [
        "Failed to connect to MCP server 'crash'",
        "stderr | ModuleNotFoundError: yaml",
        "`hermesd-mcp logs crash`",
        "Failed to connect to MCP server 'gone': command not found: 'no-such-program-anywhere'",
        "`hermesd-mcp restart gone`",
    ] {
        assert!(status.contains(part), "{part:?} is missing in\n{status}");
    }
    let (logs, _) = home.expect(0, &["logs", "crash", "--lines", "1"]);
    assert_eq!(logs, "ModuleNotFoundError: yaml\n");
    let (_, error) = home.expect(1, &["logs", "crsh"]);
    assert!(error.contains("crash"), "the nearest name: {error}");
    let (_, error) = home.expect(1, &["restart", "gone"]);
    assert!(error.contains("command not found"), "{error}");
}

#[test]
fn restart_gives_a_new_process() {
    let home = Home::with_demo_server();
    let daemon = home.serve();
    let before = daemon.wait_status("a pid", |status| status["servers"][0]["pid"].is_u64());
    home.expect(0, &["restart", "demo"]);
    let after = daemon.wait_status("connected", |status| status["servers"][0]["state"] == "connected");
    assert_ne!(before["servers"][0]["pid"], after["servers"][0]["pid"]);
}

#[cfg(unix)]
#[test]
fn after_a_stop_the_next_daemon_can_start_at_once() {
    // It ignores the end of its stdin and SIGTERM, so the daemon needs seconds to end it.
    let home = Home::new(
        "mcp_servers:\n  stubborn:\n    command: sh\n    args: [-c, 'trap \"\" TERM; while :; do sleep 1; done']\n",
    );
    let first = home.command(&["serve"]).stderr(Stdio::null()).spawn().unwrap();
    let mut first = Daemon {
        home: &home,
        child: first,
    };
    first.wait_status("the server runs", |status| status["servers"][0]["pid"].is_u64());
    assert_eq!(home.expect(0, &["stop"]).0, "stopped\n");
    // No wait here: the next line is what `stop && serve` does.
    std::fs::write(home.config(), cli_support::demo_server_entry()).unwrap();
    let _second = home.serve();
    assert_eq!(first.child.wait().unwrap().code(), Some(0));
}

#[test]
fn no_servers_says_where_to_add_one() {
    let home = Home::new("model: something-of-hermes\n");
    let _daemon = home.serve();
    let (status, _) = home.expect(0, &["status"]);
    assert!(status.contains("No MCP servers configured"), "{status}");
    assert!(status.contains(home.config().to_str().unwrap()), "{status}");
    let (tools, _) = home.expect(0, &["tools"]);
    assert!(tools.contains("hermesd-mcp status"), "{tools}");
}

#[test]
fn a_second_daemon_is_refused_and_the_first_one_named() {
    let home = Home::with_demo_server();
    let daemon = home.serve();
    for arguments in [&["serve"][..], &[]] {
        let (_, error) = home.expect(75, arguments);
        assert!(error.contains("already running"), "{error}");
        assert!(error.contains(&daemon.child.id().to_string()), "{error}");
        assert!(error.contains("hermesd-mcp status"), "{error}");
    }
    home.expect(0, &["status"]);
}

#[test]
fn a_configuration_that_is_no_yaml_is_an_error_with_its_place() {
    let home = Home::new("mcp_servers:\n  a: [1,\n");
    for arguments in [&["serve"][..], &["check"]] {
        let (_, error) = home.expect(78, arguments);
        assert!(error.contains("config.yaml:"), "{error}");
    }
    let (json, _) = home.expect(78, &["check", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["ok"], false);
    // Clients don't need it.
    home.expect(69, &["status"]);
}

#[test]
fn check_names_every_finding_and_looks_for_the_commands() {
    let home = Home::with_demo_server();
    let (out, _) = home.expect(0, &["check"]);
    assert!(out.contains("ok: 1 server, 0 errors, 0 warnings"), "{out}");

    let config = "mcp_servers:\n  both:\n    command: x\n    url: https://example.com/\n  gone:\n    command: no-such-program-anywhere\n    \
                  timeot: 5\n  resting:\n    command: no-such-program-anywhere\n    enabled: false\n  remote:\n    url: https://example.com/\n    enabled: false\n    ssl_verify: ~/.hermes/config.yaml\n";
    let home = Home::new(config);
    let (out, _) = home.expect(78, &["check"]);
    for part in [
        "config.yaml:4:10: error: mcp_servers.both.url: ",
        "config.yaml:7:5: warning: mcp_servers.gone.timeot: ",
        "error: mcp_servers.gone.command: command not found: 'no-such-program-anywhere'",
        "warning: mcp_servers.resting.command: ",
        "warning: mcp_servers.remote.ssl_verify: the file of ssl_verify, '",
        "has no certificate in PEM form",
        "not ok: 4 servers, 2 errors, 3 warnings",
    ] {
        assert!(out.contains(part), "{part:?} is missing in\n{out}");
    }
    let (json, _) = home.expect(78, &["check", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["ok"], &json["errors"], &json["warnings"]),
        (&json!(false), &json!(2), &json!(3))
    );

    let (_, error) = home.expect(78, &["check", "--config", "/no/such/file.yaml"]);
    assert!(error.contains("/no/such/file.yaml"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_socket_path_that_is_too_long_is_named_with_its_length_and_limit() {
    // B74
    let home = Home::new("");
    let long = format!("/tmp/{}/mcp.sock", "x".repeat(200));
    for arguments in [&["--socket", &long, "socket"][..], &["--socket", &long, "serve"]] {
        let (_, error) = home.expect(78, arguments);
        assert!(
            error.contains(&long) && error.contains(&long.len().to_string()),
            "{error}"
        );
    }
}
