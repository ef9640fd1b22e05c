//! The command line without a daemon: help, exit codes, texts that say what to do, completions.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{path::Path, process::Output};

use assert_cmd::Command;

/// The program in a home of its own, with no variable of this machine that could lead it elsewhere.
fn hermesd_mcp(home: &Path) -> Command {
    let mut command = Command::cargo_bin("hermesd-mcp").unwrap();
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("USERPROFILE", home);
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    hermesd_mcp(home).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_lists_the_commands_and_exit_codes_and_hides_the_internal_ones() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for part in [
        "status",
        "tools",
        "call",
        "logs",
        "restart",
        "stop",
        "socket",
        "completions",
        "Exit codes:",
        " 69 ",
    ] {
        assert!(help.contains(part), "{part:?} is missing in {help}");
    }
    assert!(!help.contains("__"), "{help}");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [
        &["frobnicate"][..],
        &["status", "--no-such-option"],
        &["call"],
        &["call", "x", "a=1", "--json", "{}"],
        &["call", "x", "--timeout", "-1"],
        &["call", "x", "--timeout", "NaN"],
        &["logs"],
        &["completions", "no-such-shell"],
    ] {
        let output = run(home.path(), arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn without_a_daemon_every_client_command_says_how_to_start_one() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["tools"],
        &["call", "mcp_x_y"],
        &["logs", "x"],
        &["restart", "x"],
        &["stop"],
    ] {
        let output = run(home.path(), arguments);
        assert_eq!(
            output.status.code(),
            Some(69),
            "{arguments:?}: {}",
            stderr(&output)
        );
        let text = stderr(&output);
        assert!(text.contains("no daemon is running"), "{arguments:?}: {text}");
        assert!(text.contains("hermesd-mcp serve"), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_socket_that_nobody_listens_on_is_told_from_none() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("s.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let output = run(home.path(), &["--socket", socket.to_str().unwrap(), "status"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(
        stderr(&output).contains("nobody listens on the socket"),
        "{}",
        stderr(&output)
    );

    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = hermesd_mcp(home.path())
        .env("HERMESD_MCP_SOCKET", &file)
        .arg("status")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("is not a socket"), "{}", stderr(&output));
}

#[test]
fn colours_are_for_terminals_or_when_asked() {
    let home = tempfile::tempdir().unwrap();
    let plain = run(home.path(), &["status"]);
    assert!(!stderr(&plain).contains('\u{1b}'));
    let colored = run(home.path(), &["status", "--color", "always"]);
    assert!(
        stderr(&colored).contains("\u{1b}[31merror:"),
        "{:?}",
        stderr(&colored)
    );
    let never = run(home.path(), &["status", "--color", "never"]);
    assert_eq!(stderr(&never), stderr(&plain));
}

#[test]
fn the_socket_follows_option_then_variable_then_home() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["socket"]);
    assert_eq!(output.status.code(), Some(0));
    let default = stdout(&output);
    assert!(default.contains("mcp.sock") || cfg!(windows), "{default}");

    let variable = home.path().join("v.sock");
    let option = home.path().join("o.sock");
    let output = hermesd_mcp(home.path())
        .env("HERMESD_MCP_SOCKET", &variable)
        .arg("socket")
        .output()
        .unwrap();
    assert_eq!(stdout(&output).trim_end(), variable.to_str().unwrap());
    let output = hermesd_mcp(home.path())
        .env("HERMESD_MCP_SOCKET", &variable)
        .args(["socket", "--socket"])
        .arg(&option)
        .output()
        .unwrap();
    assert_eq!(stdout(&output).trim_end(), option.to_str().unwrap());
}

#[test]
fn completions_exist_for_every_shell() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(home.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("hermesd-mcp"), "{shell}");
    }
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    // `hermesd-mcp completions bash | head -1`
    let home = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("hermesd-mcp"))
        .env("HOME", home.path())
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

/// README and config.example.yaml say that the example runs as it is, whether or not the program is installed.
#[test]
fn the_example_configuration_runs_without_an_installation() {
    let home = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.yaml");
    let output = hermesd_mcp(home.path())
        .env("PATH", "/usr/bin:/bin")
        .args(["check", "--config", example])
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}
