//! One content block as text for a model.

use serde_json::value::RawValue;

use super::{
    super::media::MediaError,
    ShapeContext,
    members::{Members, as_text},
};
use crate::text;

/// Bytes of a name, a type or an address in a marker. An address has to be whole to be of use.
const LONGEST: usize = 2_048;

/// The text of a text block, or of a mere string in its place.
pub(super) fn text_of(raw: &RawValue) -> Option<String> {
    let Some(block) = Members::of(raw) else {
        return as_text(raw);
    };
    let is_text = block.text("type").is_some_and(|kind| kind == "text");
    is_text.then(|| block.any_text("text")).flatten()
}

/// What a model is shown of a block; `None` for an empty one.
pub(super) fn shown(raw: &RawValue, context: &ShapeContext<'_>) -> Option<String> {
    let shown = match Members::of(raw) {
        Some(block) => match block.text("type").as_deref() {
            Some("text") => block.any_text("text").unwrap_or_default(),
            Some("image") => image(&block, context),
            Some("audio") => audio(&block, context),
            Some("resource") => match block.raw("resource").and_then(Members::of) {
                Some(resource) => self::resource(&resource, context),
                None => unsupported(&block, raw, context),
            },
            Some("resource_link") => link(&block, context),
            _ => unsupported(&block, raw, context),
        },
        None if raw.get() == "null" => String::new(),
        // No block, but something to show.
        None => as_text(raw).unwrap_or_else(|| raw.get().to_owned()),
    };
    (!shown.is_empty()).then_some(shown)
}

fn image(block: &Members<'_>, context: &ShapeContext<'_>) -> String {
    let mime = mime(block);
    match context
        .media
        .image(&block.text("data").unwrap_or_default(), &mime)
    {
        Ok(saved) => format!("MEDIA:{}", saved.path.display()),
        Err(MediaError::NotSuch { size }) => {
            format!("[MCP image block could not be cached ({mime}, {size} bytes)]")
        }
        Err(error) => format!("[MCP image block ({mime}) {error}]"),
    }
}

fn audio(block: &Members<'_>, context: &ShapeContext<'_>) -> String {
    let mime = mime(block);
    match context
        .media
        .audio(&block.text("data").unwrap_or_default(), &mime)
    {
        Ok(saved) => format!("MEDIA:{}", saved.path.display()),
        Err(MediaError::TooLarge { size }) => {
            format!("[MCP audio resource too large to cache: ~{size} bytes]")
        }
        Err(MediaError::NotSuch { size }) => {
            format!("[MCP audio block could not be cached ({mime}, {size} bytes)]")
        }
        Err(error) => format!("[MCP audio block ({mime}) {error}]"),
    }
}

/// An embedded resource, or an element of `resources/read`: its text, or its data as a file.
fn resource(resource: &Members<'_>, context: &ShapeContext<'_>) -> String {
    let uri = resource.text("uri").unwrap_or_default();
    let text = resource.any_text("text");
    let blob = match (text, resource.text("blob")) {
        (Some(text), None) => return text,
        (Some(text), _) if !text.is_empty() => return text,
        (_, Some(blob)) => blob,
        (None, None) => return format!("[MCP embedded resource without content: uri={}]", one(&uri)),
    };
    match context.media.document(&blob, &uri) {
        Ok(saved) => format!(
            "[MCP resource saved to {} ({}, {} bytes) — read it with read_file or terminal tools]",
            saved.path.display(),
            mime(resource),
            saved.size
        ),
        Err(MediaError::TooLarge { size }) => {
            format!(
                "[MCP embedded resource too large to cache: {size} bytes, uri={}]",
                one(&uri)
            )
        }
        Err(error) => format!("[MCP embedded resource {error}]"),
    }
}

/// One element of `resources/read`.
pub(super) fn contents(raw: &RawValue, context: &ShapeContext<'_>) -> Option<String> {
    let shown = match Members::of(raw) {
        Some(contents) => resource(&contents, context),
        None => as_text(raw)?,
    };
    (!shown.is_empty()).then_some(shown)
}

fn link(block: &Members<'_>, context: &ShapeContext<'_>) -> String {
    let mut parts = vec![format!("uri={}", one(&block.text("uri").unwrap_or_default()))];
    parts.extend(named(block, "name"));
    parts.extend(named(block, "mimeType"));
    let fetch = context
        .read_resource_tool
        .map(|tool| format!(" — fetch it with {tool}"))
        .unwrap_or_default();
    format!("[MCP resource link: {}{fetch}]", parts.join(", "))
}

fn unsupported(block: &Members<'_>, raw: &RawValue, context: &ShapeContext<'_>) -> String {
    let kind = one(&block.text("type").unwrap_or_else(|| "none".into()));
    tracing::warn!(
        server = %text::one_line(context.server.as_str()),
        kind = %text::truncate(&kind, 100),
        "a content block of an unknown type is left out of a result"
    );
    let mut parts = vec![format!("type={kind}")];
    parts.extend(named(block, "mimeType"));
    parts.extend(named(block, "uri"));
    let declared = block.raw("size").map(RawValue::get);
    let is_number = |size: &&str| size.parse::<u64>().is_ok();
    match declared.filter(is_number) {
        Some(size) => parts.push(format!("size={size}")),
        None => parts.push(format!("size={}", raw.get().len())),
    }
    parts.extend(named(block, "name"));
    format!("[MCP content dropped: unsupported block ({})]", parts.join(", "))
}

fn named(block: &Members<'_>, key: &str) -> Option<String> {
    block.text(key).map(|value| format!("{key}={}", one(&value)))
}

fn mime(block: &Members<'_>) -> String {
    block
        .text("mimeType")
        .map_or_else(|| "unknown type".into(), |mime| one(&mime))
}

/// A server's words inside a marker of ours: nothing in them can end its line.
fn one(words: &str) -> String {
    text::truncate(&text::one_line(words), LONGEST).into_owned()
}
