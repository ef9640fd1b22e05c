//! The stream on which a server sends what belongs to no request: optional, and opened again when it ends (HTTP-08).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    endpoint::SendError,
    exchange::{events, is_stream},
    shared::{End, Shared},
    sse::Parser,
};

/// The pauses before a stream is opened again grow from the first to the last.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A stream that was open this long is no failure.
const GOOD: Duration = Duration::from_secs(60);

/// Keeps the stream open for as long as the server has one.
pub(super) async fn standby(shared: &Shared) -> Result<(), End> {
    let mut pause = SHORTEST;
    let mut parser = Parser::new(shared.message_bytes);
    loop {
        let began = Instant::now();
        let resumed = parser.last_id().map(str::to_owned);
        match shared.endpoint.stream(resumed.as_deref()).await {
            Ok(mut response) if is_stream(&response) => {
                let before = parser.event_count();
                if events(shared, &mut response, &mut parser, || false)
                    .await?
                    .is_err()
                {
                    tracing::warn!(
                        limit = shared.message_bytes,
                        "an event of the server is too large (limits.message_bytes); its stream is closed"
                    );
                    parser = Parser::new(shared.message_bytes);
                }
                let has_said_something = parser.event_count() > before;
                if has_said_something || began.elapsed() >= GOOD {
                    pause = SHORTEST;
                } else if resumed.is_some() {
                    // Perhaps it doesn't know that place any more.
                    parser = Parser::new(shared.message_bytes);
                }
                if has_said_something && parser.last_id().is_none() {
                    // What it says until the stream is open again is missed: its tools may have changed.
                    shared.reading().link.tools_changed.notify_one();
                }
            }
            // It has no such stream, or wants no more of it. Whatever it means, requests will find out.
            Ok(response) if !is_passing(response.status().as_u16()) => {
                tracing::debug!(status = %response.status(), "the server has no stream of its own");
                return Ok(());
            }
            Ok(_) => {}
            Err(SendError::Redirected(text)) => {
                tracing::debug!(text, "the server has no stream of its own");
                return Ok(());
            }
            Err(error) => {
                tracing::debug!(reason = error.into_text(), "the server's stream cannot be opened");
                shared.doubt();
            }
        }
        parser.restart();
        sleep(parser.retry().unwrap_or_default().clamp(pause, LONGEST)).await;
        pause = (pause * 2).min(LONGEST);
    }
}

fn is_passing(status: u16) -> bool {
    status == 429 || matches!(status, 500 | 502..=504)
}
