//! `hermes/subscribe`: what changes, told to frontends that want to know.
//!
//! Nothing is queued: when a frontend's task gets to it, it compares what it told last with what is true now, so a slow
//! frontend gets the newest state and not all the old ones.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{App, params::read, status};
use crate::{
    name::ServerName,
    server::State,
    supervisor::Member,
    wire::{Code, RpcError, to_json, write_notification},
};

/// The kinds of events of this version.
const KINDS: [&str; 2] = ["servers", "tools"];

/// What one frontend subscribed to, and what it was told.
pub(super) struct Events {
    servers: bool,
    tools: bool,
    told: HashMap<ServerName, Told>,
    generation: u64,
}

/// What a frontend knows of a server.
#[derive(PartialEq, Eq, Clone)]
struct Told {
    state: State,
    reason: Option<String>,
}

impl Events {
    /// Begins a subscription; the result holds how things are now, events tell what changes from here on.
    pub(super) fn subscribe(app: &App, params: Option<&RawValue>) -> Result<(Self, Value), RpcError> {
        #[derive(Deserialize)]
        struct Params {
            events: Option<Vec<String>>,
        }
        let asked = read::<Params>(params)?.events;
        let wants = |kind: &str| {
            asked
                .as_ref()
                .is_none_or(|kinds| kinds.iter().any(|it| it == kind))
        };
        if let Some(unknown) = asked
            .iter()
            .flatten()
            .find(|kind| !KINDS.contains(&kind.as_str()))
        {
            return Err(RpcError::new(
                Code::InvalidParams,
                format!(
                    "params.events: unknown kind '{}'; this daemon has: {}",
                    crate::text::one_line(unknown),
                    KINDS.join(", ")
                ),
            ));
        }
        let mut events = Self {
            servers: wants("servers"),
            tools: wants("tools"),
            told: HashMap::new(),
            generation: app.directory.borrow().catalog.generation(),
        };
        events.told = events.now(app);
        let subscribed: Vec<&str> = KINDS.into_iter().filter(|kind| wants(kind)).collect();
        let mut result = status::status(app, None);
        result["subscribed"] = json!(subscribed);
        Ok((events, result))
    }

    /// The events since the last time, each a line.
    pub(super) fn changes(&mut self, app: &App) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        if self.servers {
            let now = self.now(app);
            for (name, told) in &now {
                if self.told.get(name) != Some(told) {
                    let server = status::status(app, Some(name.as_str()))["servers"][0].take();
                    lines.push(event(&json!({"event": "server", "server": server})));
                }
            }
            for name in self.told.keys().filter(|name| !now.contains_key(*name)) {
                lines.push(event(
                    &json!({"event": "server_removed", "server": {"name": name}}),
                ));
            }
            self.told = now;
        }
        let generation = app.directory.borrow().catalog.generation();
        if self.tools && generation != self.generation {
            let tools = app.directory.borrow().catalog.tools().len();
            lines.push(event(
                &json!({"event": "tools", "generation": generation, "tools": tools}),
            ));
        }
        self.generation = generation;
        lines
    }

    /// The last event.
    pub(super) fn stopping() -> Vec<u8> {
        event(&json!({"event": "stopping"}))
    }

    fn now(&self, app: &App) -> HashMap<ServerName, Told> {
        let directory = app.directory.borrow().clone();
        let told = |member: &Member| match member {
            Member::Server(handle) => {
                let view = handle.view();
                Told {
                    state: view.state,
                    reason: view.reason.clone(),
                }
            }
            Member::Invalid { error } => Told {
                state: State::Failed,
                reason: Some(error.clone()),
            },
        };
        let members = directory.servers.iter();
        members
            .map(|(name, member)| (name.clone(), told(member)))
            .collect()
    }
}

fn event(params: &Value) -> Vec<u8> {
    let mut line = Vec::new();
    write_notification(&mut line, "hermes/event", &to_json(params));
    line
}
