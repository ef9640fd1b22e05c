//! The circuit breaker: a server that fails call after call is left alone for a while.
//!
//! Only failures of the connection count. A tool that answers `isError`, or a server that answers with a JSON-RPC
//! error, has answered.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::name::ServerName;

/// Failures in a row that open it (hermes-behaviour: "A call").
pub(crate) const FAILURES: u32 = 3;
/// How long it stays open.
const OPEN: Duration = Duration::from_secs(60);
/// When a call may ask again while another one is probing.
const PROBING: Duration = Duration::from_secs(5);

/// How a call ended, as far as the breaker cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::call) enum Verdict {
    /// The server answered, whatever it said.
    Answered,
    /// The connection or the server failed.
    Failed,
    /// Says nothing about the server: the frontend gave up, say.
    Unknown,
}

/// The state for one server. A server without failures has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaker {
    failures: u32,
    failed_at: Instant,
    /// Whether a call is out to see if the server is back.
    is_probed: bool,
}

impl Breaker {
    /// Lets a call through (and tells whether it is the probe), or says how long to wait.
    fn admit(&mut self, now: Instant) -> Result<bool, Duration> {
        if self.failures < FAILURES {
            return Ok(false);
        }
        let left = (self.failed_at + OPEN).saturating_duration_since(now);
        if !left.is_zero() {
            return Err(left);
        }
        if self.is_probed {
            return Err(PROBING);
        }
        self.is_probed = true;
        Ok(true)
    }

    /// Takes in a failure of a call that began at `began`. Calls that ran side by side when one thing broke are one
    /// failure.
    fn failed(&mut self, began: Instant, now: Instant) {
        if self.failures == 0 || began >= self.failed_at {
            self.failures = self.failures.saturating_add(1);
            self.failed_at = now;
        }
    }
}

/// The breakers of all servers.
#[derive(Debug, Default)]
pub(in crate::call) struct Breakers(Mutex<HashMap<ServerName, Breaker>>);

impl Breakers {
    /// Lets a call through or says how long the server is left alone.
    pub(in crate::call) fn admit(&self, server: &ServerName) -> Result<Admission<'_>, Duration> {
        let began = Instant::now();
        let is_probe = match self.lock().get_mut(server) {
            Some(breaker) => breaker.admit(began)?,
            None => false,
        };
        Ok(Admission {
            breakers: self,
            server: server.clone(),
            began,
            is_probe,
            verdict: Verdict::Unknown,
        })
    }

    /// Somebody took care of the server.
    pub(in crate::call) fn reset(&self, server: &str) {
        self.lock().remove(server);
    }

    /// How long calls to a server are still refused.
    pub(in crate::call) fn open_for(&self, server: &str) -> Option<Duration> {
        let breaker = *self.lock().get(server)?;
        let left = (breaker.failed_at + OPEN).saturating_duration_since(Instant::now());
        (breaker.failures >= FAILURES && !left.is_zero()).then_some(left)
    }

    fn end(&self, admission: &Admission<'_>) {
        let mut breakers = self.lock();
        match admission.verdict {
            Verdict::Answered => {
                breakers.remove(&admission.server);
            }
            Verdict::Failed => {
                let now = Instant::now();
                let breaker = breakers.entry(admission.server.clone()).or_insert(Breaker {
                    failures: 0,
                    failed_at: now,
                    is_probed: false,
                });
                breaker.failed(admission.began, now);
                breaker.is_probed &= !admission.is_probe;
            }
            Verdict::Unknown if admission.is_probe => {
                if let Some(breaker) = breakers.get_mut(&admission.server) {
                    breaker.is_probed = false;
                }
            }
            Verdict::Unknown => {}
        }
    }

    /// Never held across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let through. When it is dropped its verdict counts.
pub(in crate::call) struct Admission<'a> {
    breakers: &'a Breakers,
    server: ServerName,
    began: Instant,
    is_probe: bool,
    verdict: Verdict,
}

impl Admission<'_> {
    /// The call is over.
    pub(in crate::call) fn end(mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.breakers.end(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn closed(now: Instant) -> Breaker {
        Breaker {
            failures: 0,
            failed_at: now,
            is_probed: false,
        }
    }

    /// A breaker that has just opened.
    fn open(now: Instant) -> Breaker {
        let mut breaker = closed(now);
        for _ in 0..FAILURES {
            breaker.failed(now, now);
        }
        breaker
    }

    #[test]
    fn the_third_failure_in_a_row_opens_it_for_a_minute() {
        let now = Instant::now();
        let mut breaker = closed(now);
        for n in 0..FAILURES {
            assert_eq!(breaker.admit(now), Ok(false), "after {n} failures");
            breaker.failed(now, now);
        }
        assert_eq!(breaker.admit(now), Err(OPEN));
        assert_eq!(breaker.admit(now + 59 * SECOND), Err(SECOND));
    }

    #[test]
    fn then_one_call_probes_and_a_failure_opens_it_again() {
        let mut now = Instant::now();
        let mut breaker = open(now);
        now += OPEN;
        assert_eq!(breaker.admit(now), Ok(true));
        assert_eq!(breaker.admit(now), Err(PROBING), "one at a time");
        breaker.failed(now, now + SECOND);
        breaker.is_probed = false;
        assert_eq!(breaker.admit(now + SECOND), Err(OPEN));
    }

    #[test]
    fn calls_that_one_break_ended_are_one_failure() {
        let now = Instant::now();
        let mut breaker = closed(now);
        for n in 0..8 {
            breaker.failed(now, now + SECOND + n * Duration::from_micros(10));
        }
        assert_eq!(breaker.failures, 1);
        breaker.failed(now + 2 * SECOND, now + 3 * SECOND);
        assert_eq!(breaker.failures, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_closes_it_and_a_probe_that_was_given_up_leaves_room_for_another() {
        let (breakers, server) = (Breakers::default(), ServerName::from("a"));
        for _ in 0..FAILURES {
            breakers.admit(&server).ok().unwrap().end(Verdict::Failed);
        }
        assert_eq!(breakers.admit(&server).err(), Some(OPEN));
        assert_eq!(breakers.open_for("a"), Some(OPEN));
        assert!(
            breakers.admit(&ServerName::from("b")).is_ok(),
            "others don't notice"
        );
        tokio::time::advance(OPEN).await;
        drop(breakers.admit(&server).ok().unwrap());
        breakers.admit(&server).ok().unwrap().end(Verdict::Answered);
        assert!(breakers.lock().is_empty());
        for _ in 0..2 {
            breakers.admit(&server).ok().unwrap().end(Verdict::Failed);
        }
        breakers.admit(&server).ok().unwrap().end(Verdict::Answered);
        breakers.admit(&server).ok().unwrap().end(Verdict::Failed);
        assert!(breakers.admit(&server).is_ok(), "only failures in a row count");
    }
}
