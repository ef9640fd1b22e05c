//! The transport before Streamable HTTP, `transport: sse`: one stream for everything that the server says, and an
//! address to post to that it names there.

use tokio::sync::oneshot;

use super::{
    exchange::is_stream,
    failure::{Refusal, end_of, text_of},
    shared::{Cause, End, Shared},
    sse::Parser,
};
use crate::server::machine::Failure;

/// Reads the stream to its end, which is the connection's. `ready` is told once the address is known.
pub(super) async fn read(shared: &Shared, ready: oneshot::Sender<()>) -> End {
    match stream(shared, ready).await {
        Ok(()) => End::broken("it closed its stream of events"),
        Err(end) => end,
    }
}

async fn stream(shared: &Shared, ready: oneshot::Sender<()>) -> Result<(), End> {
    let mut response = shared.endpoint.stream(None).await.map_err(|error| End {
        cause: Cause::Unreachable,
        ..End::broken(format!("it cannot be reached: {}", error.into_text()))
    })?;
    if !response.status().is_success() {
        let failure = Refusal::read(response).await.into_failure(&shared.redactor, None);
        let (failure, reason) = end_of(&failure);
        return Err(End {
            failure,
            ..End::broken(reason)
        });
    }
    if !is_stream(&response) {
        return Err(End::broken(
            "it did not answer with a stream of events; is the path of the url right (mostly /sse)? A server of the \
             newer kind needs transport: http",
        ));
    }
    let mut parser = Parser::new(shared.message_bytes);
    let mut ready = Some(ready);
    loop {
        let piece = match response.chunk().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(()),
            Err(error) => {
                return Err(End::broken(format!(
                    "its stream of events was cut: {}",
                    text_of(&error)
                )));
            }
        };
        parser.feed(&piece).map_err(|_| {
            End::broken(format!(
                "message too large: it sent an event of more than {} bytes (limits.message_bytes)",
                shared.message_bytes
            ))
        })?;
        while let Some(mut event) = parser.next() {
            match (event.name.as_str(), &ready) {
                ("message", None) => shared.take(&mut event.data).await?,
                ("endpoint", Some(_)) => {
                    let target = String::from_utf8_lossy(&event.data).trim().to_owned();
                    shared.endpoint.move_to(&target).map_err(|reason| End {
                        failure: Failure::Permanent,
                        ..End::broken(reason)
                    })?;
                    if let Some(ready) = ready.take() {
                        // Without a driver nobody posts.
                        let _ = ready.send(());
                    }
                }
                // HTTP-17: a later address is ignored, and so is everything before the first.
                _ => tracing::debug!(event = event.name, "ignored an event"),
            }
        }
    }
}
