//! The real daemon over the real socket against real child processes.
//!
//! One binary, a module per theme. Each test names the rule or the public report that it guards. The servers are
//! copies of `fake-server` (see `tests/support/`), so that every fault can be had; `tests/real_servers.rs` has the
//! real ones.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod catalog;
mod children;
mod control;
mod environment;
mod eras;
mod fidelity;
mod healing;
mod hostile;
mod isolation;
mod lifecycle;
mod lists;
mod matrix;
mod mcp;
mod naming;
mod security;
mod single_instance;
mod sockets;
