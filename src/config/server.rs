//! One entry of `mcp_servers`.

use std::time::Duration;

use indexmap::IndexMap;

use super::{
    interactive,
    model::{ProtocolEra, Secret, ServerConfig, Stdio, ToolsPolicy, Transport},
    reader::Reader,
    remote::remote,
    scalar::Scalar,
    yaml::{Field, Kind, Node},
};
use crate::{environment::Environment, name::ServerName};

/// The documented default of Hermes (0.19.0 has 300).
const TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_TOTAL_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How often a remote server is asked whether it is there, unless the entry says: its connections end in silence.
const REMOTE_KEEPALIVE: Duration = Duration::from_secs(180);
const SHORTEST_KEEPALIVE: Duration = Duration::from_secs(5);

/// Keys that only servers with a `url` have.
const REMOTE_OPTIONS: [&str; 8] = [
    "auth",
    "oauth",
    "ssl_verify",
    "client_cert",
    "client_key",
    "skip_preflight",
    "identity_header",
    "strict_redirect_headers",
];

/// Every key that any version of Hermes reads, and ours.
const KNOWN: [&str; 33] = [
    "command",
    "args",
    "env",
    "cwd",
    "env_passthrough",
    "url",
    "headers",
    "transport",
    "timeout",
    "connect_timeout",
    "enabled",
    "tools",
    "sampling",
    "elicitation",
    "auth",
    "oauth",
    "ssl_verify",
    "client_cert",
    "client_key",
    "keepalive_interval",
    "supports_parallel_tool_calls",
    "idle_timeout_seconds",
    "max_lifetime_seconds",
    "lifecycle",
    "skip_preflight",
    "identity_header",
    "strict_redirect_headers",
    "lazy",
    "trust",
    "protocol",
    "max_result_bytes",
    "max_concurrency",
    "max_total_timeout",
];

/// Keys of other programs that people bring along.
const HINTS: [(&str, &str); 8] = [
    (
        "type",
        "the kind follows from 'command' or 'url'; for the old SSE transport write 'transport: sse'",
    ),
    ("disabled", "write 'enabled: false'"),
    ("timeoutMs", "write 'timeout' in seconds"),
    ("environment", "write 'env'"),
    ("serverUrl", "write 'url'"),
    ("working_directory", "write 'cwd'"),
    ("include", "write it under 'tools'"),
    ("exclude", "write it under 'tools'"),
];

/// Names whose values are no secrets, so that messages stay readable.
const PLAIN_VARIABLES: [&str; 9] = [
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "SHELL", "TERM", "TMPDIR", "NODE_ENV",
];

/// Reads one entry. Errors are in the reader; the value is what could be read.
pub(super) fn read(
    reader: &mut Reader<'_>,
    name: &ServerName,
    node: &Node,
    path: &str,
    environment: &Environment,
) -> Option<ServerConfig> {
    let fields = reader.mapping(node, path)?;
    reader.unknown(&fields, path, &KNOWN, &HINTS);
    let entry = Entry {
        fields: &fields,
        path,
    };
    let transport = transport(reader, &entry, node, environment);
    let timeout = entry.seconds(reader, "timeout", TIMEOUT);
    let parallel = entry
        .get("supports_parallel_tool_calls")
        .map(|(field, key)| reader.boolean(field.value, &key, false));
    let config = ServerConfig {
        name: name.clone(),
        enabled: entry.boolean(reader, "enabled", true),
        timeout,
        max_total_timeout: entry
            .seconds(reader, "max_total_timeout", MAX_TOTAL_TIMEOUT)
            .max(timeout),
        connect_timeout: entry.seconds(reader, "connect_timeout", CONNECT_TIMEOUT),
        tools: entry
            .get("tools")
            .map(|(field, key)| tools(reader, field.value, &key))
            .unwrap_or_default(),
        parallel_safe: parallel.unwrap_or(false),
        // A server that is said not to take calls side by side gets them one by one. Said, not just not said: by default
        // nothing is known, and calls are not held up.
        max_concurrency: entry
            .whole(reader, "max_concurrency", "calls")
            .or((parallel == Some(false)).then_some(1)),
        max_result_bytes: entry.whole(reader, "max_result_bytes", "bytes"),
        sampling: entry
            .get("sampling")
            .map(|(field, key)| interactive::sampling(reader, field.value, &key))
            .unwrap_or_default(),
        elicitation: entry
            .get("elicitation")
            .map(|(field, key)| interactive::elicitation(reader, field.value, &key))
            .unwrap_or_default(),
        keepalive_interval: keepalive(reader, &entry)
            .or(matches!(transport, Some(Transport::Remote(_))).then_some(REMOTE_KEEPALIVE)),
        idle_timeout: lifecycle(reader, &entry, "idle_timeout_seconds"),
        max_lifetime: lifecycle(reader, &entry, "max_lifetime_seconds"),
        protocol: entry.get("protocol").map_or(ProtocolEra::Auto, |(field, key)| {
            let eras = [
                ("auto", ProtocolEra::Auto),
                ("stateless", ProtocolEra::Stateless),
                ("legacy", ProtocolEra::Legacy),
            ];
            reader.word(field.value, &key, &eras, ProtocolEra::Auto)
        }),
        transport: transport?,
    };
    Some(config)
}

/// The fields of a mapping and its path.
pub(super) struct Entry<'a> {
    pub(super) fields: &'a [Field<'a>],
    pub(super) path: &'a str,
}

impl<'a> Entry<'a> {
    /// A field that is there and not null, with its whole path.
    pub(super) fn get(&self, name: &str) -> Option<(&'a Field<'a>, String)> {
        let field = self
            .fields
            .iter()
            .find(|field| field.name == name && !field.value.is_null())?;
        Some((field, format!("{}.{name}", self.path)))
    }

    pub(super) fn boolean(&self, reader: &mut Reader<'_>, name: &str, default: bool) -> bool {
        self.get(name)
            .map_or(default, |(field, key)| reader.boolean(field.value, &key, default))
    }

    /// A whole number of at least 1.
    fn whole(&self, reader: &mut Reader<'_>, name: &str, unit: &str) -> Option<usize> {
        let (field, key) = self.get(name)?;
        let number = reader.whole(field.value, &key, unit, 1)?;
        usize::try_from(number).ok()
    }

    pub(super) fn seconds(&self, reader: &mut Reader<'_>, name: &str, default: Duration) -> Duration {
        self.get(name)
            .and_then(|(field, key)| reader.seconds(field.value, &key))
            .unwrap_or(default)
    }
}

fn transport(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    node: &Node,
    environment: &Environment,
) -> Option<Transport> {
    match (entry.get("command"), entry.get("url")) {
        (Some(_), Some((url, key))) => {
            reader.error(
                url.value,
                &key,
                "the entry has both 'command' and 'url'; remove one of them",
            );
            None
        }
        (None, None) => {
            reader.error(
                node,
                entry.path,
                "the entry has neither 'command' (a program to start) nor 'url' (a remote server)",
            );
            None
        }
        (Some((command, key)), None) => {
            stdio(reader, entry, command.value, &key, environment).map(Transport::Stdio)
        }
        (None, Some((url, key))) => {
            remote(reader, entry, url.value, &key, environment).map(Transport::Remote)
        }
    }
}

fn stdio(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    command: &Node,
    key: &str,
    environment: &Environment,
) -> Option<Stdio> {
    if matches!(command.kind, Kind::Sequence(_)) {
        reader.error(
            command,
            key,
            "expected text, found a list; write the program here and the rest under 'args'",
        );
        return None;
    }
    let text = reader.text(command, key)?;
    let text = text.trim();
    if text.is_empty() {
        reader.error(command, key, "the command is empty");
        return None;
    }
    if let Some((program, _)) = text.split_once(char::is_whitespace)
        && !program.contains(['/', '\\'])
    {
        reader.warn(
            command,
            key,
            "the command has spaces in it and is not split; write the program here and the rest under 'args'",
        );
    }
    for name in ["headers", "transport"].iter().chain(&REMOTE_OPTIONS) {
        if let Some((field, key)) = entry.get(name) {
            reader.warn(field.key, &key, "it has no effect on a server with a 'command'");
        }
    }
    Some(Stdio {
        command: environment.expand_tilde(text).to_string_lossy().into_owned(),
        args: entry
            .get("args")
            .map(|(field, key)| args(reader, field.value, &key))
            .unwrap_or_default(),
        env: entry
            .get("env")
            .map(|(field, key)| secrets(reader, field.value, &key))
            .unwrap_or_default(),
        cwd: entry
            .get("cwd")
            .and_then(|(field, key)| reader.text(field.value, &key))
            .map(|text| environment.home_dir().join(environment.expand_tilde(&text))),
        env_passthrough: entry
            .get("env_passthrough")
            .and_then(|(field, key)| reader.names(field.value, &key))
            .unwrap_or_default(),
    })
}

/// A list; a text that holds a JSON list is decoded, any other text is split as a shell would.
fn args(reader: &mut Reader<'_>, node: &Node, key: &str) -> Vec<String> {
    let Kind::Scalar(Scalar::Text, _) = &node.kind else {
        return reader.texts(node, key).unwrap_or_default();
    };
    let Some(text) = reader.text(node, key) else {
        return Vec::new();
    };
    if text.trim_start().starts_with('[') {
        return match serde_json::from_str::<Vec<serde_json::Value>>(&text) {
            Ok(items) => items
                .into_iter()
                .map(|item| match item {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                })
                .collect(),
            Err(_) => {
                reader.error(
                    node,
                    key,
                    "the text looks like a JSON list and is none; write a YAML list",
                );
                Vec::new()
            }
        };
    }
    match shell_words::split(&text) {
        Ok(args) => args,
        Err(_) => {
            reader.error(
                node,
                key,
                "the text has a quote without its end; write a YAML list",
            );
            Vec::new()
        }
    }
}

/// A mapping of names to values that are not shown.
pub(super) fn secrets(reader: &mut Reader<'_>, node: &Node, key: &str) -> IndexMap<String, Secret> {
    let mut values = IndexMap::new();
    for field in reader.mapping(node, key).unwrap_or_default() {
        let key = format!("{key}.{}", field.name);
        let value = match field.value.is_null() {
            // `NAME:` with nothing behind it is an empty value in every shell.
            true => Some(String::new()),
            false => reader.text(field.value, &key),
        };
        if field.name.is_empty() || field.name.contains(['=', '\0']) {
            reader.error(field.key, &key, "a name cannot be empty or have '=' in it");
        } else if value.as_ref().is_some_and(|value| value.contains('\0')) {
            reader.error(field.value, &key, "a value cannot have a NUL character in it");
        } else if let Some(value) = value {
            values.insert(field.name.to_owned(), Secret::new(value));
        }
    }
    values
}

fn tools(reader: &mut Reader<'_>, node: &Node, key: &str) -> ToolsPolicy {
    // A list or a name alone means include.
    if !matches!(node.kind, Kind::Mapping(_)) {
        return ToolsPolicy {
            include: reader.names(node, key),
            ..ToolsPolicy::default()
        };
    }
    let fields = reader.mapping(node, key).unwrap_or_default();
    reader.unknown(&fields, key, &["include", "exclude", "resources", "prompts"], &[]);
    let entry = Entry {
        fields: &fields,
        path: key,
    };
    let mut names = |name| {
        entry
            .get(name)
            .and_then(|(field, key)| reader.names(field.value, &key))
    };
    let (include, exclude) = (names("include"), names("exclude").unwrap_or_default());
    if include.as_ref().is_some_and(Vec::is_empty)
        && let Some((field, key)) = entry.get("include")
    {
        reader.warn(
            field.value,
            &key,
            "an empty list offers none of the server's tools; remove the key to offer all",
        );
    }
    ToolsPolicy {
        include,
        exclude,
        resources: entry.boolean(reader, "resources", true),
        prompts: entry.boolean(reader, "prompts", true),
    }
}

fn keepalive(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<Duration> {
    let (field, key) = entry.get("keepalive_interval")?;
    let interval = reader.seconds(field.value, &key)?;
    if interval < SHORTEST_KEEPALIVE {
        reader.warn(field.value, &key, "5 seconds are the shortest; they count");
    }
    Some(interval.max(SHORTEST_KEEPALIVE))
}

/// At the top level of the entry or under `lifecycle`.
fn lifecycle(reader: &mut Reader<'_>, entry: &Entry<'_>, name: &str) -> Option<Duration> {
    if let Some((field, key)) = entry.get(name) {
        return reader.optional_seconds(field.value, &key);
    }
    let (field, key) = entry.get("lifecycle")?;
    let fields = reader.mapping(field.value, &key)?;
    if name == "idle_timeout_seconds" {
        reader.unknown(
            &fields,
            &key,
            &["idle_timeout_seconds", "max_lifetime_seconds"],
            &[],
        );
    }
    let (field, key) = Entry {
        fields: &fields,
        path: &key,
    }
    .get(name)
    .map(|(field, key)| (field.value, key))?;
    reader.optional_seconds(field, &key)
}

impl ServerConfig {
    /// Every value of the entry that must not show up anywhere: of `env`, of `headers`, and of the address's user
    /// information and query.
    pub fn secrets(&self) -> Vec<&str> {
        match &self.transport {
            Transport::Stdio(stdio) => stdio
                .env
                .iter()
                .filter(|(name, _)| !PLAIN_VARIABLES.contains(&name.as_str()))
                .map(|(_, value)| value.expose())
                .collect(),
            Transport::Remote(remote) => {
                let mut secrets: Vec<&str> = remote.headers.values().map(Secret::expose).collect();
                // A bearer token is a secret without its scheme too.
                let bare: Vec<&str> = secrets
                    .iter()
                    .filter_map(|value| value.split_once(' '))
                    .map(|(_, rest)| rest)
                    .collect();
                secrets.extend(bare);
                secrets.extend(
                    remote
                        .url
                        .query()
                        .unwrap_or_default()
                        .split('&')
                        .filter_map(|pair| pair.split_once('='))
                        .map(|(_, value)| value),
                );
                secrets.push(remote.url.username());
                secrets.extend(remote.url.password());
                secrets
            }
        }
    }
}
