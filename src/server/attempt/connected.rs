//! What an attempt does while it is connected: reads a changed tool list again, asks whether the server lives, and
//! ends the connection when it is idle or old.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout};

use super::{Attempt, Established, Opened, Over, Report, Tools};
use crate::server::{
    child::LAST_WORDS,
    connection::{Connection, Running, ServerInfo},
    link::Link,
    machine::Failure,
    peer::Peer,
    relist::Relist,
    request::Lost,
    stdio::describe_exit,
    view::ListedTool,
};

/// A session that lived this long has proven itself.
const PROVEN_AFTER: Duration = Duration::from_secs(30);
/// How often the tools of a stateless server are read again that doesn't tell about changes, if not more seldom.
const POLL: Duration = Duration::from_secs(300);
/// How long a keepalive ping may take at most; less where pings are sent more often.
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a server that is due to be recycled but in use is looked at again.
const RECYCLE_POLL: Duration = Duration::from_millis(500);

/// Something that is under way beside the connection.
type Work<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// A connection that is kept for as long as it is worth it.
pub(super) struct Connected<'a> {
    attempt: &'a Attempt,
    connection: Connection,
    since: Instant,
    tools: Arc<[ListedTool]>,
    changes: Changes,
    relist: Relist,
    reading: Option<Work<Result<Tools, String>>>,
    ping: Option<Work<Pulse>>,
    ping_at: Option<Instant>,
}

/// How it is found out that the tools of a stateless server changed. Others say so, or their connection breaks when
/// another program takes over.
struct Changes {
    /// The server tells.
    listening: Option<Work<()>>,
    /// Else they are read again now and then.
    poll_at: Option<Instant>,
    pause: Duration,
}

/// What a ping says.
enum Pulse {
    Alive,
    Dead(String),
    /// The connection is lost, and the peer knows more.
    Lost,
}

impl Attempt {
    /// Reports the connection and stays until it ends.
    pub(super) async fn connected(&self, established: Established, link: &Link, peer: &mut Peer) -> Over {
        let Established {
            connection,
            running,
            info,
            tools,
        } = established;
        self.warn(&tools.warnings);
        let since = Instant::now();
        let connected = Connected {
            attempt: self,
            since,
            changes: Changes::of(&connection, &info, tools.fresh_for),
            relist: Relist::new(since),
            reading: None,
            ping: None,
            ping_at: self.config.keepalive_interval.map(|interval| since + interval),
            connection: connection.clone(),
            tools: tools.tools.clone(),
        };
        self.report(Report::Opened(Box::new(Opened {
            connection,
            info,
            tools: tools.tools,
        })));
        let over = connected.stay(running, link, peer).await;
        // Said at the end, where it first matters: a timer per server would wake an idle daemon.
        if link.proven.load(Ordering::Relaxed) || since.elapsed() >= PROVEN_AFTER {
            self.report(Report::Proven);
        }
        over
    }
}

impl Connected<'_> {
    /// Stays until the connection ends, the process exits, somebody asks, or the configuration says that it is enough.
    async fn stay(mut self, running: Running, link: &Link, peer: &mut Peer) -> Over {
        let mut closed = std::pin::pin!(running.waiting());
        let (failure, reason) = loop {
            let recycle_at = self.recycle_at();
            tokio::select! {
                () = self.attempt.close.cancelled() => return Over::Told,
                _ = &mut closed => break peer.why_closed(link, "").await,
                status = peer.exited() => {
                    // Its last answers may still be in the pipe.
                    let _ = timeout(LAST_WORDS, &mut closed).await;
                    let what = match status {
                        Ok(status) => peer.with_stderr(describe_exit(status)).await,
                        Err(error) => format!("waiting for the process failed: {error}"),
                    };
                    break (Failure::Transient, what);
                }
                () = self.connection.tools_changed() => self.relist.notice(Instant::now()),
                () = self.changes.heard() => self.relist.notice(Instant::now()),
                () = at(self.relist.due()) => {
                    self.relist.begin();
                    self.reading = Some(self.read_again());
                }
                read = ready(&mut self.reading) => {
                    self.reading = None;
                    let has_changed = self.take(read);
                    self.relist.end(Instant::now(), has_changed);
                }
                () = at(self.ping_at) => self.ping_if_silent(),
                // Whether a failure was the request's own or the connection's.
                () = link.doubt.notified(), if self.ping.is_none() => self.ping = Some(self.pinging()),
                pulse = ready(&mut self.ping) => {
                    self.ping = None;
                    self.ping_at = self.ping_interval().map(|interval| Instant::now() + interval);
                    match pulse {
                        Pulse::Alive => {}
                        Pulse::Dead(reason) => break (Failure::Transient, reason),
                        Pulse::Lost => break peer.why_closed(link, "").await,
                    }
                }
                () = at(recycle_at) => {
                    if let Some(reason) = self.may_recycle() {
                        return Over::Reported(Report::Recycled { reason });
                    }
                }
            }
        };
        self.attempt
            .broken(failure, &format!("connection lost: {reason}"))
    }

    fn ping_interval(&self) -> Option<Duration> {
        self.attempt.config.keepalive_interval
    }

    fn ping_if_silent(&mut self) {
        let interval = self.ping_interval().unwrap_or(PING_TIMEOUT);
        let now = Instant::now();
        // A server with a call on its hands is watched by that call's own time limit.
        let silent_since = self.connection.unused_since().unwrap_or(now);
        if self.ping.is_none() && silent_since + interval <= now {
            self.ping = Some(self.pinging());
        }
        self.ping_at = Some((silent_since + interval).max(now + interval / 4));
    }

    fn pinging(&self) -> Work<Pulse> {
        let interval = self.ping_interval().unwrap_or(PING_TIMEOUT);
        Box::pin(ping_within(interval.min(PING_TIMEOUT), self.connection.clone()))
    }

    /// The earliest time at which the connection can be idle for long enough, or old enough.
    fn recycle_at(&self) -> Option<Instant> {
        let config = &self.attempt.config;
        let now = Instant::now();
        let unused = self.connection.unused_since();
        let idle = config.idle_timeout.map(|limit| unused.unwrap_or(now) + limit);
        let old = config.max_lifetime.map(|limit| match unused {
            Some(_) => self.since + limit,
            None => (self.since + limit).max(now + RECYCLE_POLL),
        });
        match (idle, old) {
            (Some(idle), Some(old)) => Some(idle.min(old)),
            (idle, old) => idle.or(old),
        }
    }

    /// Ends the connection if it is time and nobody uses it; gives the reason.
    fn may_recycle(&self) -> Option<String> {
        let config = &self.attempt.config;
        let unused = self.connection.unused_since()?;
        let is_over = |limit: Option<Duration>, from: Instant| limit.filter(|limit| from.elapsed() >= *limit);
        let reason = match is_over(config.idle_timeout, unused) {
            Some(limit) => format!("unused for {} s (idle_timeout_seconds)", limit.as_secs_f64()),
            None => {
                let limit = is_over(config.max_lifetime, self.since)?;
                format!("{} s old (max_lifetime_seconds)", limit.as_secs_f64())
            }
        };
        self.connection
            .close_if_unused()
            .then(|| format!("{reason}; the next call starts it again"))
    }

    fn read_again(&self) -> Work<Result<Tools, String>> {
        let limit = self.attempt.config.connect_timeout;
        let reading = self.attempt.read_tools(self.connection.clone());
        Box::pin(async move {
            match timeout(limit, reading).await {
                Ok(read) => read.map_err(|error| error.to_string()),
                Err(_) => Err(format!(
                    "no answer to tools/list within {} s",
                    limit.as_secs_f64()
                )),
            }
        })
    }

    /// TOOL-13: takes a list that was read again; gives whether it says anything new.
    fn take(&mut self, read: Result<Tools, String>) -> bool {
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                let error = self.attempt.surroundings.redactor.redact(&error);
                tracing::warn!(server = %self.attempt.config.name, %error, "the changed tool list could not be read; the old one stays");
                return false;
            }
        };
        let is_same = read.tools.len() == self.tools.len()
            && read
                .tools
                .iter()
                .zip(self.tools.iter())
                .all(|(new, old)| new.definition.get() == old.definition.get());
        if !is_same {
            self.attempt.warn(&read.warnings);
            self.tools = read.tools.clone();
            self.attempt.report(Report::Tools(read.tools));
        }
        !is_same
    }
}

impl Changes {
    fn of(connection: &Connection, info: &ServerInfo, fresh_for: Option<Duration>) -> Self {
        let has_tools = connection.is_stateless() && info.capabilities.tools;
        let tells = has_tools && info.capabilities.tells_of_changes;
        // CACHE-03: not all servers at the same moment.
        let pause = fresh_for
            .unwrap_or_default()
            .max(POLL)
            .mul_f64(1.0 + fastrand::f64() / 5.0);
        Self {
            listening: tells.then(|| -> Work<()> { Box::pin(connection.clone().listen()) }),
            poll_at: (has_tools && !tells).then(|| Instant::now() + pause),
            pause,
        }
    }

    /// Resolves when it is time to read the tools again. Cancel-safe.
    async fn heard(&mut self) {
        tokio::select! {
            // What the server tells is told by the link; it only ends when the server doesn't want to.
            () = ready(&mut self.listening) => self.listening = None,
            () = at(self.poll_at) => {}
        }
        self.poll_at = Some(Instant::now() + self.pause);
    }
}

/// Whether the server answers in time.
async fn ping_within(limit: Duration, connection: Connection) -> Pulse {
    match timeout(limit, connection.ping()).await {
        Err(_) => Pulse::Dead("it did not answer a keepalive ping".into()),
        Ok(Ok(())) => Pulse::Alive,
        // Somebody in between says that there is no server. Any other refusal is the server's own.
        Ok(Err(Lost::Http(failure))) if matches!(failure.status, 502 | 504) => {
            Pulse::Dead(failure.text.clone())
        }
        Ok(Err(Lost::Http(_))) => Pulse::Alive,
        Ok(Err(_)) => Pulse::Lost,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn ready<T>(work: &mut Option<Work<T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
