//! A finding about the configuration.

use std::path::Path;

/// One finding: where, how bad, what, why, and what to do.
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

impl Diagnostic {
    /// `file:line:column: severity: key: message`, without the parts that there are not.
    pub fn render(&self, file: &Path) -> String {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let key = if self.key.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.key)
        };
        match self.line {
            0 => format!("{}: {severity}: {key}{}", file.display(), self.message),
            line => format!(
                "{}:{line}:{}: {severity}: {key}{}",
                file.display(),
                self.column,
                self.message
            ),
        }
    }
}
