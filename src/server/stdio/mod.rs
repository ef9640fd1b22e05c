//! A stdio server: its child process, the way to it, and what it prints.

mod environment;
mod outbox;
pub mod package_runner;
mod process;
mod resolve;
mod stderr;
mod transport;
#[cfg(unix)]
mod unsafe_process;

pub use environment::child_environment;
pub(crate) use outbox::Outbox;
pub(crate) use process::{Process, Program, Signal, describe_exit};
pub use resolve::{NotFound, Resolved, Step, child_path_with, fallback_dirs, known_dirs, resolve_command};
pub use stderr::{STDERR_LINE_BYTES, StderrCounters, StderrTail, drain};
pub(crate) use transport::StdioTransport;
