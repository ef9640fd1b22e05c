//! What it lists: tools, resources and prompts, good ones and broken ones.

use serde_json::{Value, json};

use crate::options::Options;

/// The entries of `tools/list`.
pub(crate) fn tools(options: &Options) -> Vec<Value> {
    let mut tools = Vec::new();
    if options.mode("bad-schemas") {
        return bad_schemas();
    }
    if options.mode("broken-tools") {
        tools.extend(broken());
    }
    if options.default_tools {
        tools.extend(default_tools());
    }
    tools.extend(options.extra_tools.iter().map(|name| echo_like(name)));
    tools.extend((0..options.generated_tools).map(generated));
    if options.mode("shuffle") && !tools.is_empty() {
        let start = std::process::id() as usize % tools.len();
        tools.rotate_left(start);
        tools.reverse();
    }
    tools
}

/// A tool that echoes, under any name.
pub(crate) fn echo_like(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("Echoes a text, under the name {name}"),
        "inputSchema": object(json!({"text": {"type": "string"}}), &["text"]),
    })
}

fn default_tools() -> Vec<Value> {
    let number = json!({"type": "number"});
    let integer = json!({"type": "integer"});
    let string = json!({"type": "string"});
    let list = [
        (
            "echo",
            "Returns its text",
            object(
                json!({
                    "text": {"type": "string", "description": "what to return"},
                    "delay_ms": {"type": "integer", "description": "wait before the answer"},
                }),
                &["text"],
            ),
        ),
        (
            "add",
            "Adds two numbers",
            object(json!({"a": number, "b": number}), &["a", "b"]),
        ),
        (
            "fail",
            "Always reports an error",
            object(json!({"text": string}), &[]),
        ),
        (
            "slow",
            "Takes its time and reports progress",
            object(
                json!({"seconds": number, "steps": integer, "ignore_cancel": {"type": "boolean"}}),
                &["seconds"],
            ),
        ),
        ("env", "Its environment as JSON", object(json!({}), &[])),
        ("cwd", "Its working directory", object(json!({}), &[])),
        ("pid", "Its process id", object(json!({}), &[])),
        (
            "big",
            "A long text, written in pieces",
            object(
                json!({"bytes": integer, "chunk": integer, "pause_us": integer}),
                &["bytes"],
            ),
        ),
        (
            "blocks",
            "Every kind of content",
            object(json!({"is_error": {"type": "boolean"}}), &[]),
        ),
        (
            "raw_args",
            "Its arguments as they arrived",
            json!({"type": "object"}),
        ),
        (
            "raw_params",
            "Its whole params as they arrived",
            json!({"type": "object"}),
        ),
        (
            "raw_result",
            "Answers with this JSON text",
            object(json!({"result": string}), &["result"]),
        ),
        (
            "raw_line",
            "Answers with this line: $ID is the id, $FF the byte 255",
            object(json!({"line": string}), &["line"]),
        ),
        (
            "die",
            "Exits without an answer",
            object(json!({"code": integer}), &[]),
        ),
        (
            "spawn_grandchild",
            "Starts a process that stays",
            object(json!({}), &[]),
        ),
        ("counter", "Counts its calls", object(json!({}), &[])),
        (
            "stderr",
            "Writes a text to stderr",
            object(json!({"text": string, "times": integer}), &["text"]),
        ),
        (
            "notify",
            "Sends log notifications, then answers",
            object(json!({"count": integer, "bytes": integer}), &["count"]),
        ),
        (
            "flood",
            "Writes this many bytes without a newline",
            object(json!({"bytes": integer}), &["bytes"]),
        ),
        (
            "stop_reading",
            "Answers, then doesn't read for some seconds",
            object(json!({"seconds": number}), &["seconds"]),
        ),
        (
            "change_tools",
            "Adds or removes a tool and says so",
            object(json!({"add": string, "remove": string, "notices": integer}), &[]),
        ),
        (
            "ask",
            "Sends a request to its client and returns the answer",
            object(
                json!({"method": string, "params": {"type": "object"}}),
                &["method"],
            ),
        ),
    ];
    list.into_iter()
        .map(|(name, description, schema)| {
            json!({"name": name, "description": description, "inputSchema": schema})
        })
        .chain(faulty_calls())
        .collect()
}

/// Tools for questions of repetition and of progress.
fn faulty_calls() -> [Value; 4] {
    let file = object(
        json!({"file": {"type": "string"}, "line": {"type": "string"}}),
        &["file"],
    );
    let progress = object(
        json!({
            "text": {"type": "string", "description": "the answer"},
            "count": {"type": "integer", "description": "progress messages before the answer; none given: for ever"},
            "interval_ms": {"type": "integer", "description": "between two of them"},
            "values": {"type": "array", "items": {"type": "number"}, "description": "their values instead of 1, 2, 3 …, over and over"},
        }),
        &[],
    );
    [
        json!({"name": "append", "description": "Appends a line to a file, then exits without an answer", "inputSchema": file}),
        json!({
            "name": "read_only_once",
            "description": "Does so the first time, and answers when the file is there",
            "inputSchema": file,
            "annotations": {"readOnlyHint": true},
        }),
        json!({
            "name": "idempotent_once",
            "description": "Likewise, but declared idempotent",
            "inputSchema": file,
            "annotations": {"readOnlyHint": false, "idempotentHint": true},
        }),
        json!({"name": "progress", "description": "Reports progress, then answers", "inputSchema": progress}),
    ]
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A tool as real servers have them: about 700 bytes.
fn generated(number: usize) -> Value {
    json!({
        "name": format!("tool_{number:03}"),
        "title": format!("Tool {number}"),
        "description": format!(
            "Searches the records of collection {number} and returns the ones that match. Use it when the user asks \
             for records by text, owner or date; results are ordered by relevance."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for", "minLength": 1},
                "owner": {"type": "string", "description": "Only records of this owner"},
                "labels": {"type": "array", "items": {"type": "string"}, "description": "All of these labels"},
                "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": true},
    })
}

/// The seven `inputSchema` values of B44, in its order.
fn bad_schemas() -> Vec<Value> {
    let schemas = [
        Value::Null,
        json!({"properties": {"a": {"type": "string"}}}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "required": ["x"]}),
        json!({"type": "object", "properties": {"w": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}}),
        json!({"type": "object", "properties": {"t": {"type": "array"}}}),
        json!({"type": "object", "additionalProperties": "object"}),
    ];
    schemas
        .into_iter()
        .enumerate()
        .map(|(index, schema)| {
            json!({"name": format!("bad_{}", index + 1), "description": "", "inputSchema": schema})
        })
        .collect()
}

/// Entries that are no tools. Each may cost itself, none may cost the list.
fn broken() -> Vec<Value> {
    let fine = json!({"type": "object"});
    vec![
        Value::Null,
        json!("a string"),
        json!(["an", "array"]),
        json!({"description": "has no name", "inputSchema": fine}),
        json!({"name": 7, "inputSchema": fine}),
        json!({"name": "", "inputSchema": fine}),
        json!({"name": "schema_is_a_string", "inputSchema": "object"}),
        json!({"name": "schema_is_missing"}),
        json!({"name": "description_is_a_number", "description": 7, "inputSchema": fine}),
    ]
}

/// The entries of `resources/list`.
pub(crate) fn resources() -> Vec<Value> {
    vec![
        json!({"uri": "fake://greeting", "name": "greeting", "mimeType": "text/plain", "description": "A text"}),
        json!({"uri": "fake://pixel", "name": "pixel", "mimeType": "image/png"}),
    ]
}

/// The answer to `resources/read`, or none for an unknown URI.
pub(crate) fn resource(uri: &str) -> Option<Value> {
    match uri {
        "fake://greeting" => Some(json!({"contents": [
            {"uri": uri, "mimeType": "text/plain", "text": "hello from a resource"},
        ]})),
        "fake://pixel" => Some(json!({"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}]})),
        _ => None,
    }
}

/// The entries of `prompts/list`.
pub(crate) fn prompts() -> Vec<Value> {
    vec![json!({
        "name": "greet",
        "description": "Greets somebody",
        "arguments": [{"name": "who", "description": "the name", "required": true}],
    })]
}

/// The answer to `prompts/get`, or none for an unknown name.
pub(crate) fn prompt(name: &str, who: &str) -> Option<Value> {
    (name == "greet").then(|| {
        json!({"description": "A greeting", "messages": [
            {"role": "user", "content": {"type": "text", "text": format!("Say hello to {who}")}},
        ]})
    })
}

/// A PNG of one pixel, as base64.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A result of every kind of block, an unknown one, extra fields, `structuredContent` and `_meta` (B51), as JSON text.
pub(crate) fn blocks(is_error: bool) -> String {
    json!({
        "content": [
            {"type": "text", "text": "first", "annotations": {"priority": 0.5, "audience": ["user"]}},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "fake://a", "mimeType": "text/plain", "text": "embedded"}},
            {"type": "resource", "resource": {"uri": "fake://empty", "text": ""}},
            {"type": "resource_link", "uri": "fake://linked", "name": "linked", "mimeType": "text/plain"},
            {"type": "x-chart", "points": [1, 2.50, 3], "title": "unknown"},
        ],
        "structuredContent": {"zebra": 1, "apple": "extra", "n": 1.0},
        "isError": is_error,
        "_meta": {"com.example/a": 1},
        "x-vendor": true,
    })
    .to_string()
}
