//! The stdio transport under rmcp: raw answers past it, a line limit, and patience with everything a real server
//! prints.

use std::{io, sync::Arc};

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::process::{ChildStdin, ChildStdout};

use super::outbox::Outbox;
use crate::{
    server::{
        channel::{Channel, Way},
        era::Era,
        incoming::{Incoming, Reading},
        link::Link,
        machine::Failure,
        request::Lost,
    },
    wire::{Limits, LineError, LineReader},
};

/// A child's stdin and stdout as an rmcp transport.
pub(crate) struct StdioTransport {
    /// `None` only while it is dropped.
    lines: Option<LineReader<ChildStdout>>,
    reading: Reading,
}

impl StdioTransport {
    pub(in crate::server) fn new(
        server: Arc<str>,
        stdin: ChildStdin,
        stdout: ChildStdout,
        limits: &Limits,
        link: Arc<Link>,
        era: Era,
    ) -> Self {
        // Room for two messages of full size: one that is being written, one that waits.
        let channel = Channel::new(Way::Pipe(Outbox::new(stdin, 2 * limits.message_bytes)), era);
        Self {
            lines: Some(LineReader::new(stdout, limits.message_bytes)),
            reading: Reading::new(server, channel, link, limits.json_depth),
        }
    }

    /// The way for requests past rmcp.
    pub(crate) fn channel(&self) -> Channel {
        self.reading.channel.clone()
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let queued = self.reading.enqueue(&message);
        let channel = self.reading.channel.clone();
        async move {
            queued?;
            channel.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.lines.as_mut()?.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(LineError::TooLong { limit }) => {
                    self.reading.channel.fail(Lost::TooLarge { limit });
                    self.reading.link.fail(Failure::Transient, format!(
                        "message too large: it wrote more than {limit} bytes without a newline (limits.message_bytes)"
                    ));
                    return None;
                }
                Err(LineError::Io(error)) => {
                    self.reading
                        .link
                        .fail(Failure::Transient, format!("reading its stdout failed: {error}"));
                    return None;
                }
            };
            match self.reading.line(line) {
                Incoming::Handled => {}
                Incoming::Message(message) => return Some(*message),
                Incoming::Broken(reason) => {
                    self.reading.link.fail(Failure::Transient, reason);
                    return None;
                }
            }
        }
    }

    /// Closes the child's stdin. The child itself belongs to the server's actor.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.reading.channel.close().await;
        Ok(())
    }
}

impl Drop for StdioTransport {
    /// However the connection ends, nobody waits for ever.
    fn drop(&mut self) {
        self.reading.channel.forget();
        if let Some(lines) = self.lines.take() {
            self.reading.link.leave_stdout(lines.into_source());
        }
    }
}
