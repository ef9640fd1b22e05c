//! Every bound of the daemon in one place; `hermes/hello` shows them.

use std::time::Duration;

use serde::Serialize;

/// The bounds that a configuration can change (`hermesd.limits`). Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// One line from a server or a frontend. Default 16 MiB.
    pub message_bytes: usize,
    /// Nesting of objects and arrays in one message. Default 128.
    pub json_depth: usize,
    /// Pages followed in one list of a server. Default 50.
    pub list_pages: usize,
    /// Items taken from one list of a server. Default 5,000.
    pub list_items: usize,
    /// Bytes taken from one list of a server, all pages together. Default 32 MiB.
    pub list_bytes: usize,
    /// Frontends at the same time. Default 256.
    pub connections: usize,
    /// Requests of one frontend in flight; further lines wait unread. Default 64.
    pub in_flight: usize,
    /// Messages waiting to be written to one frontend. Default 1,024.
    pub queue_messages: usize,
    /// Bytes waiting to be written to one frontend. Default 8 MiB.
    pub queue_bytes: usize,
    /// Last bytes of each server's stderr that are kept. Default 64 KiB.
    pub stderr_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            json_depth: 128,
            list_pages: 50,
            list_items: 5_000,
            list_bytes: 32 << 20,
            connections: 256,
            in_flight: 64,
            queue_messages: 1_024,
            queue_bytes: 8 << 20,
            stderr_bytes: 64 << 10,
        }
    }
}

/// How long a child may take after its stdin was closed, and again after SIGTERM.
pub const STOP_GRACE: Duration = Duration::from_secs(2);
