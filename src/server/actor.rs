//! The task that owns one server: its process, its connection, and the decision when to try again.
//!
//! Everything else sees snapshots ([`ServerView`]) and sends [`Command`]s. An attempt to connect is one function
//! from the start of the process to the end of the connection; it always leaves no process behind, so there is at
//! most one process tree per server (B01).

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Instant, SystemTime},
};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep_until, timeout},
};

use super::{
    attempt::{Attempt, End},
    death_watch::DeathWatch,
    retry::{Failure, Ladder, Next},
    stdio::StderrTail,
    view::{Counters, ServerView, State},
};
use crate::{
    busy_poll::BusyPoll,
    config::{ServerConfig, Transport},
    environment::Environment,
    text::Redactor,
    wire::Limits,
};

/// What a server is surrounded by; shared by all servers.
pub struct Surroundings {
    /// Told of every line of a server.
    pub busy_poll: Arc<BusyPoll>,
    /// The daemon's own environment, of which a child sees an exact part.
    pub environment: Environment,
    /// Folders in which commands are looked for after the child's PATH.
    pub fallback_dirs: Vec<PathBuf>,
    /// The bounds.
    pub limits: Limits,
    /// Takes secrets out of text that leaves the daemon.
    pub redactor: Arc<Redactor>,
    /// Ends children if the daemon dies.
    pub death_watch: DeathWatch,
    /// Signalled whenever any server's view changed.
    pub changed: Arc<Notify>,
}

/// What an actor can be asked to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Drop the connection and connect anew, now. Answered when the new attempt has begun.
    Restart(oneshot::Sender<()>),
    /// End. Answered when nothing is left.
    Stop(oneshot::Sender<()>),
}

/// The way to one server's actor and what it shows.
#[derive(Clone)]
pub struct ServerHandle {
    view: watch::Receiver<Arc<ServerView>>,
    commands: mpsc::Sender<Command>,
}

impl ServerHandle {
    /// Starts the actor.
    pub fn spawn(config: ServerConfig, surroundings: Arc<Surroundings>) -> Self {
        let view = ServerView {
            state: if config.enabled {
                State::Connecting
            } else {
                State::Disabled
            },
            config: Arc::new(config),
            reason: None,
            since: SystemTime::now(),
            next_attempt: None,
            pid: None,
            tools: Arc::default(),
            info: None,
            connection: None,
            counters: Arc::default(),
            stderr: StderrTail::new(surroundings.limits.stderr_bytes),
        };
        let (publish, receiver) = watch::channel(Arc::new(view));
        let (commands, inbox) = mpsc::channel(8);
        let publish = Arc::new(publish);
        let actor = Actor {
            publish: publish.clone(),
            inbox,
            surroundings: surroundings.clone(),
            ladder: Ladder::default(),
        };
        tokio::spawn(watch_over(tokio::spawn(actor.run()), publish, surroundings));
        Self {
            view: receiver,
            commands,
        }
    }

    /// The newest snapshot.
    pub fn view(&self) -> Arc<ServerView> {
        self.view.borrow().clone()
    }

    /// A channel that tells of every new snapshot.
    pub fn watch(&self) -> watch::Receiver<Arc<ServerView>> {
        self.view.clone()
    }

    /// Drops the connection and connects anew. Returns when the new attempt has begun; `false` when the server is
    /// disabled or gone.
    pub async fn restart(&self) -> bool {
        self.ask(Command::Restart).await
    }

    /// Ends the server and waits until nothing of it is left.
    pub async fn stop(&self) {
        self.ask(Command::Stop).await;
    }

    async fn ask(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) -> bool {
        let (done, answered) = oneshot::channel();
        self.commands.send(command(done)).await.is_ok() && answered.await.is_ok()
    }
}

struct Actor {
    publish: Arc<watch::Sender<Arc<ServerView>>>,
    inbox: mpsc::Receiver<Command>,
    surroundings: Arc<Surroundings>,
    ladder: Ladder,
}

/// A fault of ours in one actor ends that server, says so, and nothing else.
async fn watch_over(
    actor: JoinHandle<()>,
    publish: Arc<watch::Sender<Arc<ServerView>>>,
    surroundings: Arc<Surroundings>,
) {
    if let Err(fault) = actor.await {
        tracing::error!(server = %publish.borrow().name(), %fault, "the task of a server failed; this is a fault of hermesd-mcp");
        show(&publish, &surroundings, |view| {
            view.state = State::Failed;
            view.reason =
                Some("its task failed; this is a fault of hermesd-mcp, and its log says more".into());
            view.since = SystemTime::now();
            view.connection = None;
            view.pid = None;
            view.tools = Arc::default();
        });
    }
}

impl Actor {
    async fn run(mut self) {
        let mut begun: Option<oneshot::Sender<()>> = None;
        loop {
            let enabled = self.publish.borrow().config.enabled;
            if !enabled {
                match self.inbox.recv().await {
                    Some(Command::Restart(_)) => continue,
                    Some(Command::Stop(done)) => return answer(done),
                    None => return,
                }
            }
            self.show(|view| {
                view.state = State::Connecting;
                view.since = SystemTime::now();
                view.next_attempt = None;
            });
            if let Some(begun) = begun.take() {
                answer(begun);
            }
            let end = self.attempt().await;
            match self.follow(end).await {
                Some(Command::Restart(done)) => {
                    self.ladder.reset();
                    begun = Some(done);
                }
                Some(Command::Stop(done)) => return answer(done),
                None if self.inbox.is_closed() => return,
                None => {}
            }
        }
    }

    async fn attempt(&mut self) -> End {
        let config = self.publish.borrow().config.clone();
        let stdio = match &config.transport {
            Transport::Stdio(stdio) => stdio,
            Transport::Remote(_) => {
                return End::Broken {
                    failure: Failure::Permanent,
                    reason: "servers with a 'url' are not supported by this version yet; only those with a 'command' are".into(),
                    was_proven: false,
                };
            }
        };
        let attempt = Attempt {
            config: &config,
            stdio,
            surroundings: &self.surroundings,
            publish: &self.publish,
        };
        attempt.run(&mut self.inbox).await
    }

    /// What comes after an attempt: waits if there is something to wait for. Returns the command that ended it.
    async fn follow(&mut self, end: End) -> Option<Command> {
        let (failure, reason, was_proven) = match end {
            End::Asked(command) => {
                if matches!(command, Command::Stop(_)) {
                    self.disconnected(State::Stopping, None, None);
                }
                return Some(command);
            }
            End::Broken {
                failure,
                reason,
                was_proven,
            } => (failure, reason, was_proven),
        };
        if was_proven {
            self.ladder.proven();
        }
        let (state, pause) = match self.ladder.failed(failure, fastrand::f64()) {
            Next::Retry(pause) => (State::Backoff, Some(pause)),
            Next::Park(pause) => (State::Parked, Some(pause)),
            Next::Fail => (State::Failed, None),
        };
        let next_attempt = pause.map(|pause| Instant::now() + pause);
        self.disconnected(state, Some(reason), next_attempt);
        tokio::select! {
            command = self.inbox.recv() => command,
            () = until(next_attempt) => None,
        }
    }

    fn disconnected(&self, state: State, reason: Option<String>, next_attempt: Option<Instant>) {
        self.show(|view| {
            view.state = state;
            view.since = SystemTime::now();
            view.reason = reason;
            view.next_attempt = next_attempt;
            view.pid = None;
            view.connection = None;
            // While it is being reconnected the tools stay in the list, so that the model's prompt doesn't change.
            if state != State::Backoff {
                view.tools = Arc::default();
                view.info = None;
            }
        });
        let view = self.publish.borrow().clone();
        let wait_s = next_attempt.map(|at| at.saturating_duration_since(Instant::now()).as_secs());
        match (&view.reason, state) {
            (Some(reason), _) => {
                tracing::warn!(server = %view.name(), state = state.as_str(), wait_s, "{}", connect_error(&view, reason));
            }
            (None, _) => tracing::info!(server = %view.name(), state = state.as_str(), "state"),
        }
    }

    fn show(&self, change: impl FnOnce(&mut ServerView)) {
        show(&self.publish, &self.surroundings, change);
    }
}

/// Publishes a changed snapshot.
pub(super) fn show(
    publish: &watch::Sender<Arc<ServerView>>,
    surroundings: &Surroundings,
    change: impl FnOnce(&mut ServerView),
) {
    publish.send_modify(|view| {
        let mut next = ServerView::clone(view);
        change(&mut next);
        *view = Arc::new(next);
    });
    surroundings.changed.notify_one();
}

/// The sentence that users search for.
pub fn connect_error(view: &ServerView, reason: &str) -> String {
    format!(
        "Failed to connect to MCP server '{}': {reason}",
        crate::text::one_line(view.name().as_str())
    )
}

/// Tells whoever asked, who may be gone by now.
fn answer(done: oneshot::Sender<()>) {
    let _ = done.send(());
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits until a server is neither connecting nor stopping any more, or `limit` has passed; then shows it.
pub async fn settled(handle: &ServerHandle, limit: std::time::Duration) -> Arc<ServerView> {
    let mut views = handle.watch();
    let is_settled = |view: &Arc<ServerView>| !matches!(view.state, State::Connecting | State::Stopping);
    // Both a time-out and an actor that is gone leave the newest snapshot.
    let _ = timeout(limit, views.wait_for(is_settled)).await;
    handle.view()
}

/// Counts a start in the view's counters: the first one is a connection, each further one a reconnection.
pub(super) fn count_start(counters: &Counters) {
    if counters.starts.fetch_add(1, Ordering::Relaxed) > 0 {
        Counters::add(&counters.reconnects);
    }
}
