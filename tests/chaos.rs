//! Chaos: eight frontends call while the servers are killed, stopped and restarted at random. Each call ends exactly
//! once, with its own answer or with an error that fits, and afterwards nothing is left of it all (LIFE-16, CANC-07,
//! STDIO-07, B60).
//!
//! `HERMESD_CHAOS_SECONDS` says how long it goes on (15 if not set; with 60 or more at least 20,000 calls are asked
//! for). The random numbers come from a seed that is printed; `HERMESD_CHAOS_SEED` repeats it.

// What is left of a process is read from `/proc`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "chaos/census.rs"]
mod census;
#[path = "chaos/havoc.rs"]
mod havoc;
#[path = "chaos/load.rs"]
mod load;
#[path = "support/mod.rs"]
mod support;

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;
use support::{Daemon, wait_within};

use census::Census;
use load::Tally;

/// A server of this test.
struct Server {
    name: &'static str,
    flags: &'static [&'static str],
    /// How many processes its tree has.
    processes: usize,
}

/// The first one is spared, so that its calls must all succeed.
const SERVERS: [Server; 6] = [
    Server {
        name: "calm",
        flags: &[],
        processes: 1,
    },
    Server {
        name: "a",
        flags: &[],
        processes: 1,
    },
    Server {
        name: "b",
        flags: &["--mode", "banner,crlf,stray-ids"],
        processes: 1,
    },
    Server {
        name: "c",
        flags: &["--mode", "string-ids,list-changed-loop"],
        processes: 1,
    },
    Server {
        name: "parent",
        flags: &["--grandchild"],
        processes: 2,
    },
    Server {
        name: "stubborn",
        flags: &["--mode", "stubborn"],
        processes: 1,
    },
];

/// How many frontends call.
const FRONTENDS: u64 = 8;
/// How long they call before anything is counted.
const WARM_UP: Duration = Duration::from_secs(3);
/// The time for everything to come back to what it was: a server that was killed often waits up to a minute before it
/// is started again.
const RECOVERY: Duration = Duration::from_secs(120);
/// Memory that the allocator may keep, in KiB.
const KEPT_KIB: u32 = 10 << 10;

#[test]
fn every_call_ends_once_while_servers_are_killed_and_nothing_is_left_of_it() {
    let seconds: u64 = from_environment("HERMESD_CHAOS_SECONDS").unwrap_or(15);
    let seed: u64 = from_environment("HERMESD_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    say(&format!(
        "{seconds} s, to be repeated with HERMESD_CHAOS_SEED={seed}"
    ));

    let mut builder = Daemon::builder();
    for server in &SERVERS {
        let keys = json!({"timeout": 30, "connect_timeout": 30});
        builder = builder.fake_quiet_with(server.name, server.flags, keys);
    }
    let mut daemon = builder.start_connected();
    // A session counts as proven after a call; without it three kills would be enough to park a server.
    for server in &SERVERS {
        let echo = format!("mcp_{}_echo", server.name);
        let text = daemon.frontend().call_text(&echo, json!({"text": server.name}));
        assert_eq!(text, server.name);
    }
    // What a daemon holds that has worked and isn't disturbed: buffers grow once and stay.
    load_until(Instant::now() + WARM_UP, &daemon, seed).check_undisturbed();
    let before = Census::settled(&daemon);

    let end = Instant::now() + Duration::from_secs(seconds);
    let (tally, deeds) = thread::scope(|scope| {
        let havoc = scope.spawn(|| havoc::wreak_until(end, &daemon, seed));
        (load_until(end, &daemon, seed), join(havoc))
    });
    say(&format!("{tally}; {deeds}"));

    tally.check_disturbed(seconds);
    assert!(deeds.kills > 0, "it was no chaos: {deeds}");
    wait_within(RECOVERY, "all servers are connected again", || {
        SERVERS
            .iter()
            .all(|server| daemon.status_of(server.name)["state"] == "connected")
    });
    for server in &SERVERS {
        let echo = format!("mcp_{}_echo", server.name);
        assert_eq!(daemon.frontend().call_text(&echo, json!({"text": "on"})), "on");
    }
    before.assert_restored(&daemon);

    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait_exit(Duration::from_secs(30)).code(), Some(0));
    daemon.assert_no_leftovers();
}

/// Eight frontends that call, and one that comes and goes.
fn load_until(end: Instant, daemon: &Daemon, seed: u64) -> Tally {
    thread::scope(|scope| {
        let frontends: Vec<_> = (0..FRONTENDS)
            .map(|number| scope.spawn(move || load::call_until(end, daemon, seed, number)))
            .collect();
        let visitor = scope.spawn(move || load::come_and_go_until(end, daemon, seed));
        let mut tally = Tally::default();
        for frontend in frontends {
            tally.add(&join(frontend));
        }
        join(visitor);
        tally
    })
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
    )
}

/// Written past the capture of the test harness: the seed is wanted even when the whole run is killed.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "chaos: {text}");
}

/// The result of a thread; its panic goes on here.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
