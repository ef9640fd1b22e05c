//! Real MCP servers from npm and PyPI behind the real daemon.
//!
//! They are installed by `tests/real/install.sh` into the folder `$HERMESD_MCP_REAL_SERVERS` (default
//! `target/real-servers`), versions pinned in `tests/real/`. Without them these tests are skipped with a note; where
//! `CI` is set that is a failure instead.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};

use support::{Builder, Daemon, LIMIT, process};

/// The utility tools are ours, not the servers'.
const UTILITIES: [&str; 4] = ["list_resources", "read_resource", "list_prompts", "get_prompt"];

/// The folder with the servers, if they are installed.
fn installed() -> Option<PathBuf> {
    let folder = std::env::var_os("HERMESD_MCP_REAL_SERVERS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/real-servers"),
        PathBuf::from,
    );
    if folder.join("stamp").exists() {
        return Some(folder);
    }
    let advice = format!(
        "no real servers in {}: run tests/real/install.sh",
        folder.display()
    );
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{advice}");
    support::skipped(&advice);
    None
}

/// A daemon to be, with some of the servers.
fn with(folder: &std::path::Path, names: &[&str]) -> Builder {
    // Node may be anywhere on this machine's PATH.
    let mut builder = Daemon::builder().env("PATH", &std::env::var("PATH").unwrap());
    let files = builder.home().join("files");
    fs::create_dir_all(&files).unwrap();
    fs::write(files.join("note.txt"), "a note\nin two lines\n").unwrap();
    for name in names {
        let npm = |name: &str| {
            folder
                .join("node_modules/.bin")
                .join(format!("mcp-server-{name}"))
        };
        let pypi = |name: &str| folder.join("python/bin").join(format!("mcp-server-{name}"));
        let entry = match *name {
            "everything" => json!({"command": npm(name), "args": ["stdio"]}),
            "filesystem" => json!({"command": npm(name), "args": [files]}),
            "memory" => {
                json!({"command": npm(name), "env": {"MEMORY_FILE_PATH": files.join("memory.jsonl")}})
            }
            "time" => json!({"command": pypi(name), "args": ["--local-timezone", "UTC"]}),
            _ => json!({"command": pypi(name)}),
        };
        builder = builder.server(name, entry);
    }
    builder
}

/// What `socat - UNIX:$(hermesd-mcp socket)` does with one line.
fn one_line(daemon: &Daemon, line: &str) -> Value {
    let mut stream = UnixStream::connect(daemon.socket()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer.lines().count(), 1, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn every_server_starts_and_lists_its_tools() {
    let Some(folder) = installed() else { return };
    let counts = [
        ("everything", 13),
        ("filesystem", 14),
        ("memory", 9),
        ("time", 2),
        ("git", 12),
        ("fetch", 1),
    ];
    let names = counts.map(|(name, _)| name);
    let daemon = with(&folder, &names).start_connected();
    for (server, count) in counts {
        let list = daemon
            .frontend()
            .result("hermes/tools", json!({"server": server}));
        let native: Vec<&str> = list["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|tool| tool["tool"].as_str())
            .filter(|name| !UTILITIES.contains(name))
            .collect();
        assert_eq!(native.len(), count, "{server}: {native:?}");
        for tool in list["tools"].as_array().unwrap() {
            assert_eq!(tool["parameters"]["type"], "object", "{tool}");
            assert!(tool["parameters"]["properties"].is_object(), "{tool}");
        }
    }
    let everything = daemon.status_of("everything");
    assert_eq!(everything["protocol_version"], "2025-11-25");
    assert_eq!(everything["server_info"]["name"], "mcp-servers/everything");
}

#[test]
fn one_line_lists_and_calls() {
    let Some(folder) = installed() else { return };
    let daemon = with(&folder, &["everything", "filesystem", "time"]).start_connected();
    let list = one_line(&daemon, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let names: Vec<&str> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in [
        "mcp_everything_get_sum",
        "mcp_filesystem_read_text_file",
        "mcp_time_get_current_time",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let call = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "hermes/call", "params": params});
        one_line(&daemon, &request.to_string())["result"]["result"].clone()
    };
    let text = |value: Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("no text: {value}"))
            .to_owned()
    };
    assert_eq!(
        text(call("mcp_everything_echo", json!({"message": "hi"}))),
        "Echo: hi"
    );
    assert!(text(call("mcp_everything_get_sum", json!({"a": 2, "b": 40}))).contains("42"));
    let note = daemon.home().join("files/note.txt");
    assert_eq!(
        text(call("mcp_filesystem_read_text_file", json!({"path": note}))),
        "a note\nin two lines\n"
    );
    let time = text(call(
        "mcp_time_get_current_time",
        json!({"timezone": "Europe/Berlin"}),
    ));
    assert!(time.contains("Europe/Berlin"), "{time}");
}

#[test]
fn everything_shows_every_kind_of_result() {
    let Some(folder) = installed() else { return };
    let daemon = with(&folder, &["everything"]).start_connected();
    let mut frontend = daemon.frontend();

    let image = frontend.result("hermes/call", json!({"name": "mcp_everything_get_tiny_image"}));
    let text = image["result"].as_str().unwrap();
    let file = text.lines().find_map(|line| line.strip_prefix("MEDIA:")).unwrap();
    assert_eq!(fs::read(file).unwrap()[..4], *b"\x89PNG", "{text}");

    let location = json!({"location": "New York"});
    let weather = frontend.call("mcp_everything_get_structured_content", location);
    assert!(
        weather["structuredContent"]["temperature"].is_number(),
        "{weather}"
    );

    let links = frontend.call("mcp_everything_get_resource_links", json!({"count": 3}));
    let kinds: Vec<&Value> = links["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "resource_link").count(),
        3,
        "{links}"
    );

    let resources = frontend.result("hermes/call", json!({"name": "mcp_everything_list_resources"}));
    let uri = resources["resources"][0]["uri"].as_str().unwrap();
    let read = frontend.result(
        "hermes/call",
        json!({"name": "mcp_everything_read_resource", "arguments": {"uri": uri}}),
    );
    assert!(read["result"].is_string(), "{read}");
    let prompts = frontend.result("hermes/call", json!({"name": "mcp_everything_list_prompts"}));
    assert!(!prompts["prompts"].as_array().unwrap().is_empty(), "{prompts}");

    let wrong = frontend.request(
        "hermes/call",
        json!({"name": "mcp_everything_get_sum", "arguments": {"a": "not a number"}}),
    );
    assert!(!wrong.failure().is_empty());
}

#[test]
fn progress_of_a_real_server_arrives() {
    let Some(folder) = installed() else { return };
    let daemon = with(&folder, &["everything"]).start_connected();
    let mut frontend = daemon.frontend();
    frontend.send(
        1,
        "tools/call",
        json!({
            "name": "mcp_everything_trigger_long_running_operation",
            "arguments": {"duration": 1, "steps": 4},
            "_meta": {"progressToken": "mine"},
        }),
    );
    let mut seen = Vec::new();
    loop {
        let message = frontend.next();
        if message.id.is_some() {
            assert_ne!(message.value()["isError"], true, "{}", message.raw);
            break;
        }
        let params = message.params.unwrap();
        assert_eq!(params["progressToken"], "mine");
        seen.push(params["progress"].as_u64().unwrap());
    }
    assert_eq!(seen, [1, 2, 3, 4]);
}

#[test]
fn two_frontends_share_one_memory() {
    let Some(folder) = installed() else { return };
    let mut daemon = with(&folder, &["memory"]).start_connected();
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["likes engines"]});
    daemon
        .frontend()
        .call("mcp_memory_create_entities", json!({"entities": [entity]}));
    let graph = daemon.frontend().call("mcp_memory_read_graph", json!({}));
    assert!(graph.to_string().contains("likes engines"), "{graph}");

    let server = daemon.status_of("memory")["pid"].as_u64().unwrap() as u32;
    assert_eq!(process::parent(server).is_some(), cfg!(target_os = "linux"));
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(daemon.wait_exit(Duration::from_secs(10)).code(), Some(0));
    assert_eq!(process::parent(server), None, "the server is gone");
}
