//! A connection on which the handshake is done: requests go in, raw answers come out.

use std::sync::{Arc, atomic::Ordering};

use rmcp::{
    RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::{ClientInitializeError, RunningService, serve_client_with_ct},
    transport::Transport,
};
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    channel::Channel,
    era::{Era, STATELESS_VERSION},
    link::Link,
    param_headers::ParamHeaders,
    request::{Lost, Params, PendingRequest},
    tools::listed_tools,
    view::ListedTool,
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
    /// `tools.listChanged`.
    pub tells_of_changes: bool,
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
    #[serde(rename = "_meta")]
    meta: Option<DeclaredMeta>,
}

/// Where a stateless server has its name.
#[derive(Default, Deserialize)]
struct DeclaredMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<Identity>,
}

#[derive(Default, Deserialize)]
struct Identity {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tools {
    #[serde(default)]
    list_changed: bool,
}

#[derive(Default, Deserialize)]
struct DeclaredCapabilities {
    tools: Option<Tools>,
    resources: Option<serde::de::IgnoredAny>,
    prompts: Option<serde::de::IgnoredAny>,
    completions: Option<serde::de::IgnoredAny>,
    logging: Option<serde::de::IgnoredAny>,
}

/// A live connection. Clones share it.
#[derive(Clone)]
pub struct Connection {
    pub(super) channel: Channel,
    pub(super) link: Arc<Link>,
}

/// What runs a connection. Ends when the connection does.
pub(super) enum Running {
    /// rmcp.
    Service(Box<RunningService<RoleClient, ClientConfig>>),
    /// A task that reads, as there is nothing else to do without a handshake.
    Reader(JoinHandle<()>),
}

impl Running {
    /// Waits for the end.
    pub(super) async fn waiting(self) {
        match self {
            // How the tasks ended is of no interest: the link says why.
            Self::Service(service) => drop(service.waiting().await),
            Self::Reader(reader) => drop(reader.await),
        }
    }
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
        Ok((Self { channel, link }, Running::Service(Box::new(running))))
    }

    /// Whether every request stands for itself.
    pub fn is_stateless(&self) -> bool {
        self.channel.era() == Era::Stateless
    }

    /// Takes what the server's tools want to see in headers; leaves out those that cannot be called.
    pub(super) fn keep_param_headers(&self, tools: &mut Vec<ListedTool>, warnings: &mut Vec<String>) {
        if self.channel.has_headers() {
            self.channel.set_param_headers(ParamHeaders::of(tools, warnings));
        }
    }

    /// Reads the tools again only for what they want to see in headers (HTTP-04). A list that cannot be read changes
    /// nothing.
    pub async fn renew_headers(&self, limits: &Limits) {
        if let Ok(listed) = self.list("tools/list", "tools", limits).await {
            let (mut tools, mut warnings) = listed_tools(&listed.items);
            self.keep_param_headers(&mut tools, &mut warnings);
            // The list itself is the attempt's matter.
            self.link.tools_changed.notify_one();
        }
    }

    /// Whether a version that a server chose is one with a handshake that we know (LIFE-05).
    pub(super) fn speaks(version: &str) -> bool {
        Self::handshake_versions().any(|known| known == version)
    }

    /// The versions for a message.
    pub(super) fn versions() -> String {
        Self::handshake_versions().collect::<Vec<_>>().join(", ")
    }

    pub(super) fn handshake_versions() -> impl Iterator<Item = &'static str> {
        ProtocolVersion::KNOWN_VERSIONS
            .iter()
            .filter(|version| version.has_initialize())
            .map(ProtocolVersion::as_str)
    }

    /// The server's answer to `initialize`.
    pub fn server_info(&self) -> ServerInfo {
        let declared = self
            .link
            .initialize_result()
            .and_then(|raw| serde_json::from_str::<Declared>(raw.get()).ok())
            .unwrap_or_default();
        let identity = declared
            .server_info
            .or(declared.meta.and_then(|meta| meta.server_info))
            .unwrap_or_default();
        let has = declared.capabilities.unwrap_or_default();
        ServerInfo {
            protocol_version: match self.channel.era() {
                Era::Handshake => declared.protocol_version,
                Era::Stateless => STATELESS_VERSION.to_owned(),
            },
            name: identity.name,
            version: identity.version,
            instructions: declared.instructions,
            capabilities: Capabilities {
                tells_of_changes: has.tools.as_ref().is_some_and(|tools| tools.list_changed),
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

    /// Asks whether the server lives. Any answer says so, an error too: `ping` is optional in practice (PING-02).
    ///
    /// # Errors
    /// [`Lost`] when the connection is gone.
    pub(super) async fn ping(&self) -> Result<(), Lost> {
        let method = match self.channel.era() {
            Era::Handshake => "ping",
            // There is no ping any more; this every server has to know.
            Era::Stateless => "server/discover",
        };
        self.request(method, &Params::default())?.answer().await.map(drop)
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
