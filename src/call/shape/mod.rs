//! Results in the shape of Hermes' own client: JSON text `{"result": …}` or `{"error": …}`.
//!
//! The shapes are those of hermes-agent 0.19.0 with the markers of its successors: nothing of a result is lost in
//! silence (B51). Structured content stays the server's own bytes.

mod block;
mod members;
mod utility;

use members::Members;
use serde_json::{Value, json, value::RawValue};
pub use utility::{get_prompt, list_prompts, list_resources, read_resource};

use super::media::MediaStore;
use crate::{name::ServerName, text::Redactor, wire::to_json};

/// What shaping needs besides the result.
pub struct ShapeContext<'a> {
    /// Whose result it is.
    pub server: &'a ServerName,
    /// The exposed name of the server's `read_resource` tool, if it has one.
    pub read_resource_tool: Option<&'a str>,
    /// Where data goes.
    pub media: &'a MediaStore,
    /// For error texts.
    pub redactor: &'a Redactor,
}

/// A shaped result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HermesReply {
    json: String,
    is_error: bool,
}

impl HermesReply {
    /// `members` are JSON members without braces.
    fn success(members: String) -> Self {
        Self {
            json: format!("{{{members}}}"),
            is_error: false,
        }
    }

    /// The JSON object.
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// Whether it is `{"error": …}`.
    pub fn is_error(&self) -> bool {
        self.is_error
    }
}

/// `{"error": text}`.
pub fn error_reply(text: &str) -> HermesReply {
    HermesReply {
        json: to_json(&json!({"error": text})),
        is_error: true,
    }
}

/// A shaped result as the result of MCP's `tools/call`: its JSON as one text block.
pub fn as_mcp_result(reply: &HermesReply) -> Box<RawValue> {
    let result = json!({"content": [{"type": "text", "text": reply.json}], "isError": reply.is_error});
    serde_json::value::to_raw_value(&result).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Shapes the result of `tools/call`.
pub fn tool_result(raw: &RawValue, context: &ShapeContext<'_>) -> HermesReply {
    let Some(parts) = Members::of(raw) else {
        tracing::warn!(server = %context.server, "a result is not an object; it is handed on as text");
        return HermesReply::success(format!(r#""result":{}"#, to_json(&raw.get())));
    };
    let blocks = parts.list("content");
    let structured = parts.raw("structuredContent");
    if parts.is_true("isError") {
        return failed(&blocks, structured, context);
    }
    let texts: Vec<String> = blocks
        .iter()
        .filter_map(|raw| block::shown(raw, context))
        .collect();
    let text = texts.join("\n");
    let structured = structured.filter(|structured| !is_said_in_text(structured, &texts));
    let mut members = match structured {
        Some(structured) if text.is_empty() => format!(r#""result":{}"#, structured.get()),
        Some(structured) => format!(
            r#""result":{},"structuredContent":{}"#,
            to_json(&text),
            structured.get()
        ),
        None => format!(r#""result":{}"#, to_json(&text)),
    };
    if let Some(meta) = parts.raw("_meta").and_then(open_meta) {
        members.push_str(&format!(r#","_meta":{meta}"#));
    }
    HermesReply::success(members)
}

/// `isError`: the texts, redacted; the structured content too, since it may hold the details (B51).
fn failed(blocks: &[&RawValue], structured: Option<&RawValue>, context: &ShapeContext<'_>) -> HermesReply {
    let mut text: String = blocks.iter().filter_map(|raw| block::text_of(raw)).collect();
    if text.is_empty() {
        // An error may hide in an embedded resource.
        let shown: Vec<String> = blocks
            .iter()
            .filter_map(|raw| block::shown(raw, context))
            .collect();
        text = shown.join("\n");
    }
    let text = match context.redactor.redact(&text) {
        text if text.is_empty() => "MCP tool returned an error".into(),
        text => text,
    };
    let mut json = format!(r#"{{"error":{}"#, to_json(&text));
    if let Some(structured) = structured {
        let redacted = context.redactor.redact(structured.get());
        // A replacement inside a number or a key could break the JSON; then the text has to do.
        if serde_json::from_str::<&RawValue>(&redacted).is_ok() {
            json.push_str(&format!(r#","structuredContent":{redacted}"#));
        }
    }
    json.push('}');
    HermesReply { json, is_error: true }
}

/// Many servers send the structured content once more as a text block.
fn is_said_in_text(structured: &RawValue, texts: &[String]) -> bool {
    let first = |json: &str| json.trim_start().chars().next();
    let wanted = first(structured.get());
    let mut candidates = texts.iter().filter(|text| first(text) == wanted).peekable();
    if candidates.peek().is_none() {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(structured.get()) else {
        return false;
    };
    candidates.any(|text| serde_json::from_str::<Value>(text).is_ok_and(|said| said == value))
}

/// `_meta` without the protocol's own keys.
fn open_meta(meta: &RawValue) -> Option<String> {
    let members: indexmap::IndexMap<String, &RawValue> = serde_json::from_str(meta.get()).ok()?;
    let open: indexmap::IndexMap<&String, &&RawValue> = members
        .iter()
        .filter(|(key, _)| !crate::wire::is_reserved_meta(key))
        .collect();
    (!open.is_empty()).then(|| to_json(&open))
}

#[cfg(test)]
mod tests;
