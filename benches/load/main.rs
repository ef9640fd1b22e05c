//! How close the daemon comes to a direct client: `cargo bench --bench load`.
//!
//! Everything is measured in one run against the same echo server, in turns, so that only ratios matter. The echo
//! server is this program itself. Nothing is asserted about time: the table shows each figure beside its goal.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod clients;
mod daemon;
mod echo;

use std::time::{Duration, Instant};

use clients::{Client, Direct, Frontend, Rmcp};
use daemon::Daemon;

const ROUNDS: usize = 7;
const CALLS: usize = 2_000;
const IN_FLIGHT: usize = 32;
const MANY: usize = 30_000;
const IDLE: Duration = Duration::from_secs(20);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "echo-server") {
        let tools = args
            .iter()
            .skip_while(|arg| *arg != "--tools")
            .nth(1)
            .map_or(1, |n| n.parse().unwrap());
        return echo::serve(tools);
    }
    if args.iter().any(|arg| arg == "--test") {
        return; // `cargo test --benches` only wants to know that it builds.
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let one = Daemon::start(&[("echo", 1)]).await;
        println!("| what | direct, hand-written | direct, rmcp | through the daemon | ratio | goal |");
        println!("|---|---|---|---|---|---|");
        round_trips(&one).await;
        throughput(&one).await;
        drop(one);
        let servers: Vec<(String, usize)> = (0..10).map(|n| (format!("server{n}"), 50)).collect();
        let servers: Vec<(&str, usize)> = servers
            .iter()
            .map(|(name, tools)| (name.as_str(), *tools))
            .collect();
        let ten = Daemon::start(&servers).await;
        list(&ten).await;
        idle(&ten).await;
    });
}

/// 64-byte echo, one call at a time, the three clients in turns.
async fn round_trips(daemon: &Daemon) {
    let mut direct = Direct::start().await;
    let mut rmcp = Rmcp::start().await;
    let mut frontend = Frontend::connect(daemon.socket()).await;
    let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let samples = [
            one_by_one(&mut direct).await,
            one_by_one(&mut rmcp).await,
            one_by_one(&mut frontend).await,
        ];
        if round > 0 {
            // The first round only warms up.
            for (all, sample) in [&mut a, &mut b, &mut c].into_iter().zip(samples) {
                all.push(sample);
            }
        }
    }
    for (name, pick) in [("p50", 0.5), ("p99", 0.99)] {
        let [a, b, c] = [&a, &b, &c].map(|rounds| median_of(rounds, pick));
        let (hand, rmcp) = (c / a, c / b);
        let goal = if name == "p50" {
            "≤ 1.7 and ≤ 1.25"
        } else {
            "≤ 2"
        };
        println!(
            "| echo of 64 bytes, {name} | {a:.0} µs | {b:.0} µs | {c:.0} µs | {hand:.2} and {rmcp:.2} | {goal} |"
        );
    }
}

async fn one_by_one(client: &mut impl Client) -> Vec<f64> {
    let text = "x".repeat(64);
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        client.echo(&text).await;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times
}

/// The median over the rounds of one percentile.
fn median_of(rounds: &[Vec<f64>], percentile: f64) -> f64 {
    let mut values: Vec<f64> = rounds
        .iter()
        .map(|times| times[((times.len() - 1) as f64 * percentile) as usize])
        .collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn throughput(daemon: &Daemon) {
    let mut rmcp = Rmcp::start().await;
    let mut frontend = Frontend::connect(daemon.socket()).await;
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        direct.push(rmcp.many(MANY, IN_FLIGHT).await);
        through.push(frontend.many(MANY, IN_FLIGHT).await);
    }
    direct.sort_by(f64::total_cmp);
    through.sort_by(f64::total_cmp);
    let (direct, through) = (direct[ROUNDS / 2], through[ROUNDS / 2]);
    println!(
        "| {IN_FLIGHT} calls in flight | – | {direct:.0}/s | {through:.0}/s | {:.2} | ≥ 0.85 |",
        through / direct
    );
}

async fn list(daemon: &Daemon) {
    let mut frontend = Frontend::connect(daemon.socket()).await;
    let mut times = Vec::new();
    let mut tools = 0;
    for _ in 0..500 {
        let (count, took) = frontend.list().await;
        tools = count;
        times.push(took.as_secs_f64() * 1e6);
    }
    assert_eq!(tools, 500);
    times.sort_by(f64::total_cmp);
    println!(
        "| `tools/list`, 10 servers × 50 tools, p50 | – | – | {:.0} µs | – | ≤ 1000 µs |",
        times[250]
    );
}

async fn idle(daemon: &Daemon) {
    let memory = daemon.resident_kib() as f64 / 1024.0;
    println!("| memory, idle, 10 servers | – | – | {memory:.1} MiB | – | ≤ 12 MB |");
    // The timers of the connections that were just closed run out first.
    tokio::time::sleep(IDLE / 2).await;
    let before = daemon.wake_ups();
    tokio::time::sleep(IDLE).await;
    let per_ten = (daemon.wake_ups() - before) as f64 * 10.0 / IDLE.as_secs_f64();
    println!("| wake-ups in 10 s, idle, 10 servers | – | – | {per_ten:.1} | – | ≤ 1 |");
}
