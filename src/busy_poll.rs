//! Not falling asleep between messages that follow each other closely.
//!
//! A thread that sleeps in `epoll_wait` takes some ten microseconds to get going again, and a call through the daemon
//! needs it twice: for the request and for its answer. While messages come at short intervals, the daemon asks for the
//! next one without sleeping, as kernels do for idle virtual processors ("halt polling"). The first pause ends it, so
//! a daemon that has nothing to do, or waits for servers that take their time, sleeps as ever.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::yield_now};

/// A message that comes this soon after the one before starts the polling, and none for this long ends it. That is
/// also the most that a burst costs in processor time at its end.
const WINDOW: Duration = Duration::from_micros(50);

/// Keeps the runtime awake. One for the whole daemon.
#[derive(Debug)]
pub struct BusyPoll {
    started: Instant,
    /// When the last message came, in nanoseconds since `started`.
    last: AtomicU64,
    close_together: Notify,
}

impl Default for BusyPoll {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            close_together: Notify::new(),
        }
    }
}

impl BusyPoll {
    /// A message of a frontend or a server came; `others` calls on its connection were under way besides it. With
    /// several, one sleep collects the messages of many, which is worth more than the time it costs.
    pub fn message(&self, others: usize) {
        if others > 0 {
            return;
        }
        let before = self.last.swap(self.now(), Ordering::Relaxed);
        if self.is_recent(before) {
            self.close_together.notify_one();
        }
    }

    /// Polls while messages come closely, for ever. It is a task of the runtime that it keeps awake: as long as one
    /// task is ready to run, the runtime looks for new messages without waiting for them.
    pub async fn run(&self) {
        // With one processor the other side could not run meanwhile.
        if !std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
            return;
        }
        loop {
            self.close_together.notified().await;
            while self.is_recent(self.last.load(Ordering::Relaxed)) {
                yield_now().await;
            }
        }
    }

    fn is_recent(&self, time: u64) -> bool {
        u128::from(self.now().saturating_sub(time)) < WINDOW.as_nanos()
    }

    /// Nanoseconds since the start: enough for 584 years.
    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}
