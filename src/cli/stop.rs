//! `hermesd-mcp stop`

use std::{
    fs::File,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    Exit, Failure, Outcome,
    context::{ANSWER_TIMEOUT, Context},
};
use crate::client::{Client, ClientError};

/// Calls in flight are drained and every server gets its grace; beyond this something hangs.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long between two looks at a daemon that is stopping.
const POLL: Duration = Duration::from_millis(20);

pub(super) fn run(context: &Context) -> Outcome {
    let socket = context.socket_path()?;
    let mut client = context.connect()?;
    match client.request("hermes/shutdown", &json!({}), ANSWER_TIMEOUT) {
        // The daemon may be quicker than its answer.
        Ok(_) | Err(ClientError::Gone { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    if !wait_stopped(client, &socket, Instant::now() + STOP_TIMEOUT) {
        let text = format!("the daemon did not stop within {} s", STOP_TIMEOUT.as_secs());
        return Err(Failure::new(Exit::Failure, text).next("its log says which server it waits for"));
    }
    context.print("stopped\n")?;
    Ok(Exit::Success)
}

/// Waits until the daemon and all its servers are gone, so that `stop && serve` works. True when they are in time.
///
/// The connection ends first; the lock beside the socket is held until the last server is gone.
fn wait_stopped(mut client: Client, socket: &Path, deadline: Instant) -> bool {
    if !client.wait_closed(deadline.saturating_duration_since(Instant::now())) {
        return false;
    }
    while is_locked(socket) {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Whether somebody holds the lock of a socket. A shared lock, for a moment, disturbs no daemon that starts: one that
/// finds the lock taken by nobody alive waits.
fn is_locked(socket: &Path) -> bool {
    let mut lock = socket.as_os_str().to_owned();
    lock.push(".lock");
    // Without a file there is no lock (a named pipe, a socket of the service manager).
    File::open(lock)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}
