//! The frontends: many calls at the same time, each with a text of its own, and a book of what came back.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    SERVERS,
    support::{Daemon, Frontend, Message},
};

/// Calls of one frontend at the same time, a few below the daemon's limit of 64.
const IN_FLIGHT: usize = 60;
/// The size of a large text, in bytes.
const LARGE: usize = 100_000;
/// Longer than any call may take: a server's timeout of 30 s, a reconnect, and a busy machine.
const LONGEST: Duration = Duration::from_secs(120);
/// The errors that a call may end in: the server is away, no answer in time, outcome unknown.
const EXPECTED: [i64; 3] = [1002, 1006, 1015];
/// The error of a call of `hermes/call` that was cancelled.
const CANCELLED: i64 = 1007;

/// What came of all calls.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: u64,
    right: u64,
    /// MCP wants no answer to a cancelled request, so it may have none.
    silent: u64,
    progress: u64,
    errors: BTreeMap<i64, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.right += other.right;
        self.silent += other.silent;
        self.progress += other.progress;
        for (code, count) in &other.errors {
            *self.errors.entry(*code).or_default() += count;
        }
    }

    /// Checks the calls to servers that nobody disturbed: all succeeded that weren't cancelled.
    #[track_caller]
    pub(crate) fn check_undisturbed(&self) {
        self.check_sum();
        assert!(self.errors.keys().all(|&code| code == CANCELLED), "{self}");
    }

    /// Checks the calls to servers that were killed all the time.
    #[track_caller]
    pub(crate) fn check_disturbed(&self, seconds: u64) {
        self.check_sum();
        // Servers are away for a second or so after each kill, so many calls find theirs there.
        assert!(self.right * 4 > self.calls, "too few calls succeeded: {self}");
        let least = if seconds >= 60 { 20_000 } else { seconds * 20 };
        assert!(self.calls >= least, "fewer than {least} calls: {self}");
    }

    #[track_caller]
    fn check_sum(&self) {
        let errors: u64 = self.errors.values().sum();
        assert_eq!(self.calls, self.right + self.silent + errors, "{self}");
        assert!(self.right > 0 && self.progress > 0, "{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            calls,
            right,
            silent,
            progress,
            errors,
        } = self;
        write!(
            f,
            "{calls} calls: {right} with their answer, {silent} cancelled without one, errors {errors:?}; \
             {progress} progress messages"
        )
    }
}

/// By which method a call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Mcp,
    Hermes,
}

/// A call that waits for its answer.
struct Call {
    server: usize,
    method: Method,
    text: String,
    token: Option<Value>,
    last_progress: f64,
    is_cancelled: bool,
}

/// One frontend and its book.
struct Caller {
    frontend: Frontend,
    number: u64,
    random: Rng,
    last_id: u64,
    pending: HashMap<u64, Call>,
    /// Cancelled calls of MCP: one answer may come, or none.
    forgotten: HashMap<u64, Call>,
    to_cancel: Vec<u64>,
    tally: Tally,
}

/// Calls until the time is over, then waits for what is still on its way.
pub(crate) fn call_until(end: Instant, daemon: &Daemon, seed: u64, number: u64) -> Tally {
    let mut caller = Caller {
        frontend: daemon.frontend(),
        number,
        random: Rng::with_seed(seed.wrapping_add(number)),
        last_id: 0,
        pending: HashMap::new(),
        forgotten: HashMap::new(),
        to_cancel: Vec::new(),
        tally: Tally::default(),
    };
    loop {
        while Instant::now() < end && caller.pending.len() < IN_FLIGHT {
            caller.call();
            caller.cancel_one();
        }
        if caller.pending.is_empty() {
            break;
        }
        let message = caller.frontend.next_within(LONGEST);
        caller.take(&message.unwrap_or_else(|| panic!("no answer within {LONGEST:?}: {}", caller.waiting())));
    }
    // What comes until the end of the connection may only belong to calls that were cancelled.
    caller.frontend.close_write();
    for message in caller.frontend.until_closed() {
        caller.take(&message);
    }
    caller.tally.silent = caller.forgotten.len() as u64;
    caller.tally
}

/// Connects, asks, and goes away without waiting for the answers (CANC-05).
pub(crate) fn come_and_go_until(end: Instant, daemon: &Daemon, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0xcafe);
    while Instant::now() < end {
        let mut frontend = daemon.frontend();
        for id in 0..random.u32(1..20) {
            let name = format!("mcp_{}_echo", SERVERS[random.usize(..SERVERS.len())].name);
            let arguments =
                json!({"text": "x".repeat(random.usize(1..10_000)), "delay_ms": random.u32(1..500)});
            let params = json!({"name": name, "arguments": arguments});
            frontend.send(id, "tools/call", params);
        }
        // A frontend may also wait for a part of its answers.
        frontend.next_within(Duration::from_millis(random.u64(1..100)));
    }
}

impl Caller {
    /// Makes a random call.
    fn call(&mut self) {
        self.last_id += 1;
        let (id, random) = (self.last_id, &mut self.random);
        let server = random.usize(..SERVERS.len());
        let name = SERVERS[server].name;
        let is_cancelled_later = random.u32(..100) < 8;
        let with_progress = random.u32(..100) < 10;
        let size = if random.u32(..100) < 2 {
            LARGE
        } else {
            random.usize(..200)
        };
        let text = unique_text(self.number, id, size);
        let (tool, arguments) = match (with_progress, is_cancelled_later) {
            (true, _) => (
                "progress",
                json!({"text": text, "count": random.u32(1..6), "interval_ms": random.u32(..20)}),
            ),
            (false, true) => ("echo", json!({"text": text, "delay_ms": random.u32(20..300)})),
            (false, false) if random.bool() => ("echo", json!({"text": text, "delay_ms": random.u32(1..30)})),
            (false, false) => ("echo", json!({"text": text})),
        };
        // A token comes back as it was given: a number or a string.
        let token = with_progress.then(|| {
            if random.bool() {
                json!(id)
            } else {
                json!(id.to_string())
            }
        });
        let method = if random.bool() {
            Method::Mcp
        } else {
            Method::Hermes
        };
        let mut params = match method {
            Method::Hermes if random.bool() => json!({"server": name, "tool": tool}),
            _ => json!({"name": format!("mcp_{name}_{tool}")}),
        };
        params["arguments"] = arguments;
        if let Some(token) = &token {
            params["_meta"] = json!({"progressToken": token});
        }
        let word = match method {
            Method::Mcp => "tools/call",
            Method::Hermes => "hermes/call",
        };
        if is_cancelled_later {
            self.to_cancel.push(id);
        }
        self.tally.calls += 1;
        let call = Call {
            server,
            method,
            text,
            token,
            last_progress: f64::NEG_INFINITY,
            is_cancelled: false,
        };
        self.pending.insert(id, call);
        self.frontend.send(id, word, params);
    }

    /// Cancels one of the calls that were meant for it, some time after it was made, perhaps too late.
    fn cancel_one(&mut self) {
        if self.to_cancel.is_empty() || self.random.u32(..10) < 7 {
            return;
        }
        let id = self
            .to_cancel
            .swap_remove(self.random.usize(..self.to_cancel.len()));
        self.frontend
            .notify("notifications/cancelled", json!({"requestId": id}));
        if let Some(mut call) = self.pending.remove(&id) {
            call.is_cancelled = true;
            match call.method {
                Method::Mcp => self.forgotten.insert(id, call),
                Method::Hermes => self.pending.insert(id, call),
            };
        }
    }

    /// Takes a message: progress of a call that runs, or the one answer to a call.
    #[track_caller]
    fn take(&mut self, message: &Message) {
        let shown = shorten(&message.raw);
        if message.method.as_deref() == Some("notifications/progress") {
            return self.progress(message.params.as_ref().expect("params"), &shown);
        }
        assert_eq!(message.method, None, "{shown}");
        let id = message.id.as_deref().and_then(|id| id.parse().ok());
        let id: u64 = id.unwrap_or_else(|| panic!("no answer to a call of ours: {shown}"));
        let call = self
            .pending
            .remove(&id)
            .or_else(|| self.forgotten.remove(&id))
            .unwrap_or_else(|| panic!("B60: answered twice, or never asked: {shown}"));
        match call.outcome(message) {
            Ok(None) => self.tally.right += 1,
            Ok(Some(code)) => *self.tally.errors.entry(code).or_default() += 1,
            Err(why) => panic!("{why}: call {id} of '{}': {shown}", SERVERS[call.server].name),
        }
    }

    #[track_caller]
    fn progress(&mut self, params: &Value, shown: &str) {
        let token = &params["progressToken"];
        let id = token
            .as_u64()
            .or_else(|| token.as_str().and_then(|token| token.parse().ok()));
        let call = id.and_then(|id| match self.pending.contains_key(&id) {
            true => self.pending.get_mut(&id),
            false => self.forgotten.get_mut(&id),
        });
        let call = call.unwrap_or_else(|| panic!("PROG-02: progress of no call that runs: {shown}"));
        assert_eq!(call.token.as_ref(), Some(token), "PROG-01: {shown}");
        let value = params["progress"].as_f64().expect("a number");
        assert!(value > call.last_progress, "PROG-02: {shown}");
        call.last_progress = value;
        self.tally.progress += 1;
    }

    /// The calls that nobody answered, for a message.
    fn waiting(&self) -> String {
        let calls = self.pending.iter().map(|(id, call)| {
            format!(
                "{id} of '{}' ({:?}, cancelled: {})",
                SERVERS[call.server].name, call.method, call.is_cancelled
            )
        });
        calls.collect::<Vec<_>>().join(", ")
    }
}

impl Call {
    /// The code of an answer that is an error, none for the right answer; otherwise what is wrong with it.
    fn outcome(&self, message: &Message) -> Result<Option<i64>, String> {
        let (text, code) = match &message.error {
            Some(error) => (None, error["code"].as_i64()),
            None => self.taken_apart(&message.value())?,
        };
        if let Some(text) = text {
            return match text == self.text {
                true => Ok(None),
                false => Err("B60: another text than its own".into()),
            };
        }
        let is_spared = self.server == 0;
        match code {
            Some(CANCELLED) if self.is_cancelled && self.method == Method::Hermes => Ok(Some(CANCELLED)),
            Some(_) if is_spared => Err("LIFE-14: a call of the healthy server failed".into()),
            Some(code) if EXPECTED.contains(&code) => Ok(Some(code)),
            _ => Err("an error that doesn't fit".into()),
        }
    }

    /// The text of a success or the code of a failure.
    fn taken_apart(&self, result: &Value) -> Result<(Option<String>, Option<i64>), String> {
        let owned = |value: &Value| value.as_str().map(str::to_owned);
        match self.method {
            Method::Hermes => match owned(&result["result"]) {
                Some(text) => Ok((Some(text), None)),
                None => Ok((None, result["code"].as_i64())),
            },
            Method::Mcp if result["isError"] == true => {
                // A server that is down is told to a model as a text, without a code.
                let text = owned(&result["content"][0]["text"]).unwrap_or_default();
                let name = format!("MCP server '{}'", SERVERS[self.server].name);
                match text.starts_with(&name) {
                    true => Ok((None, Some(1002))),
                    false => Err("an error that doesn't name its server".into()),
                }
            }
            Method::Mcp => Ok((owned(&result["content"][0]["text"]), None)),
        }
    }
}

/// A text that no other call has, with everything that JSON has to escape.
fn unique_text(number: u64, id: u64, size: usize) -> String {
    let piece = format!("{number}:{id} \"\\\u{7f}\n\u{1f980} ");
    piece.repeat(size / piece.len() + 1)
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}
