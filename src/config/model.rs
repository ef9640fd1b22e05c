//! What a configuration is once it has been read: checked values with their types, nothing of YAML.

use std::{fmt, path::PathBuf, time::Duration};

use indexmap::IndexMap;
use url::Url;

use crate::name::ServerName;

/// A whole configuration: the daemon's own settings and every entry of `mcp_servers`, in file order.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it was read from (also when that file does not exist).
    pub path: PathBuf,
    /// The top-level key `hermesd`.
    pub settings: Settings,
    /// The entries of `mcp_servers`, in the order of the file. An entry with an error is here too, so that
    /// `status` can show it.
    pub servers: IndexMap<ServerName, ServerEntry>,
    /// Every finding, in the order of the file.
    pub diagnostics: Vec<super::Diagnostic>,
}

/// One entry of `mcp_servers`.
#[derive(Debug, Clone)]
pub enum ServerEntry {
    /// A usable entry.
    Valid(Box<ServerConfig>),
    /// An entry that cannot be used; the text says why, with file, line, column and key path.
    Invalid {
        /// The first error of the entry.
        error: String,
    },
}

/// One usable server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// The key under `mcp_servers`.
    pub name: ServerName,
    /// `enabled`; false means never started.
    pub enabled: bool,
    /// How to reach it.
    pub transport: Transport,
    /// `timeout`: how long a call may go without an answer or progress. Default 120 s.
    pub timeout: Duration,
    /// `max_total_timeout`: how long a call may take whatever its progress. Default 30 min, never under `timeout`.
    pub max_total_timeout: Duration,
    /// `connect_timeout`: connect, initialize and discovery together. Default 60 s.
    pub connect_timeout: Duration,
    /// `tools`: which tools are offered.
    pub tools: ToolsPolicy,
    /// `supports_parallel_tool_calls`: told to the agent as `parallel_safe`. Default false.
    pub parallel_safe: bool,
    /// `max_concurrency`: calls that may run at the same time; others wait for their turn. `None` is no limit, or one
    /// where the entry says `supports_parallel_tool_calls: false` (TOOL-17).
    pub max_concurrency: Option<usize>,
    /// `max_result_bytes`: a longer result line is an error. `None` is the daemon's message limit.
    pub max_result_bytes: Option<usize>,
    /// `sampling`, as written: validated, used by a later layer.
    pub sampling: Sampling,
    /// `elicitation`.
    pub elicitation: Elicitation,
    /// `keepalive_interval`: a ping each time the connection was silent this long; never under 5 s. When not set it
    /// is 180 s for remote servers and off for stdio.
    pub keepalive_interval: Option<Duration>,
    /// `idle_timeout_seconds`, at the top level or under `lifecycle`; `None` is off.
    pub idle_timeout: Option<Duration>,
    /// `max_lifetime_seconds`, likewise.
    pub max_lifetime: Option<Duration>,
    /// `protocol`.
    pub protocol: ProtocolEra,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process that speaks on its stdin and stdout.
    Stdio(Stdio),
    /// A remote endpoint.
    Remote(Remote),
}

/// A stdio server's process.
#[derive(Debug, Clone, PartialEq)]
pub struct Stdio {
    /// `command`, trimmed, interpolated, with a leading `~` expanded.
    pub command: String,
    /// `args`.
    pub args: Vec<String>,
    /// `env`, in file order.
    pub env: IndexMap<String, Secret>,
    /// `cwd`, with a leading `~` expanded; `None` is the user's home.
    pub cwd: Option<PathBuf>,
    /// `env_passthrough`: further variables of the daemon's own environment that the child gets.
    pub env_passthrough: Vec<String>,
}

/// A remote server.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// `url`: http or https with a host.
    pub url: Url,
    /// `headers`: names and values that HTTP allows, none that the protocol itself needs.
    pub headers: IndexMap<String, Secret>,
    /// `transport: sse` (true) or Streamable HTTP (false).
    pub sse: bool,
    /// `ssl_verify`.
    pub verify: Verify,
    /// `client_cert` and `client_key`.
    pub identity: Option<ClientIdentity>,
}

/// `ssl_verify`: how a server's certificate is checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Verify {
    /// Against the authorities that the system trusts.
    #[default]
    System,
    /// Against those of a PEM file, and no others.
    File(PathBuf),
    /// Not at all.
    Off,
}

/// The certificate with which the daemon shows itself to a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    /// A PEM file with the certificate and those above it.
    pub cert: PathBuf,
    /// A PEM file with the key; `None` if it is in the first file.
    pub key: Option<PathBuf>,
}

/// `tools` of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsPolicy {
    /// `include`: patterns over original names; wins over `exclude`. `None` when not set; an empty list offers no
    /// native tool at all.
    pub include: Option<Vec<String>>,
    /// `exclude`: patterns over original names.
    pub exclude: Vec<String>,
    /// Whether `list_resources` and `read_resource` may be offered.
    pub resources: bool,
    /// Whether `list_prompts` and `get_prompt` may be offered.
    pub prompts: bool,
}

impl Default for ToolsPolicy {
    fn default() -> Self {
        Self {
            include: None,
            exclude: Vec::new(),
            resources: true,
            prompts: true,
        }
    }
}

/// `sampling` of one server; defaults as in Hermes.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are the configuration's own keys")]
pub struct Sampling {
    pub enabled: bool,
    pub model: Option<String>,
    pub max_tokens_cap: u64,
    pub timeout: Duration,
    pub max_rpm: u32,
    pub allowed_models: Vec<String>,
    pub max_tool_rounds: u32,
    pub log_level: String,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            enabled: true,
            model: None,
            max_tokens_cap: 4096,
            timeout: Duration::from_secs(30),
            max_rpm: 10,
            allowed_models: Vec::new(),
            max_tool_rounds: 5,
            log_level: "info".into(),
        }
    }
}

/// `elicitation` of one server.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are the configuration's own keys")]
pub struct Elicitation {
    pub enabled: bool,
    pub timeout: Duration,
}

impl Default for Elicitation {
    fn default() -> Self {
        Self {
            enabled: true,
            timeout: Duration::from_secs(300),
        }
    }
}

/// `protocol`: which era of MCP to speak to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtocolEra {
    /// Find out.
    #[default]
    Auto,
    /// 2026-07-28 and later.
    Stateless,
    /// The `initialize` handshake, up to 2025-11-25.
    Legacy,
}

/// The daemon's own settings: the top-level key `hermesd`. All optional.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `socket`.
    pub socket: Option<PathBuf>,
    /// `log_level`: a `tracing` filter; `info` when not set.
    pub log_level: Option<String>,
    /// `tool_name_format`. Default `mcp_{server}_{tool}`.
    pub tool_name_format: String,
    /// `watch`: reload when the file is saved. Default true.
    pub watch: bool,
    /// `drain_timeout`: how long calls in flight may go on at a stop. Default 10 s.
    pub drain_timeout: Duration,
    /// `limits`.
    pub limits: crate::wire::Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            socket: None,
            log_level: None,
            tool_name_format: "mcp_{server}_{tool}".into(),
            watch: true,
            drain_timeout: Duration::from_secs(10),
            limits: crate::wire::Limits::default(),
        }
    }
}

/// A value that must not appear in any output. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself. Only for handing it to the process or server that it was configured for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
