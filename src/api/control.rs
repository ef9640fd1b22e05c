//! The control methods, `hermes/…`: for frontends that know the daemon. API version 1; additions only.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    App,
    params::read,
    session::{Answer, Context, Work},
    status::status,
};
use crate::{
    call::{CallError, Request, Target},
    server::{ServerHandle, settled},
    supervisor::{Directory, Member},
    wire::{Code, RpcError, to_json},
};

/// What this daemon can do beyond the methods of its API version.
const FEATURES: [&str; 3] = ["call.progress", "events", "mcp"];
/// Lines that `hermes/logs` gives when the request doesn't say.
const LOG_LINES: usize = 100;
/// A per-call timeout above this is a mistake in the unit.
const LONGEST_TIMEOUT: f64 = 24.0 * 3600.0;

/// Starts the work of a `hermes/…` method.
pub(super) fn handle(app: &Arc<App>, context: &Context<'_>, method: &str, params: Option<&RawValue>) -> Work {
    match method {
        "hermes/hello" => Work::now(hello(app)),
        "hermes/status" => Work::now(server_param(app, params).map(|only| status(app, only.as_deref()))),
        "hermes/tools" => Work::Now(match read(params).and_then(|params| tools(app, &params)) {
            Ok(json) => Answer::Result(json.into()),
            Err(error) => Answer::Error(error),
        }),
        "hermes/toolsets" => {
            let directory = app.directory.borrow().clone();
            Work::now(Ok::<_, RpcError>(
                json!({"toolsets": directory.catalog.toolsets()}),
            ))
        }
        "hermes/logs" => Work::now(read(params).and_then(|params| logs(app, &params))),
        "hermes/call" => match read(params) {
            Ok(params) => call(app.clone(), context, params),
            Err(error) => Work::Now(Answer::Error(error)),
        },
        "hermes/restart" => {
            match read(params).and_then(|params: OneServer| enabled_server(app, &params.server)) {
                Ok(handle) => Work::Later(Box::pin(restart(app.clone(), handle))),
                Err(error) => Work::Now(Answer::Error(error)),
            }
        }
        "hermes/shutdown" => {
            tracing::info!("a frontend asked the daemon to stop");
            app.stopping.cancel();
            Work::now(Ok::<_, RpcError>(json!({})))
        }
        _ => Work::Now(Answer::Error(RpcError::new(
            Code::MethodNotFound,
            format!(
                "unknown method '{}'; this daemon speaks API version 1",
                crate::text::one_line(method)
            ),
        ))),
    }
}

fn hello(app: &App) -> Result<Value, RpcError> {
    Ok(json!({
        "api": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "instance": app.instance,
        "generation": app.directory.borrow().catalog.generation(),
        "pid": std::process::id(),
        "limits": app.limits,
        "features": FEATURES,
    }))
}

fn server_param(app: &App, params: Option<&RawValue>) -> Result<Option<String>, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        server: Option<String>,
    }
    let params: Params = read(params)?;
    if let Some(name) = &params.server {
        member(&app.directory.borrow(), name)?;
    }
    Ok(params.server)
}

#[derive(Deserialize)]
struct ToolsParams {
    server: Option<String>,
    toolset: Option<String>,
    if_generation: Option<u64>,
}

/// The list as JSON text: the whole list is serialised once per generation.
fn tools(app: &App, params: &ToolsParams) -> Result<String, RpcError> {
    let directory = app.directory.borrow().clone();
    let generation = directory.catalog.generation();
    if params.if_generation == Some(generation) {
        return Ok(to_json(&json!({"generation": generation, "unchanged": true})));
    }
    let of_toolset = match &params.toolset {
        Some(toolset) => Some(server_of_toolset(&directory, toolset)?),
        None => None,
    };
    if let Some(server) = &params.server {
        member(&directory, server)?;
    }
    let tools = match (&params.server, &of_toolset) {
        (None, None) => directory.catalog.hermes_tools_json().to_string(),
        (server, toolset) => directory.catalog.hermes_tools_json_where(|tool| {
            server
                .as_deref()
                .is_none_or(|server| tool.server.as_str() == server)
                && toolset
                    .as_deref()
                    .is_none_or(|server| tool.server.as_str() == server)
        }),
    };
    Ok(format!(r#"{{"generation":{generation},"tools":{tools}}}"#))
}

/// A toolset is named `mcp-<server>` or, by its alias, `<server>`.
fn server_of_toolset(directory: &Directory, toolset: &str) -> Result<String, RpcError> {
    let candidates = [toolset.strip_prefix("mcp-"), Some(toolset)];
    let found = candidates
        .into_iter()
        .flatten()
        .find(|name| directory.servers.contains_key(*name));
    found.map(str::to_owned).ok_or_else(|| {
        let names: Vec<String> = directory
            .servers
            .keys()
            .map(|name| format!("mcp-{name}"))
            .collect();
        RpcError::new(
            Code::InvalidParams,
            format!("unknown toolset '{toolset}'; toolsets are: {}", names.join(", ")),
        )
    })
}

fn member(directory: &Directory, name: &str) -> Result<Member, RpcError> {
    directory.servers.get(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = directory.servers.keys().map(|name| name.as_str()).collect();
        let configured = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
        let did_you_mean: Vec<String> = crate::text::nearest(name, names.iter().copied())
            .into_iter()
            .map(str::to_owned)
            .collect();
        CallError::ServerNotFound {
            name: name.into(),
            configured,
        }
        .to_rpc()
        .with("did_you_mean", did_you_mean)
    })
}

#[derive(Deserialize)]
struct OneServer {
    server: String,
}

fn enabled_server(app: &App, name: &str) -> Result<ServerHandle, RpcError> {
    match member(&app.directory.borrow(), name)? {
        Member::Server(handle) if handle.view().config.enabled => Ok(handle),
        Member::Server(_) => Err(RpcError::new(
            Code::ServerUnavailable,
            format!("server '{name}' is disabled; remove 'enabled: false' from its entry first"),
        )
        .server(&name.into())),
        Member::Invalid { error } => Err(RpcError::new(Code::ConfigInvalid, error).server(&name.into())),
    }
}

async fn restart(app: Arc<App>, handle: ServerHandle) -> Answer {
    handle.restart().await;
    app.caller.forget_failures(handle.view().name().as_str());
    let limit = handle.view().config.connect_timeout + Duration::from_secs(1);
    let view = settled(&handle, limit).await;
    let mut result = json!({"server": view.name(), "state": view.state, "tools": view.tools.len()});
    if let Some(reason) = &view.reason {
        result["reason"] = json!(reason);
        result["error"] = json!(crate::server::connect_error(&view, reason));
    }
    Answer::of(Ok::<_, RpcError>(result))
}

#[derive(Deserialize)]
struct LogsParams {
    server: String,
    lines: Option<usize>,
}

fn logs(app: &App, params: &LogsParams) -> Result<Value, RpcError> {
    let lines = match member(&app.directory.borrow(), &params.server)? {
        Member::Server(handle) => handle.view().stderr.last_lines(params.lines.unwrap_or(LOG_LINES)),
        Member::Invalid { .. } => Vec::new(),
    };
    Ok(json!({"server": params.server, "lines": lines}))
}

#[derive(Deserialize)]
struct CallParams {
    name: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    arguments: Option<Box<RawValue>>,
    timeout: Option<f64>,
    #[serde(default)]
    _meta: Option<Box<RawValue>>,
}

impl CallParams {
    fn target(&self) -> Result<Target<'_>, RpcError> {
        match (&self.name, &self.server, &self.tool) {
            (Some(name), None, None) => Ok(Target::Exposed(name)),
            (None, Some(server), Some(tool)) => Ok(Target::Original { server, tool }),
            _ => Err(RpcError::new(
                Code::InvalidParams,
                "params: give either 'name' (as in hermes/tools) or 'server' and 'tool' (the original names)",
            )),
        }
    }
}

fn call(app: Arc<App>, context: &Context<'_>, mut params: CallParams) -> Work {
    let timeout = match params.timeout {
        None => None,
        Some(seconds) if seconds > 0.0 && seconds <= LONGEST_TIMEOUT => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(_) => {
            return Work::Now(Answer::Error(RpcError::new(
                Code::InvalidParams,
                format!("params.timeout: seconds above 0 and at most {LONGEST_TIMEOUT}"),
            )));
        }
    };
    let meta = super::mcp::Meta::read(params._meta.as_deref());
    let request = Request {
        arguments: params.arguments.take(),
        meta: meta.members,
        timeout,
        frontend: context.frontend,
    };
    let progress = context.progress();
    Work::Later(Box::pin(async move {
        let target = match params.target() {
            Ok(target) => target,
            Err(error) => return Answer::Error(error),
        };
        let forward = progress.to(meta.token);
        match app
            .caller
            .call_hermes(target, request, |params| forward.send(params))
            .await
        {
            Ok(reply) => Answer::Result(reply.to_json().into()),
            Err(error) => refused(&error),
        }
    }))
}

/// A request that was wrong is a JSON-RPC error. A call that failed is Hermes' `{"error": text}`, with our code
/// beside it, so that a model can be shown the answer as it is.
fn refused(error: &CallError) -> Answer {
    if error.is_about_the_request() {
        return Answer::Error(error.to_rpc());
    }
    let rpc = error.to_rpc();
    let mut result = json!({"error": rpc.message, "code": rpc.code, "retryable": rpc.data.retryable});
    if let Some(server) = &rpc.data.server {
        result["server"] = json!(server);
    }
    if rpc.code == Code::OutcomeUnknown as i32 {
        result["outcome_uncertain"] = json!(true);
    }
    Answer::of(Ok::<_, RpcError>(result))
}
