//! The folder that holds the socket: made private, or checked, and held open, so that everything that follows happens
//! in this folder, whatever becomes of its path.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use super::ListenError;

/// Bits that let others change an entry.
const OTHERS_WRITE: u32 = 0o022;
/// All bits for others.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// An open folder that only this user can change.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

/// Which file a name stood for at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    dev: u64,
    ino: u64,
}

/// What a name stands for, without following links.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) id: FileId,
    pub(super) kind: FileType,
    pub(super) uid: u32,
    pub(super) mode: u32,
}

impl Folder {
    /// Makes the folder and those above it (0700) where they are missing, and checks it. `private`: nobody else may
    /// even look into it.
    pub(super) fn prepare(path: &Path, private: bool) -> Result<Self, ListenError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|source| ListenError::Folder {
                folder: path.to_owned(),
                source,
            })?;
        Self::open(path, private)
    }

    /// Opens a folder that exists, and checks it (protocol-and-security 4.3).
    pub(super) fn open(path: &Path, private: bool) -> Result<Self, ListenError> {
        let unsafe_because = |folder: &Path, why: String| ListenError::UnsafeFolder {
            folder: folder.to_owned(),
            why,
        };
        let failed = |source: io::Error| ListenError::Folder {
            folder: path.to_owned(),
            source,
        };

        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match path.is_symlink() {
            true => unsafe_because(
                path,
                "is a symbolic link; name the folder that it leads to".into(),
            ),
            false => failed(errno.into()),
        })?;
        let entry = Entry::from(rustix::fs::fstat(&fd).map_err(|errno| failed(errno.into()))?);

        let own = rustix::process::geteuid().as_raw();
        let mode = entry.mode;
        if entry.uid != own {
            let why = format!(
                "belongs to uid {}, not to this user (uid {own}); choose another place with --socket",
                entry.uid
            );
            return Err(unsafe_because(path, why));
        }
        if private && mode & OTHERS != 0 {
            let why = format!(
                "lets other users in (mode {mode:04o}); run: chmod 700 '{}'",
                path.display()
            );
            return Err(unsafe_because(path, why));
        }
        if mode & OTHERS_WRITE != 0 {
            let why = format!(
                "can be changed by other users (mode {mode:04o}); run: chmod go-w '{}'",
                path.display()
            );
            return Err(unsafe_because(path, why));
        }
        // Whoever can rename a folder above can put another one in this one's place.
        let real = path.canonicalize().map_err(failed)?;
        for above in real.ancestors().skip(1) {
            let mode = above.metadata().map_err(failed)?.mode() & 0o7777;
            if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
                let why = format!(
                    "lies above the socket and can be changed by other users (mode {mode:04o}); \
                     run: chmod go-w '{}', or choose another place with --socket",
                    above.display()
                );
                return Err(unsafe_because(above, why));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            fd,
        })
    }

    /// The path of an entry, for messages and for calls that take no descriptor.
    pub(super) fn join(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// What a name stands for; `None` when there is nothing.
    pub(super) fn entry(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Entry::from(stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens, or makes with mode 0600, a file for reading and writing. Never follows a link, never waits for a FIFO.
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<std::fs::File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(fd.into())
    }

    /// Removes an entry.
    pub(super) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Sets an entry's mode to 0600.
    pub(super) fn make_private(&self, name: &OsStr) -> io::Result<()> {
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::chmodat(&self.fd, name, mode, AtFlags::empty())?)
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the widths of these fields differ between systems"
)]
impl From<Stat> for Entry {
    fn from(stat: Stat) -> Self {
        Self {
            id: FileId {
                dev: stat.st_dev as u64,
                ino: stat.st_ino as u64,
            },
            kind: FileType::from_raw_mode(stat.st_mode),
            uid: stat.st_uid,
            mode: (stat.st_mode as u32) & 0o7777,
        }
    }
}
