//! One attempt: reach the server, shake hands, read the tools, stay connected until something ends it, and clean up.
//!
//! It reports what happens and decides nothing about what comes next: that is the state machine's.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rmcp::{RoleClient, transport::Transport as RmcpTransport};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    actor::Surroundings,
    channel::Channel,
    child::{Child, LAST_WORDS, Started},
    connection::{Connection, ListError, Running, ServerInfo},
    link::Link,
    machine::Failure,
    open_error::OpenError,
    peer::Peer,
    relist::Relist,
    remote,
    request::Lost,
    stdio::{StderrTail, StdioTransport, describe_exit, package_runner::Runner},
    tools::listed_tools,
    view::ListedTool,
};
use crate::{
    config::{Remote, ServerConfig, Stdio, Transport},
    text,
};

/// A session that lived this long has proven itself.
const PROVEN_AFTER: Duration = Duration::from_secs(30);
/// How long a keepalive ping may take at most; less where pings are sent more often.
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a server that is due to be recycled but in use is looked at again.
const RECYCLE_POLL: Duration = Duration::from_millis(500);

/// What an attempt tells its actor.
pub(super) enum Report {
    /// The process of a local server runs.
    Started {
        pid: u32,
        /// How a package runner's package was started.
        runner: Arc<Runner>,
    },
    /// The handshake and the first list are done.
    Opened(Box<Opened>),
    /// The list was read again.
    Tools(Arc<[ListedTool]>),
    /// The session is worth something.
    Proven,
    /// It is over: something broke. The reason is redacted and without the server's name.
    Broken { failure: Failure, reason: String },
    /// It is over: the configuration wants idle or old servers ended.
    Recycled { reason: String },
}

/// A connection on which the handshake and the first list are done.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) info: ServerInfo,
    pub(super) tools: Arc<[ListedTool]>,
}

/// What an attempt works with.
pub(super) struct Attempt {
    pub(super) config: Arc<ServerConfig>,
    pub(super) surroundings: Arc<Surroundings>,
    pub(super) stderr: StderrTail,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    /// Ends the attempt.
    pub(super) close: CancellationToken,
}

/// How an attempt ended.
enum Over {
    /// Somebody asked for it.
    Told,
    Reported(Report),
}

/// A reading of the tool list that is under way.
type Reading = std::pin::Pin<Box<dyn Future<Output = Result<Tools, String>> + Send>>;
/// A ping that is under way.
type Ping = std::pin::Pin<Box<dyn Future<Output = Pulse> + Send>>;

/// What a ping says.
enum Pulse {
    Alive,
    Dead(String),
    /// The connection is lost, and the peer knows more.
    Lost,
}

/// How the opening of a connection came out.
enum Opening {
    Done(Box<Established>),
    Refused(OpenError),
    Late,
    Exited(std::io::Result<std::process::ExitStatus>),
    Told,
}

impl From<Result<Result<Established, OpenError>, tokio::time::error::Elapsed>> for Opening {
    fn from(result: Result<Result<Established, OpenError>, tokio::time::error::Elapsed>) -> Self {
        match result {
            Ok(Ok(opened)) => Self::Done(Box::new(opened)),
            Ok(Err(error)) => Self::Refused(error),
            Err(_) => Self::Late,
        }
    }
}

struct Established {
    connection: Connection,
    running: Running,
    info: ServerInfo,
    tools: Tools,
}

struct Tools {
    tools: Arc<[ListedTool]>,
    warnings: Vec<String>,
}

impl Attempt {
    /// Runs the attempt to its end. No process is left when it returns.
    pub(super) async fn run(self) {
        let deadline = Instant::now() + self.config.connect_timeout;
        let config = self.config.clone();
        let result = match &config.transport {
            Transport::Stdio(stdio) => self.run_child(stdio, deadline).await,
            Transport::Remote(remote) => self.run_remote(remote, deadline).await,
        };
        if let Err((failure, reason)) = result {
            let reason = self.clean(&reason);
            self.report(Report::Broken { failure, reason });
        }
    }

    async fn run_child(&self, stdio: &Stdio, deadline: Instant) -> Result<(), (Failure, String)> {
        let Started {
            child,
            stdin,
            stdout,
            runner,
        } = Child::start(&self.config, stdio, &self.surroundings, self.stderr.clone())?;
        self.report(Report::Started {
            pid: child.process.pid(),
            runner: Arc::new(runner),
        });
        let link = Arc::new(Link::new(self.surroundings.busy_poll.clone()));
        let name: Arc<str> = self.config.name.as_str().into();
        let limits = &self.surroundings.limits;
        let transport = StdioTransport::new(name, stdin, stdout, limits, link.clone());
        let channel = transport.channel();
        self.run_with(deadline, transport, channel, &link, Peer::Child(child))
            .await;
        Ok(())
    }

    async fn run_remote(&self, remote: &Remote, deadline: Instant) -> Result<(), (Failure, String)> {
        let link = Arc::new(Link::new(self.surroundings.busy_poll.clone()));
        let (transport, session) = remote::connect(&self.config, remote, &self.surroundings, link.clone())
            .map_err(|error| (Failure::Permanent, error.to_string()))?;
        let channel = transport.channel();
        self.run_with(deadline, transport, channel, &link, Peer::Remote(session))
            .await;
        Ok(())
    }

    /// Does everything between the start and the end of the peer.
    async fn run_with(
        &self,
        deadline: Instant,
        transport: impl RmcpTransport<RoleClient> + 'static,
        channel: Channel,
        link: &Arc<Link>,
        mut peer: Peer,
    ) {
        let cancel = CancellationToken::new();
        let open = self.open(transport, channel, link.clone(), cancel.clone());
        let over = match self.open_until(deadline, open, link, &mut peer).await {
            Ok(established) => self.connected(established, link, &mut peer).await,
            Err(over) => over,
        };
        // Calls in flight fail and the state is true now, not when the process is gone.
        cancel.cancel();
        if let Over::Reported(report) = over {
            self.report(report);
        }
        peer.end(link, &self.surroundings.hurry).await;
    }

    fn report(&self, report: Report) {
        // An actor that is gone wants to know nothing.
        let _ = self.reports.send(report);
    }

    /// Opens the connection, unless time is up, the process exits, or somebody asks for the end.
    async fn open_until(
        &self,
        deadline: Instant,
        open: impl Future<Output = Result<Established, OpenError>>,
        link: &Link,
        peer: &mut Peer,
    ) -> Result<Established, Over> {
        let opening = {
            let mut open = std::pin::pin!(timeout(until(deadline), open));
            tokio::select! {
                () = self.close.cancelled() => Opening::Told,
                opened = &mut open => opened.into(),
                // STDIO-06: a child of it may hold the pipes, and an answer may still be in them.
                status = peer.exited() => match timeout(LAST_WORDS, &mut open).await {
                    Ok(opened) => opened.into(),
                    Err(_) => Opening::Exited(status),
                },
            }
        };
        let (failure, reason) = match opening {
            Opening::Done(established) => return Ok(*established),
            Opening::Told => return Err(Over::Told),
            Opening::Refused(error) => error.into_reason(link, peer).await,
            Opening::Late => (Failure::Transient, peer.with_stderr(self.no_answer()).await),
            Opening::Exited(status) => {
                let what = status.map_or_else(|error| error.to_string(), describe_exit);
                let what = format!("{what} before it answered initialize");
                (Failure::Transient, peer.with_stderr(what).await)
            }
        };
        Err(self.broken(failure, &reason))
    }

    async fn open(
        &self,
        transport: impl RmcpTransport<RoleClient> + 'static,
        channel: Channel,
        link: Arc<Link>,
        cancel: CancellationToken,
    ) -> Result<Established, OpenError> {
        let (connection, running) = Connection::open(transport, channel, link, cancel)
            .await
            .map_err(Box::new)?;
        let info = connection.server_info();
        if !Connection::speaks(&info.protocol_version) {
            return Err(OpenError::Version(info.protocol_version));
        }
        let tools = match info.capabilities.tools {
            true => self.read_tools(connection.clone()).await?,
            // LIFE-06: a server that doesn't declare tools is never asked for them.
            false => Tools {
                tools: Arc::default(),
                warnings: Vec::new(),
            },
        };
        Ok(Established {
            connection,
            running,
            info,
            tools,
        })
    }

    fn read_tools(
        &self,
        connection: Connection,
    ) -> impl Future<Output = Result<Tools, ListError>> + Send + 'static {
        let limits = self.surroundings.limits.clone();
        async move {
            let listed = connection.list("tools/list", "tools", &limits).await?;
            let (tools, mut warnings) = listed_tools(&listed.items);
            warnings.extend(
                listed
                    .truncated
                    .map(|why| format!("its tool list was cut: {why}")),
            );
            Ok(Tools {
                tools: tools.into(),
                warnings,
            })
        }
    }

    /// Reports the connection and stays until it ends.
    async fn connected(&self, established: Established, link: &Link, peer: &mut Peer) -> Over {
        let Established {
            connection,
            running,
            info,
            tools,
        } = established;
        self.warn(&tools.warnings);
        self.report(Report::Opened(Box::new(Opened {
            connection: connection.clone(),
            info,
            tools: tools.tools.clone(),
        })));
        let since = Instant::now();
        let over = self
            .stay(since, connection, running, tools.tools, link, peer)
            .await;
        // Said at the end, where it first matters: a timer per server would wake an idle daemon.
        if link.proven.load(Ordering::Relaxed) || since.elapsed() >= PROVEN_AFTER {
            self.report(Report::Proven);
        }
        over
    }

    /// Stays until the connection ends, the process exits, somebody asks, or the configuration says that it is enough.
    async fn stay(
        &self,
        since: Instant,
        connection: Connection,
        running: Running,
        mut tools: Arc<[ListedTool]>,
        link: &Link,
        peer: &mut Peer,
    ) -> Over {
        let mut closed = std::pin::pin!(running.waiting());
        let mut relist = Relist::new(since);
        let mut reading: Option<Reading> = None;
        let mut ping_at = self.config.keepalive_interval.map(|interval| since + interval);
        let mut ping: Option<Ping> = None;
        let (failure, reason) = loop {
            tokio::select! {
                () = self.close.cancelled() => return Over::Told,
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
                () = connection.tools_changed() => relist.notice(Instant::now()),
                () = at(relist.due()) => {
                    relist.begin();
                    reading = Some(self.read_again(connection.clone()));
                }
                read = ready(&mut reading) => {
                    reading = None;
                    let has_changed = self.read(read, &mut tools);
                    relist.end(Instant::now(), has_changed);
                }
                () = at(ping_at) => {
                    let interval = self.config.keepalive_interval.unwrap_or(PING_TIMEOUT);
                    let now = Instant::now();
                    // A server with a call on its hands is watched by that call's own time limit.
                    let silent_since = connection.unused_since().unwrap_or(now);
                    if ping.is_none() && silent_since + interval <= now {
                        ping = Some(self.ping(&connection));
                    }
                    ping_at = Some((silent_since + interval).max(now + interval / 4));
                }
                // Whether a failure was the request's own or the connection's.
                () = link.doubt.notified(), if ping.is_none() => ping = Some(self.ping(&connection)),
                pulse = ready(&mut ping) => {
                    ping = None;
                    ping_at = self.config.keepalive_interval.map(|interval| Instant::now() + interval);
                    match pulse {
                        Pulse::Alive => {}
                        Pulse::Dead(reason) => break (Failure::Transient, reason),
                        Pulse::Lost => break peer.why_closed(link, "").await,
                    }
                }
                () = at(self.recycle_at(&connection, since)) => {
                    if let Some(reason) = self.may_recycle(&connection, since) {
                        return Over::Reported(Report::Recycled { reason });
                    }
                }
            }
        };
        self.broken(failure, &format!("connection lost: {reason}"))
    }

    /// The earliest time at which the connection can be idle for long enough, or old enough.
    fn recycle_at(&self, connection: &Connection, since: Instant) -> Option<Instant> {
        let now = Instant::now();
        let unused = connection.unused_since();
        let idle = self
            .config
            .idle_timeout
            .map(|limit| unused.unwrap_or(now) + limit);
        let old = self.config.max_lifetime.map(|limit| match unused {
            Some(_) => since + limit,
            None => (since + limit).max(now + RECYCLE_POLL),
        });
        match (idle, old) {
            (Some(idle), Some(old)) => Some(idle.min(old)),
            (idle, old) => idle.or(old),
        }
    }

    /// Ends the connection if it is time and nobody uses it; gives the reason.
    fn may_recycle(&self, connection: &Connection, since: Instant) -> Option<String> {
        let unused = connection.unused_since()?;
        let is_over = |limit: Option<Duration>, from: Instant| limit.filter(|limit| from.elapsed() >= *limit);
        let reason = match is_over(self.config.idle_timeout, unused) {
            Some(limit) => format!("unused for {} s (idle_timeout_seconds)", limit.as_secs_f64()),
            None => {
                let limit = is_over(self.config.max_lifetime, since)?;
                format!("{} s old (max_lifetime_seconds)", limit.as_secs_f64())
            }
        };
        connection
            .close_if_unused()
            .then(|| format!("{reason}; the next call starts it again"))
    }

    fn read_again(&self, connection: Connection) -> Reading {
        let limit = self.config.connect_timeout;
        let reading = self.read_tools(connection);
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
    fn read(&self, read: Result<Tools, String>, tools: &mut Arc<[ListedTool]>) -> bool {
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                let error = self.surroundings.redactor.redact(&error).into_owned();
                tracing::warn!(server = %self.config.name, error, "the changed tool list could not be read; the old one stays");
                return false;
            }
        };
        let is_same = read.tools.len() == tools.len()
            && read
                .tools
                .iter()
                .zip(tools.iter())
                .all(|(new, old)| new.definition.get() == old.definition.get());
        if !is_same {
            self.warn(&read.warnings);
            *tools = read.tools.clone();
            self.report(Report::Tools(read.tools));
        }
        !is_same
    }

    fn no_answer(&self) -> String {
        format!(
            "no answer to initialize and tools/list within {} s (connect_timeout)",
            self.config.connect_timeout.as_secs_f64()
        )
    }

    fn ping(&self, connection: &Connection) -> Ping {
        let interval = self.config.keepalive_interval.unwrap_or(PING_TIMEOUT);
        Box::pin(ping_within(interval.min(PING_TIMEOUT), connection.clone()))
    }

    fn broken(&self, failure: Failure, reason: &str) -> Over {
        let reason = self.clean(reason);
        Over::Reported(Report::Broken { failure, reason })
    }

    /// A reason as it may be shown.
    fn clean(&self, reason: &str) -> String {
        text::sanitize(&self.surroundings.redactor.redact(reason)).into_owned()
    }

    fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            tracing::warn!(server = %self.config.name, "{}", text::one_line(warning));
        }
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

fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn ready<T>(work: &mut Option<std::pin::Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
