//! What the rest of the daemon sees of one server: an immutable snapshot in a watch channel.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    connection::{Connection, ServerInfo},
    stdio::{StderrTail, package_runner::Runner},
};
use crate::{
    config::ServerConfig,
    name::{ServerName, ToolName},
};

/// The state of a server's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// `enabled: false`.
    Disabled,
    /// Starting, or in the handshake.
    Connecting,
    /// Ready for calls.
    Connected,
    /// Broken; the next attempt is scheduled.
    Backoff,
    /// Broken too often: tools withdrawn, one attempt every few minutes.
    Parked,
    /// Waits for the user to log in.
    AuthRequired,
    /// Cannot work as it is configured: no attempt until a restart or a reload.
    Failed,
    /// Ended because it was idle or old; the next call starts it again. Its tools stay in the list.
    Recycled,
    /// Being stopped.
    Stopping,
}

impl State {
    /// The word of Hermes' own `get_mcp_status()`.
    pub fn hermes_status(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Backoff | Self::Parked | Self::AuthRequired | Self::Failed => "failed",
            Self::Recycled | Self::Stopping => "configured",
        }
    }

    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Backoff => "backoff",
            Self::Parked => "parked",
            Self::AuthRequired => "auth_required",
            Self::Failed => "failed",
            Self::Recycled => "recycled",
            Self::Stopping => "stopping",
        }
    }
}

/// One element of a server's `tools/list`.
#[derive(Debug, Clone)]
pub struct ListedTool {
    /// Its original name.
    pub name: ToolName,
    /// The whole definition, in the server's own bytes.
    pub definition: Arc<RawValue>,
}

/// Counts over the daemon's life.
#[derive(Debug, Default)]
pub struct Counters {
    /// Calls that were sent.
    pub calls: AtomicU64,
    /// Calls that ended in an error of any kind.
    pub errors: AtomicU64,
    /// Calls that were made a second time after their connection was lost.
    pub repeated: AtomicU64,
    /// Connections after the first.
    pub reconnects: AtomicU64,
    /// Child processes or connections that were started.
    pub starts: AtomicU64,
}

impl Counters {
    /// Adds one.
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads one.
    pub fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// A snapshot of one server.
#[derive(Clone)]
pub struct ServerView {
    /// Its configuration.
    pub config: Arc<ServerConfig>,
    /// The state.
    pub state: State,
    /// Why it is in this state, when that needs a reason. Redacted.
    pub reason: Option<String>,
    /// Since when.
    pub since: SystemTime,
    /// When the next attempt starts, in [`State::Backoff`] and [`State::Parked`].
    pub next_attempt: Option<std::time::Instant>,
    /// The child's process id.
    pub pid: Option<u32>,
    /// How its package was started, if its command is a package runner.
    pub runner: Option<Arc<Runner>>,
    /// The tools of the last good list. Kept while the server is being reconnected, empty once it is parked.
    pub tools: Arc<[ListedTool]>,
    /// What it said about itself.
    pub info: Option<Arc<ServerInfo>>,
    /// The way to it, only in [`State::Connected`].
    pub connection: Option<Connection>,
    /// Counts.
    pub counters: Arc<Counters>,
    /// The last lines of its stderr.
    pub stderr: StderrTail,
}

impl ServerView {
    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.config.name
    }
}
