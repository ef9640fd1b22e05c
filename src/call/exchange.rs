//! One request to a server and everything that can end it: the answer, its time, a lost connection.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{
    CallError, Caller, Request,
    admission::{Turn, Verdict},
    error::TimeLimit,
    route::{RECONNECT, Route},
    stateless::{self, Outcome, ROUNDS, with_state},
};
use crate::{
    config::ServerConfig,
    server::{
        Connection, Counters, HttpFailure, ListError, Lost, Params, Reply, ServerView, Step,
        is_header_mismatch, is_missing_capability,
    },
};

/// Two progress messages of one call are at least this far apart on their way to the frontend (PROG-03).
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// The pause before a request is made again that an HTTP server did not want now, if it doesn't say.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest that a call waits for that; a longer one is the caller's to wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long one call may take, and for whom it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    /// Time without an answer or progress, if the caller said so.
    own: Option<Duration>,
    /// The same as the server's configuration says.
    configured: Duration,
    /// Time for the whole.
    total: Duration,
    began: Instant,
    frontend: u64,
}

impl CallLimits {
    /// The call begins; nothing is known of its server yet.
    pub(super) fn begin(request: &Request) -> Self {
        Self {
            own: request.timeout,
            configured: Duration::MAX,
            total: Duration::MAX,
            began: Instant::now(),
            frontend: request.frontend,
        }
    }

    /// Takes what the server's configuration says. A longer limit of the caller's own counts for the whole, too.
    pub(super) fn of(&mut self, config: &ServerConfig) {
        self.configured = config.timeout;
        self.total = config.max_total_timeout.max(self.idle().time());
    }

    /// When a wait of this length ends that begins now; no later than the call's own time is up.
    pub(super) fn end_of(&self, wait: Duration) -> Instant {
        Instant::now() + wait.min(self.idle().time())
    }

    fn idle(&self) -> TimeLimit {
        match self.own {
            Some(time) => TimeLimit::Call(time),
            None => TimeLimit::Server(self.configured),
        }
    }

    /// When the call is over if nothing comes from now on, and by which limit.
    fn expiry(&self) -> (Instant, TimeLimit) {
        let idle = self.idle();
        let (idle_at, total_at) = (Instant::now() + idle.time(), self.began + self.total);
        match total_at < idle_at {
            true => (total_at, TimeLimit::Total(self.total)),
            false => (idle_at, idle),
        }
    }
}

/// Progress on its way to the frontend: the newest message, not too often.
struct Pace {
    next: Instant,
    held: Option<Box<RawValue>>,
}

impl Pace {
    fn new() -> Self {
        Self {
            next: Instant::now(),
            held: None,
        }
    }

    /// Takes a message; gives what may go on now.
    fn take(&mut self, params: Box<RawValue>) -> Option<Box<RawValue>> {
        self.held = Some(params);
        match self.next <= Instant::now() {
            true => self.release(),
            false => None,
        }
    }

    fn release(&mut self) -> Option<Box<RawValue>> {
        self.next = Instant::now() + PROGRESS_PAUSE;
        self.held.take()
    }

    async fn due(&self) {
        match self.held {
            Some(_) => sleep_until(self.next).await,
            None => std::future::pending().await,
        }
    }
}

impl Caller {
    /// Makes a request in its turn, and once more where that cannot do harm.
    pub(super) async fn send(
        &self,
        route: &Route,
        method: &'static str,
        params: &Params,
        limits: &CallLimits,
        mut on_progress: impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        let _turn = self.turn(route, limits).await?;
        let mut tries = 1;
        let (mut rounds, mut state): (u32, Option<Box<str>>) = (0, None);
        loop {
            let connection = self.connection(route, limits).await?;
            let again = state.as_ref().map(|state| with_state(params, state));
            let params = again.as_ref().unwrap_or(params);
            let result = self
                .exchange(route, &connection, method, params, limits, &mut on_progress)
                .await;
            match result {
                Ok(raw) if connection.is_stateless() => match stateless::outcome(&raw) {
                    Outcome::Complete => return Ok(raw),
                    Outcome::Again(next) if rounds < ROUNDS => {
                        rounds += 1;
                        state = Some(next);
                    }
                    outcome => return Err(outcome.into_error(route)),
                },
                // HTTP-04: what the tool wants in headers is not what it once said.
                Err(CallError::Server { code, .. }) if is_header_mismatch(code) && tries == 1 => {
                    tries += 1;
                    connection.renew_headers(&self.limits).await;
                }
                Err(CallError::Lost { lost, .. }) if tries < tries_after(route, &lost) => {
                    tries += 1;
                    Counters::add(&route.view.counters.repeated);
                    tracing::info!(server = %route.server, tool = %route.tool, %lost, "a call is made again");
                    match lost {
                        Lost::Http(failure) => sleep_until(limits.end_of(pause_after(&failure))).await,
                        // One answer was cut, and the others are not.
                        Lost::Unknown if connection.is_open() => {}
                        _ => replaced(route, &connection, limits).await,
                    }
                }
                result => return result,
            }
        }
    }

    /// Waits for the call's turn where the server takes only so many at a time.
    async fn turn(&self, route: &Route, limits: &CallLimits) -> Result<Option<Turn<'_>>, CallError> {
        let Some(limit) = route.view.config.max_concurrency else {
            return Ok(None);
        };
        let wait = limits.idle().time();
        let turn = self.gates.enter(&route.server, limit, limits.frontend);
        match timeout(wait, turn).await {
            Ok(turn) => Ok(Some(turn)),
            Err(_) => Err(CallError::Busy {
                server: route.server.clone(),
                limit,
                waited: wait,
            }),
        }
    }

    async fn exchange(
        &self,
        route: &Route,
        connection: &Connection,
        method: &'static str,
        params: &Params,
        limits: &CallLimits,
        on_progress: &mut impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        let lost = |lost| CallError::Lost {
            server: route.server.clone(),
            tool: route.tool.to_string(),
            lost,
        };
        let mut pending = connection.request(method, params).map_err(lost)?;
        let mut pace = Pace::new();
        let (mut expiry, mut limit) = limits.expiry();
        let reply = loop {
            let progress = tokio::select! {
                biased;
                step = pending.step() => match step {
                    Step::Answer(reply) => break reply.map_err(lost)?,
                    Step::Progress(params) => {
                        (expiry, limit) = limits.expiry();
                        params.and_then(|params| pace.take(params))
                    }
                },
                () = pace.due() => pace.release(),
                () = sleep_until(expiry) => {
                    pending.cancel(&format!("timed out ({limit})"));
                    return Err(CallError::Timeout { server: route.server.clone(), limit });
                }
            };
            if let Some(params) = progress {
                on_progress(&params);
            }
        };
        // The last one counts, and it comes before the result.
        if let Some(params) = pace.held.take() {
            on_progress(&params);
        }
        match reply {
            Reply::Error(raw) => Err(self.server_error(route, raw.get())),
            Reply::Result(raw) if !raw.get().starts_with('{') => Err(CallError::Protocol {
                server: route.server.clone(),
                detail: format!("its result of {method} is not an object"),
            }),
            Reply::Result(raw) => match route.view.config.max_result_bytes {
                Some(limit) if raw.get().len() > limit => Err(CallError::TooLarge {
                    server: route.server.clone(),
                    size: raw.get().len(),
                    limit,
                }),
                _ => Ok(raw),
            },
        }
    }

    /// Reads a whole list of the server's.
    pub(super) async fn list(
        &self,
        route: &Route,
        method: &'static str,
        key: &str,
        limits: &CallLimits,
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let server = || route.server.clone();
        let connection = self.connection(route, limits).await?;
        let (expiry, limit) = limits.expiry();
        match timeout_at(expiry, connection.list(method, key, &self.limits)).await {
            Err(_) => Err(CallError::Timeout {
                server: server(),
                limit,
            }),
            Ok(Ok(listed)) => Ok(listed.items),
            Ok(Err(ListError::Lost(lost))) => Err(CallError::Lost {
                server: server(),
                tool: route.tool.to_string(),
                lost,
            }),
            Ok(Err(ListError::Refused { error, .. })) => Err(self.server_error(route, &error)),
            Ok(Err(error @ ListError::Shape { .. })) => Err(CallError::Protocol {
                server: server(),
                detail: error.to_string(),
            }),
        }
    }

    fn server_error(&self, route: &Route, raw: &str) -> CallError {
        #[derive(Deserialize)]
        struct Parts {
            #[serde(default)]
            code: serde_json::Value,
            #[serde(default)]
            message: serde_json::Value,
        }
        let parts = serde_json::from_str::<Parts>(raw).ok();
        let code = parts
            .as_ref()
            .and_then(|parts| parts.code.as_i64())
            .unwrap_or(-32603);
        // Not every server keeps the shape; what came is better than nothing (B19).
        let message = parts
            .as_ref()
            .and_then(|parts| parts.message.as_str())
            .unwrap_or(raw);
        let server = route.server.clone();
        if is_missing_capability(code) {
            let what = self.redactor.redact(message).into_owned();
            return CallError::NeedsInput { server, what };
        }
        CallError::Server {
            server,
            code,
            message: self.redactor.redact(message).into_owned(),
            raw: raw.into(),
        }
    }
}

/// What a call's end says about the server.
pub(super) fn verdict(result: &Result<Box<RawValue>, CallError>) -> Verdict {
    match result {
        Ok(_)
        | Err(
            CallError::Server { .. }
            | CallError::Protocol { .. }
            | CallError::NeedsInput { .. }
            | CallError::TooLarge { .. },
        ) => Verdict::Answered,
        Err(CallError::Lost { lost, .. }) => match lost {
            Lost::Http(failure) if failure.is_refusal() && !failure.is_passing() => Verdict::Answered,
            _ => Verdict::Failed,
        },
        // A caller with less patience than the configuration proves nothing.
        Err(CallError::Timeout { limit, .. }) if !matches!(limit, TimeLimit::Call(_)) => Verdict::Failed,
        // The state machine knows about a server that isn't there.
        Err(_) => Verdict::Unknown,
    }
}

/// Waits until a connection that was lost is gone from the server's snapshot, too.
async fn replaced(route: &Route, lost: &Connection, limits: &CallLimits) {
    let mut views = route.handle.watch();
    let is_gone = |view: &Arc<ServerView>| view.connection.as_ref().is_none_or(|it| !it.is(lost));
    // If it isn't, the next try fails like this one.
    let _ = timeout_at(limits.end_of(RECONNECT), views.wait_for(is_gone)).await;
}

/// How often a request may be made whose answer was lost (CANC-07, B22): once more if the tool says of itself that a
/// second time changes nothing, a little more often if it was certainly not carried out.
fn tries_after(route: &Route, lost: &Lost) -> u32 {
    match lost {
        Lost::NotSent | Lost::SessionGone => 3,
        Lost::Http(failure) if failure.is_passing() && pause_after(failure) <= LONGEST_PAUSE => 3,
        Lost::Http(failure) if failure.is_refusal() => 1,
        Lost::Unknown | Lost::Http(_) if route.is_repeatable => 2,
        Lost::Unknown | Lost::Http(_) | Lost::TooLarge { .. } | Lost::Unread => 1,
    }
}

/// How long to wait before a request is made again that the server did not want now.
fn pause_after(failure: &HttpFailure) -> Duration {
    failure.retry_after.unwrap_or(PAUSE)
}
