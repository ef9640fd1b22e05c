//! What every frontend's task shares.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
    time::SystemTime,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{busy_poll::BusyPoll, call::Caller, supervisor::Directory, wire::Limits};

/// The daemon as its frontends see it.
pub struct App {
    /// Frontends that ever connected.
    pub frontends: AtomicU64,
    /// Told of every line of a frontend.
    pub busy_poll: Arc<BusyPoll>,
    /// Counts up whenever a server's state or the merged list changed.
    pub changes: watch::Receiver<u64>,
    /// The servers and the merged list.
    pub directory: watch::Receiver<Directory>,
    /// Makes calls.
    pub caller: Caller,
    /// The bounds.
    pub limits: Limits,
    /// Random name of this run, so that a frontend notices a restart.
    pub instance: String,
    /// When the daemon started.
    pub started: Instant,
    /// The configuration in force.
    pub config: ConfigInfo,
    /// Cancelled when the daemon is to stop.
    pub stopping: CancellationToken,
}

/// What `status` tells about the configuration.
pub struct ConfigInfo {
    /// The file.
    pub path: PathBuf,
    /// When it was read.
    pub loaded_at: SystemTime,
    /// Every finding as one line: file, line, column, key and what is wrong.
    pub diagnostics: Vec<String>,
    /// The first error, if there is one.
    pub error: Option<String>,
}
