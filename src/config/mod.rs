//! The configuration: one YAML file in, one checked [`Config`] out, and a finding with file, line, column and key
//! path for everything that is wrong.

mod model;

pub use model::{
    Config, Elicitation, ProtocolEra, Remote, Sampling, Secret, ServerConfig, ServerEntry, Settings, Stdio,
    ToolsPolicy, Transport,
};

/// One finding about the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Line, from 1; 0 when the finding is about the whole file.
    pub line: usize,
    /// Column in characters, from 1; 0 likewise.
    pub column: usize,
    /// The key's path, such as `mcp_servers.github.timeout`; empty when there is none.
    pub key: String,
    /// What is wrong, why, and what to do.
    pub message: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The value was ignored or read leniently.
    Warning,
    /// The entry, or the file, cannot be used.
    Error,
}
