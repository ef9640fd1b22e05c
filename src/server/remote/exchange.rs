//! One message to a remote server and everything that can come back.

use std::time::Duration;

use reqwest::Response;
use tokio::time::{sleep, timeout};

use super::{
    endpoint::SendError,
    failure::{Refusal, content_type, end_of, name_of, text_of},
    shared::{Cause, End, Shared, Style},
    sse::{Parser, TooLarge},
};
use crate::{
    server::{
        channel::{Kind, Post},
        machine::Failure,
        request::{HttpFailure, Lost},
    },
    wire::Envelope,
};

/// How long the rest of a stream is read once the answer is there, so that its connection can be used again.
const REST: Duration = Duration::from_secs(1);
/// How long a message may take that no answer is owed for.
const NOTIFICATION: Duration = Duration::from_secs(10);
/// How often in a row a stream may fail to be taken up again.
const RESUMES: u32 = 5;
/// The pause before a stream is taken up again, if the server doesn't say.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Sends a message and takes in what comes back. However it ends, who waits for the answer learns it.
pub(super) async fn exchange(shared: &Shared, post: Post) -> Result<(), End> {
    let kind = post.kind;
    match kind {
        Kind::Request { .. } | Kind::Initialize(_) | Kind::Initialized => answered(shared, post).await,
        // Nobody waits for these, so nobody else ends them.
        Kind::Cancel(_) | Kind::Other => timeout(NOTIFICATION, answered(shared, post))
            .await
            .unwrap_or(Ok(())),
    }
}

async fn answered(shared: &Shared, post: Post) -> Result<(), End> {
    let Post { line, kind, headers } = post;
    let had_session = shared.endpoint.has_session();
    let mut response = match shared.endpoint.post(line, headers).await {
        Ok(response) => response,
        Err(error) => return unsent(shared, kind, error),
    };
    if !response.status().is_success() {
        return refused(shared, kind, had_session, Refusal::read(response).await).await;
    }
    if matches!(kind, Kind::Initialize(_)) && !shared.endpoint.keep_session(&response) {
        return Err(End::broken(
            "its Mcp-Session-Id has characters other than visible ASCII",
        ));
    }
    match kind.id() {
        Some(id) if shared.style != Style::Legacy => accepted(shared, kind, id, response).await,
        // Any 2xx will do; a body is nobody's answer. That of the legacy transport comes on its stream.
        _ => {
            rest(&mut response).await;
            Ok(())
        }
    }
}

/// The request never got an answer.
fn unsent(shared: &Shared, kind: Kind, error: SendError) -> Result<(), End> {
    let (lost, end) = match error {
        SendError::Unreachable(text) => {
            let end = End {
                cause: Cause::Unreachable,
                ..End::broken(format!("it cannot be reached: {text}"))
            };
            (Lost::NotSent, Some(end))
        }
        SendError::Broken(text) => {
            shared.doubt();
            let is_first = matches!(kind, Kind::Initialize(_));
            let end = is_first.then(|| End::broken(format!("no answer to initialize: {text}")));
            (Lost::Unknown, end)
        }
        SendError::Redirected(text) => {
            let end = matches!(kind, Kind::Initialize(_)).then(|| End {
                failure: Failure::Permanent,
                ..End::broken(text.clone())
            });
            (http(307, text), end)
        }
    };
    if let Some(id) = kind.id() {
        shared.lose(id, lost);
    }
    end.map_or(Ok(()), Err)
}

/// The server says no.
async fn refused(shared: &Shared, kind: Kind, had_session: bool, refusal: Refusal) -> Result<(), End> {
    let status = refusal.status.as_u16();
    let may_be_session = had_session && matches!(status, 400 | 404 | 410);
    let is_session = may_be_session && refusal.is_about_a_session();
    // HTTP-16: an error of the protocol is the answer, whatever the status.
    if let Some(id) = kind.id()
        && !is_session
        && !matches!(status, 401 | 403)
        && let Some(mut answer) = error_for(id, &refusal.body)
    {
        shared.take(&mut answer).await?;
        if !shared.awaits(id) {
            return Ok(());
        }
    }
    if is_session || may_be_session && status != 400 {
        if let Some(id) = kind.id() {
            shared.lose(id, Lost::SessionGone);
        }
        return Err(End {
            cause: Cause::SessionGone,
            ..End::broken(format!(
                "the server forgot the session (HTTP {})",
                name_of(refusal.status)
            ))
        });
    }
    let session = shared.endpoint.session_id();
    let failure = refusal.into_failure(&shared.redactor, session.as_deref());
    let end = end_if_fatal(kind, &failure);
    match (&end, kind.id()) {
        (None, None) => tracing::debug!(reason = failure.text, "a notification was refused"),
        (_, Some(id)) => {
            if !failure.is_refusal() || failure.is_about_credentials() {
                shared.doubt();
            }
            shared.lose(id, Lost::Http(failure.into()));
        }
        (Some(_), None) => {}
    }
    end.map_or(Ok(()), Err)
}

/// Whether a refusal ends the connection, and how.
fn end_if_fatal(kind: Kind, failure: &HttpFailure) -> Option<End> {
    let is_first = matches!(kind, Kind::Initialize(_));
    let is_tool_call = matches!(
        kind,
        Kind::Request {
            is_tool_call: true,
            ..
        }
    );
    let is_fatal = match failure.status {
        401 => true,
        // One tool may want more rights than the others.
        403 => !is_tool_call,
        _ => is_first,
    };
    if !is_fatal {
        return None;
    }
    let (how, mut text) = end_of(failure);
    if is_first && matches!(failure.status, 404 | 405) {
        text.push_str("; is the path of the url right? A server of the older kind needs transport: sse");
    }
    Some(End {
        failure: how,
        ..End::broken(text)
    })
}

/// The answer, or a stream in which it comes.
async fn accepted(shared: &Shared, kind: Kind, id: i64, mut response: Response) -> Result<(), End> {
    let status = response.status();
    let content = content_type(&response);
    let lost = match content.as_str() {
        "text/event-stream" => {
            let mut parser = Parser::new(shared.message_bytes);
            streamed(shared, id, response, &mut parser).await?
        }
        "application/json" | "" => match body(&mut response, shared.message_bytes).await {
            Ok(mut body) => {
                shared.take(&mut body).await?;
                let text = match body.is_empty() {
                    true => format!("it answered HTTP {} without an answer", name_of(status)),
                    false => format!(
                        "it answered HTTP {} with something else than the answer",
                        name_of(status)
                    ),
                };
                http(status.as_u16(), text)
            }
            Err(lost) => {
                shared.doubt();
                lost
            }
        },
        other => http(
            status.as_u16(),
            format!(
                "it answered HTTP {} with {}, which is neither application/json nor text/event-stream",
                name_of(status),
                crate::text::one_line(crate::text::truncate(other, 60).as_ref()),
            ),
        ),
    };
    if !shared.awaits(id) {
        return Ok(());
    }
    if matches!(kind, Kind::Initialize(_)) {
        return Err(End::broken(match lost {
            Lost::Unknown => "the connection was cut before it answered initialize".to_owned(),
            lost => lost.to_string(),
        }));
    }
    shared.lose(id, lost);
    Ok(())
}

/// Reads a stream until the answer is there, and takes it up again where it can be. Gives what became of the request
/// if there is no answer.
async fn streamed(
    shared: &Shared,
    id: i64,
    mut response: Response,
    parser: &mut Parser,
) -> Result<Lost, End> {
    let mut failures = 0;
    loop {
        let before = parser.last_id().map(str::to_owned);
        if let Err(TooLarge) = events(shared, &mut response, parser, || !shared.awaits(id)).await? {
            return Ok(Lost::TooLarge {
                limit: shared.message_bytes,
            });
        }
        if !shared.awaits(id) {
            rest(&mut response).await;
            return Ok(Lost::Unknown);
        }
        // HTTP-09: a stream with ids is taken up where it ended; one without is lost.
        if parser.last_id() != before.as_deref() {
            failures = 0;
        }
        response = loop {
            let may_resume = failures < RESUMES && shared.style == Style::Session;
            let Some(last) = parser.last_id().filter(|_| may_resume) else {
                shared.doubt();
                return Ok(Lost::Unknown);
            };
            let pause = parser.retry().unwrap_or(RESUME_PAUSE * (1 << failures));
            failures += 1;
            sleep(pause.min(LONGEST_PAUSE)).await;
            if !shared.awaits(id) {
                return Ok(Lost::Unknown);
            }
            match shared.endpoint.stream(Some(last)).await {
                Ok(response) if is_stream(&response) => break response,
                Ok(response) if response.status().is_server_error() || response.status().as_u16() == 429 => {}
                Ok(_) | Err(SendError::Redirected(_)) => return Ok(Lost::Unknown),
                Err(SendError::Unreachable(_) | SendError::Broken(_)) => {}
            }
        };
        parser.restart();
    }
}

/// Takes in the events of a stream until it ends, however it does, or `is_enough`.
pub(super) async fn events(
    shared: &Shared,
    response: &mut Response,
    parser: &mut Parser,
    mut is_enough: impl FnMut() -> bool,
) -> Result<Result<(), TooLarge>, End> {
    while !is_enough() {
        let piece = match response.chunk().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(reason = text_of(&error), "a stream of events was cut");
                break;
            }
        };
        if let Err(error) = parser.feed(&piece) {
            return Ok(Err(error));
        }
        while let Some(mut event) = parser.next() {
            // Other kinds are none of the protocol's.
            if event.name == "message" {
                shared.take(&mut event.data).await?;
            }
        }
    }
    Ok(Ok(()))
}

/// Whether an answer is a stream of events.
pub(super) fn is_stream(response: &Response) -> bool {
    response.status().is_success() && content_type(response) == "text/event-stream"
}

async fn rest(response: &mut Response) {
    let _ = timeout(REST, async { while let Ok(Some(_)) = response.chunk().await {} }).await;
}

/// Reads a body, as long as it is within the limit after decompression (HTTP-12).
async fn body(response: &mut Response, limit: usize) -> Result<Vec<u8>, Lost> {
    let announced = response.content_length().unwrap_or_default();
    let mut body = Vec::with_capacity(
        usize::try_from(announced)
            .unwrap_or(limit)
            .min(limit)
            .min(1 << 20),
    );
    loop {
        match response.chunk().await {
            Ok(Some(piece)) if body.len() + piece.len() > limit => return Err(Lost::TooLarge { limit }),
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return Ok(body),
            Err(error) => {
                tracing::debug!(reason = text_of(&error), "an answer was cut");
                return Err(Lost::Unknown);
            }
        }
    }
}

/// The error answer in a body. One without an id is the answer to the request that it came with.
fn error_for(id: i64, body: &[u8]) -> Option<Vec<u8>> {
    const DEPTH: usize = 128;
    let envelope = Envelope::parse(body, DEPTH).ok()?;
    let error = envelope.error?;
    let is_ours = envelope
        .id
        .is_none_or(|raw| raw.get() == "null" || raw.get() == id.to_string());
    is_ours.then(|| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, error.get()).into_bytes())
}

fn http(status: u16, text: String) -> Lost {
    Lost::Http(
        HttpFailure {
            status,
            text,
            retry_after: None,
        }
        .into(),
    )
}
