//! One attempt: start the process, shake hands, read the tools, stay connected until something ends it, and clean up.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use rmcp::service::ClientInitializeError;
use tokio::{
    process::ChildStderr,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    actor::{Command, Surroundings, count_start, show},
    connection::{Connection, ListError, Running, ServerInfo},
    link::Link,
    retry::Failure,
    stdio::{
        Pipes, Process, Program, StderrTail, StdioTransport, child_environment, child_path_with,
        describe_exit, drain, resolve_command,
    },
    tools::listed_tools,
    view::{ListedTool, ServerView, State},
};
use crate::{
    config::{ServerConfig, Stdio},
    text,
};

/// A session that lived this long has proven itself.
const PROVEN_AFTER: Duration = Duration::from_secs(30);
/// Two readings of the tool list are at least this far apart, however often the server says it changed (CACHE-04).
const RELIST_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for an exit status after the pipe has ended, and for the last stderr lines after the exit.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Lines of stderr in a reason.
const STDERR_LINES: usize = 3;

/// Why an attempt is over.
pub(super) enum End {
    /// Something broke.
    Broken {
        /// Whether trying again can help.
        failure: Failure,
        /// The cause, redacted, without the server's name.
        reason: String,
        /// Whether the connection had proven itself before.
        was_proven: bool,
    },
    /// Somebody asked.
    Asked(Command),
}

/// The parts that an attempt works with.
pub(super) struct Attempt<'a> {
    pub(super) config: &'a Arc<ServerConfig>,
    pub(super) stdio: &'a Stdio,
    pub(super) surroundings: &'a Arc<Surroundings>,
    pub(super) publish: &'a watch::Sender<Arc<ServerView>>,
}

/// A reading of the tool list that is under way.
type Relist = std::pin::Pin<Box<dyn Future<Output = Result<Tools, String>> + Send>>;

/// A connection on which the handshake and the first list are done.
struct Established {
    connection: Connection,
    running: Running,
    info: ServerInfo,
    tools: Tools,
}

/// How the opening of a connection came out.
enum Opened {
    Done(Box<Established>),
    Refused(OpenError),
    Late,
    Exited(std::io::Result<std::process::ExitStatus>),
    Ended(End),
}

impl From<Result<Result<Established, OpenError>, tokio::time::error::Elapsed>> for Opened {
    fn from(result: Result<Result<Established, OpenError>, tokio::time::error::Elapsed>) -> Self {
        match result {
            Ok(Ok(opened)) => Self::Done(Box::new(opened)),
            Ok(Err(error)) => Self::Refused(error),
            Err(_) => Self::Late,
        }
    }
}

struct Tools {
    tools: Arc<[ListedTool]>,
    warnings: Vec<String>,
}

impl Attempt<'_> {
    /// Runs the attempt to its end. No process is left when it returns.
    pub(super) async fn run(self, inbox: &mut mpsc::Receiver<Command>) -> End {
        let stderr = self.publish.borrow().stderr.clone();
        let deadline = Instant::now() + self.config.connect_timeout;
        let (process, pipes) = match self.start() {
            Ok(started) => started,
            Err((failure, reason)) => {
                return End::Broken {
                    failure,
                    reason,
                    was_proven: false,
                };
            }
        };
        let mark = stderr.counters().lines;
        let drain = self.drain(pipes.stderr, stderr.clone());
        let mut child = Child {
            process,
            drain,
            stderr,
            mark,
        };
        self.show(|view| view.pid = Some(child.process.pid()));

        let link = Arc::new(Link::new(self.surroundings.busy_poll.clone()));
        let name: Arc<str> = self.config.name.as_str().into();
        let limits = &self.surroundings.limits;
        let transport = StdioTransport::new(name, pipes.stdin, pipes.stdout, limits, link.clone());
        let cancel = CancellationToken::new();
        let opened = {
            let mut opening = std::pin::pin!(timeout(
                until(deadline),
                self.open(transport, link.clone(), cancel.clone())
            ));
            tokio::select! {
                command = next(inbox) => Opened::Ended(End::Asked(command)),
                opened = &mut opening => opened.into(),
                // STDIO-06: a child of it may hold the pipes, and an answer may still be in them.
                status = child.process.exited() => match timeout(LAST_WORDS, &mut opening).await {
                    Ok(opened) => opened.into(),
                    Err(_) => Opened::Exited(status),
                },
            }
        };
        let opened = match opened {
            Opened::Done(opened) => Ok(*opened),
            Opened::Ended(end) => Err(end),
            Opened::Refused(error) => Err(self.broken(error.into_reason(&link, &mut child).await, false)),
            Opened::Late => Err(self.broken(child.with_stderr(self.no_answer()).await, false)),
            Opened::Exited(status) => {
                let what = status.map_or_else(|error| error.to_string(), describe_exit);
                let reason = child
                    .with_stderr(format!("{what} before it answered initialize"))
                    .await;
                Err(self.broken(reason, false))
            }
        };
        let end = match opened {
            Err(end) => end,
            Ok(Established {
                connection,
                running,
                info,
                tools,
            }) => {
                self.connected(&connection, info, tools);
                self.stay(connection, running, &link, &mut child, inbox).await
            }
        };
        // Calls in flight fail and the state is true now, not when the process is gone.
        cancel.cancel();
        self.show(|view| {
            view.connection = None;
            (view.state, view.reason) = match &end {
                End::Asked(Command::Stop(_)) => (State::Stopping, None),
                End::Asked(Command::Restart(_)) => (State::Connecting, None),
                End::Broken { reason, .. } => (State::Backoff, Some(reason.clone())),
            };
        });
        child.process.stop().await;
        child.drained().await;
        // A grandchild outside the group may hold the pipe; then nobody waits for its words.
        child.drain.abort();
        end
    }

    fn start(&self) -> Result<(Process, Pipes), (Failure, String)> {
        let own = &self.surroundings.environment;
        let mut environment = child_environment(own, self.stdio);
        let path = environment.get("PATH").unwrap_or_default().to_owned();
        let cwd = self.stdio.cwd.clone().unwrap_or_else(|| own.home_dir());
        let resolved = resolve_command(&self.stdio.command, &path, &self.surroundings.fallback_dirs, &cwd)
            .map_err(|not_found| (Failure::Permanent, not_found.to_string()))?;
        if let Some(directory) = &resolved.directory {
            environment.set("PATH", child_path_with(directory, &path));
        }
        let program = Program {
            path: resolved.program.clone(),
            args: self.stdio.args.clone(),
            environment,
            cwd,
        };
        count_start(&self.publish.borrow().counters);
        Process::spawn(&program, &self.surroundings.death_watch).map_err(|error| {
            (
                Failure::Transient,
                format!("'{}' could not be started: {error}", resolved.program.display()),
            )
        })
    }

    fn drain(&self, pipe: ChildStderr, tail: StderrTail) -> JoinHandle<()> {
        let redactor = self.surroundings.redactor.clone();
        tokio::spawn(async move {
            drain(pipe, tail, |line| {
                text::one_line(&redactor.redact(line)).into_owned()
            })
            .await;
        })
    }

    async fn open(
        &self,
        transport: StdioTransport,
        link: Arc<Link>,
        cancel: CancellationToken,
    ) -> Result<Established, OpenError> {
        let (connection, running) = Connection::open(transport, link, cancel)
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

    fn connected(&self, connection: &Connection, info: ServerInfo, tools: Tools) {
        self.warn(&tools.warnings);
        let count = tools.tools.len();
        tracing::info!(
            server = %self.config.name, state = "connected", tools = count, protocol = info.protocol_version,
            "connected to MCP server '{}'", text::one_line(self.config.name.as_str()),
        );
        self.show(|view| {
            view.state = State::Connected;
            view.since = SystemTime::now();
            view.reason = None;
            view.tools = tools.tools;
            view.info = Some(Arc::new(info));
            view.connection = Some(connection.clone());
        });
    }

    /// Stays until the connection ends, the process exits, or somebody asks.
    async fn stay(
        &self,
        connection: Connection,
        running: Running,
        link: &Link,
        child: &mut Child,
        inbox: &mut mpsc::Receiver<Command>,
    ) -> End {
        let since = Instant::now();
        let mut closed = std::pin::pin!(running.waiting());
        let mut relist: Option<Relist> = None;
        let mut relist_at: Option<Instant> = None;
        let mut relisted = since;
        let reason = loop {
            tokio::select! {
                command = next(inbox) => return End::Asked(command),
                _ = &mut closed => break child.why_closed(link, "").await,
                status = child.process.exited() => {
                    // Its last answers may still be in the pipe.
                    let _ = timeout(LAST_WORDS, &mut closed).await;
                    break match status {
                        Ok(status) => child.with_stderr(describe_exit(status)).await,
                        Err(error) => format!("waiting for the process failed: {error}"),
                    };
                }
                () = connection.tools_changed(), if relist_at.is_none() => {
                    relist_at = Some(Instant::now().max(relisted + RELIST_PAUSE));
                }
                () = at(relist_at), if relist.is_none() => {
                    relist_at = None;
                    let limit = self.config.connect_timeout;
                    let reading = self.read_tools(connection.clone());
                    relist = Some(Box::pin(async move {
                        match timeout(limit, reading).await {
                            Ok(read) => read.map_err(|error| error.to_string()),
                            Err(_) => Err(format!("no answer to tools/list within {} s", limit.as_secs_f64())),
                        }
                    }));
                }
                read = ready(&mut relist) => {
                    relist = None;
                    relisted = Instant::now();
                    self.relisted(read);
                }
            }
        };
        let was_proven = link.proven.load(Ordering::Relaxed) || since.elapsed() >= PROVEN_AFTER;
        self.broken(format!("connection lost: {reason}"), was_proven)
    }

    /// TOOL-13: the list is read again, and the catalog sees whether it really changed.
    fn relisted(&self, read: Result<Tools, String>) {
        match read {
            Ok(tools) => {
                self.warn(&tools.warnings);
                self.show(|view| view.tools = tools.tools);
            }
            Err(error) => {
                let error = self.surroundings.redactor.redact(&error).into_owned();
                tracing::warn!(server = %self.config.name, error, "the changed tool list could not be read; the old one stays");
            }
        }
    }

    fn no_answer(&self) -> String {
        format!(
            "no answer to initialize and tools/list within {} s (connect_timeout)",
            self.config.connect_timeout.as_secs_f64()
        )
    }

    fn broken(&self, reason: String, was_proven: bool) -> End {
        let reason = text::sanitize(&self.surroundings.redactor.redact(&reason)).into_owned();
        End::Broken {
            failure: Failure::Transient,
            reason,
            was_proven,
        }
    }

    fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            tracing::warn!(server = %self.config.name, "{}", text::one_line(warning));
        }
    }

    fn show(&self, change: impl FnOnce(&mut ServerView)) {
        show(self.publish, self.surroundings, change);
    }
}

/// The child of an attempt with what it prints.
struct Child {
    process: Process,
    drain: JoinHandle<()>,
    stderr: StderrTail,
    /// Lines that were there before this attempt.
    mark: u64,
}

impl Child {
    /// The reason of an end that the transport saw: its own failure, the exit, or a closed stdout. `when` says what
    /// was going on.
    async fn why_closed(&mut self, link: &Link, when: &str) -> String {
        if let Some(failure) = link.failure() {
            return failure;
        }
        // STDIO-06: the end of stdout is not an exit. Ask for it, but not for long.
        let what = match timeout(LAST_WORDS, self.process.exited()).await {
            Ok(Ok(status)) => describe_exit(status),
            Ok(Err(error)) => format!("waiting for the process failed: {error}"),
            Err(_) => "it closed its stdout".into(),
        };
        self.with_stderr(format!("{what}{when}")).await
    }

    /// Waits a moment for the end of stderr.
    async fn drained(&mut self) {
        if !self.drain.is_finished() {
            let _ = timeout(LAST_WORDS, &mut self.drain).await;
        }
    }

    /// The last lines on stderr, of this attempt's process only.
    fn last_words(&self) -> Vec<String> {
        let new = self.stderr.counters().lines.saturating_sub(self.mark);
        self.stderr
            .last_lines(STDERR_LINES.min(usize::try_from(new).unwrap_or(STDERR_LINES)))
    }

    /// Adds the last words on stderr, which are mostly the real reason.
    async fn with_stderr(&mut self, what: String) -> String {
        self.drained().await;
        let lines = self.last_words();
        match lines.is_empty() {
            true => what,
            false => format!("{what}; its last stderr lines: {}", lines.join(" | ")),
        }
    }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Handshake(#[from] Box<ClientInitializeError>),
    #[error("it wants protocol version '{0}', which is not one of {known}", known = Connection::versions())]
    Version(String),
    #[error(transparent)]
    List(#[from] ListError),
}

impl OpenError {
    async fn into_reason(self, link: &Link, child: &mut Child) -> String {
        match self {
            Self::Handshake(error) => match *error {
                ClientInitializeError::JsonRpcError(error) => {
                    child
                        .with_stderr(format!(
                            "it refused initialize: {} (code {})",
                            error.message, error.code.0
                        ))
                        .await
                }
                ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
                    child.why_closed(link, " before it answered initialize").await
                }
                _ => {
                    child
                        .with_stderr("its answer to initialize is not an initialize result".into())
                        .await
                }
            },
            Self::List(ListError::Lost(_)) => child.why_closed(link, " before it answered tools/list").await,
            error @ (Self::List(_) | Self::Version(_)) => child.with_stderr(error.to_string()).await,
        }
    }
}

/// The next command; a supervisor that is gone means stop.
async fn next(inbox: &mut mpsc::Receiver<Command>) -> Command {
    match inbox.recv().await {
        Some(command) => command,
        None => Command::Stop(tokio::sync::oneshot::channel().0),
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

async fn ready(relist: &mut Option<Relist>) -> Result<Tools, String> {
    match relist {
        Some(relist) => relist.await,
        None => std::future::pending().await,
    }
}
