//! Why the daemon cannot listen.

use std::{io, path::PathBuf};

/// Why the daemon cannot listen, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A living daemon has the lock. A slow or stopped one counts as living (B73).
    #[error(
        "already running, pid {pid}, on socket '{}'; see `hermesd-mcp status`, end it with `hermesd-mcp stop`",
        socket.display()
    )]
    AlreadyRunning {
        /// The daemon's process id.
        pid: u32,
        /// The socket that was asked for.
        socket: PathBuf,
    },
    /// The lock is held, and not by the daemon that is written in it.
    #[error(
        "the lock '{}' is held, but {}; a process that it left behind may still be ending, or a daemon in another \
         container uses the same folder: try again, or see who has it open (fuser -v)",
        lock.display(), recorded(*pid)
    )]
    LockHeld {
        /// The lock file.
        lock: PathBuf,
        /// The process id that is written in it.
        pid: Option<u32>,
    },
    /// Something listens on the path without holding our lock.
    #[error(
        "another program listens on '{}', perhaps a socket unit of the service manager: start the daemon through it, \
         stop it, or choose another path with --socket",
        socket.display()
    )]
    InUse {
        /// The path.
        socket: PathBuf,
    },
    /// The path is taken by something that is no dead socket of ours. It is never removed.
    #[error("'{}' {what}; move it away or choose another path with --socket", socket.display())]
    Occupied {
        /// The path.
        socket: PathBuf,
        /// What is there.
        what: String,
    },
    /// The folder is not safe from other users (B66). It is never repaired silently.
    #[error("the socket folder is not safe: '{}' {why}", folder.display())]
    UnsafeFolder {
        /// The folder at fault, which may lie above the socket's.
        folder: PathBuf,
        /// What is wrong and how to put it right.
        why: String,
    },
    /// The folder cannot be made or opened.
    #[error("cannot use the socket folder '{}': {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The lock file cannot be used.
    #[error("cannot lock '{}': {source}", lock.display())]
    Lock {
        /// The lock file.
        lock: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket cannot be bound.
    #[error("cannot listen on '{}': {source}", socket.display())]
    Bind {
        /// The path.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The service manager handed over something else than a socket for us.
    #[error("cannot use the socket from the service manager: {why}")]
    Activation {
        /// What is wrong with it.
        why: String,
    },
    /// We run as the user that stands for every unknown user, so that nobody could be told from ourselves.
    #[error(
        "runs as uid {uid} (nobody), which also stands for users of other namespaces; run it as a user of its own"
    )]
    Nobody {
        /// Our user id.
        uid: u32,
    },
}

impl ListenError {
    /// The exit code for it, after sysexits.h: 75 (try again later) when another daemon is there, 78 (configuration)
    /// when a person has to change something first, 71 (system) else. Service units do not restart on 75 and 78.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::AlreadyRunning { .. } | Self::LockHeld { .. } | Self::InUse { .. } => 75,
            Self::Occupied { .. }
            | Self::UnsafeFolder { .. }
            | Self::Activation { .. }
            | Self::Nobody { .. } => 78,
            Self::Folder { .. } | Self::Lock { .. } | Self::Bind { .. } => 71,
        }
    }
}

fn recorded(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("the daemon that took it (pid {pid}) is gone"),
        None => "no daemon is written in it".to_owned(),
    }
}
