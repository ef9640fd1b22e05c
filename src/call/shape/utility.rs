//! Results of the four utility tools.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{HermesReply, ShapeContext, block};
use crate::wire::to_json;

/// `{"resources": [{uri, name, description?, mimeType?}]}` of the elements of `resources/list`.
pub fn list_resources(items: &[Box<RawValue>]) -> HermesReply {
    #[derive(Deserialize, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Resource {
        uri: Value,
        #[serde(default)]
        name: Value,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        description: Value,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        mime_type: Value,
    }
    HermesReply::success(format!(r#""resources":{}"#, to_json(&read::<Resource>(items))))
}

/// `{"prompts": [{name, description?, arguments?: [{name, description?, required?}]}]}` of the elements of
/// `prompts/list`.
pub fn list_prompts(items: &[Box<RawValue>]) -> HermesReply {
    #[derive(Deserialize, Serialize)]
    struct Prompt {
        name: Value,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        description: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Vec<Argument>>,
    }
    #[derive(Deserialize, Serialize)]
    struct Argument {
        name: Value,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        description: Value,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        required: Value,
    }
    HermesReply::success(format!(r#""prompts":{}"#, to_json(&read::<Prompt>(items))))
}

/// What cannot be read is left out: a list with a hole is better than none.
fn read<T: for<'a> Deserialize<'a>>(items: &[Box<RawValue>]) -> Vec<T> {
    items
        .iter()
        .filter_map(|item| serde_json::from_str(item.get()).ok())
        .collect()
}

/// `{"result": text}` of a `resources/read` result.
pub fn read_resource(raw: &RawValue, context: &ShapeContext<'_>) -> HermesReply {
    #[derive(Default, Deserialize)]
    struct Contents<'a> {
        #[serde(borrow, default)]
        contents: Vec<&'a RawValue>,
    }
    let contents: Contents<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let texts: Vec<String> = contents
        .contents
        .into_iter()
        .filter_map(|raw| block::contents(raw, context))
        .collect();
    HermesReply::success(format!(r#""result":{}"#, to_json(&texts.join("\n"))))
}

/// `{"messages": [{role, content}], "description"?}` of a `prompts/get` result. Text content is a string, other
/// content what a model is shown of it.
pub fn get_prompt(raw: &RawValue, context: &ShapeContext<'_>) -> HermesReply {
    #[derive(Default, Deserialize)]
    struct Prompt<'a> {
        #[serde(borrow, default)]
        messages: Vec<Message<'a>>,
        #[serde(default)]
        description: Option<String>,
    }
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(default)]
        role: Value,
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    struct Shown {
        role: Value,
        content: String,
    }
    let prompt: Prompt<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let messages: Vec<Shown> = prompt
        .messages
        .into_iter()
        .map(|message| Shown {
            role: message.role,
            content: message
                .content
                .and_then(|raw| content(raw, context))
                .unwrap_or_default(),
        })
        .collect();
    let mut members = format!(r#""messages":{}"#, to_json(&messages));
    if let Some(description) = prompt.description {
        members.push_str(&format!(r#","description":{}"#, to_json(&description)));
    }
    HermesReply::success(members)
}

/// A message's content is a block; some servers send a mere string.
fn content(raw: &RawValue, context: &ShapeContext<'_>) -> Option<String> {
    serde_json::from_str::<String>(raw.get())
        .ok()
        .or_else(|| block::shown(raw, context))
}
