//! When to try again: a pure ladder without a clock.

use std::time::Duration;

/// Retries after the first connection failed (hermes-behaviour: "First connection: 3 retries").
const FIRST_RETRIES: u32 = 3;
/// Retries after a connection that had worked.
const LATER_RETRIES: u32 = 5;
/// The longest pause between two retries.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause between two probes of a parked server.
const PARKED: Duration = Duration::from_secs(300);

/// What kind of failure an attempt ended in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Another try may work.
    Transient,
    /// Nothing but a change can help: the command isn't there, say.
    Permanent,
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Try again after a pause.
    Retry(Duration),
    /// Withdraw the tools, probe after a pause.
    Park(Duration),
    /// Wait for a restart or a reload.
    Fail,
}

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    failures: u32,
    ever_proven: bool,
}

impl Ladder {
    /// A session has proven itself: it lived long enough, or a call succeeded. A handshake alone proves nothing
    /// (LIFE-16, B07).
    pub(super) fn proven(&mut self) {
        self.ever_proven = true;
        self.failures = 0;
    }

    /// Somebody asked for a fresh start.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Takes a failure in. `jitter` is a random number in 0..1 that spreads the pause by ±20 %.
    pub(super) fn failed(&mut self, failure: Failure, jitter: f64) -> Next {
        if failure == Failure::Permanent {
            return Next::Fail;
        }
        self.failures += 1;
        let retries = if self.ever_proven {
            LATER_RETRIES
        } else {
            FIRST_RETRIES
        };
        if self.failures > retries {
            return Next::Park(spread(PARKED, jitter));
        }
        let pause = Duration::from_secs(1 << (self.failures - 1).min(6)).min(LONGEST);
        Next::Retry(spread(pause, jitter))
    }
}

fn spread(pause: Duration, jitter: f64) -> Duration {
    pause.mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ladder: &mut Ladder, n: usize) -> Vec<Next> {
        (0..n).map(|_| ladder.failed(Failure::Transient, 0.5)).collect()
    }

    fn retry(seconds: u64) -> Next {
        Next::Retry(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_connection_is_tried_three_times_more_then_parked() {
        let parked = Next::Park(Duration::from_secs(300));
        assert_eq!(
            run(&mut Ladder::default(), 5),
            [retry(1), retry(2), retry(4), parked, parked]
        );
    }

    #[test]
    fn a_proven_session_earns_five_retries() {
        let mut ladder = Ladder::default();
        run(&mut ladder, 2);
        ladder.proven();
        let parked = Next::Park(Duration::from_secs(300));
        assert_eq!(
            run(&mut ladder, 6),
            [retry(1), retry(2), retry(4), retry(8), retry(16), parked]
        );
    }

    #[test]
    fn a_missing_command_is_not_tried_again() {
        assert_eq!(Ladder::default().failed(Failure::Permanent, 0.5), Next::Fail);
    }

    #[test]
    fn a_restart_begins_anew() {
        let mut ladder = Ladder::default();
        run(&mut ladder, 4);
        ladder.reset();
        assert_eq!(run(&mut ladder, 1), [retry(1)]);
    }

    #[test]
    fn jitter_moves_a_pause_by_a_fifth() {
        for (jitter, millis) in [(0.0, 800), (1.0, 1200), (7.0, 1200), (-1.0, 800)] {
            let got = Ladder::default().failed(Failure::Transient, jitter);
            assert_eq!(got, Next::Retry(Duration::from_millis(millis)), "{jitter}");
        }
    }
}
