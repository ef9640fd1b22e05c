//! From a path to a [`Config`].

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;

use super::{
    diagnostic::{Diagnostic, Severity},
    model::{Config, ServerConfig, ServerEntry, Settings},
    reader::Reader,
    scalar::Scalar,
    server, settings,
    variables::Variables,
    yaml::{self, Field, Kind, Node, YamlError},
};
use crate::{environment::Environment, name::ServerName};

/// A configuration is a page or two; more is another file by mistake.
const LARGEST: u64 = 1 << 20;
/// Other keys under which people write their servers.
const MISNAMED: [&str; 4] = ["mcp", "servers", "mcpServers", "mcp-servers"];

/// Why a file is no configuration at all. Exit code 78, and error 1009.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{}: the configuration cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason, or ours.
        reason: String,
    },
    /// It is not YAML.
    #[error("{}:{line}:{column}: not valid YAML: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// The configuration file: `--config`, else `$HERMES_HOME/config.yaml`, else `~/.hermes/config.yaml`.
pub fn locate(explicit: Option<&Path>, environment: &Environment) -> PathBuf {
    match explicit {
        Some(path) => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        None => environment.hermes_home().dir().join("config.yaml"),
    }
}

/// Reads a configuration. A file that isn't there is one without servers.
///
/// # Errors
/// Only when the file cannot be read or is not YAML. Whatever is wrong inside is a [`Diagnostic`].
pub fn load(path: &Path, environment: &Environment) -> Result<Config, ConfigError> {
    let variables = Variables::read(environment, &environment.hermes_home().dir().join(".env"));
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = "No MCP servers configured: the file does not exist; make it with your servers under the key \
                           'mcp_servers', or name another with --config (see `hermesd-mcp demo`)";
            return Ok(empty(path, vec![about_the_file(missing.into())]));
        }
        Err(error) => {
            return Err(ConfigError::Unreadable {
                path: path.to_path_buf(),
                reason: error.to_string(),
            });
        }
    };
    parse(&text, path, &variables, environment)
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("it is a folder; name the file in it"));
    }
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        io::Error::other(format!(
            "it is not UTF-8, at byte {}",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Reads a configuration from its text.
///
/// # Errors
/// When the text is not YAML.
pub fn parse(
    text: &str,
    path: &Path,
    variables: &Variables,
    environment: &Environment,
) -> Result<Config, ConfigError> {
    let root = yaml::load(text).map_err(|error| syntax(path, text, error))?;
    let mut reader = Reader::new(variables);
    let mut oddities = Vec::new();
    let fields = root
        .as_ref()
        .and_then(|root| root.fields(&mut oddities))
        .unwrap_or_default();
    if let Some(root) = &root
        && !matches!(root.kind, Kind::Mapping(_))
        && !root.is_null()
    {
        reader.error(
            root,
            "",
            format!("the file holds {} and not keys with values", root.what()),
        );
    }
    let field = |name: &str| fields.iter().find(|field| field.name == name);
    // Of repeated keys at the top only ours matter.
    for oddity in oddities.iter().filter(|it| {
        ["mcp_servers", "hermesd"]
            .iter()
            .any(|key| it.message.contains(&format!("'{key}'")))
    }) {
        reader.warn(
            &Node {
                kind: Kind::Merge,
                mark: oddity.mark,
            },
            "",
            oddity.message.clone(),
        );
    }
    let settings = field("hermesd")
        .map(|field| settings::read(&mut reader, field.value, environment))
        .unwrap_or_default();
    let mut servers = IndexMap::new();
    match field("mcp_servers") {
        Some(field) => read_servers(&mut reader, field, path, environment, &mut servers),
        None => misnamed(&mut reader, &fields),
    }
    let is_safe_mode = is_truthy(environment.get("HERMES_SAFE_MODE"));
    if is_safe_mode {
        servers.clear();
    }
    let mut diagnostics = reader.finish();
    if is_safe_mode {
        diagnostics.insert(
            0,
            about_the_file("HERMES_SAFE_MODE is set, so no MCP server is started".into()),
        );
    } else if servers.is_empty() {
        let message = "No MCP servers configured: add them under the key 'mcp_servers', each with a name and a 'command' or a 'url'";
        diagnostics.push(about_the_file(message.into()));
    }
    Ok(Config {
        path: path.to_path_buf(),
        settings,
        servers,
        diagnostics,
    })
}

fn empty(path: &Path, diagnostics: Vec<Diagnostic>) -> Config {
    Config {
        path: path.to_path_buf(),
        settings: Settings::default(),
        servers: IndexMap::new(),
        diagnostics,
    }
}

fn about_the_file(message: String) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        line: 0,
        column: 0,
        key: String::new(),
        message,
    }
}

fn is_truthy(value: Option<&str>) -> bool {
    value.is_some_and(|value| matches!(value.trim().to_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// The parser's words, and what to do about the commonest mistakes.
fn syntax(path: &Path, text: &str, error: YamlError) -> ConfigError {
    let line = text
        .lines()
        .nth(error.mark.line.saturating_sub(1))
        .unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    let hint = match indent.contains('\t') {
        true => "; the line is indented with a tab, and YAML takes only spaces",
        false => "",
    };
    ConfigError::Syntax {
        path: path.to_path_buf(),
        line: error.mark.line,
        column: error.mark.column,
        reason: format!("{}{hint}", crate::text::one_line(&error.message)),
    }
}

fn read_servers(
    reader: &mut Reader<'_>,
    field: &Field<'_>,
    file: &Path,
    environment: &Environment,
    servers: &mut IndexMap<ServerName, ServerEntry>,
) {
    for field in reader.mapping(field.value, "mcp_servers").unwrap_or_default() {
        let path = format!("mcp_servers.{}", field.name);
        let mark = reader.count();
        if !matches!(&field.key.kind, Kind::Scalar(Scalar::Text, _)) {
            let what = field.key.what();
            reader.warn(
                field.key,
                &path,
                format!("the name is {what} in YAML and is taken as it is written; put it in quotes"),
            );
        }
        let name = ServerName::new(field.name);
        if field.name.trim().is_empty() {
            reader.error(field.key, &path, "a server needs a name");
        }
        let config = match field.value.is_null() {
            true => {
                reader.error(
                    field.key,
                    &path,
                    "the entry is empty; it needs a 'command' or a 'url'",
                );
                None
            }
            false => server::read(reader, &name, field.value, &path, environment),
        };
        let entry = match (config, reader.first_error_since(mark)) {
            (Some(config), None) => ServerEntry::Valid(Box::new(config)),
            (_, Some(error)) => ServerEntry::Invalid {
                error: error.render(file),
            },
            // Not reached: what cannot be read has an error.
            (None, None) => ServerEntry::Invalid {
                error: "the entry cannot be read".into(),
            },
        };
        servers.insert(name, entry);
    }
}

/// Servers under a key that nobody reads.
fn misnamed(reader: &mut Reader<'_>, fields: &[Field<'_>]) {
    for field in fields.iter().filter(|field| MISNAMED.contains(&field.name)) {
        let entries = field.value.fields(&mut Vec::new()).unwrap_or_default();
        let looks_like_servers = entries.iter().any(|entry| {
            let keys = entry.value.fields(&mut Vec::new()).unwrap_or_default();
            keys.iter().any(|key| matches!(key.name, "command" | "url"))
        });
        if looks_like_servers {
            reader.warn(
                field.key,
                field.name,
                "servers are read from 'mcp_servers'; rename this key",
            );
        }
    }
}

impl Config {
    /// Every configured value that must not appear in any output.
    pub fn secrets(&self) -> Vec<&str> {
        self.valid_servers().flat_map(ServerConfig::secrets).collect()
    }

    /// The usable entries, enabled or not.
    pub fn valid_servers(&self) -> impl Iterator<Item = &ServerConfig> {
        self.servers.values().filter_map(|entry| match entry {
            ServerEntry::Valid(server) => Some(&**server),
            ServerEntry::Invalid { .. } => None,
        })
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }
}

#[cfg(test)]
mod tests;
