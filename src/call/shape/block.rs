//! One content block as text for a model.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{super::media::MediaError, ShapeContext};
use crate::wire::read_object;

/// The members of all block kinds, read leniently: a value of another type is as good as none.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Block {
    #[serde(rename = "type", deserialize_with = "text")]
    kind: Option<String>,
    #[serde(deserialize_with = "text")]
    text: Option<String>,
    #[serde(deserialize_with = "text")]
    data: Option<String>,
    #[serde(deserialize_with = "text")]
    blob: Option<String>,
    #[serde(deserialize_with = "text")]
    mime_type: Option<String>,
    #[serde(deserialize_with = "text")]
    uri: Option<String>,
    #[serde(deserialize_with = "text")]
    name: Option<String>,
    resource: Option<Box<Block>>,
}

fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Some(text),
        _ => None,
    })
}

/// The text of a text block.
pub(super) fn text_of(raw: &RawValue) -> Option<String> {
    let block: Block = read_object(raw)?;
    block.text.filter(|_| block.kind.as_deref() == Some("text"))
}

/// What a model is shown of a block; `None` for an empty one.
pub(super) fn shown(raw: &RawValue, context: &ShapeContext<'_>) -> Option<String> {
    let Some(block) = read_object::<Block>(raw) else {
        return Some(unsupported(&Block::default(), raw, context));
    };
    let shown = match block.kind.as_deref() {
        Some("text") => block.text.unwrap_or_default(),
        Some("image") => image(&block, context),
        Some("audio") => audio(&block, context),
        Some("resource") => match &block.resource {
            Some(resource) => self::resource(resource, context),
            None => unsupported(&block, raw, context),
        },
        Some("resource_link") => link(&block, context),
        _ => unsupported(&block, raw, context),
    };
    (!shown.is_empty()).then_some(shown)
}

fn image(block: &Block, context: &ShapeContext<'_>) -> String {
    let data = block.data.as_deref().unwrap_or_default();
    let mime = block.mime_type.as_deref().unwrap_or("image/png");
    match context.media.image(data, mime) {
        Ok(saved) => format!("MEDIA:{}", saved.path.display()),
        Err(MediaError::NotAnImage { size }) => {
            format!("[MCP image block could not be cached ({mime}, {size} bytes)]")
        }
        Err(error) => format!("[MCP image block ({mime}) {error}]"),
    }
}

fn audio(block: &Block, context: &ShapeContext<'_>) -> String {
    let mime = block.mime_type.as_deref().unwrap_or("audio/ogg");
    match context
        .media
        .audio(block.data.as_deref().unwrap_or_default(), mime)
    {
        Ok(saved) => format!("MEDIA:{}", saved.path.display()),
        Err(MediaError::TooLarge { size }) => {
            format!("[MCP audio resource too large to cache: ~{size} bytes]")
        }
        Err(error) => format!("[MCP audio block ({mime}) {error}]"),
    }
}

/// An embedded resource: its text, or its data as a file.
fn resource(resource: &Block, context: &ShapeContext<'_>) -> String {
    if let Some(text) = &resource.text {
        return text.clone();
    }
    let uri = resource.uri.as_deref().unwrap_or_default();
    let Some(blob) = &resource.blob else {
        return format!("[MCP embedded resource without content: uri={uri}]");
    };
    let mime = resource.mime_type.as_deref().unwrap_or("unknown type");
    match context.media.document(blob, uri) {
        Ok(saved) => format!(
            "[MCP resource saved to {} ({mime}, {} bytes) — read it with read_file or terminal tools]",
            saved.path.display(),
            saved.size
        ),
        Err(MediaError::TooLarge { size }) => {
            format!("[MCP embedded resource too large to cache: {size} bytes, uri={uri}]")
        }
        Err(error) => format!("[MCP embedded resource {error}]"),
    }
}

/// One element of `resources/read`.
pub(super) fn contents(raw: &RawValue, context: &ShapeContext<'_>) -> Option<String> {
    let block: Block = read_object(raw)?;
    Some(resource(&block, context)).filter(|text| !text.is_empty())
}

fn link(block: &Block, context: &ShapeContext<'_>) -> String {
    let mut parts = vec![format!("uri={}", block.uri.as_deref().unwrap_or_default())];
    parts.extend(block.name.as_ref().map(|name| format!("name={name}")));
    parts.extend(block.mime_type.as_ref().map(|mime| format!("mimeType={mime}")));
    let fetch = context
        .read_resource_tool
        .map(|tool| format!(" — fetch it with {tool}"))
        .unwrap_or_default();
    format!("[MCP resource link: {}{fetch}]", parts.join(", "))
}

fn unsupported(block: &Block, raw: &RawValue, context: &ShapeContext<'_>) -> String {
    let kind = block.kind.as_deref().unwrap_or("none");
    tracing::warn!(server = %context.server, kind, "a content block of an unknown type is left out of a result");
    let mut parts = vec![format!("type={kind}")];
    parts.extend(block.mime_type.as_ref().map(|mime| format!("mimeType={mime}")));
    parts.extend(block.uri.as_ref().map(|uri| format!("uri={uri}")));
    parts.push(format!("size={}", raw.get().len()));
    parts.extend(block.name.as_ref().map(|name| format!("name={name}")));
    format!("[MCP content dropped: unsupported block ({})]", parts.join(", "))
}
