//! The load program: what the daemon costs, measured against direct clients of the same server in the same run.
//!
//! `cargo bench --bench load` prints a Markdown table; `-- --quick` takes a tenth of the time and is as much less
//! certain. It fails when something doesn't work, never because something was slow.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(unix)]
mod direct;
#[cfg(unix)]
mod figures;
#[cfg(unix)]
mod lines;
#[cfg(unix)]
#[path = "../../tests/support/mod.rs"]
mod support;

#[cfg(unix)]
fn main() {
    unix::main();
}

#[cfg(not(unix))]
fn main() {
    println!("the load program needs Unix sockets");
}

#[cfg(unix)]
mod unix {
    use std::{
        process::Command,
        thread,
        time::{Duration, Instant},
    };

    use serde_json::json;

    use crate::{
        direct::Rmcp,
        figures::{Samples, Table},
        lines::Lines,
        support::{Daemon, process},
    };

    /// Calls that are on their way at the same time, in the figures about throughput.
    const IN_FLIGHT: usize = 32;

    struct Plan {
        rounds: usize,
        calls: usize,
        idle: Duration,
    }

    pub(crate) fn main() {
        let asked_for = |flag: &str| std::env::args().any(|argument| argument == flag);
        if !asked_for("--bench") {
            return; // `cargo test --benches` only wants to know that it builds.
        }
        let quick = asked_for("--quick");
        let plan = if quick {
            Plan {
                rounds: 3,
                calls: 500,
                idle: Duration::from_secs(5),
            }
        } else {
            Plan {
                rounds: 7,
                calls: 3_000,
                idle: Duration::from_secs(20),
            }
        };
        build_fake_server();
        let mut table = Table::default();
        calls(&plan, &mut table);
        lists_and_idleness(&plan, &mut table);
        println!("{table}");
    }

    /// `cargo bench --bench load` builds the daemon but no example, so build the peer here, in the same profile.
    fn build_fake_server() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--example", "fake-server", "--manifest-path"]);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        assert!(
            command.status().expect("cargo runs").success(),
            "the fake server builds"
        );
    }

    /// The same echo by three ways, taking turns so that a busy moment of the machine hits them all.
    fn calls(plan: &Plan, table: &mut Table) {
        let daemon = Daemon::builder().fake_quiet("a", &[]).start_connected();
        let mut by_hand = Lines::spawn("echo");
        let mut by_rmcp = Rmcp::spawn();
        let mut by_daemon = Lines::connect(daemon.socket(), "mcp_a_echo");
        for warm_up in [
            by_hand.one_by_one(200),
            by_rmcp.one_by_one(200),
            by_daemon.one_by_one(200),
        ] {
            assert_eq!(warm_up.len(), 200);
        }

        let (mut hand, mut rmcp, mut through) = (Samples::default(), Samples::default(), Samples::default());
        let (mut hand_rate, mut rmcp_rate, mut rate) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            hand.round(by_hand.one_by_one(plan.calls));
            rmcp.round(by_rmcp.one_by_one(plan.calls));
            through.round(by_daemon.one_by_one(plan.calls));
            hand_rate.push(by_hand.at_once(IN_FLIGHT, plan.calls * 3));
            rmcp_rate.push(by_rmcp.at_once(IN_FLIGHT, plan.calls * 3));
            rate.push(by_daemon.at_once(IN_FLIGHT, plan.calls * 3));
        }
        table.times(
            "echo of 64 bytes, p50",
            "hand-written client, direct",
            &through,
            &hand,
            50.0,
            1.7,
        );
        table.times(
            "echo of 64 bytes, p50",
            "rmcp client, direct",
            &through,
            &rmcp,
            50.0,
            1.25,
        );
        table.times(
            "echo of 64 bytes, p99",
            "hand-written client, direct",
            &through,
            &hand,
            99.0,
            2.0,
        );
        table.rates(
            "32 calls in flight, one connection",
            "rmcp client, direct",
            &rate,
            &rmcp_rate,
            Some(0.85),
        );
        table.rates(
            "32 calls in flight, one connection",
            "hand-written client, direct",
            &rate,
            &hand_rate,
            None,
        );
    }

    /// Ten servers of fifty tools: how fast the list comes, and what they cost while nothing happens.
    fn lists_and_idleness(plan: &Plan, table: &mut Table) {
        let mut builder = Daemon::builder();
        for index in 0..10 {
            builder = builder.fake_quiet(&format!("s{index}"), &["--no-default-tools", "--tools", "50"]);
        }
        let daemon = builder.start_connected();

        // Before the first big answer: what a daemon needs that was just started.
        thread::sleep(Duration::from_secs(1));
        let before = process::voluntary_switches(daemon.pid());
        thread::sleep(plan.idle);
        let after = process::voluntary_switches(daemon.pid());
        if let (Some(before), Some(after)) = (before, after) {
            let per_10_s = f64::from(after - before) * 10.0 / plan.idle.as_secs_f64();
            table.figure("wake-ups of the idle daemon, in 10 s", per_10_s, "", 1.0);
        }
        let idle = process::resident_kib(daemon.pid());

        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let mut lines = Lines::connect(daemon.socket(), "");
        let answer: serde_json::Value = serde_json::from_slice(lines.exchange(list)).expect("an answer");
        assert_eq!(answer["result"]["tools"].as_array().expect("tools").len(), 500);
        let mut samples = Samples::default();
        for _ in 0..plan.rounds {
            let times = (0..200).map(|_| {
                let start = Instant::now();
                lines.exchange(list);
                start.elapsed()
            });
            samples.round(times.collect());
        }
        table.figure(
            "tools/list of 10 servers × 50 tools, p50",
            samples.at(50.0) / 1000.0,
            " ms",
            1.0,
        );
        if let Some(kib) = idle {
            table.figure(
                "resident memory of the idle daemon, 10 servers",
                f64::from(kib) / 1024.0,
                " MiB",
                12.0,
            );
        }
        if let Some(kib) = process::resident_kib(daemon.pid()) {
            table.note(
                "resident memory after 1,000 lists",
                f64::from(kib) / 1024.0,
                " MiB",
            );
        }
        assert_eq!(daemon.frontend().result("ping", json!({})), json!({}));
    }
}
