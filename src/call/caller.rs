//! One call from its name to the server's answer.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{sync::watch, time::timeout};

use super::{
    CallError, MediaStore, shape,
    shape::{HermesReply, ShapeContext},
};
use crate::{
    catalog::{CatalogTool, ToolKind, Utility},
    name::{ServerName, ToolName},
    server::{Connection, Counters, ListError, Params, Reply, ServerView},
    supervisor::{Directory, Member},
    text::Redactor,
    wire::Limits,
};

/// Which tool is meant.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// By its name in the merged list.
    Exposed(&'a str),
    /// By its server and its original name.
    Original {
        /// The server.
        server: &'a str,
        /// The tool.
        tool: &'a str,
    },
}

/// A tool that was found, and its server as it is now.
pub struct Route {
    server: ServerName,
    tool: ToolName,
    kind: ToolKind,
    pub(super) view: Arc<ServerView>,
    /// The exposed name of the server's `read_resource` tool, for texts that point to it.
    read_resource: Option<String>,
}

/// What a frontend asks for besides the tool.
#[derive(Default)]
pub struct Request {
    /// `arguments`, as JSON text; `None` or null is `{}` (B50).
    pub arguments: Option<Box<RawValue>>,
    /// Members of `_meta` to hand on, as JSON text without braces.
    pub meta: String,
    /// Whether the frontend wants progress.
    pub progress: bool,
    /// Overrides the server's `timeout`.
    pub timeout: Option<Duration>,
}

/// Makes calls. One for the whole daemon.
pub struct Caller {
    directory: watch::Receiver<Directory>,
    limits: Limits,
    redactor: Arc<Redactor>,
    media: Arc<MediaStore>,
}

impl Caller {
    /// A caller over the given directory.
    pub fn new(
        directory: watch::Receiver<Directory>,
        limits: Limits,
        redactor: Arc<Redactor>,
        media: MediaStore,
    ) -> Self {
        Self {
            directory,
            limits,
            redactor,
            media: Arc::new(media),
        }
    }

    /// Finds a tool. By table only: a name is never taken apart (TOOL-04).
    ///
    /// # Errors
    /// No such server or tool, or the configuration excludes it.
    pub fn resolve(&self, target: Target<'_>) -> Result<Route, CallError> {
        let directory = self.directory.borrow();
        let found = match target {
            Target::Exposed(name) => directory.catalog.route(name),
            Target::Original { server, tool } => directory.catalog.find(server, tool),
        };
        let Some(found) = found else {
            return Err(self.not_found(&directory, target));
        };
        self.route(&directory, found)
    }

    fn route(&self, directory: &Directory, found: &CatalogTool) -> Result<Route, CallError> {
        let Some(Member::Server(handle)) = directory.servers.get(&found.server) else {
            return Err(self.not_found(directory, Target::Exposed(found.name.as_str())));
        };
        let read_resource = Utility::ReadResource.name();
        Ok(Route {
            server: found.server.clone(),
            tool: found.tool.clone(),
            kind: found.kind,
            view: handle.view(),
            read_resource: match found.kind {
                ToolKind::Tool => directory
                    .catalog
                    .find(found.server.as_str(), read_resource)
                    .map(|tool| tool.name.to_string()),
                ToolKind::Utility(_) => None,
            },
        })
    }

    /// Tells apart: no such server, a server that isn't there, a tool that is filtered out, no such tool.
    fn not_found(&self, directory: &Directory, target: Target<'_>) -> CallError {
        let (server, tool) = match target {
            Target::Exposed(name) => {
                if let Some(view) = missing_server(directory, name) {
                    return CallError::unavailable(&view);
                }
                let did_you_mean = directory.catalog.did_you_mean(name);
                return CallError::ToolNotFound {
                    name: name.into(),
                    did_you_mean,
                };
            }
            Target::Original { server, tool } => (server, tool),
        };
        let Some(member) = directory.servers.get(server) else {
            let names: Vec<&str> = directory.servers.keys().map(ServerName::as_str).collect();
            let configured = if names.is_empty() {
                "none".into()
            } else {
                names.join(", ")
            };
            return CallError::ServerNotFound {
                name: server.into(),
                configured,
            };
        };
        let handle = match member {
            Member::Server(handle) => handle,
            Member::Invalid { error } => {
                return CallError::Unavailable {
                    server: server.into(),
                    state: crate::server::State::Failed,
                    reason: Some(error.clone()),
                    retry_after: None,
                };
            }
        };
        let view = handle.view();
        if view.tools.iter().any(|listed| listed.name.as_str() == tool) {
            return CallError::Excluded {
                server: server.into(),
                tool: tool.into(),
            };
        }
        if view.connection.is_none() {
            return CallError::unavailable(&view);
        }
        let exposed: Vec<_> = directory
            .catalog
            .tools()
            .iter()
            .filter(|entry| entry.server.as_str() == server)
            .collect();
        let names: Vec<&str> = exposed.iter().map(|entry| entry.tool.as_str()).collect();
        let nearest = crate::text::nearest(tool, names.iter().copied());
        let did_you_mean = exposed
            .iter()
            .filter(|entry| nearest.contains(&entry.tool.as_str()))
            .map(|entry| entry.name.clone())
            .collect();
        CallError::ToolNotFound {
            name: format!("{tool} (of server '{server}')"),
            did_you_mean,
        }
    }

    /// Makes the call and gives MCP's `tools/call` result: for a tool the server's own bytes.
    ///
    /// # Errors
    /// Everything but an answer with a result.
    pub async fn call_mcp(
        &self,
        route: &Route,
        request: Request,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        match route.kind {
            ToolKind::Tool => self.call_tool(route, request, on_progress).await,
            ToolKind::Utility(utility) => {
                let reply = self.call_utility(route, utility, request).await?;
                Ok(shape::as_mcp_result(&reply))
            }
        }
    }

    /// Makes the call and gives Hermes' `{"result": …}` or `{"error": …}`.
    ///
    /// # Errors
    /// Everything but an answer of the server; its own JSON-RPC errors are [`CallError::Server`].
    pub async fn call_hermes(
        &self,
        route: &Route,
        request: Request,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<HermesReply, CallError> {
        match route.kind {
            ToolKind::Tool => {
                let raw = self.call_tool(route, request, on_progress).await?;
                Ok(self.shape(route, raw, shape::tool_result).await)
            }
            ToolKind::Utility(utility) => self.call_utility(route, utility, request).await,
        }
    }

    async fn call_tool(
        &self,
        route: &Route,
        request: Request,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        let arguments = object_text(request.arguments.as_deref())?;
        let name = crate::wire::to_json(&route.tool);
        let params = Params {
            members: format!(r#""name":{name},"arguments":{arguments}"#),
            meta: request.meta,
            progress: request.progress,
        };
        let limit = request.timeout.unwrap_or(route.view.config.timeout);
        let counters = &route.view.counters;
        Counters::add(&counters.calls);
        let result = self.send(route, "tools/call", params, limit, on_progress).await;
        if result.is_err() {
            Counters::add(&counters.errors);
        }
        result
    }

    pub(super) async fn list(
        &self,
        route: &Route,
        connection: &Connection,
        method: &'static str,
        key: &str,
        limit: Duration,
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let server = || route.server.clone();
        match timeout(limit, connection.list(method, key, &self.limits)).await {
            Err(_) => Err(CallError::Timeout {
                server: server(),
                after: limit,
            }),
            Ok(Ok(listed)) => Ok(listed.items),
            Ok(Err(ListError::Lost(lost))) => Err(CallError::Lost {
                server: server(),
                tool: route.tool.to_string(),
                lost,
            }),
            Ok(Err(ListError::Refused { error, .. })) => Err(self.server_error(route, &error)),
            Ok(Err(error @ ListError::Shape { .. })) => Err(CallError::Protocol {
                server: server(),
                detail: error.to_string(),
            }),
        }
    }

    pub(super) async fn send(
        &self,
        route: &Route,
        method: &'static str,
        params: Params,
        limit: Duration,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        let lost = |lost| CallError::Lost {
            server: route.server.clone(),
            tool: route.tool.to_string(),
            lost,
        };
        let mut pending = connection(route)?.request(method, params).map_err(lost)?;
        let reply = match timeout(limit, pending.answer(on_progress)).await {
            Ok(reply) => reply.map_err(lost)?,
            Err(_) => {
                pending.cancel("timed out");
                return Err(CallError::Timeout {
                    server: route.server.clone(),
                    after: limit,
                });
            }
        };
        match reply {
            Reply::Error(raw) => Err(self.server_error(route, raw.get())),
            Reply::Result(raw) if !raw.get().starts_with('{') => Err(CallError::Protocol {
                server: route.server.clone(),
                detail: format!("its result of {method} is not an object"),
            }),
            Reply::Result(raw) => match route.view.config.max_result_bytes {
                Some(limit) if raw.get().len() > limit => Err(CallError::TooLarge {
                    server: route.server.clone(),
                    size: raw.get().len(),
                    limit,
                }),
                _ => Ok(raw),
            },
        }
    }

    fn server_error(&self, route: &Route, raw: &str) -> CallError {
        #[derive(Deserialize)]
        struct Parts {
            #[serde(default)]
            code: serde_json::Value,
            #[serde(default)]
            message: serde_json::Value,
        }
        let parts = serde_json::from_str::<Parts>(raw).ok();
        let code = parts
            .as_ref()
            .and_then(|parts| parts.code.as_i64())
            .unwrap_or(-32603);
        // Not every server keeps the shape; what came is better than nothing (B19).
        let message = parts
            .as_ref()
            .and_then(|parts| parts.message.as_str())
            .unwrap_or(raw);
        CallError::Server {
            server: route.server.clone(),
            code,
            message: self.redactor.redact(message).into_owned(),
            raw: raw.into(),
        }
    }

    /// Shapes a result. One that is large or holds data to save does not hold up the daemon's only thread.
    pub(super) async fn shape(
        &self,
        route: &Route,
        raw: Box<RawValue>,
        shape: fn(&RawValue, &ShapeContext<'_>) -> HermesReply,
    ) -> HermesReply {
        let (server, read_resource) = (route.server.clone(), route.read_resource.clone());
        let (media, redactor) = (self.media.clone(), self.redactor.clone());
        let is_slow = is_slow_to_shape(&raw);
        let work = move || {
            let context = ShapeContext {
                server: &server,
                read_resource_tool: read_resource.as_deref(),
                media: &media,
                redactor: &redactor,
            };
            shape(&raw, &context)
        };
        if !is_slow {
            return work();
        }
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            tracing::error!(%error, "shaping a result failed");
            shape::error_reply("the result could not be shaped; this is a fault of hermesd-mcp, see its log")
        })
    }
}

/// Whether shaping takes long: much text, or a block with data, which is decoded and written to a file.
fn is_slow_to_shape(raw: &RawValue) -> bool {
    let json = raw.get().as_bytes();
    json.len() > (128 << 10)
        || memchr::memmem::find(json, b"\"data\"").is_some()
        || memchr::memmem::find(json, b"\"blob\"").is_some()
}

impl Route {
    /// The server.
    pub fn server(&self) -> &ServerName {
        &self.server
    }
}

/// The server that would have the tool, if it is one that is not connected and so offers nothing. Only for the text:
/// nothing is ever routed by a name's form.
fn missing_server(directory: &Directory, name: &str) -> Option<Arc<ServerView>> {
    let mut missing = directory.servers.values().filter_map(|member| match member {
        Member::Server(handle) => Some(handle.view()),
        Member::Invalid { .. } => None,
    });
    missing.find(|view| {
        let prefix = directory.catalog.prefix_of(view.name());
        view.connection.is_none() && view.tools.is_empty() && !prefix.is_empty() && name.starts_with(&prefix)
    })
}

pub(super) fn connection(route: &Route) -> Result<&Connection, CallError> {
    route
        .view
        .connection
        .as_ref()
        .ok_or_else(|| CallError::unavailable(&route.view))
}

/// The arguments as JSON text: an object, byte for byte as it came (TOOL-10).
pub(super) fn object_text(arguments: Option<&RawValue>) -> Result<&str, CallError> {
    let text = arguments.map_or("{}", RawValue::get);
    match text.as_bytes().first() {
        Some(b'{') => Ok(text),
        Some(b'n') => Ok("{}"),
        Some(b'[') => Err(CallError::Arguments { found: "an array" }),
        Some(b'"') => Err(CallError::Arguments { found: "a string" }),
        Some(b't' | b'f') => Err(CallError::Arguments { found: "a boolean" }),
        _ => Err(CallError::Arguments { found: "a number" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_nothing() {
        let text = |json: &str| {
            let raw = RawValue::from_string(json.into()).unwrap();
            object_text(Some(&raw))
                .map(str::to_owned)
                .map_err(|error| error.to_string())
        };
        assert_eq!(object_text(None).unwrap(), "{}");
        assert_eq!(text("null").unwrap(), "{}");
        assert_eq!(text(r#"{"x":null}"#).unwrap(), r#"{"x":null}"#);
        for (json, found) in [
            ("[1]", "an array"),
            ("\"a\"", "a string"),
            ("1", "a number"),
            ("true", "a boolean"),
        ] {
            assert_eq!(
                text(json).unwrap_err(),
                format!("the arguments of a tool call are a JSON object, not {found}")
            );
        }
    }
}
