//! When to read a tool list again that the server says has changed.
//!
//! One reading at a time; notices that come meanwhile make one more afterwards (CACHE-04). A server that announces a
//! change each time its list is read would keep both sides busy for ever, so a reading that finds nothing new makes
//! the pause before the next one longer.

use std::time::Duration;

use tokio::time::Instant;

/// The pause between two readings of a list that does change.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);

/// What is known about changes of one connection's list.
#[derive(Debug)]
pub(super) struct Relist {
    /// A notice came that no reading has answered yet.
    noticed: bool,
    is_reading: bool,
    pause: Duration,
    /// The end of the last reading.
    read_at: Instant,
}

impl Relist {
    /// The list was just read.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            noticed: false,
            is_reading: false,
            pause: PAUSE,
            read_at: now,
        }
    }

    /// The server says that its list changed.
    pub(super) fn notice(&mut self, now: Instant) {
        // A long silence is no loop.
        if now > self.read_at + 2 * self.pause {
            self.pause = PAUSE;
        }
        self.noticed = true;
    }

    /// When to read next.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.noticed && !self.is_reading).then(|| self.read_at + self.pause)
    }

    /// A reading begins.
    pub(super) fn begin(&mut self) {
        self.noticed = false;
        self.is_reading = true;
    }

    /// A reading is over.
    pub(super) fn end(&mut self, now: Instant, has_changed: bool) {
        self.is_reading = false;
        self.read_at = now;
        self.pause = match has_changed {
            true => PAUSE,
            false => (2 * self.pause).min(LONGEST),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a server that gives `notices` per second for `seconds`, with a list that changes or not, and answers each
    /// reading after 100 ms, in steps of 10 ms. How often the list is read.
    fn readings(seconds: u64, notices: u64, changes: bool) -> usize {
        let start = Instant::now();
        let (mut relist, mut reading, mut count) = (Relist::new(start), None, 0);
        for step in 0..(seconds + 120) * 100 {
            let now = start + Duration::from_millis(step * 10);
            if step < seconds * 100 && step % (100 / notices) == 0 {
                relist.notice(now);
            }
            if relist.due().is_some_and(|due| due <= now) {
                relist.begin();
                reading = Some(now + Duration::from_millis(100));
                count += 1;
            }
            if reading.is_some_and(|end| end <= now) {
                reading = None;
                relist.end(now, changes);
            }
        }
        assert_eq!(relist.due(), None, "every notice was answered");
        count
    }

    #[test]
    fn a_burst_of_a_hundred_is_read_at_most_twice() {
        for changes in [true, false] {
            let reads = readings(1, 100, changes);
            assert!((1..=2).contains(&reads), "{reads} with changes: {changes}");
        }
    }

    #[test]
    fn a_list_that_changes_all_the_time_is_read_about_once_a_second() {
        let reads = readings(60, 10, true);
        assert!((50..=60).contains(&reads), "{reads}");
    }

    #[test]
    fn notices_about_nothing_are_damped() {
        let reads = readings(600, 10, false);
        assert!(reads <= 20, "{reads} readings in ten minutes");
    }

    #[test]
    fn after_a_silence_a_notice_is_answered_at_once() {
        let mut now = Instant::now();
        let mut relist = Relist::new(now);
        for _ in 0..10 {
            relist.notice(now);
            now = relist.due().unwrap();
            relist.begin();
            relist.end(now, false);
        }
        now += 3 * LONGEST;
        relist.notice(now);
        assert!(relist.due().unwrap() <= now);
    }
}
