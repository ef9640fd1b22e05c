//! A connection on which the handshake is done: requests go in, raw answers come out.

use std::sync::{Arc, atomic::Ordering};

use rmcp::{
    RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::{ClientInitializeError, RunningService, serve_client_with_ct},
    transport::Transport,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{
    channel::Channel,
    link::Link,
    request::{Lost, Params, PendingRequest, Reply},
};
use crate::wire::Limits;

/// What a server said about itself when it answered `initialize`.
#[derive(Debug, Clone, Default)]
pub struct ServerInfo {
    /// The protocol version that both sides speak.
    pub protocol_version: String,
    /// `serverInfo.name`. Display only (LIFE-13).
    pub name: String,
    /// `serverInfo.version`. Display only.
    pub version: String,
    /// `instructions` for the model.
    pub instructions: Option<String>,
    /// Which capabilities it declared.
    pub capabilities: Capabilities,
}

/// The capabilities that decide what a server may be asked (LIFE-06).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub struct Capabilities {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
    pub completions: bool,
    pub logging: bool,
}

/// The answer to `initialize`, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declared {
    #[serde(default)]
    protocol_version: String,
    capabilities: Option<DeclaredCapabilities>,
    server_info: Option<Identity>,
    instructions: Option<String>,
}

#[derive(Default, Deserialize)]
struct Identity {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Default, Deserialize)]
struct DeclaredCapabilities {
    tools: Option<serde::de::IgnoredAny>,
    resources: Option<serde::de::IgnoredAny>,
    prompts: Option<serde::de::IgnoredAny>,
    completions: Option<serde::de::IgnoredAny>,
    logging: Option<serde::de::IgnoredAny>,
}

/// A live connection. Clones share it.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    link: Arc<Link>,
}

/// The task of rmcp that runs a connection. Ends when the connection does.
pub(super) type Running = RunningService<RoleClient, ClientConfig>;

/// Why a list could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The connection is gone.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The server answered with an error.
    #[error("the server answered {method} with an error: {error}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The server's error, as JSON text.
        error: String,
    },
    /// The server's answer has not the shape of a list.
    #[error("the server's answer to {method} is not a list: {reason}")]
    Shape {
        /// The method.
        method: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// A list that was read to its end or to a limit.
#[derive(Debug, Default)]
pub struct Listed {
    /// The items, each in the server's own bytes.
    pub items: Vec<Box<RawValue>>,
    /// Why the list was cut, if it was (PAGE-02).
    pub truncated: Option<String>,
}

impl Connection {
    /// Does the handshake; requests take `channel` past rmcp. It has no time limit of its own.
    ///
    /// # Errors
    /// rmcp's reason.
    pub(super) async fn open(
        transport: impl Transport<RoleClient> + 'static,
        channel: Channel,
        link: Arc<Link>,
        cancel: CancellationToken,
    ) -> Result<(Self, Running), ClientInitializeError> {
        let mut config = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("hermesd-mcp", env!("CARGO_PKG_VERSION")),
        );
        // rmcp's own default has no handshake at all.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        let running = serve_client_with_ct(config, transport, cancel).await?;
        Ok((Self { channel, link }, running))
    }

    /// Whether a version that a server chose is one with a handshake that we know (LIFE-05).
    pub(super) fn speaks(version: &str) -> bool {
        handshake_versions().any(|known| known == version)
    }

    /// The versions for a message.
    pub(super) fn versions() -> String {
        handshake_versions().collect::<Vec<_>>().join(", ")
    }

    /// The server's answer to `initialize`.
    pub fn server_info(&self) -> ServerInfo {
        let declared = self
            .link
            .initialize_result()
            .and_then(|raw| serde_json::from_str::<Declared>(raw.get()).ok())
            .unwrap_or_default();
        let identity = declared.server_info.unwrap_or_default();
        let has = declared.capabilities.unwrap_or_default();
        ServerInfo {
            protocol_version: declared.protocol_version,
            name: identity.name,
            version: identity.version,
            instructions: declared.instructions,
            capabilities: Capabilities {
                tools: has.tools.is_some(),
                resources: has.resources.is_some(),
                prompts: has.prompts.is_some(),
                completions: has.completions.is_some(),
                logging: has.logging.is_some(),
            },
        }
    }

    /// Queues a request; waiting for its answer sends it.
    ///
    /// # Errors
    /// [`Lost::NotSent`] when the connection is gone already.
    pub fn request(&self, method: &'static str, params: &Params) -> Result<PendingRequest, Lost> {
        self.channel.request(method, params)
    }

    /// Reads a whole list: every page, up to the limits. A repeated cursor ends it too (PAGE-01, PAGE-02).
    ///
    /// # Errors
    /// When the first page cannot be read. A later page that fails cuts the list.
    pub async fn list(&self, method: &'static str, key: &str, limits: &Limits) -> Result<Listed, ListError> {
        let mut listed = Listed::default();
        let mut cursors: Vec<String> = Vec::new();
        let mut bytes = 0;
        let mut begun_anew = false;
        loop {
            let members = cursors
                .last()
                .map(|cursor| format!("\"cursor\":{cursor}"))
                .unwrap_or_default();
            let mut request = self.request(
                method,
                &Params {
                    members,
                    ..Params::default()
                },
            )?;
            let page = match request.answer().await? {
                Reply::Result(raw) => {
                    bytes += raw.get().len();
                    page_of(method, key, &raw)
                }
                // PAGE-04: the cursor is not valid any more.
                Reply::Error(raw) if !cursors.is_empty() && !begun_anew && is_invalid_params(&raw) => {
                    (listed, cursors, bytes, begun_anew) = (Listed::default(), Vec::new(), 0, true);
                    continue;
                }
                Reply::Error(raw) => Err(ListError::Refused {
                    method,
                    error: raw.get().to_owned(),
                }),
            };
            let page = match page {
                Ok(page) => page,
                Err(error) if cursors.is_empty() => return Err(error),
                Err(error) => {
                    listed.truncated = Some(error.to_string());
                    return Ok(listed);
                }
            };
            if bytes > limits.list_bytes && !cursors.is_empty() {
                listed.truncated = Some(format!(
                    "it has more than {} bytes (limits.list_bytes)",
                    limits.list_bytes
                ));
                return Ok(listed);
            }
            let room = limits.list_items.saturating_sub(listed.items.len());
            if page.items.len() > room {
                listed.items.extend(page.items.into_iter().take(room));
                listed.truncated = Some(format!(
                    "it has more than {} items (limits.list_items)",
                    limits.list_items
                ));
                return Ok(listed);
            }
            listed.items.extend(page.items);
            let Some(cursor) = page.next else {
                return Ok(listed);
            };
            if cursors.contains(&cursor) {
                listed.truncated = Some("the server repeats a cursor".into());
                return Ok(listed);
            }
            cursors.push(cursor);
            if cursors.len() >= limits.list_pages {
                listed.truncated = Some(format!(
                    "it has more than {} pages (limits.list_pages)",
                    limits.list_pages
                ));
                return Ok(listed);
            }
        }
    }

    /// Asks whether the server lives. Any answer says so, an error too: `ping` is optional in practice (PING-02).
    ///
    /// # Errors
    /// [`Lost`] when the connection is gone.
    pub(super) async fn ping(&self) -> Result<(), Lost> {
        self.request("ping", &Params::default())?.answer().await.map(drop)
    }

    /// Since when nobody uses the connection; `None` while a request runs.
    pub(super) fn unused_since(&self) -> Option<tokio::time::Instant> {
        self.channel.unused_since()
    }

    /// Ends the connection if nobody uses it: no request is lost then, later ones are refused as never sent.
    pub(super) fn close_if_unused(&self) -> bool {
        self.channel.close_if_unused()
    }

    /// Whether requests are still taken: one of them may be lost and the others not.
    pub fn is_open(&self) -> bool {
        self.channel.is_open()
    }

    /// Whether it is the very same connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.link, &other.link)
    }

    /// Resolves when the server says that its tools changed.
    pub(super) async fn tools_changed(&self) {
        self.link.tools_changed.notified().await;
    }

    /// The counters of this connection: name and value.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("noise_lines", read(&self.link.noise)),
            ("refused_requests", read(&self.link.refused)),
            ("malformed_messages", read(&self.link.malformed)),
            ("unclaimed_answers", read(&self.link.unclaimed)),
            ("dropped_progress", read(&self.link.dropped_progress)),
        ]
    }
}

fn handshake_versions() -> impl Iterator<Item = &'static str> {
    ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .filter(|version| version.has_initialize())
        .map(ProtocolVersion::as_str)
}

fn is_invalid_params(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    serde_json::from_str::<Code>(error.get()).is_ok_and(|error| error.code == -32602)
}

/// One page: its items, and the JSON text of the cursor to the next.
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

fn page_of(method: &'static str, key: &str, raw: &RawValue) -> Result<Page, ListError> {
    let shape = |reason: String| ListError::Shape { method, reason };
    let members: std::collections::HashMap<String, &RawValue> =
        serde_json::from_str(raw.get()).map_err(|error| shape(error.to_string()))?;
    let items = members
        .get(key)
        .ok_or_else(|| shape(format!("it has no '{key}'")))?;
    let items = serde_json::from_str(items.get()).map_err(|error| shape(format!("'{key}': {error}")))?;
    // An empty string is a cursor, only null or nothing ends the list; what isn't a string is no cursor.
    let next = members
        .get("nextCursor")
        .map(|cursor| cursor.get())
        .filter(|cursor| cursor.starts_with('"'));
    Ok(Page {
        items,
        next: next.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_leniently_and_cursors_strictly() {
        let page = |json: &str| {
            page_of(
                "tools/list",
                "tools",
                &RawValue::from_string(json.into()).unwrap(),
            )
        };
        let good = page(r#"{"tools":[{"name":"a"},1],"nextCursor":"","x":1}"#).unwrap();
        assert_eq!(good.items.len(), 2);
        assert_eq!(
            good.next.as_deref(),
            Some("\"\""),
            "an empty string is a cursor (PAGE-01)"
        );
        for end in [
            r#"{"tools":[]}"#,
            r#"{"tools":[],"nextCursor":null}"#,
            r#"{"tools":[],"nextCursor":5}"#,
        ] {
            assert!(page(end).unwrap().next.is_none(), "{end}");
        }
        for bad in ["[]", "{}", r#"{"tools":{}}"#] {
            assert!(page(bad).is_err(), "{bad}");
        }
    }
}
