//! The README does what it says: its examples are run against a daemon, its tables are complete.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli_support;

use std::fs;

#[cfg(unix)]
use cli_support::{Home, program, text};
use hermesd_mcp::cli::Exit;

fn readme() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

/// The fenced block after `<!-- tested: name -->`.
fn example(name: &str) -> String {
    let readme = readme();
    let marker = format!("<!-- tested: {name} -->\n```");
    let (_, rest) = readme
        .split_once(&marker)
        .unwrap_or_else(|| panic!("no example {marker}"));
    let (_language, rest) = rest.split_once('\n').unwrap();
    let (block, _) = rest.split_once("\n```").unwrap();
    format!("{block}\n")
}

/// Runs an example with the tool of its name; `arguments` come before the block. False when the tool is missing.
#[cfg(unix)]
fn run_example(tool: &str, interpreter: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()) {
        eprintln!("skipped: {tool} is not installed, so the README's example for it was not run");
        return false;
    }
    let home = Home::with_demo_server();
    let _daemon = home.serve();
    // The examples call the program by its name.
    let folder = program().parent().unwrap().to_path_buf();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path))).unwrap();
    let file = home.path().join("example");
    fs::write(&file, example(tool)).unwrap();
    let output = std::process::Command::new(interpreter)
        .arg(&file)
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path())
        .output()
        .unwrap();
    let stdout = text(&output.stdout);
    assert!(
        output.status.success(),
        "{tool}: {stdout}\n{}",
        text(&output.stderr)
    );
    assert!(
        stdout.contains("mcp_demo_time"),
        "{tool} lists the tools: {stdout}"
    );
    assert!(stdout.contains("The date and time now."), "{tool}: {stdout}");
    let result = stdout.lines().last().unwrap_or_default();
    assert!(
        result.contains("result") && result.contains("hello"),
        "{tool} calls one: {stdout}"
    );
    true
}

/// Whether a missing tool is a fault: on CI everything is there.
#[cfg(unix)]
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

#[cfg(unix)]
#[test]
fn the_python_example_works() {
    assert!(run_example("python3", "python3") || !is_ci(), "install python3");
}

#[cfg(unix)]
#[test]
fn the_node_example_works() {
    assert!(run_example("node", "node") || !is_ci(), "install node");
}

#[cfg(unix)]
#[test]
fn the_shell_examples_work() {
    let ran = [run_example("socat", "sh"), run_example("nc", "sh")];
    assert!(ran.contains(&true) || !is_ci(), "install socat");
}

#[test]
fn the_first_screen_has_exactly_the_two_commands() {
    let readme = readme();
    let (_, rest) = readme.split_once("```sh\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let commands: Vec<&str> = block
        .lines()
        .filter_map(|line| line.split('#').next())
        .map(str::trim)
        .collect();
    assert_eq!(commands, ["cargo run --release -- demo", "cargo test"]);
    let line = readme
        .lines()
        .position(|line| line.starts_with("cargo test"))
        .unwrap();
    assert!(line < 40, "the first screen, not line {line}");
}

#[test]
fn every_exit_code_is_in_the_table() {
    let readme = readme();
    for exit in Exit::ALL {
        let row = format!("| {} | {} |", exit.code(), exit.meaning());
        assert!(readme.contains(&row), "{row}");
    }
}

#[test]
fn every_option_of_the_example_configuration_is_documented() {
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.yaml")).unwrap();
    let (readme, mut options) = (readme(), 0);
    for line in example.lines() {
        let line = line.trim_start_matches("#~").trim_start();
        let Some((key, _)) = line.split_once(':').filter(|(key, _)| !key.starts_with('#')) else {
            continue;
        };
        // Names of servers and variables are the user's own.
        if ["demo", "filesystem", "everything", "remote"].contains(&key)
            || key.contains(|c: char| c.is_ascii_uppercase())
        {
            continue;
        }
        options += 1;
        assert!(
            readme.contains(&format!("`{key}`"))
                || readme.contains(&format!(".{key}`"))
                || readme.contains(&format!("`mcp_servers.<{key}>`"))
                || readme.contains(&format!("`{key}.")),
            "'{key}' is not in the README"
        );
    }
    assert!(options > 20, "only {options} options were found in the example");
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let reasons = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).unwrap();
    let (mut section, mut count) = ("", 0);
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]")
            && let Some((name, _)) = line.split_once(" = ")
        {
            count += 1;
            assert!(
                reasons.contains(&format!("`{name}`")),
                "{name} has no line in ARCHITECTURE.md"
            );
        }
    }
    assert!(count > 20, "only {count} dependencies were found");
}
