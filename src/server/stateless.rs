//! Connections of the era without a handshake: how they begin, and how changes are heard of.

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, RequestId, ServerNotification},
    transport::Transport,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    channel::Channel,
    connection::{Connection, Running},
    era::{self, Discovered, Era},
    link::Link,
    open_error::OpenError,
    request::{Lost, Params, Reply},
};

/// The pauses before a server is asked again to tell about changes grow from the first to the last.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Connection {
    /// Begins a stateless connection: asks the server what it is. It has no time limit of its own.
    ///
    /// # Errors
    /// The server is not of this era, or cannot be talked to.
    pub(super) async fn discover(
        transport: impl Transport<RoleClient> + 'static,
        channel: Channel,
        link: Arc<Link>,
        cancel: CancellationToken,
    ) -> Result<(Self, Running), OpenError> {
        let running = Running::Reader(tokio::spawn(read(transport, channel.clone(), cancel)));
        let connection = Self { channel, link };
        // LIFE-09: a server that refuses our version and then names it gets it once more.
        for _ in 0..2 {
            let reply = connection
                .request("server/discover", &Params::default())
                .map_err(OpenError::Discover)?
                .answer()
                .await
                .map_err(OpenError::Discover)?;
            let (verdict, told) = match &reply {
                Reply::Result(raw) => (era::discovered(raw), Some(raw)),
                Reply::Error(raw) => (era::not_discovered(raw), None),
            };
            match (verdict, told) {
                (Discovered::Stateless, Some(raw)) => {
                    connection.link.keep_initialize_result(raw);
                    return Ok((connection, running));
                }
                (Discovered::Stateless, None) => {}
                (Discovered::Handshake, _) => return Err(OpenError::OtherEra(Era::Handshake)),
                (Discovered::Unusable(why), _) => return Err(OpenError::Unusable(why)),
            }
        }
        Err(OpenError::Unusable(
            "it refuses the very protocol version that it says it speaks".into(),
        ))
    }

    /// Hears of changed tools for as long as the server tells. Only for stateless connections: others are told anyway.
    pub(super) async fn listen(self) {
        let mut pause = SHORTEST_PAUSE;
        let mut is_first = true;
        loop {
            let began = Instant::now();
            let params = Params {
                members: r#""notifications":{"toolsListChanged":true}"#.into(),
                ..Params::default()
            };
            let Ok(mut request) = self.request("subscriptions/listen", &params) else {
                return;
            };
            if !std::mem::take(&mut is_first) {
                // What it said meanwhile is missed.
                self.link.tools_changed.notify_one();
            }
            match request.answer().await {
                Ok(Reply::Error(error)) => {
                    tracing::debug!(error = error.get(), "the server doesn't tell about changes");
                    return;
                }
                Err(Lost::Http(failure)) if failure.is_refusal() && !failure.is_passing() => return,
                Ok(Reply::Result(_)) | Err(_) => {}
            }
            if began.elapsed() >= LONGEST_PAUSE {
                pause = SHORTEST_PAUSE;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Reads for a stateless connection, on which a server only answers.
async fn read(mut transport: impl Transport<RoleClient>, channel: Channel, cancel: CancellationToken) {
    loop {
        let message = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            message = transport.receive() => message,
        };
        match message {
            // It ends what it was to tell about.
            Some(JsonRpcMessage::Notification(notification)) => {
                if let ServerNotification::CancelledNotification(cancelled) = notification.notification
                    && let Some(RequestId::Number(id)) = cancelled.params.request_id
                {
                    channel.lose(id, Lost::Unknown);
                }
            }
            Some(_) => tracing::debug!("a stateless server made a request, which it must not"),
            None => break,
        }
    }
    // What is left of it is the attempt's.
    let _ = transport.close().await;
}
