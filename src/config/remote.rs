//! The keys of an entry with a `url`.

use std::path::PathBuf;

use indexmap::IndexMap;
use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

use super::{
    model::{ClientIdentity, Remote, Secret, Verify},
    reader::Reader,
    server::{Entry, secrets},
    yaml::{Kind, Node},
};
use crate::environment::Environment;

/// Headers that the protocol itself needs: an entry cannot set them (HTTP-05, HTTP-09).
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
    "transfer-encoding",
];
/// The start of the names of further ones (HTTP-03).
const RESERVED_START: &str = "mcp-param-";

pub(super) fn remote(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    node: &Node,
    key: &str,
    environment: &Environment,
) -> Option<Remote> {
    let text = reader.text(node, key)?;
    let url = match address(text.trim()) {
        Ok(url) => url,
        Err(problem) => {
            // Without the address itself, which may hold a password or a key.
            reader.error(node, key, format!("{problem}; write it like https://host/mcp"));
            return None;
        }
    };
    for name in ["args", "env", "cwd", "env_passthrough"] {
        if let Some((field, key)) = entry.get(name) {
            reader.warn(field.key, &key, "it has no effect on a server with a 'url'");
        }
    }
    let kinds = [
        ("http", false),
        ("streamable-http", false),
        ("streamable_http", false),
        ("sse", true),
    ];
    let mut headers = entry
        .get("headers")
        .map(|(field, key)| headers(reader, field.value, &key))
        .unwrap_or_default();
    if let Some((field, key)) = entry.get("identity_header") {
        identity_header(reader, field.value, &key, &mut headers);
    }
    Some(Remote {
        url,
        headers,
        sse: entry
            .get("transport")
            .is_some_and(|(field, key)| reader.word(field.value, &key, &kinds, false)),
        verify: entry
            .get("ssl_verify")
            .map(|(field, key)| verify(reader, field.value, &key, environment))
            .unwrap_or_default(),
        identity: identity(reader, entry, environment),
    })
}

fn address(text: &str) -> Result<Url, &'static str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("the address has no scheme; it must be http or https");
    };
    if !["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
    {
        return Err("the scheme of the address must be http or https");
    }
    // The parser skips further slashes and would take the path for the host.
    if rest.is_empty() || rest.starts_with(['/', '\\', '?', '#']) {
        return Err("the address has no host");
    }
    if text.contains(char::is_whitespace) {
        return Err("the address has a space in it");
    }
    Url::parse(text).map_err(|error| match error {
        url::ParseError::EmptyHost => "the address has no host",
        url::ParseError::InvalidPort => "the port of the address is not a number from 0 to 65535",
        _ => "the address is not a URL",
    })
}

fn headers(reader: &mut Reader<'_>, node: &Node, key: &str) -> IndexMap<String, Secret> {
    let mut headers = secrets(reader, node, key);
    let fields = reader.mapping(node, key).unwrap_or_default();
    headers.retain(|name, value| {
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            return false;
        };
        let key = format!("{key}.{name}");
        let lower = name.to_ascii_lowercase();
        if lower == "mcp-protocol-version" {
            reader.warn(
                field.key,
                &key,
                "it is not used: the version that both sides agree on is sent",
            );
            false
        } else if RESERVED.contains(&lower.as_str()) || lower.starts_with(RESERVED_START) {
            reader.error(
                field.key,
                &key,
                "the protocol itself needs this header, so it cannot be set here; remove it",
            );
            false
        } else if HeaderName::try_from(name.as_str()).is_err() {
            reader.error(field.key, &key, "this is not a name that a header can have");
            false
        } else if HeaderValue::try_from(value.expose()).is_err() {
            reader.error(
                field.value,
                &key,
                "the value has a character that a header cannot have (a line break?)",
            );
            false
        } else {
            true
        }
    });
    headers
}

/// A header that says who asks. One that `headers` sets wins.
fn identity_header(reader: &mut Reader<'_>, node: &Node, key: &str, headers: &mut IndexMap<String, Secret>) {
    let Some(fields) = reader.mapping(node, key) else {
        return;
    };
    reader.unknown(&fields, key, &["name", "value_from", "value"], &[]);
    let entry = Entry {
        fields: &fields,
        path: key,
    };
    let mut text = |name| {
        entry
            .get(name)
            .and_then(|(field, key)| reader.text(field.value, &key))
    };
    let (name, from, value) = (text("name"), text("value_from"), text("value"));
    let header = match (name, from.as_deref(), value) {
        (Some(name), None | Some("static"), Some(value)) => (name, value),
        (_, Some("profile"), _) => {
            reader.warn(
                node,
                key,
                "it is not sent: the daemon serves all profiles, so there is none to name; use 'value_from: static'",
            );
            return;
        }
        _ => {
            reader.warn(
                node,
                key,
                "it is not sent; write 'name', 'value_from: static' and 'value'",
            );
            return;
        }
    };
    let (name, value) = header;
    let lower = name.to_ascii_lowercase();
    let is_usable = HeaderName::try_from(name.as_str()).is_ok()
        && HeaderValue::try_from(value.as_str()).is_ok()
        && !RESERVED.contains(&lower.as_str())
        && !lower.starts_with("mcp-");
    if !is_usable {
        reader.warn(
            node,
            key,
            "it is not sent: this name or value cannot be that of a header",
        );
    } else if !headers.keys().any(|other| other.eq_ignore_ascii_case(&name)) {
        headers.insert(name, Secret::new(value));
    }
}

/// `true`, `false`, or the file with the authorities that are trusted.
fn verify(reader: &mut Reader<'_>, node: &Node, key: &str, environment: &Environment) -> Verify {
    let text = match &node.kind {
        Kind::Scalar(super::scalar::Scalar::Text, _) => reader.text(node, key),
        _ => None,
    };
    let word = text.as_deref().map(|text| text.trim().to_ascii_lowercase());
    match (text, word.as_deref()) {
        (Some(_), Some("true" | "yes" | "on" | "1" | "false" | "no" | "off" | "0" | "")) | (None, _) => {
            match reader.boolean(node, key, true) {
                true => Verify::System,
                false => {
                    reader.warn(
                        node,
                        key,
                        "the server's certificate is not checked, so anybody on the way can read and change everything; \
                         better name the file of its authority here",
                    );
                    Verify::Off
                }
            }
        }
        (Some(path), _) => Verify::File(file(reader, node, key, &path, environment)),
    }
}

fn identity(reader: &mut Reader<'_>, entry: &Entry<'_>, environment: &Environment) -> Option<ClientIdentity> {
    let key_entry = entry.get("client_key");
    let Some((cert, path)) = entry.get("client_cert") else {
        if let Some((field, key)) = key_entry {
            reader.error(field.key, &key, "there is a 'client_key' without a 'client_cert'");
        }
        return None;
    };
    if let Kind::Sequence(items) = &cert.value.kind {
        if let Some((field, key)) = key_entry {
            reader.error(
                field.key,
                &key,
                "'client_cert' is a list and has the key in it already; remove one of them",
            );
            return None;
        }
        let texts = reader.texts(cert.value, &path)?;
        return match texts.as_slice() {
            [cert_file] => Some(ClientIdentity {
                cert: file(reader, &items[0], &path, cert_file, environment),
                key: None,
            }),
            [cert_file, key_file] => Some(ClientIdentity {
                cert: file(reader, &items[0], &path, cert_file, environment),
                key: Some(file(reader, &items[1], &path, key_file, environment)),
            }),
            [_, _, _] => {
                reader.error(
                    cert.value,
                    &path,
                    "a key with a password is not supported; store it without one, in a file that only you can read \
                     (openssl pkey -in key.pem -out plain.pem)",
                );
                None
            }
            _ => {
                reader.error(
                    cert.value,
                    &path,
                    "expected the file of the certificate, or a list [certificate, key]",
                );
                None
            }
        };
    }
    let text = reader.text(cert.value, &path)?;
    Some(ClientIdentity {
        cert: file(reader, cert.value, &path, &text, environment),
        key: key_entry.and_then(|(field, key)| {
            let text = reader.text(field.value, &key)?;
            Some(file(reader, field.value, &key, &text, environment))
        }),
    })
}

/// A path with `~` expanded; it must be a file that is there.
fn file(reader: &mut Reader<'_>, node: &Node, key: &str, text: &str, environment: &Environment) -> PathBuf {
    let path = environment.home_dir().join(environment.expand_tilde(text.trim()));
    if !path.is_file() {
        reader.error(node, key, format!("there is no file '{}'", path.display()));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_http_or_https_with_a_host() {
        for (text, expected) in [
            ("https://a.example/mcp", Ok("https://a.example/mcp")),
            ("HTTP://A.example:8080", Ok("http://a.example:8080/")),
            ("http://[::1]:9/x?y=z", Ok("http://[::1]:9/x?y=z")),
            (
                "localhost:8080/mcp",
                Err("the address has no scheme; it must be http or https"),
            ),
            (
                "ftp://a.example",
                Err("the scheme of the address must be http or https"),
            ),
            (
                "file:///etc/passwd",
                Err("the scheme of the address must be http or https"),
            ),
            ("https://", Err("the address has no host")),
            ("http:///mcp", Err("the address has no host")),
            ("https://?x", Err("the address has no host")),
            ("http://a b/", Err("the address has a space in it")),
            ("http://a.example/a b", Err("the address has a space in it")),
            ("http://a]b/", Err("the address is not a URL")),
            (
                "http://a.example:99999/",
                Err("the port of the address is not a number from 0 to 65535"),
            ),
        ] {
            assert_eq!(
                address(text).map(String::from),
                expected.map(String::from),
                "{text}"
            );
        }
    }
}
