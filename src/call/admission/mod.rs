//! Whether and when a call may go to its server: the circuit breaker first, then the queue.

mod breaker;
mod gate;

pub(super) use breaker::{Breakers, FAILURES, Verdict};
pub(super) use gate::{Gates, Turn};
