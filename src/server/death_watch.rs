//! Nothing is left behind, however we die: a small helper process that outlives us by a second.
//!
//! A SIGKILL leaves no time to stop children, and closing their stdin is not enough for those that ignore it or
//! started others. So the daemon keeps one helper, itself in another guise, whose stdin is a pipe from the daemon.
//! Over it the daemon names each process group as it starts and as it is gone. When the pipe ends without a good-bye
//! the daemon is dead: the helper ends every group that is still named, first with SIGTERM, then with SIGKILL.
//!
//! Theory: groups are named before they can do anything and unnamed only after they are gone, so a number in the set
//! is never somebody else's. The helper inherits the instance lock of the socket: a new daemon cannot start while
//! the old one's children are still being ended, so there are never two of one server (B04).

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, PoisonError},
};

#[cfg(unix)]
pub(crate) use unix::{group_is_alive, signal_group};
#[cfg(unix)]
pub use unix::{run, start};

/// The daemon's end of the pipe.
#[derive(Clone, Default)]
pub struct DeathWatch {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    groups: BTreeSet<u32>,
    pipe: Option<Box<dyn io::Write + Send>>,
}

/// Keeps one group named.
pub(crate) struct Guard {
    watch: DeathWatch,
    group: u32,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watch.change(|shared| {
            shared.groups.remove(&self.group);
            shared.tell(&format!("-{}\n", self.group));
        });
    }
}

impl DeathWatch {
    /// Names a group until the guard is dropped.
    pub(crate) fn guard(&self, group: u32) -> Guard {
        self.change(|shared| {
            shared.groups.insert(group);
            shared.tell(&format!("+{group}\n"));
        });
        Guard {
            watch: self.clone(),
            group,
        }
    }

    /// The helper is new: tell it everything.
    #[cfg(unix)]
    fn connect(&self, pipe: impl io::Write + Send + 'static) {
        self.change(|shared| {
            shared.pipe = Some(Box::new(pipe));
            let groups: String = shared.groups.iter().map(|group| format!("+{group}\n")).collect();
            shared.tell(&groups);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Shared)) {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Shared {
    /// A few bytes to a process that does nothing but read: this never blocks for long. If the helper is gone its
    /// keeper starts another and tells it the whole set.
    fn tell(&mut self, text: &str) {
        if let Some(pipe) = &mut self.pipe
            && pipe.write_all(text.as_bytes()).is_err()
        {
            self.pipe = None;
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        collections::BTreeSet,
        fs::File,
        io::{self, BufRead},
        os::unix::process::CommandExt,
        process::{Command, ExitCode, Stdio},
        thread::sleep,
        time::{Duration, Instant},
    };

    use rustix::process::{Pid, Signal as System, kill_process_group, test_kill_process_group};

    use super::DeathWatch;
    use crate::server::stdio::Signal;

    /// What the helper is called in process lists. Not our own name, so that `pkill hermesd-mcp` doesn't reach it.
    const NAME: &str = "mcp-death-watch";
    /// For servers that end by themselves when their stdin closes.
    const GRACE_BEFORE_TERM: Duration = Duration::from_millis(300);
    const GRACE_BEFORE_KILL: Duration = Duration::from_millis(1_000);
    const GRACE_AFTER_KILL: Duration = Duration::from_millis(1_000);
    const POLL: Duration = Duration::from_millis(20);

    /// Starts the helper and keeps one running. `lock` is the instance lock, which the helper holds along with us.
    ///
    /// # Errors
    /// When this program cannot be started again.
    pub fn start(lock: Option<File>) -> io::Result<DeathWatch> {
        let watch = DeathWatch::default();
        let child = spawn(&watch, lock.as_ref())?;
        tokio::spawn(keep(watch.clone(), child, lock));
        Ok(watch)
    }

    fn spawn(watch: &DeathWatch, lock: Option<&File>) -> io::Result<tokio::process::Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg0(NAME)
            .arg("__death-watch")
            .env_clear()
            .current_dir("/")
            .process_group(0);
        let (reader, writer) = io::pipe()?;
        command.stdin(reader).stderr(Stdio::null());
        // The lock travels as its stdout: a descriptor that is inherited without further ado and never written to.
        command.stdout(match lock {
            Some(lock) => Stdio::from(lock.try_clone()?),
            None => Stdio::null(),
        });
        let child = tokio::process::Command::from(command).spawn()?;
        watch.connect(writer);
        Ok(child)
    }

    /// Somebody may kill the helper; then there is a new one a moment later.
    async fn keep(watch: DeathWatch, mut child: tokio::process::Child, lock: Option<File>) {
        loop {
            let status = child.wait().await;
            tracing::warn!(?status, "the death watch ended, starting another");
            tokio::time::sleep(Duration::from_secs(1)).await;
            match spawn(&watch, lock.as_ref()) {
                Ok(new) => child = new,
                Err(error) => {
                    tracing::error!(%error, "the death watch cannot be started; after a SIGKILL of the daemon, servers that ignore the end of their input would stay");
                    return;
                }
            }
        }
    }

    /// The helper's whole life.
    pub fn run() -> ExitCode {
        // Our own name in `ps` and for `pkill`; only a nicety, so a failure doesn't matter.
        let _ = std::fs::write("/proc/self/comm", NAME);
        let mut groups = BTreeSet::new();
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match line
                .split_at_checked(1)
                .map(|(sign, number)| (sign, number.parse::<u32>()))
            {
                Some(("+", Ok(group))) => groups.insert(group),
                Some(("-", Ok(group))) => groups.remove(&group),
                _ => continue,
            };
        }
        end(groups);
        ExitCode::SUCCESS
    }

    fn end(mut groups: BTreeSet<u32>) {
        let gone_within = |limit: Duration, groups: &mut BTreeSet<u32>| {
            let deadline = Instant::now() + limit;
            loop {
                groups.retain(|group| group_is_alive(*group));
                if groups.is_empty() || Instant::now() >= deadline {
                    return groups.is_empty();
                }
                sleep(POLL);
            }
        };
        if gone_within(GRACE_BEFORE_TERM, &mut groups) {
            return;
        }
        groups
            .iter()
            .for_each(|group| signal_group(*group, Signal::Terminate));
        if gone_within(GRACE_BEFORE_KILL, &mut groups) {
            return;
        }
        groups.iter().for_each(|group| signal_group(*group, Signal::Kill));
        gone_within(GRACE_AFTER_KILL, &mut groups);
    }

    /// Whether any process is left in a group. One that has ended and only waits to be reaped doesn't count: who
    /// reaps an orphan, and when, is not in our hands.
    pub(crate) fn group_is_alive(group: u32) -> bool {
        pid(group).is_some_and(|pid| test_kill_process_group(pid).is_ok()) && has_running_member(group)
    }

    #[cfg(target_os = "linux")]
    fn has_running_member(group: u32) -> bool {
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return true;
        };
        processes.flatten().any(|entry| {
            let is_process = entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit);
            is_process
                && std::fs::read_to_string(entry.path().join("stat"))
                    .is_ok_and(|stat| super::is_running_in(&stat, group))
        })
    }

    /// Elsewhere the system does not tell cheaply, and its init reaps at once.
    #[cfg(not(target_os = "linux"))]
    fn has_running_member(_: u32) -> bool {
        true
    }

    /// Signals every process of a group. A group that is gone is fine.
    pub(crate) fn signal_group(group: u32, signal: Signal) {
        let signal = match signal {
            Signal::Terminate => System::TERM,
            Signal::Kill => System::KILL,
        };
        if let Some(pid) = pid(group)
            && pid != rustix::process::getpgrp()
        {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Groups 0 and 1 would be our own and everybody's.
    fn pid(group: u32) -> Option<Pid> {
        i32::try_from(group)
            .ok()
            .filter(|group| *group > 1)
            .and_then(Pid::from_raw)
    }
}

/// Whether a line of `/proc/PID/stat` is a running process of the group. The second field is the name in brackets,
/// which may hold anything.
#[cfg(target_os = "linux")]
fn is_running_in(stat: &str, group: u32) -> bool {
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let (state, _parent, its_group) = (fields.next(), fields.next(), fields.next());
    !matches!(state, Some("Z" | "X")) && its_group.and_then(|text| text.parse().ok()) == Some(group)
}

/// Windows needs no helper: the job object ends with our last handle.
#[cfg(not(unix))]
pub fn start(_: Option<std::fs::File>) -> io::Result<DeathWatch> {
    Ok(DeathWatch::default())
}

/// Windows needs no helper.
#[cfg(not(unix))]
pub fn run() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn zombies_and_others_are_told_from_running_members() {
        for (stat, expected) in [
            ("12 (node) S 1 34 34 0 -1", true),
            ("12 (a) Z b) S 1 34 34 0 -1", true),
            ("12 (node) Z 1 34 34 0 -1", false),
            ("12 (node) S 1 35 34 0 -1", false),
            ("", false),
        ] {
            assert_eq!(is_running_in(stat, 34), expected, "{stat}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn groups_are_named_as_they_come_and_go_and_all_at_once_to_a_new_helper() {
        let watch = DeathWatch::default();
        let pipe = Pipe::default();
        watch.connect(pipe.clone());
        let first = watch.guard(11);
        let second = watch.guard(12);
        drop(first);
        assert_eq!(
            String::from_utf8(pipe.0.lock().unwrap().clone()).unwrap(),
            "+11\n+12\n-11\n"
        );

        let next = Pipe::default();
        watch.connect(next.clone());
        drop(second);
        assert_eq!(
            String::from_utf8(next.0.lock().unwrap().clone()).unwrap(),
            "+12\n-12\n"
        );
    }
}
