//! One attempt: reach the server, shake hands, read the tools, stay connected until something ends it, and clean up.
//!
//! It reports what happens and decides nothing about what comes next: that is the state machine's.

mod connected;

use std::{sync::Arc, time::Duration};

use rmcp::{RoleClient, transport::Transport as RmcpTransport};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    actor::Surroundings,
    channel::Channel,
    child::{Child, LAST_WORDS, Started},
    connection::{Connection, Running, ServerInfo},
    era::Era,
    link::Link,
    list::ListError,
    machine::Failure,
    open_error::{self, OpenError},
    peer::Peer,
    remote,
    stdio::{StderrTail, StdioTransport, describe_exit, package_runner::Runner},
    tools::listed_tools,
    view::ListedTool,
};
use crate::{
    config::{Remote, ServerConfig, Stdio, Transport},
    text,
};

/// How long a server may take to say whether it is a stateless one, before it is asked for a handshake.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// It is to be tried in the other era.
    Elsewhen(Era),
}

/// How a connection is to be opened.
#[derive(Clone, Copy)]
struct Plan {
    era: Era,
    /// Whether the other era may be tried.
    may_switch: bool,
    deadline: Instant,
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
    fresh_for: Option<Duration>,
}

impl Attempt {
    /// Runs the attempt to its end. No process is left when it returns.
    pub(super) async fn run(self) {
        let (era, may_switch) = self.surroundings.eras.first(&self.config);
        let mut plan = Plan {
            era,
            may_switch,
            deadline: Instant::now() + self.config.connect_timeout,
        };
        loop {
            let result = match &self.config.transport {
                Transport::Stdio(stdio) => self.run_child(stdio, plan).await,
                Transport::Remote(remote) => self.run_remote(remote, plan).await,
            };
            let reason = match result {
                Ok(None) => return,
                Ok(Some(era)) => {
                    tracing::debug!(server = %self.config.name, ?era, "trying the other era of the protocol");
                    plan = Plan {
                        era,
                        may_switch: false,
                        ..plan
                    };
                    continue;
                }
                Err(reason) => reason,
            };
            let (failure, reason) = (reason.0, self.clean(&reason.1));
            return self.report(Report::Broken { failure, reason });
        }
    }

    /// Gives the era in which to try again at once, if that is the end.
    async fn run_child(&self, stdio: &Stdio, plan: Plan) -> Result<Option<Era>, (Failure, String)> {
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
        let transport = StdioTransport::new(name, stdin, stdout, limits, link.clone(), plan.era);
        let channel = transport.channel();
        Ok(self
            .run_with(plan, transport, channel, &link, Peer::Child(child))
            .await)
    }

    /// The same.
    async fn run_remote(&self, remote: &Remote, plan: Plan) -> Result<Option<Era>, (Failure, String)> {
        let link = Arc::new(Link::new(self.surroundings.busy_poll.clone()));
        let (transport, session) =
            remote::connect(&self.config, remote, &self.surroundings, link.clone(), plan.era)
                .map_err(|error| (Failure::Permanent, error.to_string()))?;
        let channel = transport.channel();
        Ok(self
            .run_with(plan, transport, channel, &link, Peer::Remote(session))
            .await)
    }

    /// Does everything between the start and the end of the peer.
    async fn run_with(
        &self,
        plan: Plan,
        transport: impl RmcpTransport<RoleClient> + 'static,
        channel: Channel,
        link: &Arc<Link>,
        mut peer: Peer,
    ) -> Option<Era> {
        let cancel = CancellationToken::new();
        let open = self.open(plan, transport, channel, link.clone(), cancel.clone());
        let over = match self.open_until(plan, open, link, &mut peer).await {
            Ok(established) => self.connected(established, link, &mut peer).await,
            Err(over) => over,
        };
        // Calls in flight fail and the state is true now, not when the process is gone.
        cancel.cancel();
        let elsewhen = match over {
            Over::Told => None,
            Over::Reported(report) => {
                self.report(report);
                None
            }
            Over::Elsewhen(era) => Some(era),
        };
        peer.end(link, &self.surroundings.hurry).await;
        elsewhen
    }

    fn report(&self, report: Report) {
        // An actor that is gone wants to know nothing.
        let _ = self.reports.send(report);
    }

    /// Opens the connection, unless time is up, the process exits, or somebody asks for the end.
    async fn open_until(
        &self,
        plan: Plan,
        open: impl Future<Output = Result<Established, OpenError>>,
        link: &Link,
        peer: &mut Peer,
    ) -> Result<Established, Over> {
        let opening = {
            let mut open = std::pin::pin!(timeout(until(plan.deadline), open));
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
            Opening::Refused(error) => {
                let other = error.other_era(plan.era);
                if let Some(era) = other.filter(|_| plan.may_switch) {
                    return Err(Over::Elsewhen(era));
                }
                let hint = other.map_or("", |_| open_error::hint(self.config.protocol));
                error.into_reason(link, peer, hint).await
            }
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
        plan: Plan,
        transport: impl RmcpTransport<RoleClient> + 'static,
        channel: Channel,
        link: Arc<Link>,
        cancel: CancellationToken,
    ) -> Result<Established, OpenError> {
        let (connection, running) = match plan.era {
            Era::Handshake => Connection::open(transport, channel, link, cancel)
                .await
                .map_err(Box::new)?,
            Era::Stateless => {
                let discover = Connection::discover(transport, channel, link, cancel);
                match plan.may_switch {
                    // Silence says nothing about the era; but a handshake that succeeds does.
                    true => timeout(PROBE_TIMEOUT.min(self.config.connect_timeout / 2), discover)
                        .await
                        .unwrap_or(Err(OpenError::OtherEra(Era::Handshake)))?,
                    false => discover.await?,
                }
            }
        };
        let info = connection.server_info();
        if plan.era == Era::Handshake && !Connection::speaks(&info.protocol_version) {
            return Err(OpenError::Version(info.protocol_version));
        }
        let tools = match info.capabilities.tools {
            true => self.read_tools(connection.clone()).await?,
            // LIFE-06: a server that doesn't declare tools is never asked for them.
            false => Tools {
                tools: Arc::default(),
                warnings: Vec::new(),
                fresh_for: None,
            },
        };
        self.surroundings.eras.keep(&self.config, plan.era);
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
            let (mut tools, mut warnings) = listed_tools(&listed.items);
            connection.keep_param_headers(&mut tools, &mut warnings);
            warnings.extend(
                listed
                    .truncated
                    .map(|why| format!("its tool list was cut: {why}")),
            );
            Ok(Tools {
                tools: tools.into(),
                warnings,
                fresh_for: listed.fresh_for,
            })
        }
    }

    fn no_answer(&self) -> String {
        format!(
            "no answer to initialize and tools/list within {} s (connect_timeout)",
            self.config.connect_timeout.as_secs_f64()
        )
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

fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
