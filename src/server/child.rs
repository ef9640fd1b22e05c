//! The child of an attempt: its process, what it prints on stderr, and how its end reads in a message.

use std::time::Duration;

use tokio::{
    process::{ChildStdin, ChildStdout},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    actor::Surroundings,
    link::Link,
    machine::Failure,
    stdio::{
        Process, Program, StderrTail, child_environment, child_path_with, describe_exit, drain,
        package_runner::{self, Runner},
        resolve_command,
    },
};
use crate::{
    config::{ServerConfig, Stdio},
    text,
};

/// How long to wait for an exit status after the pipe has ended, and for the last stderr lines after the exit.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);
/// Lines of stderr in a reason.
const STDERR_LINES: usize = 3;

/// The child of an attempt with what it prints.
pub(super) struct Child {
    pub(super) process: Process,
    drain: JoinHandle<()>,
    stderr: StderrTail,
    /// Lines that were there before this attempt.
    mark: u64,
}

/// A child that was just started.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    /// How a package runner's package was started.
    pub(super) runner: Runner,
}

impl Child {
    /// Starts a server's process, in the environment that its entry wants.
    ///
    /// # Errors
    /// Why it cannot be started, and whether another try may help.
    pub(super) fn start(
        config: &ServerConfig,
        stdio: &Stdio,
        surroundings: &Surroundings,
        stderr: StderrTail,
    ) -> Result<Started, (Failure, String)> {
        let own = &surroundings.environment;
        let mut environment = child_environment(own, stdio);
        let path = environment.get("PATH").unwrap_or_default().to_owned();
        let cwd = stdio.cwd.clone().unwrap_or_else(|| own.home_dir());
        let resolved = resolve_command(&stdio.command, &path, &surroundings.fallback_dirs, &cwd)
            .map_err(|not_found| (Failure::Permanent, not_found.to_string()))?;
        if let Some(directory) = &resolved.directory {
            environment.set("PATH", child_path_with(directory, &path));
        }
        let runner = package_runner::direct(&resolved.program, &stdio.args, &environment, &cwd);
        let (path, args) = match &runner {
            Ok(direct) => {
                tracing::info!(
                    server = %config.name, package = direct.spec(), program = %direct.program.display(),
                    "started from npx's cache without npx"
                );
                environment.set("PATH", direct.path.as_str());
                (direct.program.clone(), direct.args.clone())
            }
            Err(why) => {
                tracing::debug!(server = %config.name, %why, "started as it is written");
                (resolved.program, stdio.args.clone())
            }
        };
        let program = Program {
            path,
            args,
            environment,
            cwd,
        };
        let (process, pipes) = Process::spawn(&program, &surroundings.death_watch).map_err(|error| {
            let path = program.path.display();
            (
                Failure::Transient,
                format!("'{path}' could not be started: {error}"),
            )
        })?;
        let redactor = surroundings.redactor.clone();
        let mark = stderr.counters().lines;
        let tail = stderr.clone();
        let drain = tokio::spawn(async move {
            drain(pipes.stderr, tail, |line| {
                text::one_line(&redactor.redact(line)).into_owned()
            })
            .await;
        });
        let child = Self {
            process,
            drain,
            stderr,
            mark,
        };
        Ok(Started {
            child,
            stdin: pipes.stdin,
            stdout: pipes.stdout,
            runner,
        })
    }

    /// Ends the process with everything it started, reading what it still prints.
    pub(super) async fn end(mut self, link: &Link, hurry: &CancellationToken) {
        tokio::select! {
            () = self.process.stop(hurry) => {}
            () = drain_for_ever(link) => {}
        }
        self.drained().await;
        // A grandchild outside the group may hold the pipe; then nobody waits for its words.
        self.drain.abort();
    }

    /// The reason of an end of stdout: the exit, or only that. `when` says what was going on.
    pub(super) async fn why_closed(&mut self, when: &str) -> String {
        // STDIO-06: the end of stdout is not an exit. Ask for it, but not for long.
        let what = match timeout(LAST_WORDS, self.process.exited()).await {
            Ok(Ok(status)) => describe_exit(status),
            Ok(Err(error)) => format!("waiting for the process failed: {error}"),
            Err(_) => "it closed its stdout".into(),
        };
        self.with_stderr(format!("{what}{when}")).await
    }

    /// Waits a moment for the end of stderr.
    async fn drained(&mut self) {
        if !self.drain.is_finished() {
            let _ = timeout(LAST_WORDS, &mut self.drain).await;
        }
    }

    /// The last lines on stderr, of this attempt's process only.
    fn last_words(&self) -> Vec<String> {
        let new = self.stderr.counters().lines.saturating_sub(self.mark);
        self.stderr
            .last_lines(STDERR_LINES.min(usize::try_from(new).unwrap_or(STDERR_LINES)))
    }

    /// Adds the last words on stderr, which are mostly the real reason.
    pub(super) async fn with_stderr(&mut self, what: String) -> String {
        self.drained().await;
        let lines = self.last_words();
        match lines.is_empty() {
            true => what,
            false => format!("{what}; its last stderr lines: {}", lines.join(" | ")),
        }
    }
}

async fn drain_for_ever(link: &Link) {
    link.drain_stdout().await;
    std::future::pending::<()>().await;
}
