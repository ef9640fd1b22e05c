//! The daemon's own life and death: nothing is left behind (B04), mistakes in the configuration cost only themselves.

use std::{fs, os::unix::fs::symlink, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Daemon, fake_server, process, wait_until};

/// Three servers: a plain one, one with a child of its own, one that ignores the end of stdin and SIGTERM.
fn three() -> Daemon {
    Daemon::builder()
        .fake("plain", &[])
        .fake("parent", &["--grandchild"])
        .fake("stubborn", &["--mode", "stubborn", "--grandchild"])
        .start_connected()
}

#[test]
fn a_polite_signal_ends_it_with_code_0_and_leaves_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = three();
        daemon.signal(signal);
        let status = daemon.wait_exit(Duration::from_secs(10));
        assert_eq!(status.code(), Some(0), "B04 (1) {signal:?}: {}", daemon.log());
        daemon.assert_no_leftovers();
        assert!(!daemon.socket().exists(), "the socket is gone");
    }
}

#[test]
fn a_signal_while_servers_are_starting_leaves_nothing() {
    let mut daemon = Daemon::builder()
        .fake("slow", &["--initialize-delay", "60000", "--grandchild"])
        .fake("mute", &["--mode", "mute"])
        .start();
    wait_until("both are there", || {
        daemon.starts("slow") == 1 && daemon.starts("mute") == 1
    });
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait_exit(Duration::from_secs(10)).code(), Some(0));
    daemon.assert_no_leftovers();
}

#[test]
fn a_signal_in_the_middle_of_a_call_ends_the_call_too() {
    let mut daemon = Daemon::builder()
        .settings(json!({"drain_timeout": 1}))
        .fake("a", &[])
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 60}}),
    );
    wait_until("the call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    daemon.signal(Signal::TERM);
    let messages = frontend.until_closed();
    assert!(
        messages.iter().all(|message| message.error.is_some()),
        "{messages:?}"
    );
    assert_eq!(daemon.wait_exit(Duration::from_secs(10)).code(), Some(0));
    daemon.assert_no_leftovers();
}

#[test]
fn a_short_call_may_finish_while_the_daemon_drains() {
    let mut daemon = Daemon::builder().fake("a", &[]).start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({"name": "mcp_a_slow", "arguments": {"seconds": 0.7}}),
    );
    wait_until("the call is there", || {
        daemon.received_method("a", "tools/call").len() == 1
    });
    daemon.signal(Signal::TERM);
    assert_eq!(
        frontend.answer(1).value()["content"][0]["text"],
        "done after 0.7 s"
    );
    assert_eq!(daemon.wait_exit(Duration::from_secs(10)).code(), Some(0));
}

#[test]
fn after_kill_9_no_child_survives_and_the_next_start_is_clean() {
    let mut daemon = three();
    daemon.kill();
    daemon.assert_no_leftovers();

    daemon.start_again();
    for name in ["plain", "parent", "stubborn"] {
        daemon.wait_state(name, "connected");
    }
    let plain = daemon.processes("plain");
    assert_eq!(plain.len(), 1, "B04 (2)");
    for name in ["plain", "parent", "stubborn"] {
        let pid = daemon.status_of(name)["pid"].as_u64().unwrap() as u32;
        assert!(daemon.processes(name).contains(&pid), "B04 (2): {name}");
    }
    assert_eq!(
        daemon
            .frontend()
            .call_text("mcp_plain_echo", json!({"text": "x"})),
        "x"
    );
}

#[test]
fn kill_9_while_servers_are_starting_leaves_nothing() {
    let mut daemon = Daemon::builder()
        .fake("slow", &["--initialize-delay", "60000", "--mode", "stubborn"])
        .fake("deaf", &["--mode", "never-reads,stubborn"])
        .start();
    wait_until("both are there", || {
        daemon.starts("slow") == 1 && daemon.starts("deaf") == 1
    });
    daemon.kill();
    daemon.assert_no_leftovers();
}

#[test]
fn a_mistake_in_one_entry_costs_only_that_server() {
    let daemon = Daemon::builder()
        .server(
            "both",
            json!({"command": "x", "url": "https://example.invalid/mcp"}),
        )
        .server("neither", json!({"timeout": 5}))
        .server("wrong-type", json!({"command": ["a"], "timeout": "soon"}))
        .server("no-command", json!({"command": "no-such-command-here"}))
        .server("not-a-map", json!("text"))
        .fake_with("typo", &[], json!({"comand": "x", "conect_timeout": 1}))
        .fake("good", &[])
        .start();
    daemon.wait_state("good", "connected");
    daemon.wait_state("typo", "connected");
    for (name, parts) in [
        ("both", ["command", "url"]),
        ("neither", ["command", "url"]),
        ("wrong-type", ["config.yaml:", "command"]),
        ("no-command", ["no-such-command-here", "/usr/bin"]),
        ("not-a-map", ["config.yaml:", "not-a-map"]),
    ] {
        let status = daemon.wait_status(name, "failing", |status| status["error"].is_string());
        let error = status["error"].as_str().unwrap();
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{name}: {parts:?} in {error}"
        );
        assert_eq!(status["connected"], false);
    }
    let log = daemon.log();
    assert!(
        log.contains("comand") && log.contains("command"),
        "the nearest key is named: {log}"
    );
    assert_eq!(
        daemon.frontend().call_text("mcp_good_echo", json!({"text": "x"})),
        "x"
    );
}

#[test]
fn the_rest_of_the_file_is_not_ours() {
    let flags = json!({"command": fake_server(), "args": ["--name", "a"]});
    let text = format!(
        "model: {{weird: !tag [1, 2]}}\nterminal: 7\nagents: &a [x, *a2]\nmcp_servers:\n  a: {flags}\n"
    );
    // An alias without its anchor is an error of the whole document, so leave that one out.
    let daemon = Daemon::builder().config_text(&text.replace(", *a2", "")).start();
    daemon.wait_state("a", "connected");
    assert_eq!(
        daemon.frontend().call_text("mcp_a_echo", json!({"text": "x"})),
        "x"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_exit_code_78_with_the_place() {
    let start = Daemon::builder()
        .config_text("mcp_servers:\n  a: {command: [\n")
        .start_and_fail();
    assert_eq!(start.code, Some(78), "{}", start.stderr);
    assert!(start.stderr.contains("config.yaml:"), "{}", start.stderr);
}

#[test]
fn a_common_mistake_for_the_key_is_pointed_out() {
    for key in ["mcp", "servers"] {
        let daemon = Daemon::builder()
            .config_text(&format!("{key}:\n  a: {{command: x}}\n"))
            .start();
        let log = daemon.log();
        assert!(log.contains("mcp_servers") && log.contains(key), "{key}: {log}");
    }
}

#[test]
fn commands_are_found_with_a_minimal_path() {
    let builder = Daemon::builder();
    let home = builder.home().to_owned();
    let bin = home.join(".local/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir(home.join("empty")).unwrap();
    // `npx` is a script that finds its `node` on PATH, as the real one does; `node` is a stand-in.
    script(&bin.join("npx"), "#!/usr/bin/env node\n");
    script(
        &bin.join("node"),
        &format!("#!/bin/sh\nshift\nexec '{}' \"$@\"\n", fake_server().display()),
    );
    let daemon = builder
        .env("PATH", home.join("empty").to_str().unwrap())
        .server("npx", json!({"command": "npx", "args": ["--name", "npx"]}))
        .server("nope", json!({"command": "nope"}))
        .start();
    daemon.wait_state("npx", "connected");
    let child: Value = serde_json::from_str(&daemon.frontend().call_text("mcp_npx_env", json!({}))).unwrap();
    let path = child["PATH"].as_str().unwrap();
    assert!(
        path.split(':').any(|folder| folder == bin.to_str().unwrap()),
        "B72: {path}"
    );
    let nope = daemon.wait_status("nope", "failing", |status| status["error"].is_string());
    let error = nope["error"].as_str().unwrap();
    assert!(
        error.contains("nope") && error.contains(home.join("empty").to_str().unwrap()),
        "B72: {error}"
    );
}

fn script(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_command_may_be_a_link_or_begin_with_a_tilde() {
    let builder = Daemon::builder();
    symlink(fake_server(), builder.home().join("my server")).unwrap();
    let daemon = builder
        .server(
            "tilde",
            json!({"command": "~/my server", "args": ["--name", "tilde"]}),
        )
        .start_connected();
    assert_eq!(
        daemon
            .frontend()
            .call_text("mcp_tilde_echo", json!({"text": "x"})),
        "x"
    );
}

#[test]
fn an_idle_daemon_holds_no_dead_children() {
    let daemon = Daemon::builder()
        .fake("dying", &["--mode", "exit-at-once"])
        .fake("ok", &[])
        .start();
    wait_until("it died twice", || daemon.starts("dying") >= 2);
    wait_until("no zombie stays", || process::zombies_of(daemon.pid()).is_empty());
}

#[test]
fn a_launcher_that_dies_is_noticed_though_its_child_holds_the_pipes() {
    let daemon = Daemon::builder()
        .fake("gone", &["--mode", "exit-at-once", "--grandchild"])
        .start();
    let status = daemon.wait_status("gone", "failing", |status| status["error"].is_string());
    assert!(
        status["error"].as_str().unwrap().contains("exited with code 1"),
        "B01: {status}"
    );
    wait_until("B01: it is started again, and its first child is gone", || {
        daemon.starts("gone") >= 2 && daemon.processes("gone").len() <= 2
    });
}
