//! The life of one server's connection as a pure function: state × event → state + what to do.
//!
//! There is no clock and no process here. The actor turns what happens into [`Event`]s and carries out [`Action`]s.
//! Between [`Action::Open`] and [`Event::Closed`] there is an attempt, and only one: so there are never two process
//! trees of one server (B01).

use std::time::Duration;

use super::view::State;

/// Retries after the first connection failed (hermes-behaviour: "First connection: 3 retries").
const FIRST_RETRIES: u32 = 3;
/// Retries after a connection that had worked.
const LATER_RETRIES: u32 = 5;
/// The longest pause between two retries.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause between two probes of a parked server.
const PARKED: Duration = Duration::from_secs(300);
/// The longest pause that a server can ask for.
const LATEST: Duration = Duration::from_secs(3600);
/// How soon after a failure a call may have it tried again: else calls would run a crash loop at full speed (B07).
const CALL_MAY_RETRY: Duration = Duration::from_secs(1);
/// The same for a parked server.
const CALL_MAY_REVIVE: Duration = Duration::from_secs(10);

/// What kind of failure an attempt ended in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Another try may work.
    Transient,
    /// Another try may work, but not sooner than this: the server said so.
    Later(Duration),
    /// Nothing but a change can help: the command isn't there, say.
    Permanent,
    /// Nothing but new credentials can help.
    Auth,
}

/// What happens to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The handshake and the first list are done.
    Opened,
    /// The session is worth something: it lived long enough, or a call succeeded. A handshake alone proves nothing
    /// (LIFE-16, B07).
    Proven,
    /// The attempt failed, or the connection broke.
    Broken(Failure),
    /// Nothing is left of the attempt.
    Closed,
    /// The time that the last [`Action::Alarm`] set has come.
    Due,
    /// A call wants the server.
    Wanted,
    /// A user or a reload wants a new connection.
    Restart,
    /// The connection is idle or old, and the configuration says to end it then.
    Recycle,
    /// The daemon stops, or the server is removed.
    Stop,
}

/// What the actor has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Begin an attempt.
    Open,
    /// End the attempt; [`Event::Closed`] follows.
    Close,
    /// Send [`Event::Due`] after this time, in place of any earlier alarm.
    Alarm(Duration),
    /// Make the alarm ring as soon as this time has passed since it was set, if that is earlier.
    Hurry(Duration),
    /// Nothing more will happen.
    End,
}

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// `enabled: false`.
    Disabled,
    /// An attempt runs and isn't through the handshake.
    Connecting,
    /// Ready for calls.
    Connected,
    /// The attempt is being ended; then comes something else.
    Closing(Next),
    /// No attempt runs.
    Waiting(Wait),
    /// Over.
    Ended,
}

/// What comes after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Connect,
    Wait(Wait, Option<Duration>),
    End,
}

/// Why no attempt runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Backoff,
    Parked,
    Failed,
    Auth,
    Recycled,
}

/// The state machine of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine {
    phase: Phase,
    /// Failures in a row.
    failures: u32,
    /// Whether any session was ever worth something.
    ever_proven: bool,
    /// How long the server asked to be left alone when it failed last.
    at_least: Duration,
}

impl Machine {
    /// The first state and what to do in it.
    pub(super) fn new(enabled: bool) -> (Self, Option<Action>) {
        let (phase, action) = match enabled {
            true => (Phase::Connecting, Some(Action::Open)),
            false => (Phase::Disabled, None),
        };
        let machine = Self {
            phase,
            failures: 0,
            ever_proven: false,
            at_least: Duration::ZERO,
        };
        (machine, action)
    }

    /// The state that is shown. While an attempt is being ended that is already the next one.
    pub(super) fn state(self) -> State {
        match self.phase {
            Phase::Disabled => State::Disabled,
            Phase::Connecting | Phase::Closing(Next::Connect) => State::Connecting,
            Phase::Connected => State::Connected,
            Phase::Closing(Next::Wait(wait, _)) | Phase::Waiting(wait) => match wait {
                Wait::Backoff => State::Backoff,
                Wait::Parked => State::Parked,
                Wait::Failed => State::Failed,
                Wait::Auth => State::AuthRequired,
                Wait::Recycled => State::Recycled,
            },
            Phase::Closing(Next::End) | Phase::Ended => State::Stopping,
        }
    }

    /// The pause before the next attempt, while that is being prepared.
    pub(super) fn pause(self) -> Option<Duration> {
        match self.phase {
            Phase::Closing(Next::Wait(_, pause)) => pause,
            _ => None,
        }
    }

    /// Whether an attempt runs that may still succeed.
    pub(super) fn is_connecting(self) -> bool {
        self.phase == Phase::Connecting
    }

    /// Whether it is over.
    pub(super) fn is_ended(self) -> bool {
        self.phase == Phase::Ended
    }

    /// The transition. `jitter` is a random number in 0..1 that spreads a pause by ±20 %. An event that means nothing
    /// in a state changes nothing.
    pub(super) fn step(self, event: Event, jitter: f64) -> (Self, Option<Action>) {
        use Phase::{Closing, Connected, Connecting, Disabled, Ended, Waiting};
        let mut next = self;
        if event == Event::Restart {
            next.failures = 0;
        }
        let (phase, action) = match (self.phase, event) {
            (Ended | Disabled, Event::Stop) => (Ended, Some(Action::End)),
            (Ended | Disabled, _) => (self.phase, None),

            (Connecting, Event::Opened) => (Connected, None),
            (Connected, Event::Proven) => {
                next.failures = 0;
                next.ever_proven = true;
                (Connected, None)
            }
            (Connecting | Connected, Event::Broken(failure)) => {
                let after = next.after(failure, jitter);
                (Closing(after), Some(Action::Close))
            }
            (Connected, Event::Recycle) => {
                let after = Next::Wait(Wait::Recycled, None);
                (Closing(after), Some(Action::Close))
            }
            (Connecting | Connected, Event::Restart) => (Closing(Next::Connect), Some(Action::Close)),
            (Connecting | Connected, Event::Stop) => (Closing(Next::End), Some(Action::Close)),

            (Closing(_), Event::Stop) => (Closing(Next::End), None),
            (Closing(Next::Wait(..)), Event::Restart)
            | (Closing(Next::Wait(Wait::Recycled, _)), Event::Wanted) => (Closing(Next::Connect), None),
            (Closing(Next::Wait(Wait::Backoff, Some(pause))), Event::Wanted) => {
                let sooner = pause.min(self.patience(Wait::Backoff));
                (Closing(Next::Wait(Wait::Backoff, Some(sooner))), None)
            }
            (Closing(after), Event::Closed) => match after {
                Next::Connect => (Connecting, Some(Action::Open)),
                Next::Wait(wait, pause) => (Waiting(wait), pause.map(Action::Alarm)),
                Next::End => (Ended, Some(Action::End)),
            },

            (Waiting(Wait::Backoff | Wait::Parked), Event::Due)
            | (Waiting(Wait::Recycled), Event::Wanted)
            | (Waiting(_), Event::Restart) => (Connecting, Some(Action::Open)),
            (Waiting(wait @ (Wait::Backoff | Wait::Parked)), Event::Wanted) => {
                (Waiting(wait), Some(Action::Hurry(self.patience(wait))))
            }
            (Waiting(_), Event::Stop) => (Ended, Some(Action::End)),

            (phase, _) => (phase, None),
        };
        next.phase = phase;
        (next, action)
    }

    /// What follows a failure; counts it.
    fn after(&mut self, failure: Failure, jitter: f64) -> Next {
        self.at_least = match failure {
            Failure::Auth => return Next::Wait(Wait::Auth, None),
            // What has worked may work again: a program that is being updated is missing for a moment.
            Failure::Permanent if !self.ever_proven => return Next::Wait(Wait::Failed, None),
            Failure::Later(pause) => pause.min(LATEST),
            Failure::Permanent | Failure::Transient => Duration::ZERO,
        };
        self.failures = self.failures.saturating_add(1);
        let retries = match self.ever_proven {
            true => LATER_RETRIES,
            false => FIRST_RETRIES,
        };
        if self.failures > retries {
            return Next::Wait(Wait::Parked, Some(spread(PARKED, jitter).max(self.at_least)));
        }
        let pause = Duration::from_secs(1 << (self.failures - 1).min(6)).min(LONGEST);
        Next::Wait(Wait::Backoff, Some(spread(pause, jitter).max(self.at_least)))
    }

    /// How long a server that failed is left alone even though a call wants it. After the first failure not at all.
    fn patience(self, wait: Wait) -> Duration {
        let patience = match wait {
            Wait::Backoff if self.failures <= 1 => Duration::ZERO,
            Wait::Parked => CALL_MAY_REVIVE,
            _ => CALL_MAY_RETRY,
        };
        patience.max(self.at_least)
    }
}

fn spread(pause: Duration, jitter: f64) -> Duration {
    pause.mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
