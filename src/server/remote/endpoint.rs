//! Where a server is and how a request to it looks: address, headers, session, redirects.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::{
    Client, Method, Request, RequestBuilder, Response, StatusCode,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use url::Url;

use super::failure::{name_of, text_of};
use crate::{
    config::Remote,
    server::era::{Era, STATELESS_VERSION},
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: &str = "text/event-stream";
/// Redirects of one request.
const REDIRECTS: usize = 5;

/// Why a request got no answer of the server.
#[derive(Debug)]
pub(super) enum SendError {
    /// Nothing was sent.
    Unreachable(String),
    /// It may have been sent.
    Broken(String),
    /// The server sends it elsewhere, and it is not sent there.
    Redirected(String),
}

impl SendError {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Unreachable(text) | Self::Broken(text) | Self::Redirected(text) => text,
        }
    }
}

/// What the handshake agreed on.
#[derive(Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// One server's endpoint, and the session with it.
pub(super) struct Endpoint {
    client: Client,
    /// The headers of the entry.
    headers: HeaderMap,
    /// Where requests go; a permanent redirect moves it.
    url: Mutex<Url>,
    session: Mutex<Session>,
}

impl Endpoint {
    pub(super) fn new(client: Client, remote: &Remote, era: Era) -> Self {
        let headers = remote
            .headers
            .iter()
            // The configuration takes only what HTTP allows.
            .filter_map(|(name, value)| {
                let mut header = HeaderValue::from_str(value.expose()).ok()?;
                header.set_sensitive(true);
                Some((HeaderName::try_from(name.as_str()).ok()?, header))
            })
            .collect();
        Self {
            client,
            headers,
            url: Mutex::new(remote.url.clone()),
            session: Mutex::new(Session {
                id: None,
                version: match era {
                    Era::Handshake => None,
                    Era::Stateless => Some(HeaderValue::from_static(STATELESS_VERSION)),
                },
            }),
        }
    }

    /// Posts a message.
    pub(super) async fn post(&self, message: String, headers: HeaderMap) -> Result<Response, SendError> {
        let request = self
            .request(Method::POST)
            .headers(headers)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::CONTENT_TYPE, "application/json")
            .body(message);
        self.send(request).await
    }

    /// Opens a stream of events, from the one after `last_event` on if that is given.
    pub(super) async fn stream(&self, last_event: Option<&str>) -> Result<Response, SendError> {
        let mut request = self.request(Method::GET).header(header::ACCEPT, EVENT_STREAM);
        if let Some(id) = last_event {
            request = request.header(LAST_EVENT, id);
        }
        self.send(request).await
    }

    /// Tells the server that the session is over (HTTP-07). Some don't want to know.
    pub(super) async fn delete(&self) -> Result<Response, SendError> {
        self.send(self.request(Method::DELETE)).await
    }

    /// Keeps the session's id; gives whether the header is one that a session may have (HTTP-05).
    pub(super) fn keep_session(&self, response: &Response) -> bool {
        let Some(id) = response.headers().get(SESSION) else {
            return true;
        };
        let is_visible = !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic);
        if is_visible {
            let mut id = id.clone();
            id.set_sensitive(true);
            self.session().id = Some(id);
        }
        is_visible
    }

    /// The version that the server chose; every later request names it (HTTP-02).
    pub(super) fn keep_version(&self, version: &str) {
        self.session().version = HeaderValue::from_str(version).ok();
    }

    pub(super) fn has_version(&self, version: &str) -> bool {
        self.session().version.as_ref().is_some_and(|it| it == version)
    }

    pub(super) fn has_session(&self) -> bool {
        self.session().id.is_some()
    }

    /// The session's id, only for taking it out of text.
    pub(super) fn session_id(&self) -> Option<String> {
        let session = self.session();
        let id = session.id.as_ref()?.to_str().ok()?;
        Some(id.to_owned())
    }

    /// Where requests go, as the legacy transport's server says. Only to the same origin: anywhere else the entry's
    /// headers are nobody's business (HTTP-17).
    pub(super) fn move_to(&self, target: &str) -> Result<(), String> {
        let mut url = self.url();
        let next = url
            .join(target)
            .map_err(|_| "it names an endpoint that is no address".to_owned())?;
        if next.origin() != url.origin() {
            return Err(format!(
                "it names an endpoint at {}, another origin than its own, which is not used",
                next.origin().ascii_serialization()
            ));
        }
        *url = next;
        Ok(())
    }

    fn request(&self, method: Method) -> RequestBuilder {
        let mut headers = self.headers.clone();
        let session = self.session();
        for (name, value) in [(SESSION, &session.id), (VERSION, &session.version)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        let url = self.url().clone();
        self.client.request(method, url).headers(headers)
    }

    /// Sends a request, and where the server redirects it within its own origin, again (HTTP-13).
    async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let mut request: Request = request
            .build()
            .map_err(|error| SendError::Unreachable(text_of(&error)))?;
        for _ in 0..=REDIRECTS {
            let copy = request.try_clone();
            let from = request.url().clone();
            let response = self.client.execute(request).await.map_err(|error| {
                let text = text_of(&error);
                match error.is_connect() {
                    true => SendError::Unreachable(text),
                    false => SendError::Broken(text),
                }
            })?;
            let Some(target) = redirect(&from, &response)? else {
                return Ok(response);
            };
            let is_permanent = matches!(
                response.status(),
                StatusCode::MOVED_PERMANENTLY | StatusCode::PERMANENT_REDIRECT
            );
            if is_permanent && *self.url() == from {
                *self.url() = target.clone();
            }
            // Every body is in memory, so every request can be made again.
            request = copy.ok_or_else(|| SendError::Broken("the request cannot be repeated".into()))?;
            *request.url_mut() = target;
        }
        Err(SendError::Redirected(format!(
            "it redirects more than {REDIRECTS} times"
        )))
    }

    fn url(&self) -> MutexGuard<'_, Url> {
        self.url.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an answer redirects to, if it does. A message stays a message, so a POST is made again as it was.
fn redirect(from: &Url, response: &Response) -> Result<Option<Url>, SendError> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 307 | 308);
    let Some(location) = response
        .headers()
        .get(header::LOCATION)
        .filter(|_| is_redirect)
        .and_then(|location| location.to_str().ok())
    else {
        return Ok(None);
    };
    let target = from.join(location).map_err(|_| {
        SendError::Redirected(format!(
            "it answered HTTP {} with a Location that is no address",
            name_of(response.status())
        ))
    })?;
    if target.origin() != from.origin() {
        return Err(SendError::Redirected(format!(
            "it redirects to {}, which is not followed; if that is right, write that address as the url",
            target.origin().ascii_serialization()
        )));
    }
    Ok(Some(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint {
            client: Client::builder()
                .tls_backend_preconfigured(super::super::client::without_authorities())
                .build()
                .unwrap(),
            headers: HeaderMap::new(),
            url: Mutex::new(Url::parse(url).unwrap()),
            session: Mutex::default(),
        }
    }

    #[test]
    fn an_endpoint_moves_within_its_origin_only() {
        for (target, expected) in [
            ("/messages?s=1", Ok("https://a.example/messages?s=1")),
            ("m", Ok("https://a.example/x/m")),
            ("https://A.example:443/y", Ok("https://a.example/y")),
            ("http://a.example/y", Err("http://a.example")),
            ("//b.example/y", Err("https://b.example")),
            ("https://a.example:8443/y", Err("https://a.example:8443")),
            ("https://a.example@b.example/", Err("https://b.example")),
            ("http://[", Err("no address")),
        ] {
            let endpoint = endpoint("https://a.example/x/sse");
            match (endpoint.move_to(target), expected) {
                (Ok(()), Ok(url)) => assert_eq!(endpoint.url().as_str(), url),
                (Err(error), Err(word)) => assert!(error.contains(word), "{target}: {error}"),
                (got, _) => panic!("{target}: {got:?}"),
            }
        }
    }
}
