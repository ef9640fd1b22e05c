//! A remote server: Streamable HTTP, and the HTTP+SSE transport before it.
//!
//! Each message is an HTTP request of its own. They are sent and read here and not by rmcp's HTTP client, because
//! answers have to stay the server's own bytes, a lost session is the state machine's matter, and what an HTTP failure
//! means for a call (carried out or not) has to be known. rmcp sees the handshake, as with a child.

mod client;
mod driver;
mod endpoint;
mod exchange;
mod failure;
mod legacy;
mod shared;
mod sse;
mod standby;

use std::{io, sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use client::{ClientError, HttpClients};
pub(super) use failure::end_of;

use self::{
    driver::Driver,
    endpoint::Endpoint,
    shared::{Shared, Style},
};
use super::{
    actor::Surroundings,
    channel::{Channel, Way},
    era::Era,
    incoming::Reading,
    link::Link,
};
use crate::config::{Remote, ServerConfig};

/// Messages that wait for rmcp.
const INBOX: usize = 16;
/// How long the end of a connection may take: the last answers, and telling the server.
const END: Duration = Duration::from_secs(4);
/// How long the end of one that is lost may take.
const CLOSED: Duration = Duration::from_secs(2);

/// A connection to a remote server as an rmcp transport.
pub(super) struct RemoteTransport {
    inbox: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    shared: Arc<Shared>,
    close: CancellationToken,
    closed: CancellationToken,
}

/// The task behind a transport.
pub(super) struct Session {
    task: JoinHandle<()>,
    close: CancellationToken,
    closed: CancellationToken,
}

/// Prepares a connection; the first message opens it.
///
/// # Errors
/// The entry's files or the proxy of the environment are of no use.
pub(super) fn connect(
    config: &ServerConfig,
    remote: &Remote,
    surroundings: &Surroundings,
    link: Arc<Link>,
    era: Era,
) -> Result<(RemoteTransport, Session), ClientError> {
    let limits = &surroundings.limits;
    let client = surroundings.clients.client(remote, config.connect_timeout)?;
    let (post_sender, posts) = mpsc::unbounded_channel();
    let (inbox_sender, inbox) = mpsc::channel(INBOX);
    let channel = Channel::new(Way::Posts(post_sender), era);
    let name: Arc<str> = config.name.as_str().into();
    let shared = Arc::new(Shared::new(
        Endpoint::new(client, remote, era),
        match (remote.sse, era) {
            (true, _) => Style::Legacy,
            (false, Era::Handshake) => Style::Session,
            (false, Era::Stateless) => Style::Stateless,
        },
        Reading::new(name, channel, link, limits.json_depth),
        inbox_sender,
        surroundings.redactor.clone(),
        limits.message_bytes,
    ));
    let (close, closed) = (CancellationToken::new(), CancellationToken::new());
    let driver = Driver::new(shared.clone(), posts);
    let task = tokio::spawn(driver.run(close.clone(), closed.clone()));
    let transport = RemoteTransport {
        inbox,
        shared,
        close: close.clone(),
        closed: closed.clone(),
    };
    let session = Session { task, close, closed };
    Ok((transport, session))
}

impl RemoteTransport {
    /// The way for requests past rmcp.
    pub(super) fn channel(&self) -> Channel {
        self.shared.reading().channel.clone()
    }
}

impl Transport<RoleClient> for RemoteTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        std::future::ready(self.shared.reading().enqueue(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        tokio::select! {
            biased;
            message = self.inbox.recv() => message,
            () = self.closed.cancelled() => None,
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.close.cancel();
        Ok(())
    }
}

impl Drop for RemoteTransport {
    /// However the connection ends, nobody waits for ever.
    fn drop(&mut self) {
        self.close.cancel();
        self.shared.reading().channel.forget();
    }
}

impl Session {
    /// Waits until no message comes any more; not for long.
    pub(super) async fn closed(&self) {
        // A connection that stays open after all has no reason of its own.
        let _ = timeout(CLOSED, self.closed.cancelled()).await;
    }

    /// Ends the connection and tells the server, unless that takes too long or there is no time for it.
    pub(super) async fn end(mut self, hurry: &CancellationToken) {
        self.close.cancel();
        tokio::select! {
            _ = timeout(END, &mut self.task) => {}
            () = hurry.cancelled() => {}
        }
        self.task.abort();
    }
}
