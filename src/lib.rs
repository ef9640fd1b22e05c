//! hermesd-mcp: one long-running process per user that owns every MCP server connection and serves one merged
//! tool list over a local socket.
//!
//! The modules are layers: each imports only from its own row or from a row below it.
//!
//! | row | modules |
//! |---|---|
//! | program | [`cli`], [`client`] |
//! | composition | [`daemon`] |
//! | socket | [`api`] |
//! | calls | [`call`] |
//! | servers | [`supervisor`], [`catalog`], [`server`] |
//! | configuration | [`config`] |
//! | ground | [`environment`], [`busy_poll`], [`name`], [`wire`], [`text`], [`telemetry`] |
//!
//! `ARCHITECTURE.md` tells the whole story.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod api;
pub mod busy_poll;
pub mod call;
pub mod catalog;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod environment;
pub mod name;
pub mod paths;
pub mod server;
pub mod supervisor;
pub mod telemetry;
pub mod text;
pub mod wire;
