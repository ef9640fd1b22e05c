//! What a server's process gets to see: its environment, its folder, its standard streams.

use std::fs;

use serde_json::{Map, Value, json};

use crate::support::{Builder, Daemon};

/// The variables that every child may have, besides `XDG_*` (hermes-behaviour.md "Security").
const ALLOWED: [&str; 8] = [
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR",
];

fn environment_of(daemon: &Daemon, server: &str) -> Map<String, Value> {
    let text = daemon
        .frontend()
        .call_text(&format!("mcp_{server}_env"), json!({}));
    serde_json::from_str(&text).unwrap()
}

fn with_secrets(mut builder: Builder) -> Builder {
    for index in 0..50 {
        let name = match index % 5 {
            0 => format!("AWS_SECRET_ACCESS_KEY_{index}"),
            1 => format!("OPENAI_API_KEY_{index}"),
            2 => format!("GITHUB_TOKEN_{index}"),
            3 => format!("LD_PRELOAD_{index}"),
            _ => format!("HERMES_{index}"),
        };
        builder = builder.env(&name, &format!("planted-secret-{index}"));
    }
    builder
        .env("USER", "somebody")
        .env("TERM", "dumb")
        .env("XDG_DATA_HOME", "/tmp/data")
        .env("SSH_AUTH_SOCK", "/tmp/agent")
        .env("GITHUB_TOKEN", "planted-secret-token")
}

#[test]
fn nothing_but_the_allowed_variables_reaches_a_child() {
    let daemon = with_secrets(Daemon::builder())
        .fake("plain", &[])
        .fake_with(
            "own",
            &[],
            json!({"env": {"MY_KEY": "mine", "NUMBER": 7, "FLAG": true, "LANG": "tlh"}}),
        )
        .fake_with(
            "passed",
            &[],
            json!({"env_passthrough": ["SSH_AUTH_SOCK", "NOT_SET_AT_ALL"]}),
        )
        .start_connected();

    let plain = environment_of(&daemon, "plain");
    for (name, value) in &plain {
        assert!(
            ALLOWED.contains(&name.as_str()) || name.starts_with("XDG_"),
            "{name}={value}"
        );
        assert!(
            !value.as_str().unwrap().contains("planted-secret"),
            "{name}={value}"
        );
    }
    assert_eq!(plain["USER"], "somebody");
    assert_eq!(plain["TERM"], "dumb");
    assert_eq!(plain["XDG_DATA_HOME"], "/tmp/data");
    assert_eq!(plain["HOME"], daemon.home().to_str().unwrap());

    let own = environment_of(&daemon, "own");
    assert_eq!(own["MY_KEY"], "mine");
    assert_eq!(own["NUMBER"], "7", "scalars become strings");
    assert!(
        ["true", "True"].map(Value::from).contains(&own["FLAG"]),
        "{}",
        own["FLAG"]
    );
    assert_eq!(own["LANG"], "tlh", "an entry's own value wins");
    assert!(!Value::from(own).to_string().contains("planted-secret"));

    let passed = environment_of(&daemon, "passed");
    assert_eq!(passed["SSH_AUTH_SOCK"], "/tmp/agent");
    assert!(!passed.contains_key("NOT_SET_AT_ALL"));
    assert!(!passed.contains_key("GITHUB_TOKEN"));
}

#[test]
fn placeholders_come_from_the_environment_and_the_env_file() {
    let builder = with_secrets(Daemon::builder());
    fs::write(
        builder.home().join(".hermes/.env"),
        "FROM_FILE=file-value\nexport QUOTED='a b'\n",
    )
    .unwrap();
    let daemon = builder
        .fake_with(
            "a",
            &["--stderr", "${env:USER}"],
            json!({"env": {
                "A": "${GITHUB_TOKEN}", "B": "x-${env:FROM_FILE}-y", "C": "${QUOTED}", "D": "${NOT_SET_AT_ALL}",
            }}),
        )
        .start_connected();
    let child = environment_of(&daemon, "a");
    assert_eq!(child["A"], "planted-secret-token");
    assert_eq!(child["B"], "x-file-value-y");
    assert_eq!(child["C"], "a b");
    assert_eq!(
        child["D"], "${NOT_SET_AT_ALL}",
        "an unset variable keeps its text"
    );
    assert!(
        daemon.log().contains("NOT_SET_AT_ALL"),
        "and is warned of: {}",
        daemon.log()
    );
    let logs = daemon
        .frontend()
        .result("hermes/logs", json!({"server": "a"}))
        .to_string();
    assert!(
        logs.contains("somebody"),
        "arguments are interpolated too: {logs}"
    );
}

#[test]
fn the_working_directory_is_home_or_the_configured_one() {
    let builder = Daemon::builder();
    let other = builder.home().join("work here");
    fs::create_dir(&other).unwrap();
    let daemon = builder
        .fake("home", &[])
        .fake_with("there", &[], json!({"cwd": other}))
        .fake_with("tilde", &[], json!({"cwd": "~/work here"}))
        .fake_with("nowhere", &[], json!({"cwd": "/nonexistent/folder"}))
        .start();
    for name in ["home", "there", "tilde"] {
        daemon.wait_state(name, "connected");
    }
    let cwd = |server: &str| {
        daemon
            .frontend()
            .call_text(&format!("mcp_{server}_cwd"), json!({}))
    };
    let real = |path: &std::path::Path| fs::canonicalize(path).unwrap().to_str().unwrap().to_owned();
    assert_eq!(cwd("home"), real(daemon.home()));
    assert_eq!(cwd("there"), real(&other));
    assert_eq!(cwd("tilde"), real(&other));
    let nowhere = daemon.wait_status("nowhere", "failing", |status| status["error"].is_string());
    let error = nowhere["error"].as_str().unwrap();
    assert!(error.contains("/nonexistent/folder"), "{error}");
}

#[test]
fn arguments_arrive_as_they_are_written() {
    let odd = ["--stderr", "a b  c d 'q' \"dq\" $HOME * ~ ; | \\ ünï\nline two"];
    let daemon = Daemon::builder().fake("a", &odd).start_connected();
    let logs = daemon
        .frontend()
        .result("hermes/logs", json!({"server": "a"}))
        .to_string();
    assert!(
        logs.contains("a b  c d 'q' \\\"dq\\\" $HOME * ~ ; | \\\\ ünï"),
        "no shell touched it: {logs}"
    );
    assert!(logs.contains("line two"), "{logs}");
}

#[test]
fn no_open_file_of_the_daemon_reaches_a_child() {
    let daemon = Daemon::builder().fake("a", &[]).fake("b", &[]).start_connected();
    let frontend = daemon.frontend();
    daemon.frontend().result("hermes/restart", json!({"server": "a"}));
    daemon.wait_status("a", "connected again", |status| {
        status["state"] == "connected" && daemon.starts("a") == 2
    });
    // What the tests were started with goes through every process below them.
    let ours: Vec<String> = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    for server in ["a", "b"] {
        let pid = daemon.processes(server)[0];
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return; // no /proc here
        };
        let open: Vec<String> = files
            .filter_map(|file| fs::read_link(file.ok()?.path()).ok())
            .map(|target| target.display().to_string())
            .filter(|target| !target.ends_with(&format!("received-{server}.log")) && !ours.contains(target))
            .collect();
        assert_eq!(
            open.len(),
            3,
            "stdin, stdout and stderr of {server}, nothing else: {open:?}"
        );
    }
    drop(frontend);
}
