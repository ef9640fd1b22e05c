//! `hermes/status`: everything about every server, with at least the keys of Hermes' own `get_mcp_status()`.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::App;
use crate::{
    config::Transport,
    name::ServerName,
    server::{
        Counters, ServerView, State, connect_error,
        stdio::package_runner::{self, AsWritten},
    },
    supervisor::Member,
};

/// Lines of stderr that `status` shows for a server that is not well.
const STDERR_LINES: usize = 5;

/// The whole answer; `only` names one server.
pub(super) fn status(app: &App, only: Option<&str>) -> Value {
    let directory = app.directory.borrow().clone();
    let servers: Vec<Value> = directory
        .servers
        .iter()
        .filter(|(name, _)| only.is_none_or(|only| name.as_str() == only))
        .map(|(name, member)| match member {
            Member::Server(handle) => {
                let view = handle.view();
                let tools = directory
                    .catalog
                    .tools()
                    .iter()
                    .filter(|tool| tool.server == *name)
                    .count();
                let mut server = server(&view, tools);
                if let Some(time) = app.caller.refused_for(name.as_str()) {
                    server["circuit"] = json!({"state": "open", "retry_in_s": time.as_secs()});
                }
                server
            }
            Member::Invalid { error } => invalid(name, error),
        })
        .collect();
    let mut config = json!({
        "path": app.config.path.display().to_string(),
        "loaded_at": seconds(app.config.loaded_at),
        "diagnostics": app.config.diagnostics,
    });
    if let Some(error) = &app.config.error {
        config["error"] = json!(error);
    }
    json!({
        "generation": directory.catalog.generation(),
        "uptime_s": app.started.elapsed().as_secs(),
        "pid": std::process::id(),
        "tasks": tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        "version": env!("CARGO_PKG_VERSION"),
        "config": config,
        "servers": servers,
        "warnings": directory.catalog.warnings(),
    })
}

fn server(view: &ServerView, tools: usize) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.into(), value);
    put("name", json!(view.name()));
    put("transport", json!(transport(view)));
    put("tools", json!(tools));
    put("connected", json!(view.state == State::Connected));
    put("disabled", json!(view.state == State::Disabled));
    put("status", json!(view.state.hermes_status()));
    put("state", json!(view.state));
    put("since", json!(seconds(view.since)));
    put("reconnects", json!(Counters::read(&view.counters.reconnects)));
    put("calls", json!(Counters::read(&view.counters.calls)));
    put("errors", json!(Counters::read(&view.counters.errors)));
    put("repeated", json!(Counters::read(&view.counters.repeated)));
    put("timeout_s", json!(view.config.timeout.as_secs_f64()));
    if let Some(reason) = &view.reason {
        put("error", json!(connect_error(view, reason)));
        put("reason", json!(reason));
        let tail = view.stderr.last_lines(STDERR_LINES);
        if !tail.is_empty() {
            put("stderr_tail", json!(tail));
        }
    }
    if let Some(at) = view.next_attempt {
        put(
            "retry_in_s",
            json!(at.saturating_duration_since(Instant::now()).as_secs()),
        );
    }
    if let Some(pid) = view.pid {
        put("pid", json!(pid));
    }
    match view.runner.as_deref() {
        Some(Ok(direct)) => put(
            "runner",
            json!({"direct": direct.program, "package": direct.spec(), "saves": package_runner::SAVES}),
        ),
        Some(Err(AsWritten::NotNpx)) | None => None,
        Some(Err(why)) => put("runner", json!({"npx": why.to_string()})),
    };
    if let Some(info) = &view.info {
        put("protocol_version", json!(info.protocol_version));
        put("server_info", json!({"name": info.name, "version": info.version}));
    }
    if let Some(connection) = &view.connection {
        for (name, count) in connection.counters() {
            put(name, json!(count));
        }
    }
    Value::Object(object)
}

fn invalid(name: &ServerName, error: &str) -> Value {
    json!({
        "name": name, "transport": "unknown", "tools": 0, "connected": false, "disabled": false,
        "status": "failed", "state": State::Failed, "error": error, "reason": error,
        "reconnects": 0, "calls": 0, "errors": 0,
    })
}

fn transport(view: &ServerView) -> &'static str {
    match &view.config.transport {
        Transport::Stdio(_) => "stdio",
        Transport::Remote(remote) if remote.sse => "sse",
        Transport::Remote(_) => "http",
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map(|since| since.as_millis() as f64 / 1000.0)
        .unwrap_or_default()
}
