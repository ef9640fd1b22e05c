//! Plain MCP on the socket, so that any MCP SDK can talk to it. `tools/list` and `tools/call` work without
//! `initialize` too.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    App,
    outgoing::Outgoing,
    params::read,
    session::{Answer, Context, Work},
};
use crate::{
    call::{CallError, Request, Target},
    wire::{Code, RpcError, is_reserved_meta, to_json, write_notification},
};

/// The protocol versions with a handshake, oldest first.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const NEWEST: &str = VERSIONS[VERSIONS.len() - 1];

const INSTRUCTIONS: &str = "Tools of all MCP servers of this user, merged by hermesd-mcp. \
    Names start with the server's name; a tool of a server that is down answers with an error that says so.";

/// What one frontend's MCP conversation has come to.
pub(super) struct Dialect {
    is_initialized: bool,
    /// The generation of the list that the frontend was last told about.
    told: u64,
}

impl Dialect {
    pub(super) fn new(app: &App) -> Self {
        Self {
            is_initialized: false,
            told: app.directory.borrow().catalog.generation(),
        }
    }

    /// Starts the work of an MCP method.
    pub(super) fn handle(
        &mut self,
        app: &Arc<App>,
        context: &Context<'_>,
        method: &str,
        params: Option<&RawValue>,
    ) -> Work {
        match method {
            "tools/call" => match read(params) {
                Ok(params) => call(app, context, params),
                Err(error) => Work::Now(Answer::Error(error)),
            },
            "tools/list" => self.tools(app, params),
            "initialize" => Work::now(initialize(params)),
            "ping" => Work::now(Ok::<_, RpcError>(json!({}))),
            _ => Work::Now(Answer::Error(RpcError::new(
                Code::MethodNotFound,
                format!("unknown method '{}'", crate::text::one_line(method)),
            ))),
        }
    }

    /// `notifications/initialized`: from now on the frontend is told when the list changes.
    pub(super) fn initialized(&mut self) {
        self.is_initialized = true;
    }

    pub(super) fn wants_list_changed(&self) -> bool {
        self.is_initialized
    }

    /// Tells the frontend once for each real change of the list.
    pub(super) fn list_changed(&mut self, app: &App, out: &mut Outgoing) {
        let generation = app.directory.borrow().catalog.generation();
        if generation != self.told {
            self.told = generation;
            let mut line = Vec::new();
            write_notification(&mut line, "notifications/tools/list_changed", "{}");
            out.stream(&line);
        }
    }

    fn tools(&mut self, app: &App, params: Option<&RawValue>) -> Work {
        #[derive(Deserialize)]
        struct Params {
            cursor: Option<String>,
        }
        match read::<Params>(params) {
            Err(error) => Work::Now(Answer::Error(error)),
            Ok(Params { cursor: Some(_) }) => Work::Now(Answer::Error(RpcError::new(
                Code::InvalidParams,
                "unknown cursor: this list has one page",
            ))),
            Ok(Params { cursor: None }) => {
                let catalog = app.directory.borrow().catalog.clone();
                self.told = catalog.generation();
                Work::Now(Answer::Shared(catalog.mcp_list_result()))
            }
        }
    }
}

fn initialize(params: Option<&RawValue>) -> Result<serde_json::Value, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        #[serde(default)]
        protocol_version: String,
    }
    let asked = read::<Params>(params)?.protocol_version;
    let version = VERSIONS
        .into_iter()
        .find(|version| *version == asked)
        .unwrap_or(NEWEST);
    Ok(json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "hermesd-mcp", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    }))
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    _meta: Option<Box<RawValue>>,
}

fn call(app: &Arc<App>, context: &Context<'_>, params: CallParams) -> Work {
    let meta = Meta::read(params._meta.as_deref());
    let request = Request {
        arguments: params.arguments,
        meta: meta.members,
        timeout: None,
        frontend: context.frontend,
    };
    let (app, progress) = (app.clone(), context.progress());
    Work::Later(Box::pin(async move {
        let forward = progress.to(meta.token);
        match app
            .caller
            .call_mcp(Target::Exposed(&params.name), request, |params| {
                forward.send(params)
            })
            .await
        {
            Ok(result) => Answer::Raw(result),
            Err(error) => refused(&error),
        }
    }))
}

fn refused(error: &CallError) -> Answer {
    match error {
        // The server's own words.
        CallError::Server { raw, .. } => Answer::RawError(raw.clone()),
        // A model can react to a text, not to a protocol error.
        CallError::Unavailable { .. } | CallError::CircuitOpen { .. } => Answer::Result(
            to_json(&json!({"content": [{"type": "text", "text": error.to_string()}], "isError": true}))
                .into(),
        ),
        error => Answer::Error(error.to_rpc()),
    }
}

/// A request's `_meta`, taken apart.
#[derive(Default)]
pub(super) struct Meta {
    /// The frontend's own progress token.
    pub(super) token: Option<Box<RawValue>>,
    /// What is handed on, as JSON members without braces (META-04). Reserved keys are the daemon's own business
    /// (META-02).
    pub(super) members: String,
}

impl Meta {
    pub(super) fn read(raw: Option<&RawValue>) -> Self {
        let Some(raw) = raw else { return Self::default() };
        let Ok(members) = serde_json::from_str::<indexmap::IndexMap<String, &RawValue>>(raw.get()) else {
            return Self::default();
        };
        let mut meta = Self::default();
        for (key, value) in members {
            if key == "progressToken" {
                meta.token = is_token(value).then(|| value.to_owned());
            } else if !is_reserved_meta(&key) {
                let comma = if meta.members.is_empty() { "" } else { "," };
                meta.members
                    .push_str(&format!("{comma}{}:{}", to_json(&key), value.get()));
            }
        }
        meta
    }
}

/// A progress token is a string or an integer.
fn is_token(raw: &RawValue) -> bool {
    let text = raw.get();
    text.starts_with('"') || text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.into()).unwrap()
    }

    #[test]
    fn meta_keeps_what_is_not_ours_byte_for_byte() {
        let meta = Meta::read(Some(&raw(
            r#"{"com.example/a":{"n":1.0},"progressToken":"t","io.modelcontextprotocol/x":1,"plain":18446744073709551616}"#,
        )));
        assert_eq!(meta.token.unwrap().get(), "\"t\"");
        assert_eq!(
            meta.members,
            r#""com.example/a":{"n":1.0},"plain":18446744073709551616"#
        );
        for none in ["null", "[]", "1", "{}"] {
            let meta = Meta::read(Some(&raw(none)));
            assert!(meta.token.is_none() && meta.members.is_empty(), "{none}");
        }
        assert!(Meta::read(Some(&raw(r#"{"progressToken":{}}"#))).token.is_none());
    }

    #[test]
    fn a_known_version_is_taken_and_another_answered_with_the_newest() {
        for (asked, expected) in [
            ("2025-03-26", "2025-03-26"),
            ("2024-11-05", "2024-11-05"),
            ("1999", NEWEST),
        ] {
            let params = raw(&format!(r#"{{"protocolVersion":"{asked}"}}"#));
            assert_eq!(initialize(Some(&params)).unwrap()["protocolVersion"], expected);
        }
        assert_eq!(initialize(None).unwrap()["protocolVersion"], NEWEST);
    }
}
