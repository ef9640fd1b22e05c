//! The door: the one socket of this user, and who may come in.
//!
//! Always true:
//! - At most one daemon listens on a path, and only the holder of the lock beside it touches the path (B73).
//! - No other user gets in: the socket is 0600, its folder cannot be changed by others, and a peer's uid is checked
//!   once more when it connects (B66). There is no TCP listener at all (S-13).
//! - A path is unlinked only while it still is the socket that was bound here; one that came from the service manager
//!   never is.

mod error;
#[cfg(unix)]
mod folder;
#[cfg(unix)]
mod lock;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::{io, path::Path, time::Duration};

use interprocess::local_socket::{self, tokio::prelude::*};

pub use error::ListenError;
#[cfg(unix)]
pub use lock::InstanceLock;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

use crate::paths::SocketPath;

/// The pauses after an accept that failed for want of file descriptors or memory.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The listening socket, and the lock that makes it the only one.
#[derive(Debug)]
pub struct Listener {
    // The order matters: the path goes first, then the socket, and the lock last.
    door: system::Door,
    inner: local_socket::tokio::Listener,
    #[cfg(unix)]
    lock: InstanceLock,
}

/// A frontend that was let in.
#[derive(Debug)]
pub struct Connection {
    /// Its two-way byte stream.
    pub stream: local_socket::tokio::Stream,
    /// Who it is.
    pub peer: Peer,
}

/// The process at the other end, as the kernel knew it when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process id, where the system tells. For logs only: ids are used again.
    pub pid: Option<u32>,
    /// Its effective user id, which is ours.
    #[cfg(unix)]
    pub uid: u32,
}

impl Listener {
    /// Listens on `socket`, and nowhere else at the same time.
    ///
    /// Missing folders are made with mode 0700; nothing that exists is ever changed, but for a dead socket of ours,
    /// which is replaced. The folder has to be ours and closed to the writing of others, as do those above it
    /// (sticky ones excepted); one that this program chose has to be closed to others altogether.
    ///
    /// When the lock is held although the daemon that took it is dead, its leftovers are still being ended: this waits
    /// up to 6 s for that.
    ///
    /// # Errors
    /// [`ListenError`]; [`ListenError::AlreadyRunning`] when a living daemon has the lock.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn bind(socket: &SocketPath) -> Result<Self, ListenError> {
        system::bind(socket).await
    }

    /// Takes over a listening socket from the service manager (systemd's `LISTEN_FDS`, launchd). Its path is locked
    /// as in [`Listener::bind`], and never unlinked.
    ///
    /// # Errors
    /// [`ListenError::Activation`] when it is no listening Unix socket with a path; else as [`Listener::bind`].
    #[cfg(unix)]
    pub async fn from_activation(socket: std::os::fd::OwnedFd) -> Result<Self, ListenError> {
        system::activated(socket).await
    }

    /// The path that frontends connect to.
    pub fn path(&self) -> &Path {
        self.door.path()
    }

    /// The lock's descriptor, for the one child that has to keep the lock when this process dies: the death watch,
    /// which still ends the servers that were left behind. It is close-on-exec; hand a clone to that child as its
    /// stdin or stdout.
    #[cfg(unix)]
    pub fn lock_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Stops listening and removes the path. No other daemon starts while the lock that is returned lives, so that
    /// the servers can be stopped first.
    #[cfg(unix)]
    pub fn close(self) -> InstanceLock {
        self.lock
    }

    /// The next frontend. Others' processes are turned away with a warning. An exhausted system (EMFILE, ENFILE,
    /// ENOMEM) is waited for with growing pauses: a full daemon is no reason to end one. Dropping the future loses no
    /// connection.
    pub async fn accept(&self) -> Connection {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.inner.accept().await {
                Ok(stream) => match self.door.admit(&stream) {
                    Ok(peer) => return Connection { stream, peer },
                    Err(refusal) => tracing::warn!(%refusal, "refused a connection"),
                },
                Err(error) if is_about_one_connection(&error) => {
                    tracing::debug!(%error, "a frontend left before it was let in");
                }
                Err(error) => {
                    if pause == FIRST_PAUSE {
                        tracing::warn!(%error, "cannot accept connections, trying again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// Whether an accept failed because of its one connection, so that the next can be tried at once.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | BrokenPipe
    )
}

#[cfg(all(test, unix))]
mod tests;
