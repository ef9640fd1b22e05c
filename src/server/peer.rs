//! Who is at the other end of an attempt: a process of ours, or a server elsewhere.

use std::{io, process::ExitStatus};

use tokio_util::sync::CancellationToken;

use super::{child::Child, link::Link, machine::Failure, remote::Session};

/// The other end of a connection, as long as an attempt lasts.
pub(super) enum Peer {
    Child(Child),
    Remote(Session),
}

impl Peer {
    /// Resolves when the process has exited. Nobody hears of the end of a remote server's.
    pub(super) async fn exited(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Child(child) => child.process.exited().await,
            Self::Remote(_) => std::future::pending().await,
        }
    }

    /// Why the connection is over: what the transport says, or what can be seen of the peer. `when` says what was going
    /// on.
    pub(super) async fn why_closed(&mut self, link: &Link, when: &str) -> (Failure, String) {
        if let Self::Remote(session) = self {
            session.closed().await;
        }
        if let Some(failure) = link.failure() {
            return failure;
        }
        let reason = match self {
            Self::Child(child) => child.why_closed(when).await,
            Self::Remote(_) => format!("the connection broke{when}"),
        };
        (Failure::Transient, reason)
    }

    /// Adds what a process said last.
    pub(super) async fn with_stderr(&mut self, what: String) -> String {
        match self {
            Self::Child(child) => child.with_stderr(what).await,
            Self::Remote(_) => what,
        }
    }

    /// Ends it: no process is left, and a remote server knows.
    pub(super) async fn end(self, link: &Link, hurry: &CancellationToken) {
        match self {
            Self::Child(child) => child.end(link, hurry).await,
            Self::Remote(session) => session.end(hurry).await,
        }
    }
}
