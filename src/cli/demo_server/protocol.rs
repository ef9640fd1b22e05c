//! What the demo server answers to a line: a pure function, so that any line can be tried.

use serde_json::{Value, json};

use super::{clock, text_result};

/// Versions of MCP whose `initialize` it speaks; an unknown one gets the last.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The longest that the slow tool may take, seconds, and its most steps.
const SLOW: (f64, u64) = (3_600.0, 1_000);

const ABOUT: &str = "The server that is built into hermesd-mcp: three tools, this resource, and one prompt.";

/// What a line leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Reaction {
    /// A notification, a blank line, a stray answer.
    Nothing,
    Answer(Value),
    /// An answer that takes its time.
    Slow(Slow),
    /// The request with this id is no longer wanted.
    Cancel(Value),
}

/// A call of the slow tool.
#[derive(Debug, PartialEq)]
pub(super) struct Slow {
    pub(super) id: Value,
    pub(super) seconds: f64,
    pub(super) steps: u32,
    token: Option<Value>,
}

impl Slow {
    /// The notification after a step, if the caller asked for progress.
    pub(super) fn progress(&self, done: u32) -> Option<Value> {
        let token = self.token.as_ref()?;
        let message = format!("step {done} of {}", self.steps);
        Some(
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": token, "progress": done, "total": self.steps, "message": message,
            }}),
        )
    }

    pub(super) fn answer(&self) -> Value {
        let text = format!("done after {} s in {} steps", self.seconds, self.steps);
        json!({"jsonrpc": "2.0", "id": self.id, "result": text_result(&text, false)})
    }
}

/// A JSON-RPC error: code, message, data.
type Fault = (i64, String, Option<Value>);

/// Decides what a line deserves. `now` is in seconds since the epoch.
pub(super) fn react(line: &[u8], now: u64) -> Reaction {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Reaction::Nothing;
    }
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => return fault(&Value::Null, (-32700, format!("Parse error: {error}"), None)),
    };
    let (id, params) = (message.get("id"), &message["params"]);
    let Some(method) = message["method"].as_str() else {
        let is_answer = message.get("result").or(message.get("error")).is_some();
        return match is_answer {
            true => Reaction::Nothing,
            false => fault(
                &Value::Null,
                (-32600, "Invalid Request: not a JSON-RPC 2.0 message".into(), None),
            ),
        };
    };
    let Some(id) = id else {
        return match (method, params.get("requestId")) {
            ("notifications/cancelled", Some(id)) => Reaction::Cancel(id.clone()),
            _ => Reaction::Nothing,
        };
    };
    if !(id.is_string() || id.is_number()) {
        return fault(
            &Value::Null,
            (
                -32600,
                "Invalid Request: id must be a string or a number".into(),
                None,
            ),
        );
    }
    if method == "tools/call" && params["name"] == "slow" {
        return slow(id, params);
    }
    match answer(method, params, now) {
        Ok(result) => Reaction::Answer(json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Err(error) => fault(id, error),
    }
}

fn fault(id: &Value, (code, message, data): Fault) -> Reaction {
    let mut error = json!({"code": code, "message": message});
    if let Some(data) = data {
        error["data"] = data;
    }
    Reaction::Answer(json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn answer(method: &str, params: &Value, now: u64) -> Result<Value, Fault> {
    Ok(match method {
        "initialize" => {
            let asked = params["protocolVersion"].as_str().unwrap_or_default();
            let version = VERSIONS
                .into_iter()
                .find(|known| *known == asked)
                .unwrap_or(VERSIONS[VERSIONS.len() - 1]);
            json!({
                "protocolVersion": version,
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "hermesd-mcp-demo", "version": env!("CARGO_PKG_VERSION")},
            })
        }
        "ping" => json!({}),
        "tools/list" => tools(),
        "tools/call" => call(params, now)?,
        "resources/list" => json!({"resources": [
            {"uri": "demo://about", "name": "about", "description": "What this server is", "mimeType": "text/plain"},
        ]}),
        "resources/templates/list" => json!({"resourceTemplates": []}),
        "resources/read" => match params["uri"].as_str() {
            Some(uri @ "demo://about") => {
                json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": ABOUT}]})
            }
            Some(uri) => return Err((-32002, "Resource not found".into(), Some(json!({"uri": uri})))),
            None => return Err((-32602, "Invalid params: uri is required".into(), None)),
        },
        "prompts/list" => json!({"prompts": [{
            "name": "greet", "description": "Asks for a greeting",
            "arguments": [{"name": "name", "description": "Who is greeted", "required": true}],
        }]}),
        "prompts/get" => prompt(params)?,
        _ => return Err((-32601, format!("Method not found: {method}"), None)),
    })
}

fn tools() -> Value {
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    json!({"tools": [
        {
            "name": "time", "description": "The date and time now.",
            "inputSchema": object(json!({
                "timezone": {"type": "string", "description": "An offset from UTC such as +02:00; UTC when left out"},
            }), &[]),
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "echo", "description": "Gives the text back.",
            "inputSchema": object(json!({"text": {"type": "string", "description": "What to give back"}}), &["text"]),
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "slow", "description": "Takes its time, with progress after each step; can be cancelled.",
            "inputSchema": object(json!({
                "seconds": {"type": "number", "description": "How long, at most 3600", "default": 2},
                "steps": {"type": "integer", "description": "In how many steps, at most 1000", "default": 4},
            }), &[]),
            "annotations": {"readOnlyHint": true},
        },
    ]})
}

/// The quick tools. Wrong arguments are the tool's error, which a model can read and correct; an unknown tool is the
/// protocol's.
fn call(params: &Value, now: u64) -> Result<Value, Fault> {
    let arguments = &params["arguments"];
    match params["name"].as_str() {
        Some("time") => {
            let text = match &arguments["timezone"] {
                Value::Null => Some("UTC"),
                value => value.as_str(),
            };
            Ok(match text.and_then(clock::parse_offset) {
                Some(offset) => text_result(&clock::rfc3339(now, offset), false),
                None => text_result("timezone must be an offset from UTC such as +02:00", true),
            })
        }
        Some("echo") => Ok(match arguments["text"].as_str() {
            Some(text) => text_result(text, false),
            None => text_result("text is required and must be a string", true),
        }),
        Some(name) => Err((-32602, format!("Unknown tool: {name}"), None)),
        None => Err((-32602, "Invalid params: name is required".into(), None)),
    }
}

fn slow(id: &Value, params: &Value) -> Reaction {
    let arguments = &params["arguments"];
    let seconds = match &arguments["seconds"] {
        Value::Null => Some(2.0),
        value => value.as_f64(),
    };
    let steps = match &arguments["steps"] {
        Value::Null => Some(4),
        value => value.as_u64(),
    };
    match (seconds, steps) {
        (Some(seconds), Some(steps))
            if (0.0..=SLOW.0).contains(&seconds) && (1..=SLOW.1).contains(&steps) =>
        {
            Reaction::Slow(Slow {
                id: id.clone(),
                seconds,
                steps: steps as u32,
                token: params["_meta"].get("progressToken").cloned(),
            })
        }
        _ => {
            let text = "seconds must be a number from 0 to 3600, steps a whole number from 1 to 1000";
            Reaction::Answer(json!({"jsonrpc": "2.0", "id": id, "result": text_result(text, true)}))
        }
    }
}

fn prompt(params: &Value) -> Result<Value, Fault> {
    match (params["name"].as_str(), params["arguments"]["name"].as_str()) {
        (Some("greet"), Some(name)) => Ok(json!({
            "description": "Asks for a greeting",
            "messages": [{"role": "user", "content": {"type": "text", "text": format!("Greet {name} in one short sentence.")}}],
        })),
        (Some("greet"), None) => Err((-32602, "Invalid params: argument name is required".into(), None)),
        (Some(name), _) => Err((-32602, format!("Unknown prompt: {name}"), None)),
        (None, _) => Err((-32602, "Invalid params: name is required".into(), None)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn ask(message: Value) -> Value {
        match react(message.to_string().as_bytes(), NOW) {
            Reaction::Answer(answer) => answer,
            other => panic!("{message} was not answered but {other:?}"),
        }
    }

    fn request(method: &str, params: Value) -> Value {
        let answer = ask(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}));
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
        answer
    }

    #[test]
    fn initialize_echoes_a_known_version_and_else_offers_the_last() {
        for (asked, given) in [
            (json!("2025-06-18"), "2025-06-18"),
            (json!("2024-11-05"), "2024-11-05"),
            (json!("2099-01-01"), "2025-11-25"),
            (json!(null), "2025-11-25"),
        ] {
            let answer = request("initialize", json!({"protocolVersion": asked}));
            assert_eq!(answer["result"]["protocolVersion"], given);
            assert!(answer["result"]["capabilities"]["tools"].is_object());
        }
    }

    #[test]
    fn tools_do_what_they_say() {
        let call = |name: &str, arguments: Value| {
            request("tools/call", json!({"name": name, "arguments": arguments}))["result"].clone()
        };
        for (name, arguments, text) in [
            ("time", json!({}), "2023-11-14T22:13:20Z"),
            ("time", json!({"timezone": "+05:30"}), "2023-11-15T03:43:20+05:30"),
            ("echo", json!({"text": "äöü\n"}), "äöü\n"),
        ] {
            let result = call(name, arguments);
            assert_eq!(result["content"], json!([{"type": "text", "text": text}]));
            assert!(result.get("isError").is_none());
        }
        for (name, arguments) in [
            ("time", json!({"timezone": "Mars"})),
            ("time", json!({"timezone": 5})),
            ("echo", json!({})),
            ("slow", json!({"seconds": -1})),
            ("slow", json!({"steps": 0})),
            ("slow", json!({"steps": 1.5})),
        ] {
            assert_eq!(
                call(name, arguments.clone())["isError"],
                true,
                "{name} {arguments}"
            );
        }
        for tool in request("tools/list", json!({}))["result"]["tools"]
            .as_array()
            .unwrap()
        {
            assert_eq!(tool["inputSchema"]["type"], "object");
        }
    }

    #[test]
    fn a_slow_call_has_progress_only_when_asked() {
        let call = |meta: Value| {
            let params = json!({"name": "slow", "arguments": {"seconds": 0.5, "steps": 2}, "_meta": meta});
            let line =
                json!({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": params}).to_string();
            match react(line.as_bytes(), NOW) {
                Reaction::Slow(slow) => slow,
                other => panic!("{other:?}"),
            }
        };
        let slow = call(json!({"progressToken": 5}));
        assert_eq!((slow.seconds, slow.steps), (0.5, 2));
        let progress = slow.progress(1).unwrap();
        assert_eq!(
            progress["params"],
            json!({"progressToken": 5, "progress": 1, "total": 2, "message": "step 1 of 2"})
        );
        assert_eq!(slow.answer()["id"], "s");
        assert_eq!(call(json!(null)).progress(1), None);
    }

    #[test]
    fn unknown_things_get_their_exact_error() {
        for (method, params, code, message) in [
            ("nope/nope", json!({}), -32601, "Method not found: nope/nope"),
            (
                "tools/call",
                json!({"name": "nope"}),
                -32602,
                "Unknown tool: nope",
            ),
            (
                "tools/call",
                json!({}),
                -32602,
                "Invalid params: name is required",
            ),
            (
                "resources/read",
                json!({"uri": "demo://x"}),
                -32002,
                "Resource not found",
            ),
            (
                "resources/read",
                json!({}),
                -32602,
                "Invalid params: uri is required",
            ),
            ("prompts/get", json!({"name": "x"}), -32602, "Unknown prompt: x"),
            (
                "prompts/get",
                json!({"name": "greet"}),
                -32602,
                "Invalid params: argument name is required",
            ),
        ] {
            let error = &request(method, params)["error"];
            assert_eq!(
                (error["code"].as_i64(), error["message"].as_str()),
                (Some(code), Some(message))
            );
        }
        assert_eq!(
            request("resources/read", json!({"uri": "demo://x"}))["error"]["data"]["uri"],
            "demo://x"
        );
    }

    #[test]
    fn resource_and_prompt_can_be_read() {
        let about = request("resources/read", json!({"uri": "demo://about"}));
        assert_eq!(about["result"]["contents"][0]["text"], ABOUT);
        let greet = request(
            "prompts/get",
            json!({"name": "greet", "arguments": {"name": "Ada"}}),
        );
        assert!(
            greet["result"]["messages"][0]["content"]["text"]
                .as_str()
                .unwrap()
                .contains("Ada")
        );
    }

    #[test]
    fn notifications_and_answers_are_not_answered_and_garbage_is_an_error() {
        for line in [
            "",
            "  \r\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(react(line.as_bytes(), NOW), Reaction::Nothing, "{line}");
        }
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#;
        assert_eq!(react(cancel.as_bytes(), NOW), Reaction::Cancel(json!("s")));
        for (line, code) in [
            (&b"{"[..], -32700),
            (b"\xff\xfe", -32700),
            (b"[]", -32600),
            (b"5", -32600),
            (b"{}", -32600),
            (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        ] {
            let Reaction::Answer(answer) = react(line, NOW) else {
                panic!("{line:?}");
            };
            assert_eq!(
                (&answer["error"]["code"], &answer["id"]),
                (&json!(code), &json!(null)),
                "{line:?}"
            );
        }
    }

    fn arbitrary_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let key = prop_oneof![
                "name",
                "arguments",
                "seconds",
                "steps",
                "timezone",
                "text",
                "uri",
                "_meta",
                ".{0,4}"
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key, inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = react(&line, NOW);
        }

        #[test]
        fn no_request_makes_it_panic_and_each_has_its_id_back(
            method in prop_oneof!["tools/call", "initialize", "resources/read", "prompts/get", ".{0,10}"],
            name in prop_oneof![Just(json!("slow")), Just(json!("time")), Just(json!("echo")), arbitrary_json()],
            mut params in arbitrary_json(),
            now in any::<u64>(),
        ) {
            if params.is_object() {
                params["name"] = name;
            }
            let line = json!({"jsonrpc": "2.0", "id": "i", "method": method, "params": params}).to_string();
            match react(line.as_bytes(), now) {
                Reaction::Answer(answer) => prop_assert_eq!(&answer["id"], "i"),
                Reaction::Slow(slow) => prop_assert_eq!(slow.id, "i"),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
