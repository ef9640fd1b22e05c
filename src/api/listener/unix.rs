//! The Unix socket: binding it safely, and telling who connects.

use std::{
    ffi::OsString,
    fmt, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use interprocess::{
    local_socket::{self, GenericFilePath, ListenerOptions, prelude::*},
    os::unix::{local_socket::ListenerOptionsExt, uds_local_socket},
};
use rustix::fs::FileType;

use super::{
    InstanceLock, ListenError, Listener, Peer,
    folder::{FileId, Folder},
    lock::LEFTOVER_WAIT,
};
use crate::paths::SocketPath;

/// What the kernel shows for a user that has no number in our user namespace.
const OVERFLOW_UID: u32 = 65534;

/// The socket's place in the file system and the rule who may pass.
#[derive(Debug)]
pub(super) struct Door {
    path: PathBuf,
    folder: Folder,
    name: OsString,
    /// The socket that was bound here and is to be removed; `None` when the service manager made it.
    bound: Option<FileId>,
    own_uid: u32,
}

/// Why a connection was refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The kernel did not say who it is.
    Unknown(io::Error),
    /// Another user.
    Uid(u32),
}

pub(super) async fn bind(socket: &SocketPath) -> Result<Listener, ListenError> {
    let own_uid = own_uid()?;
    let (parent, name) = split(socket)?;
    let folder = Folder::prepare(parent, socket.origin().is_automatic())?;
    let lock = InstanceLock::acquire(&folder, &name, LEFTOVER_WAIT).await?;
    remove_dead_socket(&folder, &name, socket).await?;

    let failed = |source| ListenError::Bind {
        socket: socket.to_path_buf(),
        source,
    };
    let inner = listen(socket)
        .or_else(|error| match error.kind() {
            // No mode before bind on this system (macOS): set it after. Until then the uid check keeps others out.
            io::ErrorKind::Unsupported => listen_with_any_mode(socket).and_then(|listener| {
                folder.make_private(&name)?;
                Ok(listener)
            }),
            _ => Err(error),
        })
        .map_err(failed)?;
    let bound = folder.entry(&name).map_err(failed)?.map(|entry| entry.id);
    let path = socket.to_path_buf();
    Ok(Listener {
        door: Door {
            path,
            folder,
            name,
            bound,
            own_uid,
        },
        inner,
        lock,
    })
}

pub(super) async fn activated(socket: OwnedFd) -> Result<Listener, ListenError> {
    let own_uid = own_uid()?;
    let refused = |why: String| ListenError::Activation { why };
    // A descriptor of the service manager is not close-on-exec; servers must not get it.
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| refused(errno.to_string()))?;
    if !rustix::net::sockopt::socket_acceptconn(&socket).unwrap_or(false) {
        return Err(refused("it is no listening socket".into()));
    }
    let socket = std::os::unix::net::UnixListener::from(socket);
    let address = socket
        .local_addr()
        .map_err(|error| refused(format!("it is no Unix socket ({error})")))?;
    let path = address
        .as_pathname()
        .ok_or_else(|| refused("it has no path; use ListenStream= with an absolute path".into()))?
        .to_owned();

    let (parent, name) = split(&path)?;
    let folder = Folder::open(parent, false)?;
    let lock = InstanceLock::acquire(&folder, &name, LEFTOVER_WAIT).await?;
    let inner = uds_local_socket::tokio::Listener::try_from(OwnedFd::from(socket))
        .map_err(|error| refused(error.to_string()))?
        .into();
    Ok(Listener {
        door: Door {
            path,
            folder,
            name,
            bound: None,
            own_uid,
        },
        inner,
        lock,
    })
}

impl Door {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Who connected, if it is this user.
    pub(super) fn admit(&self, stream: &local_socket::tokio::Stream) -> Result<Peer, Refusal> {
        let credentials = stream.peer_creds().map_err(Refusal::Unknown)?;
        let uid = admit_uid(credentials.euid(), self.own_uid)?;
        let pid = credentials
            .pid()
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid != 0);
        Ok(Peer { pid, uid })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let is_ours = |entry: super::folder::Entry| Some(entry.id) == self.bound;
        if let Ok(Some(entry)) = self.folder.entry(&self.name)
            && is_ours(entry)
            && let Err(error) = self.folder.unlink(&self.name)
        {
            tracing::warn!(%error, socket = %self.path.display(), "cannot remove the socket");
        }
    }
}

/// The peer's uid, if it is `own` and certain. The overflow uid is never certain: it may be anybody outside our user
/// namespace.
fn admit_uid(peer: Option<u32>, own: u32) -> Result<u32, Refusal> {
    match peer {
        Some(uid) if uid == own && uid != OVERFLOW_UID => Ok(uid),
        Some(uid) => Err(Refusal::Uid(uid)),
        None => Err(Refusal::Unknown(io::ErrorKind::Unsupported.into())),
    }
}

fn own_uid() -> Result<u32, ListenError> {
    match rustix::process::geteuid().as_raw() {
        uid @ OVERFLOW_UID => Err(ListenError::Nobody { uid }),
        uid => Ok(uid),
    }
}

fn split(socket: &Path) -> Result<(&Path, OsString), ListenError> {
    match (socket.parent(), socket.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name.to_owned())),
        _ => Err(ListenError::Bind {
            socket: socket.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"),
        }),
    }
}

/// Makes room for the socket. Since we hold the lock, a socket of ours that nobody answers on belongs to a daemon that
/// was killed. Anything else stays: a file, a link, another's socket, and one that the service manager listens on.
async fn remove_dead_socket(folder: &Folder, name: &OsString, socket: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Bind {
        socket: socket.to_owned(),
        source,
    };
    let occupied = |what: String| {
        Err(ListenError::Occupied {
            socket: socket.to_owned(),
            what,
        })
    };
    let Some(entry) = folder.entry(name).map_err(failed)? else {
        return Ok(());
    };
    let own = rustix::process::geteuid().as_raw();
    if entry.kind != FileType::Socket {
        return occupied(format!("is {}, not a socket", describe(entry.kind)));
    }
    if entry.uid != own {
        return occupied(format!(
            "is a socket of uid {}, not of this user (uid {own})",
            entry.uid
        ));
    }
    match tokio::net::UnixStream::connect(socket).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => folder.unlink(name).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full backlog has a listener, too.
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
            occupied(format!("is a socket that cannot be tried ({error})"))
        }
        _ => Err(ListenError::InUse {
            socket: socket.to_owned(),
        }),
    }
}

fn describe(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        _ => "a device",
    }
}

/// The mode is set before bind, so that the socket never has another one, whatever the umask.
fn listen(socket: &Path) -> io::Result<local_socket::tokio::Listener> {
    options(socket)?.mode(0o600).create_tokio()
}

fn listen_with_any_mode(socket: &Path) -> io::Result<local_socket::tokio::Listener> {
    options(socket)?.create_tokio()
}

fn options(socket: &Path) -> io::Result<ListenerOptions<'_>> {
    let name = socket.to_fs_name::<GenericFilePath>()?;
    // We remove the path ourselves, and only if it is still ours.
    Ok(ListenerOptions::new().name(name).reclaim_name(false))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error) => write!(f, "the system does not say which user it is ({error})"),
            Self::Uid(OVERFLOW_UID) => f.write_str("it comes from a user of another namespace"),
            Self::Uid(uid) => write!(f, "it comes from uid {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b66_only_our_own_certain_uid_is_let_in() {
        for (peer, own, admitted) in [
            (Some(1000), 1000, true),
            (Some(0), 0, true),
            (Some(0), 1000, false),
            (Some(1000), 0, false),
            (Some(1001), 1000, false),
            (Some(OVERFLOW_UID), 1000, false),
            (Some(OVERFLOW_UID), OVERFLOW_UID, false),
            (None, 1000, false),
        ] {
            assert_eq!(
                admit_uid(peer, own).is_ok(),
                admitted,
                "{peer:?} to a daemon of {own}"
            );
        }
    }
}
