//! One daemon per socket, whatever happened before (B73, B74).

use std::{fs, thread, time::Duration};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Daemon, wait_within};

#[test]
fn a_left_over_socket_is_no_obstacle() {
    let mut daemon = Daemon::builder().fake("a", &[]).start_connected();
    daemon.kill();
    assert!(daemon.socket().exists(), "kill -9 leaves the socket");
    daemon.start_again();
    daemon.wait_state("a", "connected");
    assert_eq!(
        daemon.frontend().call_text("mcp_a_echo", json!({"text": "x"})),
        "x",
        "B73 (a)"
    );
}

#[test]
fn of_twenty_starts_one_serves_and_nineteen_say_why_not() {
    let mut first = Daemon::builder().fake("a", &[]).start_connected();
    first.kill();
    let mut starts: Vec<_> = (0..20).map(|_| first.spawn_second()).collect();
    let mut codes = Vec::new();
    wait_within(Duration::from_secs(20), "B73 (b): nineteen have ended", || {
        starts.retain_mut(|child| match child.try_wait().unwrap() {
            Some(status) => {
                codes.push(status.code());
                false
            }
            None => true,
        });
        starts.len() <= 1
    });
    let mut serving = starts.pop().expect("B73 (b): one serves");
    let hello = first.frontend().result("hermes/hello", json!({}));
    let log = first.log();
    assert_eq!(hello["pid"], serving.id(), "B73 (b)");
    assert_eq!(codes, vec![Some(75); 19], "B73 (b): {log}");
    assert_eq!(log.matches("already running").count(), 19, "B73 (b): {log}");
    crate::support::process::signal(serving.id(), Signal::TERM);
    serving.wait().unwrap();
}

#[test]
fn a_daemon_that_does_not_answer_is_never_replaced() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let inode = daemon.socket_inode();
    daemon.signal(Signal::STOP);
    let second = daemon.start_second();
    daemon.signal(Signal::CONT);
    assert_eq!(second.code, Some(75), "B73 (c): {}", second.stderr);
    assert!(
        second.stderr.contains("already running"),
        "B73 (c): {}",
        second.stderr
    );
    assert!(
        second.stderr.contains(&daemon.pid().to_string()),
        "B73 (c): {}",
        second.stderr
    );
    assert_eq!(daemon.socket_inode(), inode, "B73 (c)");
    assert_eq!(
        daemon.frontend().call_text("mcp_a_echo", json!({"text": "x"})),
        "x",
        "B73 (c)"
    );
}

#[test]
fn a_second_start_leaves_the_first_ones_servers_alone() {
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    let processes = daemon.processes("a");
    assert_eq!(daemon.start_second().code, Some(75));
    assert_eq!(daemon.processes("a"), processes);
    assert_eq!(daemon.starts("a"), 1);
}

#[test]
fn a_file_that_is_no_socket_is_not_deleted() {
    let builder = Daemon::builder();
    let folder = builder.home().join("mine");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let path = folder.join("mcp.sock");
    fs::write(&path, "precious").unwrap();
    let builder = builder.socket(&path);
    let start = builder.start_and_fail();
    assert_ne!(start.code, Some(0));
    assert!(start.stderr.contains(path.to_str().unwrap()), "{}", start.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn two_homes_have_two_daemons() {
    let one = Daemon::builder();
    let shared = one.home().join("run");
    let run = shared.to_str().unwrap().to_owned();
    let at = |builder: crate::support::Builder, home: &str, name: &str| {
        let home = builder.home().join(home);
        fs::create_dir(&home).unwrap();
        builder
            .env("HERMES_HOME", home.to_str().unwrap())
            .env("XDG_RUNTIME_DIR", &run)
            .default_socket()
            .fake(name, &[])
    };
    // 150 characters and more, as in B74: the runtime folder keeps the socket's path short.
    let first = at(one, &"d".repeat(150), "first").start_connected();
    let second = at(Daemon::builder(), &"e".repeat(150), "second").start_connected();
    assert_ne!(first.socket(), second.socket(), "B74");
    assert!(
        first.socket().starts_with(&shared) && second.socket().starts_with(&shared),
        "B74"
    );
    assert_eq!(
        first.frontend().call_text("mcp_first_echo", json!({"text": "1"})),
        "1",
        "B74"
    );
    assert_eq!(
        second
            .frontend()
            .call_text("mcp_second_echo", json!({"text": "2"})),
        "2",
        "B74"
    );
}

#[test]
fn a_socket_path_that_is_too_long_is_refused_with_the_figures() {
    let builder = Daemon::builder();
    let path = builder.home().join("x".repeat(120)).join("mcp.sock");
    let start = builder.socket(&path).start_and_fail();
    assert_ne!(start.code, Some(0));
    let length = path.as_os_str().len().to_string();
    assert!(
        start.stderr.contains(path.to_str().unwrap()),
        "B74: {}",
        start.stderr
    );
    assert!(
        start.stderr.contains(&length),
        "B74: {length} in {}",
        start.stderr
    );
    assert!(
        ["107", "108", "103", "104"]
            .iter()
            .any(|limit| start.stderr.contains(limit)),
        "B74: {}",
        start.stderr
    );
}

#[test]
fn starts_and_stops_in_a_row_never_meet_a_stale_socket() {
    let mut daemon = Daemon::builder().fake("a", &[]).start_connected();
    for _ in 0..5 {
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait_exit(Duration::from_secs(10)).code(), Some(0));
        daemon.start_again();
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(daemon.frontend().result("ping", json!({})), json!({})));
        }
    });
}
