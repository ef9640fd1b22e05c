//! The child of an attempt: its process, what it prints on stderr, and how its end reads in a message.

use std::time::Duration;

use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    link::Link,
    stdio::{Process, StderrTail, describe_exit},
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

impl Child {
    /// Takes a new process over; `drain` starts the task that reads its stderr.
    pub(super) fn new(
        process: Process,
        stderr: StderrTail,
        drain: impl FnOnce(StderrTail) -> JoinHandle<()>,
    ) -> Self {
        Self {
            mark: stderr.counters().lines,
            drain: drain(stderr.clone()),
            process,
            stderr,
        }
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

    /// The reason of an end that the transport saw: its own failure, the exit, or a closed stdout. `when` says what
    /// was going on.
    pub(super) async fn why_closed(&mut self, link: &Link, when: &str) -> String {
        if let Some(failure) = link.failure() {
            return failure;
        }
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
