//! What is measured, in which order.

use std::{process::Command, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use crate::{
    blocking::Blocking,
    direct::Rmcp,
    figures::{Samples, Table},
    lines::Lines,
    relay::{Relay, Way},
    sick::beside_sick_servers,
    support::{Daemon, process},
};

/// Calls that are on their way at the same time, in the figures about throughput.
const IN_FLIGHT: usize = 32;

struct Plan {
    rounds: usize,
    calls: usize,
    idle: Duration,
}

/// Measures everything and prints the table.
pub(crate) fn run(quick: bool) {
    let plan = if quick {
        Plan {
            rounds: 3,
            calls: 500,
            idle: Duration::from_secs(5),
        }
    } else {
        Plan {
            rounds: 7,
            calls: 2_000,
            idle: Duration::from_secs(20),
        }
    };
    build_fake_server();
    // One thread, as in the daemon.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut table = Table::default();
    runtime.block_on(async {
        calls(&plan, &mut table).await;
        beside_sick_servers(plan.rounds, plan.calls * 5, &mut table).await;
        lists_and_idleness(&plan, &mut table).await;
    });
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

/// The same echo by several ways, taking turns so that a busy moment of the machine hits them all.
async fn calls(plan: &Plan, table: &mut Table) {
    let daemon = Daemon::builder().fake_quiet("a", &[]).start_connected();
    let mut by_daemon = Lines::connect(daemon.socket(), "mcp_a_echo").await;
    let mut by_hand = Lines::spawn().await;
    let mut by_rmcp = Rmcp::spawn().await;
    let (tokio, threads) = (Relay::spawn(Way::Tokio).await, Relay::spawn(Way::Threads).await);
    let mut by_tokio = Lines::connect(&tokio.socket(), "echo").await;
    let mut by_threads = Lines::connect(&threads.socket(), "echo").await;
    let mut floor_by_daemon = Blocking::connect(daemon.socket(), "mcp_a_echo");
    let mut floor = Blocking::spawn("echo");

    let mut times: [Samples; 7] = Default::default();
    let mut rates: [Vec<f64>; 3] = Default::default();
    // The first round only warms up.
    for round in 0..=plan.rounds {
        let samples = [
            by_daemon.one_by_one(plan.calls).await,
            by_hand.one_by_one(plan.calls).await,
            by_rmcp.one_by_one(plan.calls).await,
            by_tokio.one_by_one(plan.calls).await,
            by_threads.one_by_one(plan.calls).await,
            floor_by_daemon.one_by_one(plan.calls),
            floor.one_by_one(plan.calls),
        ];
        let calls = plan.calls * 10;
        let in_a_second = [
            by_daemon.at_once(IN_FLIGHT, calls).await,
            by_hand.at_once(IN_FLIGHT, calls).await,
            by_rmcp.at_once(IN_FLIGHT, calls).await,
        ];
        if round > 0 {
            times
                .iter_mut()
                .zip(samples)
                .for_each(|(all, sample)| all.round(sample));
            rates
                .iter_mut()
                .zip(in_a_second)
                .for_each(|(all, rate)| all.push(rate));
        }
    }
    let [through, hand, rmcp, tokio, threads, floor_through, floor] = &times;
    let [rate, hand_rate, rmcp_rate] = &rates;
    let (by_hand, by_rmcp) = ("hand-written client, direct", "rmcp client, direct");
    table.times("echo of 64 bytes, p50", by_hand, (through, hand), 50.0, Some(1.7));
    table.times(
        "echo of 64 bytes, p50",
        by_rmcp,
        (through, rmcp),
        50.0,
        Some(1.25),
    );
    table.times("echo of 64 bytes, p99", by_hand, (through, hand), 99.0, Some(2.0));
    for (relay, times) in [("on tokio", tokio), ("on blocking threads", threads)] {
        let relay = format!("a process that only copies bytes, {relay}");
        table.times("echo of 64 bytes, p50", &relay, (through, times), 50.0, None);
        table.times("echo of 64 bytes, p99", &relay, (through, times), 99.0, None);
    }
    table.times(
        "echo, client blocks and parses nothing, p50",
        "the same, direct",
        (floor_through, floor),
        50.0,
        None,
    );
    table.rates(
        "32 calls in flight, one connection",
        by_rmcp,
        (rate, rmcp_rate),
        Some(0.85),
    );
    table.rates(
        "32 calls in flight, one connection",
        by_hand,
        (rate, hand_rate),
        None,
    );
}

/// Ten servers of fifty tools: how fast the list comes, and what they cost while nothing happens.
async fn lists_and_idleness(plan: &Plan, table: &mut Table) {
    let mut builder = Daemon::builder();
    for index in 0..10 {
        builder = builder.fake_quiet(&format!("s{index}"), &["--no-default-tools", "--tools", "50"]);
    }
    let daemon = builder.start_connected();

    // The timers of the connections that were just closed run out first. No request is made meanwhile: the memory is
    // that of a daemon that was started and left alone.
    sleep(plan.idle / 2).await;
    let before = process::voluntary_switches(daemon.pid());
    sleep(plan.idle).await;
    let after = process::voluntary_switches(daemon.pid());
    let idle = process::resident_kib(daemon.pid());

    let mut lines = Lines::connect(daemon.socket(), "").await;
    let list = lines.request("tools/list", json!({})).await;
    assert_eq!(list["tools"].as_array().expect("tools").len(), 500);
    let mut samples = Samples::default();
    for _ in 0..plan.rounds {
        let mut times = Vec::new();
        for _ in 0..200 {
            times.push(lines.time_of("tools/list", json!({})).await);
        }
        samples.round(times);
    }
    table.figure(
        "`tools/list` of 10 servers × 50 tools, p50",
        samples.at(50.0) / 1000.0,
        " ms",
        1.0,
    );
    if let Some(kib) = idle {
        table.figure(
            "resident memory of the idle daemon, 10 servers",
            f64::from(kib) * 1024e-6,
            " MB",
            12.0,
        );
    }
    if let (Some(before), Some(after)) = (before, after) {
        let in_10_s = f64::from(after - before) * 10.0 / plan.idle.as_secs_f64();
        table.figure(
            "wake-ups of the idle daemon in 10 s, 10 servers",
            in_10_s,
            "",
            1.0,
        );
    }
}
