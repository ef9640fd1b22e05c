//! Results of the four utility tools.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    HermesReply, ShapeContext, block,
    members::{Members, as_text},
};
use crate::wire::to_json;

/// `{"resources": [{uri, name, description?, mimeType?}]}` of the elements of `resources/list`.
pub fn list_resources(items: &[Box<RawValue>]) -> HermesReply {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Resource {
        uri: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    }
    let resources: Vec<Resource> = read(items, "resource", |members| {
        let uri = members.text("uri").filter(|uri| !uri.is_empty())?;
        Some(Resource {
            name: members.any_text("name").unwrap_or_else(|| uri.clone()),
            uri,
            description: members.text("description"),
            mime_type: members.text("mimeType"),
        })
    });
    HermesReply::success(format!(r#""resources":{}"#, to_json(&resources)))
}

/// `{"prompts": [{name, description?, arguments?: [{name, description?, required?}]}]}` of the elements of
/// `prompts/list`.
pub fn list_prompts(items: &[Box<RawValue>]) -> HermesReply {
    #[derive(Serialize)]
    struct Prompt {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<Vec<Argument>>,
    }
    #[derive(Serialize)]
    struct Argument {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        required: Option<bool>,
    }
    let argument = |raw: &RawValue| {
        let members = Members::of(raw)?;
        Some(Argument {
            name: members.text("name")?,
            description: members.text("description"),
            required: members
                .raw("required")
                .and_then(|raw| serde_json::from_str(raw.get()).ok()),
        })
    };
    let prompts: Vec<Prompt> = read(items, "prompt", |members| {
        Some(Prompt {
            name: members.text("name").filter(|name| !name.is_empty())?,
            description: members.text("description"),
            arguments: members.raw("arguments").map(|_| {
                let list = members.list("arguments");
                list.into_iter().filter_map(argument).collect()
            }),
        })
    });
    HermesReply::success(format!(r#""prompts":{}"#, to_json(&prompts)))
}

/// What has no name or address is of no use to a model: a list with a hole is better than none.
fn read<T>(items: &[Box<RawValue>], kind: &str, of: impl Fn(&Members<'_>) -> Option<T>) -> Vec<T> {
    let usable: Vec<T> = items.iter().filter_map(|item| of(&Members::of(item)?)).collect();
    if usable.len() < items.len() {
        tracing::warn!(
            left_out = items.len() - usable.len(),
            kind,
            "elements of a list without a name or an address are left out"
        );
    }
    usable
}

/// `{"result": text}` of a `resources/read` result.
pub fn read_resource(raw: &RawValue, context: &ShapeContext<'_>) -> HermesReply {
    let result = Members::of(raw).unwrap_or_default();
    let texts: Vec<String> = result
        .list("contents")
        .into_iter()
        .filter_map(|raw| block::contents(raw, context))
        .collect();
    HermesReply::success(format!(r#""result":{}"#, to_json(&texts.join("\n"))))
}

/// `{"messages": [{role, content}], "description"?}` of a `prompts/get` result. Text content is a string, other
/// content what a model is shown of it.
pub fn get_prompt(raw: &RawValue, context: &ShapeContext<'_>) -> HermesReply {
    #[derive(Serialize)]
    struct Message {
        role: String,
        content: String,
    }
    let prompt = Members::of(raw).unwrap_or_default();
    let messages: Vec<Message> = prompt
        .list("messages")
        .into_iter()
        .map(|raw| match Members::of(raw) {
            Some(message) => Message {
                role: message.text("role").unwrap_or_else(|| "user".into()),
                content: content(&message, context),
            },
            // A mere string in the place of a message.
            None => Message {
                role: "user".into(),
                content: as_text(raw).unwrap_or_default(),
            },
        })
        .collect();
    let mut members = format!(r#""messages":{}"#, to_json(&messages));
    if let Some(description) = prompt.text("description") {
        members.push_str(&format!(r#","description":{}"#, to_json(&description)));
    }
    HermesReply::success(members)
}

/// A message's content is a block; some servers send a list of them, or a mere string.
fn content(message: &Members<'_>, context: &ShapeContext<'_>) -> String {
    let shown: Vec<String> = message
        .list("content")
        .into_iter()
        .filter_map(|raw| block::shown(raw, context))
        .collect();
    shown.join("\n")
}
