//! The lock beside the socket: what makes a daemon the only one. It is the kernel's, so it ends with its last holder
//! and can never be left over; the file stays, since removing it would let two holders lock two different files (B73).

use std::{
    ffi::{OsStr, OsString},
    fs::{File, TryLockError},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::Instant;

use super::{ListenError, folder::Folder};

/// How long a lock may outlive the daemon that took it: its death watch ends the servers within about 2 s.
pub(super) const LEFTOVER_WAIT: Duration = Duration::from_secs(6);

const POLL: Duration = Duration::from_millis(50);

/// The lock of the one daemon that listens on a path. It is held until this value, and the copies of its descriptor
/// in other processes, are gone.
#[derive(Debug)]
pub struct InstanceLock {
    file: File,
}

impl InstanceLock {
    /// Takes the lock of `socket_name` in `folder` and writes this process into it. A lock whose recorded holder is
    /// dead, or that has none yet, is waited for up to `patience`.
    pub(super) async fn acquire(
        folder: &Folder,
        socket_name: &OsStr,
        patience: Duration,
    ) -> Result<Self, ListenError> {
        let name = lock_name(socket_name);
        let path = folder.join(&name);
        let failed = |source| ListenError::Lock {
            lock: path.clone(),
            source,
        };
        let file = folder.open_file(&name).map_err(failed)?;
        check(&file, &path)?;

        let deadline = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // Read anew each time: a daemon that has just taken the lock writes itself a moment later.
            let holder = Holder::read(&file);
            if let Some(holder) = holder
                && holder.is_alive()
            {
                return Err(ListenError::AlreadyRunning {
                    pid: holder.pid,
                    socket: folder.join(socket_name),
                });
            }
            if Instant::now() >= deadline {
                return Err(ListenError::LockHeld {
                    lock: path.clone(),
                    pid: holder.map(|holder| holder.pid),
                });
            }
            tokio::time::sleep(POLL).await;
        }
        Holder::this_process().write(&file).map_err(failed)?;
        Ok(Self { file })
    }

    /// The descriptor of the lock, close-on-exec.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        // The death watch may hold the lock a moment longer: a start in that moment has to wait, not to take this
        // process, which is about to end, for a running daemon. If it fails, that start is refused, no more.
        let _ = self.file.set_len(0);
    }
}

fn lock_name(socket_name: &OsStr) -> OsString {
    let mut name = socket_name.to_owned();
    name.push(".lock");
    name
}

/// Any process that can open the file can lock it, so others must not be able to.
fn check(file: &File, path: &Path) -> Result<(), ListenError> {
    use std::os::unix::fs::MetadataExt;
    let refused = |what: String| {
        Err(ListenError::Occupied {
            socket: path.to_owned(),
            what,
        })
    };
    let meta = file.metadata().map_err(|source| ListenError::Lock {
        lock: path.to_owned(),
        source,
    })?;
    if !meta.is_file() {
        return refused("is where the lock file belongs, but is no regular file".into());
    }
    let (own, mode) = (rustix::process::geteuid().as_raw(), meta.mode() & 0o777);
    if meta.uid() != own {
        return refused(format!(
            "is a lock file of uid {}, not of this user (uid {own})",
            meta.uid()
        ));
    }
    if mode & 0o077 != 0 {
        return refused(format!(
            "is a lock file that other users can open (mode {mode:04o})"
        ));
    }
    Ok(())
}

/// Who holds the lock, as written in it: the process id, and on a second line its start time where the system tells,
/// since a process id is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    pid: u32,
    /// Clock ticks since the system started (Linux).
    started: Option<u64>,
}

impl Holder {
    fn this_process() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: ProcessStat::of(pid).ok().map(|stat| stat.started),
        }
    }

    fn read(file: &File) -> Option<Self> {
        let mut buffer = [0; 64];
        let n = file.read_at(&mut buffer, 0).ok()?;
        Self::parse(str::from_utf8(&buffer[..n]).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // A number counts only with its line's end: the rest may still be on its way.
        let (pid, rest) = text.split_once('\n')?;
        Some(Self {
            pid: pid.parse().ok().filter(|pid| *pid > 0)?,
            started: rest.split_once('\n').and_then(|(ticks, _)| ticks.parse().ok()),
        })
    }

    fn write(self, file: &File) -> io::Result<()> {
        let mut text = format!("{}\n", self.pid);
        if let Some(ticks) = self.started {
            text.push_str(&format!("{ticks}\n"));
        }
        // In one write, then the rest of an older text goes: no reader meets half a number.
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }

    /// Whether this very process still runs. One that is stopped does; one that is dead but not yet collected by its
    /// parent (a zombie) does not.
    fn is_alive(self) -> bool {
        match ProcessStat::of(self.pid) {
            Ok(stat) => !stat.is_dead() && self.started.is_none_or(|started| started == stat.started),
            Err(error) if error.kind() == io::ErrorKind::NotFound && proc_is_there() => false,
            Err(_) => responds(self.pid),
        }
    }
}

/// What `/proc` says of a process (Linux).
struct ProcessStat {
    state: u8,
    started: u64,
}

impl ProcessStat {
    fn of(pid: u32) -> io::Result<Self> {
        let text = std::fs::read(PathBuf::from(format!("/proc/{pid}/stat")))?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// `pid (name) state ppid … starttime`, where the name may hold blanks and brackets; see proc(5), field 22.
    fn parse(text: &[u8]) -> Option<Self> {
        let after_name = &text[memchr::memrchr(b')', text)? + 1..];
        let mut fields = str::from_utf8(after_name).ok()?.split_ascii_whitespace();
        Some(Self {
            state: *fields.next()?.as_bytes().first()?,
            started: fields.nth(18)?.parse().ok()?,
        })
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn proc_is_there() -> bool {
    Path::new("/proc/self/stat").exists()
}

/// Whether a process id is in use, for systems without `/proc`. One of another user (EPERM) is.
fn responds(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::private_folder, *};

    const NAME: &str = "x.sock";

    async fn acquire(dir: &Path, patience: Duration) -> Result<InstanceLock, ListenError> {
        let folder = Folder::open(dir, true).unwrap();
        InstanceLock::acquire(&folder, OsStr::new(NAME), patience).await
    }

    /// Holds the lock as a death watch does: the file says `text`, the lock is another open file's.
    fn held_elsewhere(dir: &Path, text: &str) -> File {
        let folder = Folder::open(dir, true).unwrap();
        let file = folder.open_file(&lock_name(OsStr::new(NAME))).unwrap();
        file.try_lock().unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file
    }

    /// The id of a process that has ended; collected or, as `_zombie` lives, not.
    fn ended_process(collect: bool) -> (u32, Option<std::process::Child>) {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        if collect {
            child.wait().unwrap();
            return (pid, None);
        }
        while !ProcessStat::of(pid).unwrap().is_dead() {
            std::thread::yield_now();
        }
        (pid, Some(child))
    }

    #[tokio::test]
    async fn the_file_names_the_holder_and_stays() {
        let dir = private_folder();
        let path = dir.path().join("x.sock.lock");
        let lock = acquire(dir.path(), Duration::ZERO).await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().next(), Some(&*std::process::id().to_string()));
        assert_eq!(Holder::parse(&text), Some(Holder::this_process()));

        let error = acquire(dir.path(), LEFTOVER_WAIT).await.unwrap_err();
        assert!(
            matches!(error, ListenError::AlreadyRunning { pid, .. } if pid == std::process::id()),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("already running, pid {}", std::process::id()))
        );
        assert_eq!(error.exit_code(), 75);

        drop(lock);
        assert!(path.exists());
        acquire(dir.path(), LEFTOVER_WAIT).await.unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_outlives_its_daemon_is_waited_for() {
        let dir = private_folder();
        let (pid, _) = ended_process(true);
        let watch = held_elsewhere(dir.path(), &format!("{pid}\n1\n"));
        let starting = acquire(dir.path(), LEFTOVER_WAIT);
        tokio::pin!(starting);
        tokio::select! {
            biased;
            result = &mut starting => panic!("{result:?}"),
            () = std::future::ready(()) => {} // It was polled once, and waits.
        }
        drop(watch);
        starting.await.unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_stays_held_by_a_stranger_is_given_up_with_its_own_text() {
        let (gone, _) = ended_process(true);
        let (dead, _zombie) = ended_process(false);
        let own = std::process::id();
        for (text, pid) in [
            (format!("{gone}\n1\n"), Some(gone)),
            (format!("{dead}\n"), Some(dead)),
            (format!("{own}\n1\n"), Some(own)), // The same id, another process.
            (String::new(), None),
            ("12".into(), None),
            ("x\n".into(), None),
        ] {
            let dir = private_folder();
            let _watch = held_elsewhere(dir.path(), &text);
            let error = acquire(dir.path(), POLL).await.unwrap_err();
            assert!(
                matches!(error, ListenError::LockHeld { pid: found, .. } if found == pid),
                "{text:?}: {error}"
            );
            assert!(error.to_string().contains("x.sock.lock' is held, but"), "{error}");
        }
    }

    #[tokio::test]
    async fn only_a_private_file_of_ours_is_locked() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = private_folder();
        let path = dir.path().join("x.sock.lock");

        symlink(dir.path().join("elsewhere"), &path).unwrap();
        let error = acquire(dir.path(), Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, ListenError::Lock { .. }), "{error}");
        assert!(!dir.path().join("elsewhere").exists());
        std::fs::remove_file(&path).unwrap();

        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = acquire(dir.path(), Duration::ZERO).await.unwrap_err();
        assert!(
            error.to_string().contains("other users can open (mode 0644)"),
            "{error}"
        );
    }

    #[test]
    fn a_process_stat_is_read_past_its_name() {
        let stat = b"7 (a) R (b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let stat = ProcessStat::parse(stat).unwrap();
        assert_eq!((stat.state, stat.started), (b'S', 4242));
        assert!(ProcessStat::parse(b"7 a").is_none());
    }
}
