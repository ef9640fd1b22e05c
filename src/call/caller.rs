//! Tool calls as frontends make them.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use tokio::sync::watch;

use super::{
    CallError, MediaStore,
    admission::{Breakers, Gates},
    exchange::{CallLimits, verdict},
    route::{Route, Target},
    shape,
    shape::{HermesReply, ShapeContext},
};
use crate::{
    catalog::ToolKind,
    server::{Counters, Params},
    supervisor::Directory,
    text::Redactor,
    wire::Limits,
};

/// What a frontend asks for besides the tool.
#[derive(Default)]
pub struct Request {
    /// `arguments`, as JSON text; `None` or null is `{}` (B50).
    pub arguments: Option<Box<RawValue>>,
    /// Members of `_meta` to hand on, as JSON text without braces.
    pub meta: String,
    /// Overrides the server's `timeout`.
    pub timeout: Option<Duration>,
    /// Which frontend asks: where calls wait for their turn, frontends take turns.
    pub frontend: u64,
}

/// Makes calls. One for the whole daemon.
pub struct Caller {
    pub(super) directory: watch::Receiver<Directory>,
    pub(super) limits: Limits,
    pub(super) redactor: Arc<Redactor>,
    pub(super) gates: Gates,
    breakers: Breakers,
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
            gates: Gates::default(),
            breakers: Breakers::default(),
            media: Arc::new(media),
        }
    }

    /// Makes the call and gives MCP's `tools/call` result: for a tool the server's own bytes.
    ///
    /// # Errors
    /// Everything but an answer with a result.
    pub async fn call_mcp(
        &self,
        target: Target<'_>,
        request: Request,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        let mut limits = CallLimits::begin(&request);
        let route = self.route(target, &limits).await?;
        limits.of(&route.view.config);
        match route.kind {
            ToolKind::Tool => self.call_tool(&route, request, &limits, on_progress).await,
            ToolKind::Utility(utility) => {
                let reply = self.call_utility(&route, utility, &request, &limits).await?;
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
        target: Target<'_>,
        request: Request,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<HermesReply, CallError> {
        let mut limits = CallLimits::begin(&request);
        let route = self.route(target, &limits).await?;
        limits.of(&route.view.config);
        match route.kind {
            ToolKind::Tool => {
                let raw = self.call_tool(&route, request, &limits, on_progress).await?;
                Ok(self.shape(&route, raw, shape::tool_result).await)
            }
            ToolKind::Utility(utility) => self.call_utility(&route, utility, &request, &limits).await,
        }
    }

    /// How long calls to a server are still refused because too many failed.
    pub fn refused_for(&self, server: &str) -> Option<Duration> {
        self.breakers.open_for(server)
    }

    /// Somebody took care of a server: earlier failures don't count any more.
    pub fn forget_failures(&self, server: &str) {
        self.breakers.reset(server);
    }

    async fn call_tool(
        &self,
        route: &Route,
        request: Request,
        limits: &CallLimits,
        on_progress: impl FnMut(&RawValue),
    ) -> Result<Box<RawValue>, CallError> {
        if route.needs_task {
            return Err(CallError::NeedsTask {
                server: route.server.clone(),
                tool: route.tool.to_string(),
            });
        }
        let arguments = object_text(request.arguments.as_deref())?;
        let name = crate::wire::to_json(&route.tool);
        let params = Params {
            members: format!(r#""name":{name},"arguments":{arguments}"#),
            meta: request.meta,
            // Also where the frontend doesn't want it: progress shows that the server is at work.
            progress: true,
        };
        let admission = self
            .breakers
            .admit(&route.server)
            .map_err(|retry_after| CallError::CircuitOpen {
                server: route.server.clone(),
                retry_after,
            })?;
        let counters = &route.view.counters;
        Counters::add(&counters.calls);
        let result = self.send(route, "tools/call", &params, limits, on_progress).await;
        if result.is_err() {
            Counters::add(&counters.errors);
        }
        admission.end(verdict(&result));
        result
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
