//! JSON-RPC envelopes, read without copying: ids, params, results and errors stay the sender's own bytes.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The members of one JSON-RPC message, borrowed from its line. Keys are case-sensitive and may not repeat (S-22).
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// `jsonrpc`.
    #[serde(borrow, default)]
    pub jsonrpc: Option<Cow<'a, str>>,
    /// `id`, also when it is null.
    #[serde(borrow, default, deserialize_with = "present")]
    pub id: Option<&'a RawValue>,
    /// `method`: a request or, without an id, a notification.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    /// `params`, also when it is null.
    #[serde(borrow, default, deserialize_with = "present")]
    pub params: Option<&'a RawValue>,
    /// `result`, also when it is null.
    #[serde(borrow, default, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    /// `error`; null counts as absent, since sloppy servers send it beside a result.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// Keeps null, which `Option` alone would read as absent.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Why a line is no JSON-RPC message.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// The line isn't a JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A batch: JSON-RPC has them, MCP removed them.
    #[error("batches are not supported, send one request per line")]
    Batch,
    /// Objects and arrays are nested deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The line starts like an object, but isn't JSON, isn't UTF-8 or has a member of the wrong type.
    #[error("{0}")]
    Malformed(serde_json::Error),
}

impl<'a> Envelope<'a> {
    /// Reads one line.
    ///
    /// # Errors
    /// Says why the line is not one JSON object with JSON-RPC's members.
    pub fn parse(line: &'a [u8], depth_limit: usize) -> Result<Self, EnvelopeError> {
        match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => {}
            Some(b'[') => return Err(EnvelopeError::Batch),
            _ => return Err(EnvelopeError::NotAnObject),
        }
        if is_deeper_than(line, depth_limit) {
            return Err(EnvelopeError::TooDeep { limit: depth_limit });
        }
        serde_json::from_slice(line).map_err(EnvelopeError::Malformed)
    }
}

/// Whether brackets nest deeper than `limit`. Strings are skipped, nothing else is checked.
fn is_deeper_than(json: &[u8], limit: usize) -> bool {
    if json.len() <= limit {
        return false;
    }
    let (mut depth, mut at) = (0usize, 0usize);
    while at < json.len() {
        match json[at] {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(json, at),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The index of the quote that ends the string which starts at `start`.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at;
        }
        at += 2;
    }
    json.len()
}

/// A request id of a frontend, echoed byte for byte.
#[derive(Debug, Clone)]
pub struct RequestId(Box<RawValue>);

impl RequestId {
    /// An id is a string of at most 128 bytes or an integer in the range of i64. Null, fractions and anything else
    /// are refused.
    pub fn parse(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let valid = match text.as_bytes().first() {
            Some(b'"') => text.len() <= 130,
            Some(b'-' | b'0'..=b'9') => text.parse::<i64>().is_ok(),
            _ => false,
        };
        valid.then(|| Self(raw.to_owned()))
    }

    /// The id's own JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

/// Appends a successful answer as one line. `result` is JSON text.
pub fn write_result(out: &mut Vec<u8>, id: &RequestId, result: &str) {
    out.reserve(result.len() + id.as_json().len() + 40);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(br#","result":"#);
    push_on_one_line(out, result);
    out.extend_from_slice(b"}\n");
}

/// Appends an error answer as one line. `error` is the JSON text of the error object; no id gives null.
pub fn write_error(out: &mut Vec<u8>, id: Option<&RequestId>, error: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.map_or("null", RequestId::as_json).as_bytes());
    out.extend_from_slice(br#","error":"#);
    push_on_one_line(out, error);
    out.extend_from_slice(b"}\n");
}

/// Appends a notification as one line. `params` is JSON text.
pub fn write_notification(out: &mut Vec<u8>, method: &str, params: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":"#);
    push_on_one_line(out, params);
    out.extend_from_slice(b"}\n");
}

/// JSON text that came from a line has no newline in it; a value from elsewhere may be pretty-printed. Between
/// tokens a newline is only white space, and inside strings JSON does not allow it, so a space is the same value.
fn push_on_one_line(out: &mut Vec<u8>, json: &str) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// A value as JSON text. Only for types whose serialisation cannot fail: string keys and no foreign `Serialize`.
pub fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a value of ours could not be serialised");
        "null".into()
    })
}

/// Reads an object. serde would take a list for a struct as well, member by member.
pub fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get()
        .starts_with('{')
        .then(|| serde_json::from_str(raw.get()).ok())?
}

/// Whether a key of `_meta` belongs to the protocol: in its prefix the label `mcp` or `modelcontextprotocol` stands
/// second (since 2025-11-25) or before another label (older versions) (META-01).
pub fn is_reserved_meta(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else {
        return false;
    };
    let labels: Vec<&str> = prefix.split('.').collect();
    labels.iter().enumerate().any(|(n, label)| {
        matches!(*label, "mcp" | "modelcontextprotocol") && (n == 1 || n + 1 < labels.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_the_senders_bytes() {
        let line = br#" {"jsonrpc":"2.0","id": "a\u0041" ,"method":"x\/y","params":{"n":1.0,"b":18446744073709551616,"n":2}}"#;
        let envelope = Envelope::parse(line, 128).unwrap();
        assert_eq!(envelope.id.unwrap().get(), r#""a\u0041""#);
        assert_eq!(envelope.method.as_deref(), Some("x/y"));
        assert_eq!(
            envelope.params.unwrap().get(),
            r#"{"n":1.0,"b":18446744073709551616,"n":2}"#
        );
    }

    #[test]
    fn null_members_are_told_from_absent_ones() {
        let envelope = Envelope::parse(br#"{"id":null,"result":null,"error":null}"#, 128).unwrap();
        assert_eq!(envelope.id.unwrap().get(), "null");
        assert_eq!(envelope.result.unwrap().get(), "null");
        assert!(envelope.error.is_none() && envelope.params.is_none());
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_reason() {
        let deep = format!("{{\"params\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for (line, expected) in [
            ("", "not a JSON object"),
            ("hello", "not a JSON object"),
            ("POST / HTTP/1.1", "not a JSON object"),
            ("\"text\"", "not a JSON object"),
            ("[{}]", "batches are not supported"),
            ("{", "EOF while parsing"),
            (r#"{"method":"a","method":"b"}"#, "duplicate field `method`"),
            (r#"{"method":1}"#, "invalid type"),
            (deep.as_str(), "nested deeper than 128 levels"),
        ] {
            let error = Envelope::parse(line.as_bytes(), 128).unwrap_err().to_string();
            assert!(error.contains(expected), "{line:?}: {error}");
        }
        assert!(
            Envelope::parse(b"{\"id\":\"\xff\"}", 128).is_err(),
            "invalid UTF-8"
        );
        let other_case = Envelope::parse(br#"{"Method":"tools/call"}"#, 128).unwrap();
        assert!(other_case.method.is_none(), "keys are case-sensitive (S-22)");
    }

    #[test]
    fn brackets_in_strings_do_not_count_as_depth() {
        let text = format!(r#"{{"a":"{}\"{}\\"}}"#, "[".repeat(300), "{".repeat(300));
        assert!(!is_deeper_than(text.as_bytes(), 128));
        assert!(is_deeper_than(format!("{}1", "[".repeat(129)).as_bytes(), 128));
        assert!(!is_deeper_than(format!("{}1", "[]".repeat(500)).as_bytes(), 128));
    }

    #[test]
    fn ids_are_strings_or_integers() {
        let parse = |json: &str| RequestId::parse(&RawValue::from_string(json.into()).unwrap());
        for good in ["1", "-5", "0", "9223372036854775807", "\"\"", "\"x\""] {
            assert_eq!(parse(good).unwrap().as_json(), good);
        }
        let long = format!("\"{}\"", "x".repeat(129));
        for bad in [
            "null",
            "1.0",
            "1e3",
            "true",
            "[]",
            "{}",
            "9223372036854775808",
            &long,
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn keys_of_the_protocol_are_told_from_others() {
        for (key, expected) in [
            ("io.modelcontextprotocol/x", true),
            ("dev.mcp/x", true),
            ("mcp.dev/x", true),
            ("tools.mcp.com/x", true),
            ("com.example.mcp/x", false),
            ("com.example/mcp", false),
            ("mcp/x", false),
            ("progressToken", false),
        ] {
            assert_eq!(is_reserved_meta(key), expected, "META-01: {key}");
        }
    }

    #[test]
    fn answers_are_one_line_each() {
        let id = RequestId::parse(&RawValue::from_string("7".into()).unwrap()).unwrap();
        let mut out = Vec::new();
        write_result(&mut out, &id, "{\n \"a\": 1\r\n}");
        write_error(&mut out, None, r#"{"code":-32600}"#);
        write_notification(&mut out, "notifications/progress", "{}");
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{  \"a\": 1  }}\n\
             {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600}}\n\
             {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n"
        );
    }
}
