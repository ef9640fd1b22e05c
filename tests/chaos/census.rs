//! What the daemon holds: processes, open files, threads, memory. Counted before and after.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    KEPT_KIB, RECOVERY, SERVERS,
    support::{Daemon, LIMIT, process, wait_within},
};

/// The figures of a quiet daemon.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Census {
    /// Descendants of the daemon that belong to no server: its death watch.
    helpers: BTreeSet<u32>,
    files: usize,
    threads: usize,
    resident_kib: u32,
    /// Tasks of its runtime, that of the frontend that asks included.
    tasks: u64,
}

impl Census {
    fn now(daemon: &Daemon) -> Self {
        let pid = daemon.pid();
        let marked = marked(daemon);
        Self {
            helpers: process::descendants(pid)
                .into_iter()
                .filter(|child| !marked.contains(child))
                .collect(),
            files: process::open_files(pid),
            threads: process::threads(pid),
            resident_kib: process::resident_kib(pid).expect("the daemon runs"),
            tasks: 0,
        }
    }

    /// The figures once they don't move any more: the last frontend's socket is closed, say.
    pub(crate) fn settled(daemon: &Daemon) -> Self {
        let end = Instant::now() + LIMIT;
        let mut last = Self::now(daemon);
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(500) {
            assert!(
                Instant::now() < end,
                "a quiet daemon doesn't come to rest: {last:?}"
            );
            thread::sleep(Duration::from_millis(10));
            let now = Self::now(daemon);
            if (now.files, now.threads, &now.helpers) != (last.files, last.threads, &last.helpers) {
                since = Instant::now();
            }
            last = now;
        }
        // Asking opens a file, so it is done last; the sessions before this one are over by now.
        last.tasks = tasks(daemon);
        last
    }

    /// Waits until the figures are again what they were and no process is left over.
    #[track_caller]
    pub(crate) fn assert_restored(&self, daemon: &Daemon) {
        let mut left = Vec::new();
        let end = Instant::now() + RECOVERY;
        while Instant::now() < end {
            left = left_over(daemon, self);
            if left.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        assert!(left.is_empty(), "STDIO-07: left over: {left:#?}");

        let mut now = Self::now(daemon);
        let end = Instant::now() + RECOVERY;
        while Instant::now() < end && !self.is_matched_by(&now) {
            thread::sleep(Duration::from_millis(50));
            now = Self::now(daemon);
        }
        crate::say(&format!(
            "files {} → {}, threads {} → {}, memory {} → {} KiB",
            self.files, now.files, self.threads, now.threads, self.resident_kib, now.resident_kib
        ));
        assert!(self.is_matched_by(&now), "before {self:#?}, after {now:#?}");
        wait_within(LIMIT, "no task is left over", || tasks(daemon) <= self.tasks);
        wait_within(LIMIT, "no dead child is uncollected", || {
            process::zombies_of(daemon.pid()).is_empty()
        });
    }

    fn is_matched_by(&self, now: &Self) -> bool {
        now.helpers == self.helpers
            && now.files <= self.files
            && now.threads <= self.threads
            && now.resident_kib <= self.resident_kib + KEPT_KIB
    }
}

fn tasks(daemon: &Daemon) -> u64 {
    let status = daemon.frontend().result("hermes/status", json!({}));
    status["tasks"].as_u64().expect("a number of tasks")
}

/// All processes of all servers, wherever they hang in the tree of processes.
fn marked(daemon: &Daemon) -> BTreeSet<u32> {
    let marker = daemon.marker("");
    process::with_argument(marker.trim_end_matches('.'))
        .into_iter()
        .collect()
}

/// What is wrong with the processes: each one belongs to the group of the process that `status` shows for its server,
/// each tree is complete, and there is no descendant of the daemon besides.
fn left_over(daemon: &Daemon, before: &Census) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known = before.helpers.clone();
    for server in &SERVERS {
        let status = daemon.status_of(server.name);
        let leader = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let processes = daemon.processes(server.name);
        known.extend(&processes);
        let strangers = processes
            .iter()
            .filter(|&&pid| process::group(pid) != leader)
            .count();
        if strangers > 0 || processes.len() != server.processes || status["state"] != "connected" {
            wrong.push(format!(
                "{}: {processes:?} with the leader {leader:?}: {status}",
                server.name
            ));
        }
    }
    let others = process::descendants(daemon.pid())
        .into_iter()
        .chain(marked(daemon))
        .filter(|pid| !known.contains(pid));
    wrong.extend(others.map(|pid| format!("{pid}: {}", process::command_line(pid))));
    wrong
}
