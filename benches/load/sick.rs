//! What sick servers cost a healthy one: the same echo from a daemon that has only this server, and from one that has
//! five sick ones beside it.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    figures::{Samples, Table},
    lines::Lines,
    support::{Daemon, LIMIT},
};

/// What the slowest calls may take beside sick servers, against alone.
const LIMIT_OF_RATIO: f64 = 1.5;

/// Measures `rounds` times so many calls alone and beside the sick ones, in turns, and adds the rows.
pub(crate) async fn beside_sick_servers(rounds: usize, calls: usize, table: &mut Table) {
    let alone = Daemon::builder().fake_quiet("a", &[]).start_connected();
    let mut by_alone = Lines::connect(alone.socket(), "mcp_a_echo").await;
    let (mut times_alone, mut times_beside) = (Samples::default(), Samples::default());
    // The first round only warms up.
    for round in 0..=rounds {
        let without = by_alone.one_by_one(calls).await;
        // A new daemon each time: its sick servers must not have been parked yet, and must not disturb the other one.
        let sick = start_with_sick_servers().await;
        let with = Lines::connect(sick.socket(), "mcp_a_echo")
            .await
            .one_by_one(calls)
            .await;
        drop(sick);
        if round > 0 {
            times_alone.round(without);
            times_beside.round(with);
        }
    }
    for (percentile, limit) in [(50.0, None), (99.0, Some(LIMIT_OF_RATIO))] {
        table.times(
            &format!("echo of 64 bytes beside five sick servers, p{percentile:.0}"),
            "the daemon with the healthy one only",
            (&times_beside, &times_alone),
            percentile,
            limit,
        );
    }
}

/// A daemon whose healthy server is connected and whose sick ones are all at it.
async fn start_with_sick_servers() -> Daemon {
    let daemon = Daemon::builder()
        .fake_quiet("a", &[])
        .fake_quiet("crashes", &["--mode", "exit-after-init", "--exit-delay", "0"])
        .fake_quiet("hangs", &["--mode", "mute"])
        .fake_quiet("storms", &["--mode", "list-changed-storm,list-changed-loop"])
        .fake_quiet("shouts", &["--mode", "stderr-for-ever"])
        .fake_quiet("deaf", &["--mode", "never-reads"])
        .start();
    let mut lines = Lines::connect(daemon.socket(), "").await;
    let end = Instant::now() + LIMIT;
    for (server, wanted) in [
        ("a", "connected"),
        ("crashes", "backoff"),
        ("hangs", "connecting"),
        ("storms", "connected"),
        ("shouts", "connected"),
        ("deaf", "connecting"),
    ] {
        loop {
            let status = lines.request("hermes/status", json!({"server": server})).await;
            let state = status["servers"][0]["state"].as_str().unwrap_or_default();
            if state == wanted {
                break;
            }
            assert!(Instant::now() < end, "{server} is {state}, not {wanted}");
            sleep(Duration::from_millis(5)).await;
        }
    }
    daemon
}
