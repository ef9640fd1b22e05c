//! What happens to the servers: SIGKILL to the whole group or to its leader alone, SIGSTOP for a while, a restart.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::json;

use crate::{
    SERVERS,
    support::{Daemon, process},
};

/// The pause between two deeds, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 200..1000;
/// How long a process stays stopped, in milliseconds.
const STOPPED_MS: std::ops::Range<u64> = 50..1500;
/// How long a restart may take: the stop ladder, the start, and a busy machine.
const RESTART: Duration = Duration::from_secs(90);

/// How often what was done.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    pub(crate) kills: u32,
    stops: u32,
    restarts: u32,
}

impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills,
            stops,
            restarts,
        } = self;
        write!(f, "{kills} kills, {stops} stops, {restarts} restarts")
    }
}

/// Process groups that are stopped, and until when. Dropped, they all run on, also after a failure.
#[derive(Default)]
struct Stopped(Vec<(u32, Instant)>);

impl Stopped {
    fn stop(&mut self, group: u32, until: Instant) {
        process::signal_group(group, Signal::STOP);
        self.0.push((group, until));
    }

    fn go_on(&mut self) {
        self.0.retain(|&(group, until)| {
            let stays = Instant::now() < until;
            if !stays {
                process::signal_group(group, Signal::CONT);
            }
            stays
        });
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(group, _) in &self.0 {
            process::signal_group(group, Signal::CONT);
        }
    }
}

/// Does a random deed to a random server, again and again. The first server is spared.
pub(crate) fn wreak_until(end: Instant, daemon: &Daemon, seed: u64) -> Deeds {
    let mut random = Rng::with_seed(seed ^ 0xdead);
    let mut deeds = Deeds::default();
    let mut stopped = Stopped::default();
    // Restarts are answered when they are done, which another deed doesn't wait for.
    let mut frontend = daemon.frontend();
    loop {
        let next = Instant::now() + Duration::from_millis(random.u64(PAUSE_MS));
        while Instant::now() < next.min(end) {
            stopped.go_on();
            thread::sleep(Duration::from_millis(5));
        }
        if Instant::now() >= end {
            break;
        }
        let server = &SERVERS[random.usize(1..SERVERS.len())];
        let deed = random.u32(0..10);
        let length = Duration::from_millis(random.u64(STOPPED_MS));
        if deed == 0 {
            deeds.restarts += 1;
            frontend.send(deeds.restarts, "hermes/restart", json!({"server": server.name}));
            continue;
        }
        let status = daemon.status_of(server.name);
        let Some(pid) = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()) else {
            continue;
        };
        // It may have ended since; its number could then be somebody else's.
        if !process::command_line(pid).contains(&daemon.marker(server.name)) {
            continue;
        }
        match deed {
            1..5 => process::signal_group(pid, Signal::KILL),
            5..8 => process::signal(pid, Signal::KILL),
            _ => stopped.stop(pid, Instant::now() + length),
        }
        match deed {
            1..8 => deeds.kills += 1,
            _ => deeds.stops += 1,
        }
    }
    drop(stopped);
    for restart in 1..=deeds.restarts {
        frontend.answer_within(RESTART, restart).value();
    }
    deeds
}
