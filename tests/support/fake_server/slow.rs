//! Calls that take their time: each in a thread of its own, with progress, and without an answer once it is cancelled.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, value::RawValue};

use crate::{calls::text_result, output::Output, server::Server};

/// A call that runs beside the main loop.
struct Running {
    output: Arc<Output>,
    id: String,
    token: Option<String>,
    cancelled: Arc<AtomicBool>,
    all: Arc<Mutex<HashMap<String, Arc<AtomicBool>>>>,
}

impl Running {
    fn new(server: &Server, id: &str, token: Option<&RawValue>) -> Self {
        let cancelled = Arc::new(AtomicBool::new(false));
        let all = Arc::clone(&server.running);
        all.lock().unwrap().insert(id.to_owned(), Arc::clone(&cancelled));
        Self {
            output: Arc::clone(&server.output),
            id: id.to_owned(),
            token: token.map(|token| token.get().to_owned()),
            cancelled,
            all,
        }
    }

    /// Waits; false when the call was cancelled meanwhile.
    fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while let Some(left) = end
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            thread::sleep(left.min(Duration::from_millis(10)));
            if self.is_cancelled() {
                return false;
            }
        }
        !self.is_cancelled()
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn report(&self, value: f64, more: &str) {
        if let Some(token) = &self.token {
            let line = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{value}{more}}}}}"#
            );
            self.output.line(line.as_bytes());
        }
    }

    fn answer(&self, text: &str) {
        self.all.lock().unwrap().remove(&self.id);
        self.output.result(&self.id, &text_result(text));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.lock().unwrap().remove(&self.id);
    }
}

/// `slow`: so many steps in so many seconds. With `ignore_cancel` it answers all the same.
pub(crate) fn slow(server: &Server, id: &str, arguments: &str, token: Option<&RawValue>) {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let seconds = arguments["seconds"].as_f64().unwrap_or(1.0);
    let steps = arguments["steps"].as_u64().unwrap_or(0).max(1);
    let mut call = Running::new(server, id, token);
    if arguments["ignore_cancel"] == true {
        call.cancelled = Arc::default();
    }
    thread::spawn(move || {
        let start = Instant::now();
        for done in 1..=steps {
            let at = Duration::from_secs_f64(seconds * done as f64 / steps as f64);
            if !call.wait(at.saturating_sub(start.elapsed())) {
                return;
            }
            call.report(
                done as f64,
                &format!(r#","total":{steps},"message":"step {done}""#),
            );
        }
        call.answer(&format!("done after {seconds} s"));
    });
}

/// `progress`: a count of messages at an interval, or for ever, with any values (PROG-02, CANC-02).
pub(crate) fn progress(server: &Server, id: &str, arguments: &str, token: Option<&RawValue>) {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let count = arguments["count"].as_u64();
    let interval = Duration::from_millis(arguments["interval_ms"].as_u64().unwrap_or(0));
    let values: Option<Vec<f64>> = arguments["values"]
        .as_array()
        .map(|values| values.iter().filter_map(Value::as_f64).collect());
    let text = arguments["text"].as_str().unwrap_or("done").to_owned();
    let call = Running::new(server, id, token);
    thread::spawn(move || {
        let mut sent = 0u64;
        while count.is_none_or(|count| sent < count) {
            if !call.wait(interval) {
                return;
            }
            let value = match values.as_deref() {
                None | Some([]) => sent as f64 + 1.0,
                Some(values) => values[sent as usize % values.len()],
            };
            call.report(value, "");
            sent += 1;
        }
        call.answer(&text);
    });
}
