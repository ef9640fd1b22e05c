//! One child process and everything it started: a process group of its own, and a stop that leaves nothing.

use std::{
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{environment::Environment, server::death_watch::Guard, wire::STOP_GRACE};

/// How often a group is asked whether somebody is left in it.
const POLL: Duration = Duration::from_millis(20);

/// What to start.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) environment: Environment,
    pub(crate) cwd: PathBuf,
}

/// The three pipes of a new child.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// A running child.
pub(crate) struct Process {
    child: Child,
    pid: u32,
    /// Held until the group is gone, so that a death of ours doesn't leave it behind.
    _watched: Guard,
}

impl Process {
    /// Starts the program: argv as given, never a shell (STDIO-10); the leader of a session of its own (STDIO-07);
    /// exactly the given environment.
    ///
    /// # Errors
    /// The system's error, without a word about the environment.
    pub(crate) fn spawn(
        program: &Program,
        watch: &crate::server::death_watch::DeathWatch,
    ) -> io::Result<(Self, Pipes)> {
        if !program.cwd.is_dir() {
            return Err(io::Error::other(format!(
                "the working directory '{}' does not exist",
                program.cwd.display()
            )));
        }
        let mut command = Command::new(&program.path);
        command
            .args(&program.args)
            .env_clear()
            .envs(program.environment.iter())
            .current_dir(&program.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        super::unsafe_process::isolate(&mut command);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the child has no pipes");
        let pid = child.id().ok_or_else(missing)?;
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(missing)?,
            stdout: child.stdout.take().ok_or_else(missing)?,
            stderr: child.stderr.take().ok_or_else(missing)?,
        };
        Ok((
            Self {
                child,
                pid,
                _watched: watch.guard(pid),
            },
            pipes,
        ))
    }

    /// The child's process id, which is also its group's.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the child itself has exited. Cancel-safe.
    pub(crate) async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the child and its whole group; its stdin must be closed already, or be closed soon.
    ///
    /// The ladder of STDIO-05: [`STOP_GRACE`] for the end of input, SIGTERM to the group, [`STOP_GRACE`], SIGKILL.
    /// A leader that exits early may leave others of its group behind; they get SIGTERM at once. So does everybody when
    /// there is a hurry.
    pub(crate) async fn stop(&mut self, hurry: &CancellationToken) {
        let exited = tokio::select! {
            exited = timeout(STOP_GRACE, self.child.wait()) => exited.is_ok(),
            () = hurry.cancelled() => false,
        };
        if exited && !self.group_is_alive() {
            return;
        }
        self.signal_group(Signal::Terminate);
        if self.gone_within(STOP_GRACE).await {
            return;
        }
        tracing::debug!(pid = self.pid, "killing a process group that ignores SIGTERM");
        self.signal_group(Signal::Kill);
        if !self.gone_within(STOP_GRACE).await {
            tracing::warn!(pid = self.pid, "a process group is still there after SIGKILL");
        }
    }

    async fn gone_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            // Reaps the leader: a zombie would keep the group alive.
            let reaped = matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
            if reaped && !self.group_is_alive() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(POLL).await;
        }
    }

    #[cfg(unix)]
    fn group_is_alive(&self) -> bool {
        super::super::death_watch::group_is_alive(self.pid)
    }

    #[cfg(unix)]
    fn signal_group(&mut self, signal: Signal) {
        super::super::death_watch::signal_group(self.pid, signal);
    }

    /// On Windows the job object ends everything with the child.
    #[cfg(not(unix))]
    fn group_is_alive(&self) -> bool {
        false
    }

    #[cfg(not(unix))]
    fn signal_group(&mut self, _: Signal) {
        // The only failure is a child that is gone already.
        let _ = self.child.start_kill();
    }
}

/// The two ways to end a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// How an exit reads in a message: `exited with code 1`, `was killed by signal 9`.
pub(crate) fn describe_exit(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was killed by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("exited with code {code}"),
        None => "exited".into(),
    }
}
