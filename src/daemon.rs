//! The composition root: reads the configuration, takes the socket, starts the servers, waits for the end, and takes
//! everything down in order.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant, SystemTime},
};

use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::{App, ConfigInfo, ListenError, Listener, serve, turn_away},
    busy_poll::BusyPoll,
    call::{Caller, MediaStore},
    config::{self, Config, ConfigError, Severity},
    environment::Environment,
    paths::{self, PathError},
    server::{Eras, HttpClients, Surroundings, death_watch, stdio::known_dirs},
    supervisor::Supervisor,
    telemetry,
    text::Redactor,
};

/// How long frontends may take to read their last answers once the calls are over.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// While a frontend is connected, some timer is never further away than this. A call's time-out is then never the
/// earliest timer, and arming it costs no system call: the runtime wakes itself through an eventfd only for a timer
/// that is earlier than all others.
const TIMER_FLOOR: Duration = Duration::from_secs(10);

/// How to run.
pub struct Options {
    /// The configuration file.
    pub config_path: PathBuf,
    /// `--socket`.
    pub socket: Option<PathBuf>,
    /// The environment to work in.
    pub environment: Environment,
    /// A log filter that wins over the configuration's.
    pub log: Option<String>,
}

/// Why the daemon could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be read at all.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no usable path for the socket.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The socket cannot be taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system refuses something the daemon cannot do without.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl Error {
    /// The exit code: 75 when a daemon is running already, 78 for a configuration that cannot be used (so that a
    /// service manager doesn't try again), else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Listen(error) => error.exit_code(),
            Self::Config(_) | Self::Path(_) => 78,
            Self::System { .. } => 1,
        }
    }
}

/// Runs the daemon until it is told to stop.
///
/// One thread does everything: rmcp starts a task for each notification, and only so do they stay in order.
/// (Measured: two workers are no faster for this work and cost more processor time.)
///
/// # Errors
/// When it cannot start. Once it runs, no fault of a server or a frontend ends it.
pub fn run(options: Options) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Threads for writing media and resolving nothing else; they end after a while without work.
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(5))
        .build()
        .map_err(|error| Error::System {
            what: "the runtime cannot be started",
            error,
        })?;
    let result = runtime.block_on(serve_until_stopped(options));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn serve_until_stopped(options: Options) -> Result<(), Error> {
    let Options {
        config_path,
        socket,
        environment,
        log,
    } = options;
    let started = Instant::now();
    let loaded_at = SystemTime::now();
    let config = config::load(&config_path, &environment);
    let settings = config
        .as_ref()
        .map(|config| config.settings.clone())
        .unwrap_or_default();
    telemetry::init(log.as_deref().or(settings.log_level.as_deref()));
    let config = config?;

    // Signals first: a SIGTERM from now on is a clean stop, whatever is going on.
    let (stopping, hurry) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(stop_on_signal(stopping.clone(), hurry.clone(), signals()?));

    let socket = paths::socket_path(socket.as_deref(), settings.socket.as_deref(), &environment)?;
    let listener = Listener::bind(&socket).await?;
    let lock = share_lock(&listener)?;
    let death_watch = death_watch::start(lock).map_err(|error| Error::System {
        what: "the helper that ends children cannot be started",
        error,
    })?;
    log_diagnostics(&config);

    let redactor = Arc::new(Redactor::new(config.secrets()));
    let busy_poll = Arc::new(BusyPoll::default());
    let surroundings = Surroundings {
        hurry: hurry.clone(),
        busy_poll: busy_poll.clone(),
        fallback_dirs: known_dirs(&environment),
        limits: settings.limits.clone(),
        redactor: redactor.clone(),
        death_watch,
        changed: Arc::new(Notify::new()),
        clients: HttpClients::new(environment.clone()),
        eras: Eras::default(),
        environment: environment.clone(),
    };
    let supervisor = Supervisor::start(&config, surroundings);
    let media = MediaStore::new(environment.hermes_home().dir().join("cache").join("mcp"));
    let app = Arc::new(App {
        frontends: AtomicU64::new(0),
        busy_poll: busy_poll.clone(),
        caller: Caller::new(supervisor.directory(), settings.limits.clone(), redactor, media),
        directory: supervisor.directory(),
        changes: supervisor.changes(),
        limits: settings.limits.clone(),
        instance: format!("{:016x}", fastrand::u64(..)),
        started,
        config: config_info(&config, loaded_at),
        stopping: stopping.clone(),
    });
    tracing::info!(socket = %socket.display(), pid = std::process::id(), servers = config.servers.len(), "ready");

    tokio::spawn(async move { busy_poll.run().await });
    let frontends = TaskTracker::new();
    accept(&listener, &app, &frontends).await;
    tracing::info!("stopping");
    // From here on a connect is refused instead of waiting for an answer that will not come.
    let _lock = listener.close();
    frontends.close();
    let why = tokio::select! {
        () = frontends.wait() => None,
        () = sleep(settings.drain_timeout) => Some("calls are still running after drain_timeout; they are ended"),
        () = hurry.cancelled() => Some("a second signal came while calls were running; they are ended"),
    };
    if let Some(why) = why {
        tracing::warn!(frontends = frontends.len(), "{why}");
    }
    supervisor.stop().await;
    // Calls that the stop ended have their error answers by now.
    let _ = timeout(LAST_ANSWERS, frontends.wait()).await;
    tracing::info!("stopped");
    Ok(())
}

/// The lock for the helper that outlives us.
#[cfg(unix)]
fn share_lock(listener: &Listener) -> Result<Option<std::fs::File>, Error> {
    let lock = listener.lock_fd().try_clone_to_owned();
    lock.map(|lock| Some(lock.into())).map_err(|error| Error::System {
        what: "the lock cannot be shared",
        error,
    })
}

#[cfg(not(unix))]
fn share_lock(_: &Listener) -> Result<Option<std::fs::File>, Error> {
    Ok(None)
}

async fn accept(listener: &Listener, app: &Arc<App>, frontends: &TaskTracker) {
    loop {
        let connection = tokio::select! {
            connection = listener.accept() => connection,
            () = app.stopping.cancelled() => return,
            () = sleep(TIMER_FLOOR), if !frontends.is_empty() => continue,
        };
        if frontends.len() >= app.limits.connections {
            tracing::warn!(
                limit = app.limits.connections,
                "too many frontends, one more was turned away"
            );
            tokio::spawn(turn_away(connection, app.limits.connections));
            continue;
        }
        frontends.spawn(serve(app.clone(), connection));
    }
}

fn config_info(config: &Config, loaded_at: SystemTime) -> ConfigInfo {
    let render = |diagnostic: &config::Diagnostic| diagnostic.render(&config.path);
    ConfigInfo {
        path: config.path.clone(),
        loaded_at,
        diagnostics: config.diagnostics.iter().map(render).collect(),
        error: config
            .diagnostics
            .iter()
            .find(|it| it.severity == Severity::Error)
            .map(render),
    }
}

fn log_diagnostics(config: &Config) {
    for diagnostic in &config.diagnostics {
        match diagnostic.severity {
            Severity::Error => tracing::error!("{}", diagnostic.render(&config.path)),
            Severity::Warning => tracing::warn!("{}", diagnostic.render(&config.path)),
        }
    }
}

#[cfg(unix)]
type Signals = [tokio::signal::unix::Signal; 3];

#[cfg(unix)]
fn signals() -> Result<Signals, Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| {
        signal(kind).map_err(|error| Error::System {
            what: "signals cannot be received",
            error,
        })
    };
    // A terminal that is closed hangs up on what runs in it.
    Ok([
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
        listen(SignalKind::hangup())?,
    ])
}

#[cfg(unix)]
async fn stop_on_signal(
    stopping: CancellationToken,
    hurry: CancellationToken,
    [mut terminate, mut interrupt, mut hangup]: Signals,
) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        match stopping.is_cancelled() {
            false => stopping.cancel(),
            true => hurry.cancel(),
        }
    }
}

#[cfg(not(unix))]
fn signals() -> Result<(), Error> {
    Ok(())
}

#[cfg(not(unix))]
async fn stop_on_signal(stopping: CancellationToken, hurry: CancellationToken, (): ()) {
    while tokio::signal::ctrl_c().await.is_ok() {
        match stopping.is_cancelled() {
            false => stopping.cancel(),
            true => hurry.cancel(),
        }
    }
}
