//! From a name to a server: the routing table, and patience with a server that is on its way back.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{CallError, Caller, exchange::CallLimits};
use crate::{
    catalog::{CatalogTool, ToolKind, Utility},
    name::{ServerName, ToolName},
    server::{Connection, ServerHandle, ServerView, State},
    supervisor::{Directory, Member},
};

/// How long a call waits for a server that is being reconnected.
pub(super) const RECONNECT: Duration = Duration::from_secs(5);
/// How long it waits for one that was ended because nobody used it: that is no failure.
const WAKE: Duration = Duration::from_secs(15);
/// How long after a connection the merged list may take to show it.
const LIST_FOLLOWS: Duration = Duration::from_secs(1);

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

/// A tool that was found, and its server.
pub(super) struct Route {
    pub(super) server: ServerName,
    pub(super) tool: ToolName,
    pub(super) kind: ToolKind,
    pub(super) handle: ServerHandle,
    /// The server as it was when the tool was found.
    pub(super) view: Arc<ServerView>,
    /// Whether the server says that a second call changes nothing more.
    pub(super) is_repeatable: bool,
    /// Whether the server takes its calls only as tasks.
    pub(super) needs_task: bool,
    /// The exposed name of the server's `read_resource` tool, for texts that point to it.
    pub(super) read_resource: Option<String>,
}

impl Caller {
    /// Finds a tool. If its server offers nothing yet or any more, that is tried again first.
    ///
    /// # Errors
    /// No such server or tool, the configuration excludes it, or the server doesn't come in time.
    pub(super) async fn route(&self, target: Target<'_>, limits: &CallLimits) -> Result<Route, CallError> {
        let server = match self.resolve(target) {
            Err(CallError::Unavailable { server, .. }) => server,
            resolved => return resolved,
        };
        let mut directory = self.directory.clone();
        let handle = match directory.borrow_and_update().servers.get(&server) {
            Some(Member::Server(handle)) => handle.clone(),
            _ => return self.resolve(target),
        };
        let view = come_back(&handle, limits).await;
        if view.connection.is_none() {
            return Err(CallError::unavailable(&view));
        }
        let until = Instant::now() + LIST_FOLLOWS;
        loop {
            let resolved = self.resolve(target);
            let is_there = !matches!(resolved, Err(CallError::ToolNotFound { .. }));
            if is_there || !matches!(timeout_at(until, directory.changed()).await, Ok(Ok(()))) {
                return resolved;
            }
        }
    }

    /// The way to the server of a route, now or after a short wait.
    ///
    /// # Errors
    /// [`CallError::Unavailable`].
    pub(super) async fn connection(
        &self,
        route: &Route,
        limits: &CallLimits,
    ) -> Result<Connection, CallError> {
        if let Some(connection) = &route.handle.view().connection {
            return Ok(connection.clone());
        }
        let view = come_back(&route.handle, limits).await;
        match &view.connection {
            Some(connection) => Ok(connection.clone()),
            None => Err(CallError::unavailable(&view)),
        }
    }

    /// By table only: a name is never taken apart (TOOL-04).
    fn resolve(&self, target: Target<'_>) -> Result<Route, CallError> {
        let directory = self.directory.borrow();
        let found = match target {
            Target::Exposed(name) => directory.catalog.route(name),
            Target::Original { server, tool } => directory.catalog.find(server, tool),
        };
        match found.and_then(|found| Route::new(&directory, found)) {
            Some(route) => Ok(route),
            None => Err(self.not_found(&directory, target)),
        }
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
}

impl Route {
    fn new(directory: &Directory, found: &CatalogTool) -> Option<Self> {
        let Some(Member::Server(handle)) = directory.servers.get(&found.server) else {
            return None;
        };
        let read_resource = match found.kind {
            ToolKind::Tool => {
                let name = Utility::ReadResource.name();
                directory.catalog.find(found.server.as_str(), name)
            }
            ToolKind::Utility(_) => None,
        };
        Some(Self {
            server: found.server.clone(),
            tool: found.tool.clone(),
            kind: found.kind,
            is_repeatable: found.read_only || found.idempotent,
            needs_task: found.needs_task,
            view: handle.view(),
            handle: handle.clone(),
            read_resource: read_resource.map(|tool| tool.name.to_string()),
        })
    }
}

/// Wakes a server that is not connected and waits until it is, or until it can't be in time.
async fn come_back(handle: &ServerHandle, limits: &CallLimits) -> Arc<ServerView> {
    let patience = match handle.view().state {
        State::Recycled => WAKE,
        _ => RECONNECT,
    };
    let until = limits.end_of(patience);
    handle.wake().await;
    let mut views = handle.watch();
    loop {
        let view = views.borrow_and_update().clone();
        let may_come = match view.state {
            State::Connecting | State::Recycled => true,
            State::Backoff | State::Parked => view.next_attempt.is_none_or(|at| at <= until.into_std()),
            _ => false,
        };
        if view.connection.is_some() || !may_come {
            return view;
        }
        // Time is up, or the actor is gone.
        if !matches!(timeout_at(until, views.changed()).await, Ok(Ok(()))) {
            return handle.view();
        }
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
