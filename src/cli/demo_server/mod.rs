//! `hermesd-mcp demo-server`: a small MCP server on stdin and stdout, so that the daemon can be tried with nothing
//! installed. [`protocol`] decides what a line deserves; this file reads, writes and waits.
//!
//! One thread reads; each slow call has a thread of its own, so that the others are answered meanwhile. The end of
//! stdin ends the process, as MCP's stdio transport asks.

mod clock;
mod protocol;

use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use self::protocol::{Reaction, Slow};
use super::{Exit, Outcome};

/// The longest line that is read; what is longer is answered with a parse error.
const LINE_BYTES: u64 = 16 << 20;

/// The slow calls in flight by their id as JSON text, and how each is told to stop.
type InFlight = Arc<Mutex<HashMap<String, Arc<Stop>>>>;

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until `deadline`. True when it was told to stop before.
    fn wait_until(&self, deadline: Instant) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        let (stopped, _) = self
            .changed
            .wait_timeout_while(stopped, left, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        *stopped
    }
}

pub(super) fn run() -> Outcome {
    let in_flight = InFlight::default();
    let mut stdin = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match io::Read::take(&mut stdin, LINE_BYTES).read_until(b'\n', &mut line) {
            // With the client gone there is nobody left to serve or to tell.
            Ok(0) | Err(_) => return Ok(Exit::Success),
            Ok(_) => {}
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let sent = match protocol::react(&line, now) {
            Reaction::Nothing => Ok(()),
            Reaction::Answer(answer) => send(&answer),
            Reaction::Cancel(id) => {
                if let Some(stop) = lock(&in_flight).get(&id.to_string()) {
                    stop.stop();
                }
                Ok(())
            }
            Reaction::Slow(slow) => {
                start(slow, &in_flight);
                Ok(())
            }
        };
        if sent.is_err() {
            return Ok(Exit::Success);
        }
    }
}

fn lock(in_flight: &InFlight) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Stop>>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one slow call: a notification after each step, then the answer; a cancelled one is never answered.
fn start(slow: Slow, in_flight: &InFlight) {
    let stop = Arc::new(Stop::default());
    lock(in_flight).insert(slow.id.to_string(), Arc::clone(&stop));
    let in_flight = Arc::clone(in_flight);
    thread::spawn(move || {
        let (begin, step) = (
            Instant::now(),
            Duration::from_secs_f64(slow.seconds / f64::from(slow.steps)),
        );
        let mut stopped = false;
        for done in 1..=slow.steps {
            stopped = stop.wait_until(begin + step * done);
            if stopped
                || slow
                    .progress(done)
                    .is_some_and(|progress| send(&progress).is_err())
            {
                break;
            }
        }
        lock(&in_flight).remove(&slow.id.to_string());
        if !stopped {
            // When nobody reads any more, the reading thread sees the end too.
            let _ = send(&slow.answer());
        }
    });
}

/// Writes one message as one line; the lock keeps lines whole.
fn send(message: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{message}\n").as_bytes())?;
    stdout.flush()
}

/// A text result of a tool.
fn text_result(text: &str, is_error: bool) -> Value {
    let mut result = json!({"content": [{"type": "text", "text": text}]});
    if is_error {
        result["isError"] = json!(true);
    }
    result
}
