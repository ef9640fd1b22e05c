//! The named pipe: its security descriptor admits its owner and the system, and the first instance is the only one.

use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
};

use interprocess::{
    local_socket::{self, GenericFilePath, ListenerOptions, tokio::prelude::*},
    os::windows::{local_socket::ListenerOptionsExt, security_descriptor::SecurityDescriptor},
};

use super::{ListenError, Listener, Peer};
use crate::paths::SocketPath;

/// The pipe's name. The system removes it with its last handle.
#[derive(Debug)]
pub(super) struct Door {
    path: PathBuf,
}

pub(super) async fn bind(socket: &SocketPath) -> Result<Listener, ListenError> {
    let path = socket.to_path_buf();
    match listen(&path) {
        Ok(inner) => Ok(Listener {
            door: Door { path },
            inner,
        }),
        // The first instance exists: a daemon runs, or somebody took the name.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::AddrInUse
            ) =>
        {
            Err(match owner(&path).await {
                Some(pid) => ListenError::AlreadyRunning { pid, socket: path },
                None => ListenError::InUse { socket: path },
            })
        }
        Err(source) => Err(ListenError::Bind { socket: path, source }),
    }
}

impl Door {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whoever could open the pipe is its owner.
    pub(super) fn admit(&self, stream: &local_socket::tokio::Stream) -> Result<Peer, Infallible> {
        let pid = stream.peer_creds().ok().and_then(|credentials| credentials.pid());
        Ok(Peer { pid })
    }
}

fn listen(path: &Path) -> io::Result<local_socket::tokio::Listener> {
    let only_the_owner =
        SecurityDescriptor::deserialize(widestring::u16cstr!("D:P(A;;GA;;;OW)(A;;GA;;;SY)"))?;
    ListenerOptions::new()
        .name(path.to_fs_name::<GenericFilePath>()?)
        .security_descriptor(only_the_owner)
        .create_tokio()
}

async fn owner(path: &Path) -> Option<u32> {
    let name = path.to_fs_name::<GenericFilePath>().ok()?;
    let stream = local_socket::tokio::Stream::connect(name).await.ok()?;
    stream.peer_creds().ok()?.pid()
}
