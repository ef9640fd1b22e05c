//! What `npx` would start, beside what the real `npx` starts.
//!
//! Needs npm and what `tests/real/install.sh` installs, as `tests/real_servers.rs` does, and the registry: `npx` fills
//! a cache in a temporary home. Skipped with a note without them; where `CI` is set that is a failure instead.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use hermesd_mcp::{
    environment::Environment,
    server::stdio::{
        package_runner::{AsWritten, direct},
        resolve_command,
    },
};
use support::{process, wait_within};

const PACKAGE: &str = "@modelcontextprotocol/server-memory";

/// A download of a hundred small packages.
const FILLING: Duration = Duration::from_secs(180);

fn skip(advice: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{advice}");
    support::skipped(advice);
}

/// The version that the other tests use.
fn pinned() -> String {
    let list = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/real/package.json");
    let list: Value = serde_json::from_slice(&fs::read(list).unwrap()).unwrap();
    format!("{PACKAGE}@{}", list["dependencies"][PACKAGE].as_str().unwrap())
}

/// Whether `tests/real/install.sh` ran here: then npm works and may be asked for packages.
fn installed() -> bool {
    let folder = std::env::var_os("HERMESD_MCP_REAL_SERVERS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/real-servers"),
        PathBuf::from,
    );
    folder.join("stamp").exists()
}

/// Starts a program in an environment, says hello, and gives the answer with the command lines of its process group.
fn hello(
    program: &Path,
    args: &[String],
    environment: &Environment,
    cwd: &Path,
) -> Option<(Value, Vec<Vec<String>>)> {
    use std::os::unix::process::CommandExt;
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment.iter())
        .current_dir(cwd)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }});
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{initialize}").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (send, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = stdout.read_line(&mut line);
        let _ = send.send((line, stdout));
    });
    let answer = answer.recv_timeout(FILLING);
    let running = group(child.id());
    drop(stdin);
    // A server ends when its stdin does, and npx with it.
    let (line, _stdout) = answer.unwrap_or_else(|_| {
        let id = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        let _ = child.wait();
        panic!("no answer to initialize within {FILLING:?}")
    });
    wait_within(FILLING, "the end of the server", || {
        matches!(child.try_wait(), Ok(Some(_)))
    });
    Some((serde_json::from_str(&line).ok()?, running))
}

/// The command lines of all processes of a group.
fn group(id: u32) -> Vec<Vec<String>> {
    let arguments = |pid: u32| -> Option<Vec<String>> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which may contain anything: state, parent, group.
        let group = stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse::<u32>();
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        (group == Ok(id)).then(|| line.split('\0').map(str::to_owned).collect())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| arguments(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect()
}

#[test]
fn direct_is_what_npx_starts() {
    if !installed() {
        return skip("no real servers: run tests/real/install.sh");
    }
    let folder = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(folder.path()).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut environment: Environment = [("HOME", home.to_str().unwrap()), ("PATH", &path)]
        .into_iter()
        .collect();
    let npx = resolve_command("npx", &path, &[], &home).unwrap().program;
    let spec = pinned();
    let args: Vec<String> = ["-y", &spec, "an argument"].map(str::to_owned).into();

    match direct(&npx, &args, &environment, &home) {
        Err(AsWritten::NotCached) => {}
        Err(why) => return skip(&format!("with this npm, npx is left alone: {why}")),
        Ok(found) => panic!("found in an empty home: {found:?}"),
    }
    let Some((filled, _)) = hello(&npx, &args, &environment, &home) else {
        return skip(&format!(
            "npx couldn't install {spec}: is the registry reachable?"
        ));
    };
    let found = direct(&npx, &args, &environment, &home).unwrap();
    assert_eq!(found.spec(), spec);
    assert_eq!(found.args, ["an argument"]);
    assert!(found.program.starts_with(home.join(".npm/_npx")), "{found:?}");

    // The cache is full now, and npx starts this program with these arguments.
    let expected = [found.program.to_str().unwrap(), "an argument", ""];
    let runs = |lines: &[Vec<String>]| {
        lines
            .iter()
            .any(|line| line.ends_with(&expected.map(str::to_owned)))
    };
    let (by_npx, processes) = hello(&npx, &args, &environment, &home).unwrap();
    assert!(runs(&processes), "{expected:?} in {processes:?}");
    assert!(processes.len() > 1, "npx stays: {processes:?}");

    // So does the direct start, alone.
    environment.set("PATH", &found.path);
    let (by_us, processes) = hello(&found.program, &found.args, &environment, &home).unwrap();
    assert!(runs(&processes), "{expected:?} in {processes:?}");
    assert_eq!(processes.len(), 1, "{processes:?}");
    assert_eq!(by_us["result"]["serverInfo"]["name"], "memory-server");
    assert_eq!((&by_us, &by_us), (&by_npx, &filled));
    assert!(process::with_argument(home.to_str().unwrap()).is_empty());

    // Without the version it is npx's to decide, and the hint names what is there.
    let args: Vec<String> = ["-y", PACKAGE].map(str::to_owned).into();
    let unpinned = direct(&npx, &args, &environment, &home).unwrap_err();
    assert!(
        matches!(unpinned, AsWritten::Unpinned { cached: None, .. }),
        "{unpinned}"
    );
}
