//! What went wrong on the way to a remote server, for people: without addresses, credentials and session ids.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use reqwest::{Response, StatusCode, header};

use crate::{
    server::{machine::Failure, request::HttpFailure},
    text,
    text::Redactor,
};

/// Bytes that are read of an answer that is an error.
const ERROR_BODY: usize = 64 << 10;
/// How long to wait for them.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);
/// Characters of it that are shown.
const SHOWN: usize = 200;

/// The causes of an error, the address left out: it may hold a password or a key.
pub(super) fn text_of(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Which layer of the client it was helps nobody; some repeat what is below them.
        if !text.starts_with("client error (") && parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        source = cause.source();
    }
    let mut text = match parts.is_empty() {
        false => parts.join(": "),
        true if error.is_timeout() => "timed out".to_owned(),
        true => "unknown error".to_owned(),
    };
    if text.contains("UnknownIssuer") {
        text.push_str("; if you trust its authority, set ssl_verify to the authority's PEM file");
    } else if text.contains("InvalidContentType") {
        text.push_str("; it does not speak TLS there: is the address http:// and not https://?");
    }
    text
}

/// What a refusal means for the whole connection, and the sentence for people.
pub(in crate::server) fn end_of(failure: &HttpFailure) -> (Failure, String) {
    let text = failure.text.clone();
    match failure.retry_after {
        _ if failure.is_about_credentials() => (
            Failure::Auth,
            format!(
                "{text}; check the credentials of its entry (headers), then reload or restart the server"
            ),
        ),
        Some(wait) if failure.is_passing() => (Failure::Later(wait), text),
        _ => (Failure::Transient, text),
    }
}

/// An answer with a status that says no, read as far as it matters.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    is_html: bool,
    retry_after: Option<Duration>,
}

impl Refusal {
    pub(super) async fn read(mut response: Response) -> Self {
        let headers = response.headers();
        let retry_after = headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| wait_of(value, SystemTime::now()));
        let is_html = content_type(&response) == "text/html";
        let mut body = Vec::new();
        // What cannot be read is not shown.
        let _ = tokio::time::timeout(ERROR_BODY_TIME, async {
            while let Ok(Some(piece)) = response.chunk().await
                && body.len() < ERROR_BODY
            {
                body.extend_from_slice(&piece[..piece.len().min(ERROR_BODY - body.len())]);
            }
        })
        .await;
        Self {
            status: response.status(),
            body,
            is_html,
            retry_after,
        }
    }

    /// Whether the text of it is about a session.
    pub(super) fn is_about_a_session(&self) -> bool {
        let body = String::from_utf8_lossy(&self.body).to_ascii_lowercase();
        body.contains("session") || body.contains("not initialized")
    }

    /// The failure with its sentence.
    pub(super) fn into_failure(self, redactor: &Redactor, session: Option<&str>) -> HttpFailure {
        let mut text = format!("it answered HTTP {}", name_of(self.status));
        let said = self.said(redactor, session);
        if !said.is_empty() {
            text.push_str(": ");
            text.push_str(&said);
        }
        if let Some(wait) = self.retry_after {
            text.push_str(&format!("; it wants to be left alone for {} s", wait.as_secs()));
        }
        HttpFailure {
            status: self.status.as_u16(),
            text,
            retry_after: self.retry_after,
        }
    }

    /// What the body says, on one line.
    fn said(&self, redactor: &Redactor, session: Option<&str>) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let body = match self.is_html {
            true => without_tags(&body),
            false => body.into_owned(),
        };
        let body = match session {
            Some(session) => body.replace(session, "[REDACTED]"),
            None => body,
        };
        let words = body.split_whitespace().collect::<Vec<_>>().join(" ");
        text::truncate(&text::one_line(&redactor.redact(&words)), SHOWN).into_owned()
    }
}

/// The status as a number and its name.
pub(super) fn name_of(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(name) => format!("{} {name}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// The kind of an answer's content, in small letters and without parameters.
pub(super) fn content_type(response: &Response) -> String {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|kind| kind.trim().to_ascii_lowercase())
        .unwrap_or_default()
}

/// `Retry-After`: seconds, or a date.
fn wait_of(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        // A date that is over wants no wait.
        Err(_) => httpdate::parse_http_date(value)
            .ok()
            .map(|date| date.duration_since(now).unwrap_or_default()),
    }
}

/// The text of a page, without what only a browser reads.
fn without_tags(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let mut text = String::new();
    let mut at = 0;
    while let Some(start) = html[at..].find('<').map(|start| at + start) {
        text.push_str(&html[at..start]);
        text.push(' ');
        let is_unseen = |name: &str| lower[start + 1..].starts_with(name);
        let end = match ["style", "script"].into_iter().find(|name| is_unseen(name)) {
            Some(name) => lower[start..]
                .find(&format!("</{name}"))
                .map(|end| start + end + 1),
            None => Some(start),
        };
        let end = end.and_then(|end| html[end..].find('>').map(|close| end + close + 1));
        match end {
            Some(end) => at = end,
            None => return text,
        }
    }
    text.push_str(&html[at..]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &str) -> Refusal {
        Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.into(),
            is_html: body.starts_with('<'),
            retry_after: None,
        }
    }

    #[test]
    fn what_a_server_says_is_shown_without_secrets() {
        let redactor = Redactor::new(["s3cret-value"]);
        for (status, body, expected) in [
            (500, "", "it answered HTTP 500 Internal Server Error"),
            (599, "down\n for  today", "it answered HTTP 599: down for today"),
            (
                403,
                "no s3cret-value for session-77",
                "it answered HTTP 403 Forbidden: no [REDACTED] for [REDACTED]",
            ),
            (
                502,
                "<html><head><style>a { b: c }</style><title>Bad\x1b[1m gateway</title></head><SCRIPT>x<y</SCRIPT><p>nginx",
                "it answered HTTP 502 Bad Gateway: Bad gateway nginx",
            ),
        ] {
            let failure = refusal(status, body).into_failure(&redactor, Some("session-77"));
            assert_eq!(failure.text, expected);
        }
        let long = refusal(500, &"x".repeat(5000)).into_failure(&redactor, None);
        assert!(long.text.len() < 300, "{}", long.text.len());
    }

    #[test]
    fn the_wait_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (value, expected) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(wait_of(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }
}
