//! What a connection's transport and its actor share: counters, the reason of an end, and what the server announced.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde_json::value::RawValue;
use tokio::{process::ChildStdout, sync::Notify};

use super::machine::Failure;
use crate::busy_poll::BusyPoll;

/// Facts about one connection, written by its transport.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Told of every answer.
    pub(super) busy_poll: Arc<BusyPoll>,
    /// Lines on stdout that were not JSON-RPC (B12).
    pub(super) noise: AtomicU64,
    /// Requests of the server that nobody here can answer: sampling and the like (SAMP-05).
    pub(super) refused: AtomicU64,
    /// JSON-RPC messages that could not be understood.
    pub(super) malformed: AtomicU64,
    /// Answers to requests that nobody waits for: cancelled, timed out, or never sent (LIFE-02).
    pub(super) unclaimed: AtomicU64,
    /// Progress notifications that were dropped because their frontend was too slow.
    pub(super) dropped_progress: AtomicU64,
    /// Whether a tool call succeeded on this connection: more than a handshake proves (LIFE-16).
    pub(super) proven: AtomicBool,
    /// Signalled when the server says that its tools changed. Any number of notices is one signal (CACHE-04).
    pub(super) tools_changed: Notify,
    /// Signalled when something makes it worth asking whether the server is still there.
    pub(super) doubt: Notify,
    initialize: OnceLock<Box<RawValue>>,
    failure: Mutex<Option<(Failure, String)>>,
    /// What the transport leaves behind.
    stdout: Mutex<Option<ChildStdout>>,
    stdout_left: Notify,
}

impl Link {
    pub(super) fn new(busy_poll: Arc<BusyPoll>) -> Self {
        Self {
            busy_poll,
            ..Self::default()
        }
    }

    /// The server's own answer to `initialize`.
    pub(super) fn initialize_result(&self) -> Option<&RawValue> {
        self.initialize.get().map(|raw| &**raw)
    }

    /// Why the transport gave up, when it was not the server that closed it.
    pub(super) fn failure(&self) -> Option<(Failure, String)> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn keep_initialize_result(&self, raw: &RawValue) {
        // A second answer cannot come: the transport forgets the id with the first.
        let _ = self.initialize.set(raw.to_owned());
    }

    /// Keeps the reason of the end; the first one counts.
    pub(super) fn fail(&self, failure: Failure, reason: String) {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert((failure, reason));
    }

    /// The transport ends, but the child may still have to say something before it exits.
    pub(super) fn leave_stdout(&self, stdout: ChildStdout) {
        *self.stdout.lock().unwrap_or_else(PoisonError::into_inner) = Some(stdout);
        self.stdout_left.notify_one();
    }

    /// Reads the child's stdout to its end once the transport has left it: a child that cannot write does not exit
    /// (STDIO-05).
    pub(super) async fn drain_stdout(&self) {
        self.stdout_left.notified().await;
        let stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut stdout) = stdout {
            // An error is an end, too.
            let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
        }
    }

    pub(super) fn count(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
}
