//! The task that owns one server: its process and its connection.
//!
//! Everything else sees snapshots ([`ServerView`]) and sends [`Command`]s. What to do is the state machine's matter
//! (`machine.rs`), how to do it that of an attempt (`attempt.rs`): one function from the start of the process to the
//! end of the connection, which always leaves no process behind, so there is at most one process tree per server (B01).

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    attempt::{Attempt, Report},
    death_watch::DeathWatch,
    era::Eras,
    machine::{Action, Event, Machine},
    remote::HttpClients,
    stdio::StderrTail,
    view::{Counters, ServerView, State},
};
use crate::{
    busy_poll::BusyPoll, config::ServerConfig, environment::Environment, text::Redactor, wire::Limits,
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
    /// Which era of the protocol each server speaks.
    pub eras: Eras,
    /// Makes the HTTP clients of remote servers.
    pub(crate) clients: HttpClients,
    /// Ends children if the daemon dies.
    pub death_watch: DeathWatch,
    /// Cancelled when the daemon's end is in a hurry: no server is waited for longer than it must be.
    pub hurry: CancellationToken,
    /// Signalled whenever any server's view changed.
    pub changed: Arc<Notify>,
}

/// What an actor can be asked to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Drop the connection and connect anew, now. Answered when the new attempt has begun.
    Restart(oneshot::Sender<()>),
    /// A call wants the server: try again sooner than planned. Answered when that is planned.
    Wake(oneshot::Sender<()>),
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
            runner: None,
            tools: Arc::default(),
            info: None,
            connection: None,
            counters: Arc::default(),
            stderr: StderrTail::new(surroundings.limits.stderr_bytes),
        };
        let (publish, receiver) = watch::channel(Arc::new(view));
        let (commands, inbox) = mpsc::channel(8);
        let publish = Arc::new(publish);
        let (machine, first) = Machine::new(publish.borrow().config.enabled);
        let actor = Actor {
            machine,
            publish: publish.clone(),
            inbox,
            surroundings: surroundings.clone(),
            attempt: None,
            alarm: None,
            restarts: Vec::new(),
            stops: Vec::new(),
        };
        tokio::spawn(watch_over(tokio::spawn(actor.run(first)), publish, surroundings));
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

    /// A call wants the server: if it is waiting for its next attempt, that comes sooner. Returns when the snapshot says
    /// when.
    pub async fn wake(&self) {
        self.ask(Command::Wake).await;
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
            view.next_attempt = None;
            view.connection = None;
            view.pid = None;
            view.tools = Arc::default();
        });
    }
}

/// Carries out what the state machine says.
struct Actor {
    machine: Machine,
    publish: Arc<watch::Sender<Arc<ServerView>>>,
    inbox: mpsc::Receiver<Command>,
    surroundings: Arc<Surroundings>,
    attempt: Option<Running>,
    alarm: Option<Alarm>,
    /// Those who wait for the next attempt to begin.
    restarts: Vec<oneshot::Sender<()>>,
    /// Those who wait for the end.
    stops: Vec<oneshot::Sender<()>>,
}

/// The attempt that is under way.
struct Running {
    attempt: BoxFuture<'static, ()>,
    reports: mpsc::UnboundedReceiver<Report>,
    close: CancellationToken,
}

/// When the state machine wants to be woken.
#[derive(Clone, Copy)]
struct Alarm {
    set: Instant,
    rings: Instant,
}

/// What woke the actor.
enum Woken {
    Report(Report),
    Closed,
    Command(Option<Command>),
    Due,
}

impl Actor {
    async fn run(mut self, first: Option<Action>) {
        self.carry_out(first);
        while !self.machine.is_ended() {
            match self.woken().await {
                Woken::Report(report) => self.report(report),
                Woken::Closed => self.closed(),
                Woken::Command(command) => self.command(command),
                Woken::Due => {
                    self.alarm = None;
                    self.happened(Event::Due, None);
                }
            }
        }
    }

    async fn woken(&mut self) -> Woken {
        let alarm = self.alarm.map(|alarm| alarm.rings);
        let attempt = async {
            let Some(running) = &mut self.attempt else {
                return std::future::pending().await;
            };
            tokio::select! {
                biased;
                Some(report) = running.reports.recv() => Woken::Report(report),
                () = &mut running.attempt => Woken::Closed,
            }
        };
        tokio::select! {
            woken = attempt => woken,
            command = self.inbox.recv() => Woken::Command(command),
            () = until(alarm) => Woken::Due,
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Started { pid, runner } => self.show(|view| {
                view.pid = Some(pid);
                view.runner = Some(runner);
            }),
            Report::Opened(opened) => {
                // Not if it was told to end meanwhile.
                if self.machine.is_connecting() {
                    self.show(|view| {
                        view.tools = opened.tools;
                        view.info = Some(Arc::new(opened.info));
                        view.connection = Some(opened.connection);
                    });
                }
                self.happened(Event::Opened, None);
            }
            Report::Tools(tools) => {
                if self.machine.state() == State::Connected {
                    self.show(|view| view.tools = tools);
                }
            }
            Report::Proven => self.happened(Event::Proven, None),
            Report::Broken { failure, reason } => self.happened(Event::Broken(failure), Some(reason)),
            Report::Recycled { reason } => self.happened(Event::Recycle, Some(reason)),
        }
    }

    fn closed(&mut self) {
        if let Some(mut running) = self.attempt.take() {
            // Its last words came before its end.
            while let Ok(report) = running.reports.try_recv() {
                self.report(report);
            }
        }
        self.show(|view| view.pid = None);
        self.happened(Event::Closed, None);
    }

    fn command(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Restart(begun)) => {
                // A server that is disabled begins nothing: the sender is dropped, and that says so.
                if self.machine.state() != State::Disabled {
                    self.restarts.push(begun);
                }
                self.happened(Event::Restart, None);
            }
            Some(Command::Wake(done)) => {
                self.happened(Event::Wanted, None);
                answer(done);
            }
            Some(Command::Stop(ended)) => {
                self.stops.push(ended);
                self.happened(Event::Stop, None);
            }
            // Nobody can ask for anything any more.
            None => self.happened(Event::Stop, None),
        }
    }

    /// The one place where the state changes: one transition, one snapshot, one line in the log.
    fn happened(&mut self, event: Event, reason: Option<String>) {
        let before = self.machine.state();
        let action;
        (self.machine, action) = self.machine.step(event, fastrand::f64());
        let state = self.machine.state();
        if state != before {
            let next_attempt = self.machine.pause().map(|pause| Instant::now() + pause);
            self.show(|view| {
                view.state = state;
                view.since = SystemTime::now();
                view.next_attempt = next_attempt.map(Instant::into_std);
                if state != State::Connecting {
                    view.reason = reason;
                }
                if state != State::Connected {
                    view.connection = None;
                }
                // While it is being reconnected the tools stay in the list, so that the model's prompt doesn't change.
                let stays = !matches!(
                    state,
                    State::Parked | State::Failed | State::AuthRequired | State::Disabled
                );
                if !stays {
                    view.tools = Arc::default();
                    view.info = None;
                }
            });
            self.log(before);
        }
        self.carry_out(action);
    }

    fn carry_out(&mut self, action: Option<Action>) {
        match action {
            Some(Action::Open) => self.open(),
            Some(Action::Close) => {
                if let Some(running) = &self.attempt {
                    running.close.cancel();
                }
            }
            Some(Action::Alarm(pause)) => {
                let set = Instant::now();
                self.ring(Alarm {
                    set,
                    rings: set + pause,
                });
            }
            Some(Action::Hurry(pause)) => {
                if let Some(alarm) = self.alarm {
                    let rings = alarm.rings.min(alarm.set + pause);
                    self.ring(Alarm { rings, ..alarm });
                }
            }
            Some(Action::End) => self.stops.drain(..).for_each(answer),
            None => {}
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        self.alarm = Some(alarm);
        self.show(|view| view.next_attempt = Some(alarm.rings.into_std()));
    }

    fn open(&mut self) {
        self.alarm = None;
        self.restarts.drain(..).for_each(answer);
        let view = self.publish.borrow().clone();
        count_start(&view.counters);
        let (sender, reports) = mpsc::unbounded_channel();
        let close = CancellationToken::new();
        let attempt = Attempt {
            config: view.config.clone(),
            surroundings: self.surroundings.clone(),
            stderr: view.stderr.clone(),
            reports: sender,
            close: close.clone(),
        };
        let attempt = attempt.run().boxed();
        self.attempt = Some(Running {
            attempt,
            reports,
            close,
        });
    }

    fn log(&self, before: State) {
        let view = self.publish.borrow().clone();
        let (server, state, before) = (view.name(), view.state.as_str(), before.as_str());
        let wait_s = self.machine.pause().map(|pause| pause.as_millis() as f64 / 1e3);
        match (view.state, &view.reason, &view.info) {
            (State::Connected, _, Some(info)) => tracing::info!(
                %server, state, before, tools = view.tools.len(), protocol = info.protocol_version,
                "connected to MCP server '{}'", crate::text::one_line(server.as_str()),
            ),
            (State::Backoff | State::Parked | State::Failed | State::AuthRequired, Some(reason), _) => {
                tracing::warn!(%server, state, before, wait_s, "{}", connect_error(&view, reason));
            }
            (State::Connecting, ..) => tracing::info!(%server, state, before, "state"),
            (_, reason, _) => tracing::info!(%server, state, before, reason, "state"),
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
        Some(at) => sleep_until(at).await,
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
