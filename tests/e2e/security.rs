//! The socket belongs to its user alone (B66), and no secret leaves by an output (B63).

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
};

use serde_json::json;

use crate::support::{Daemon, skipped};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn the_socket_and_its_folder_are_the_owners_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let daemon = Daemon::builder()
            .wrapper(&["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"])
            .start();
        assert_eq!(mode(daemon.socket()), 0o600, "B66: umask {umask}");
        assert_eq!(
            mode(daemon.socket().parent().unwrap()),
            0o700,
            "B66: umask {umask}"
        );
    }
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    for bad in [0o777, 0o1777, 0o770, 0o702] {
        let builder = Daemon::builder();
        let folder = builder.home().join("open");
        fs::create_dir(&folder).unwrap();
        set_mode(&folder, bad);
        let builder = builder.socket(folder.join("mcp.sock"));
        let start = builder.start_and_fail();
        assert_ne!(start.code, Some(0), "B66: mode {bad:o}");
        assert!(
            start.stderr.contains(folder.to_str().unwrap()),
            "B66: mode {bad:o}: {}",
            start.stderr
        );
        assert!(!folder.join("mcp.sock").exists(), "B66: mode {bad:o}");
    }
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    if !is_root() {
        skipped("giving a folder away needs root");
        return;
    }
    let builder = Daemon::builder();
    let folder = builder.home().join("theirs");
    fs::create_dir(&folder).unwrap();
    set_mode(&folder, 0o700);
    chown(&folder, Some(65534), Some(65534)).unwrap();
    let start = builder.socket(folder.join("mcp.sock")).start_and_fail();
    assert_ne!(start.code, Some(0), "B66");
    assert!(
        start.stderr.contains(folder.to_str().unwrap()),
        "B66: {}",
        start.stderr
    );
}

#[test]
fn another_user_gets_no_answer_even_where_the_modes_let_him() {
    if !is_root() {
        skipped("becoming another user needs root");
        return;
    }
    let daemon = Daemon::builder().fake("a", &[]).start_connected();
    // Somebody opened everything; the check of the peer's uid is what is left.
    set_mode(daemon.home(), 0o755);
    set_mode(&daemon.home().join("run"), 0o755);
    set_mode(daemon.socket().parent().unwrap(), 0o755);
    set_mode(daemon.socket(), 0o666);
    let program = daemon.home().join("program");
    fs::copy(crate::support::hermesd_mcp(), &program).unwrap();
    let status = |uid: u32| {
        let mut command = daemon.command(&[]);
        let output = std::process::Command::new(&program)
            .args(["status", "--json", "--socket"])
            .arg(daemon.socket())
            .env_clear()
            .envs(
                command
                    .env("HOME", daemon.home())
                    .get_envs()
                    .filter_map(|(key, value)| Some((key, value?))),
            )
            .current_dir("/")
            .uid(uid)
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (served, text) = status(0);
    assert!(served && text.contains("\"a\""), "the owner is served: {text}");
    let (served, text) = status(65534);
    assert!(
        !served && !text.contains("\"a\""),
        "B66: another uid is not: {text}"
    );
}

#[test]
fn no_secret_is_in_any_output() {
    let secrets = [
        "plain-secret-77",
        "sk-abc123def456ghi789",
        "ghp_0123456789abcdef0123",
        "hunter2hunter2",
    ];
    let daemon = Daemon::builder()
        .fake_with(
            "a",
            &[
                "--stderr",
                "TOK is plain-secret-77, key sk-abc123def456ghi789, password=hunter2hunter2",
            ],
            json!({"env": {"TOK": "plain-secret-77", "OTHER": "ghp_0123456789abcdef0123"}}),
        )
        .fake_with(
            "dying",
            &[
                "--mode",
                "exit-at-once",
                "--stderr",
                "Authorization: Bearer ghp_0123456789abcdef0123 rejected with 401",
            ],
            json!({"env": {"TOK": "plain-secret-77"}}),
        )
        .settings(json!({"log_level": "trace"}))
        .start();
    daemon.wait_state("a", "connected");
    daemon.wait_status("dying", "failing", |status| status["error"].is_string());
    let mut frontend = daemon.frontend();
    let failing = "401: Authorization: Bearer sk-abc123def456ghi789 plain-secret-77 password=hunter2hunter2";
    let arguments = json!({"text": failing});
    let outputs = [
        (
            "call",
            frontend
                .result(
                    "hermes/call",
                    json!({"name": "mcp_a_fail", "arguments": arguments}),
                )
                .to_string(),
        ),
        ("status", frontend.result("hermes/status", json!({})).to_string()),
        (
            "logs",
            frontend.result("hermes/logs", json!({"server": "a"})).to_string(),
        ),
        (
            "logs",
            frontend
                .result("hermes/logs", json!({"server": "dying"}))
                .to_string(),
        ),
        ("log", daemon.log()),
    ];
    for (what, output) in &outputs {
        for secret in secrets {
            assert!(!output.contains(secret), "B63: {secret} in {what}: {output}");
        }
    }
    assert!(
        outputs[0].1.contains("[REDACTED]") && outputs[0].1.contains("401"),
        "B63: {}",
        outputs[0].1
    );
    assert!(outputs[2].1.contains("[REDACTED]"), "B63: {}", outputs[2].1);
    assert!(outputs[3].1.contains("401"), "B63: {}", outputs[3].1);
}

#[test]
fn bodies_are_not_logged() {
    let daemon = Daemon::builder()
        .fake("a", &[])
        .settings(json!({"log_level": "debug"}))
        .start_connected();
    let mut frontend = daemon.frontend();
    frontend.call_text("mcp_a_echo", json!({"text": "a-private-letter"}));
    frontend.call_text("mcp_a_notify", json!({"count": 3, "bytes": 4}));
    let log = daemon.log();
    assert!(!log.contains("a-private-letter"), "{log}");
    assert!(
        !log.contains("nnnn"),
        "a server's own messages are bodies too: {log}"
    );
}
