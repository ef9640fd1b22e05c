//! A blocking client of the daemon's socket: what the command line uses, and nothing else does.
//!
//! One thread connects and reads, so that every wait of the caller has an end: a daemon that hangs, a full backlog
//! and Ctrl-C all arrive as events in one channel. Before a byte is sent the socket must be ours: first the file's
//! owner is checked, then the peer's, because a foreign process behind the path could read arguments and forge
//! results.

mod connection;
mod error;
#[cfg(all(test, unix))]
mod tests;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use self::connection::{Connection, Event};
pub use self::{
    connection::Interrupter,
    error::{ClientError, RpcError},
};

/// A connection to the daemon.
pub struct Client {
    path: PathBuf,
    connection: Connection,
    last_id: u64,
}

/// A notification that came while a request was waiting.
#[derive(Debug)]
pub struct Notification {
    /// The method, such as `notifications/progress`.
    pub method: String,
    /// The parameters, `null` when there are none.
    pub params: Value,
}

#[derive(Serialize)]
struct Outgoing<'a, P: ?Sized> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

#[derive(Deserialize)]
struct Incoming {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<RpcError>,
}

impl Client {
    /// Connects to the daemon's socket.
    ///
    /// # Errors
    /// There is no socket, nobody listens, it isn't ours, or nothing answered within `timeout`.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self {
            path: path.to_owned(),
            connection: Connection::open(path, timeout)?,
            last_id: 0,
        })
    }

    /// A handle with which another thread (Ctrl-C) ends the request in flight.
    pub fn interrupter(&self) -> Interrupter {
        self.connection.interrupter()
    }

    /// Sends one request and waits for its answer. Notifications on the way are passed over.
    ///
    /// # Errors
    /// As [`Client::request_with`].
    pub fn request(
        &mut self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let raw = self.request_with(method, params, Some(timeout), &mut |_| {})?;
        serde_json::from_str(raw.get()).map_err(|error| ClientError::Protocol {
            path: self.path.clone(),
            reason: format!("the result of {method} is not JSON: {error}"),
        })
    }

    /// Sends one request, hands every notification to `on_notification`, and returns the result as the daemon
    /// wrote it. `timeout` of `None` waits for as long as the daemon takes.
    ///
    /// # Errors
    /// The daemon answered with an error, broke the protocol, went away or was too slow; or the request was
    /// interrupted, in which case the daemon was told to cancel it.
    pub fn request_with(
        &mut self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        timeout: Option<Duration>,
        on_notification: &mut dyn FnMut(Notification),
    ) -> Result<Box<RawValue>, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.write(Some(id), method, params)?;
        loop {
            let line = match self.connection.next(deadline) {
                Some(Event::Line(line)) => line,
                Some(Event::Closed) => return Err(self.gone(method, None)),
                Some(Event::Failed(error)) => return Err(self.gone(method, Some(error))),
                Some(Event::Interrupted) => {
                    let params = serde_json::json!({"requestId": id, "reason": "interrupted by the user"});
                    self.write(None, "notifications/cancelled", &params)?;
                    return Err(ClientError::Interrupted);
                }
                None => {
                    return Err(ClientError::Timeout {
                        what: format!("answer to {method}"),
                        path: self.path.clone(),
                        after: timeout.unwrap_or_default(),
                    });
                }
            };
            let message: Incoming = serde_json::from_slice(&line).map_err(|error| ClientError::Protocol {
                path: self.path.clone(),
                reason: format!("a line is not a JSON-RPC message: {error}"),
            })?;
            match message {
                Incoming {
                    method: Some(method),
                    params,
                    id: None,
                    ..
                } => on_notification(Notification { method, params }),
                // Requests go to frontends that declared a capability; we declare none (SEC: decline, never guess).
                Incoming { method: Some(_), .. } => {}
                // An error without an id is the daemon's verdict on what we just sent.
                Incoming {
                    id: None | Some(Value::Null),
                    error: Some(error),
                    ..
                } => return Err(ClientError::Rpc(error)),
                Incoming {
                    id: Some(answered),
                    result,
                    error,
                    ..
                } if answered == id => {
                    return match error {
                        Some(error) => Err(ClientError::Rpc(error)),
                        None => Ok(result.unwrap_or_else(|| RawValue::NULL.to_owned())),
                    };
                }
                // The late answer of an earlier request that timed out.
                _ => {}
            }
        }
    }

    /// Waits until the daemon closes the connection. True when it did within `timeout`.
    pub fn wait_closed(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            match self.connection.next(deadline) {
                Some(Event::Closed | Event::Failed(_)) => return true,
                Some(Event::Line(_)) => {}
                Some(Event::Interrupted) | None => return false,
            }
        }
    }

    fn write(
        &mut self,
        id: Option<u64>,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<(), ClientError> {
        let message = Outgoing {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let mut line = serde_json::to_vec(&message).map_err(|error| ClientError::Protocol {
            path: self.path.clone(),
            reason: format!("the parameters of {method} cannot be written as JSON: {error}"),
        })?;
        // Raw JSON from the user may have line breaks; inside JSON text they can only stand between tokens.
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.connection
            .write(&line)
            .map_err(|error| self.gone(method, Some(error)))
    }

    fn gone(&self, method: &str, source: Option<std::io::Error>) -> ClientError {
        ClientError::Gone {
            method: method.to_owned(),
            path: self.path.clone(),
            source,
        }
    }
}
