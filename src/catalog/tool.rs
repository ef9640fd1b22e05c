//! One tool of the merged list, ready for both families of methods.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    scan::suspicion,
    schema::{self, Repaired},
    utility::Utility,
};
use crate::{
    name::{ExposedName, ServerName, ToolName},
    server::ListedTool,
    text,
    wire::to_json,
};

/// What a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// One that the server lists.
    Tool,
    /// One that the daemon makes of a capability.
    Utility(Utility),
}

/// One tool of the merged list.
#[derive(Debug, Clone)]
pub struct CatalogTool {
    /// Its name in the list.
    pub name: ExposedName,
    /// Its server.
    pub server: ServerName,
    /// Its original name; of a utility, the utility's.
    pub tool: ToolName,
    /// Native or utility.
    pub kind: ToolKind,
    /// What it does, for the model.
    pub description: String,
    /// Its input schema, repaired.
    pub parameters: Arc<RawValue>,
    /// The server's annotations. Untrusted (TOOL-01).
    pub annotations: Option<Arc<RawValue>>,
    /// Whether the server says that a call changes nothing (`readOnlyHint`). Untrusted; utilities only read.
    pub read_only: bool,
    /// Whether the server says that a second call changes nothing more (`idempotentHint`). Untrusted.
    pub idempotent: bool,
    /// Whether the server takes calls of it only as tasks (TOOL-15), which the daemon does not make.
    pub needs_task: bool,
    /// Whether the configuration says that calls of this server may run side by side.
    pub parallel_safe: bool,
    /// The whole definition of a native tool, as the server sent it.
    pub(super) definition: Option<Arc<RawValue>>,
}

/// The element of `hermes/tools`.
#[derive(Serialize)]
struct HermesTool<'a> {
    name: &'a ExposedName,
    description: &'a str,
    parameters: &'a RawValue,
    toolset: String,
    server: &'a ServerName,
    tool: &'a ToolName,
    kind: &'static str,
    parallel_safe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
}

impl CatalogTool {
    /// A tool that a server lists, and what the user should know about it.
    pub(super) fn native(
        server: &ServerName,
        listed: &ListedTool,
        parallel_safe: bool,
    ) -> (Self, Vec<String>) {
        let members = members(&listed.definition);
        let description = members
            .get("description")
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
            .map(|text| text::sanitize(&text).into_owned())
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| format!("MCP tool {} from {server}", listed.name));
        let input = members.get("inputSchema").copied();
        let Repaired { schema, mut notes } = schema::repair(input);
        let parameters = match (schema, input) {
            (None, Some(unchanged)) => unchanged.to_owned().into(),
            (schema, _) => raw(&schema.unwrap_or_else(schema::permissive)),
        };
        notes.extend(suspicion(&description));
        let warnings = notes
            .into_iter()
            .map(|note| {
                format!(
                    "tool '{}' of server '{}': {note}",
                    shown(listed.name.as_str()),
                    shown(server.as_str())
                )
            })
            .collect();
        let annotations = members
            .get("annotations")
            .filter(|raw| raw.get().starts_with('{'))
            .copied();
        let hints = annotations.map(Hints::of).unwrap_or_default();
        let execution = members.get("execution").copied().map(self::members);
        let needs_task = execution
            .and_then(|execution| {
                execution
                    .get("taskSupport")
                    .map(|raw| raw.get() == r#""required""#)
            })
            .unwrap_or(false);
        let tool = Self {
            // Given by the catalog, when all names are known.
            name: ExposedName::new(""),
            server: server.clone(),
            tool: listed.name.clone(),
            kind: ToolKind::Tool,
            description,
            parameters,
            annotations: annotations.map(|raw| raw.to_owned().into()),
            read_only: hints.read_only,
            idempotent: hints.idempotent,
            needs_task,
            parallel_safe,
            definition: Some(listed.definition.clone()),
        };
        (tool, warnings)
    }

    /// A utility tool of a server.
    pub(super) fn utility(server: &ServerName, utility: Utility, parallel_safe: bool) -> Self {
        Self {
            name: ExposedName::new(""),
            server: server.clone(),
            tool: ToolName::new(utility.name()),
            kind: ToolKind::Utility(utility),
            description: utility.description(server),
            parameters: raw(&utility.parameters()),
            annotations: None,
            read_only: true,
            idempotent: true,
            needs_task: false,
            parallel_safe,
            definition: None,
        }
    }

    /// The element of `hermes/tools`, as JSON text.
    pub(super) fn hermes_json(&self) -> String {
        to_json(&HermesTool {
            name: &self.name,
            description: &self.description,
            parameters: &self.parameters,
            toolset: format!("mcp-{}", self.server),
            server: &self.server,
            tool: &self.tool,
            kind: match self.kind {
                ToolKind::Tool => "tool",
                ToolKind::Utility(_) => "utility",
            },
            parallel_safe: self.parallel_safe,
            annotations: self.annotations.as_deref(),
        })
    }

    /// The element of MCP's `tools/list`: the server's own members in their order, byte for byte, but for the name and
    /// a schema that had to be repaired. `execution` is left out: it speaks of tasks, which the daemon does not offer.
    pub(super) fn mcp_json(&self) -> String {
        let own = self.definition.as_deref().map(members).unwrap_or_default();
        let mut out: Vec<String> = Vec::with_capacity(own.len() + 1);
        let name = to_json(&self.name);
        if !own.contains_key("name") {
            out.push(format!(r#""name":{name}"#));
            out.push(format!(r#""description":{}"#, to_json(&self.description)));
        }
        for (key, value) in &own {
            let value = match key.as_str() {
                "execution" => continue,
                "name" => &name,
                "inputSchema" => self.parameters.get(),
                key if !has_its_type(key, value) => continue,
                _ => value.get(),
            };
            out.push(format!("{}:{value}", to_json(key)));
        }
        if !own.contains_key("inputSchema") {
            out.push(format!(r#""inputSchema":{}"#, self.parameters.get()));
        }
        format!("{{{}}}", out.join(","))
    }

    /// Whether both are offered alike. The order of a list does not matter (B47).
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.server == other.server
            && self.tool == other.tool
            && self.kind == other.kind
            && self.parallel_safe == other.parallel_safe
            && self.definition.as_deref().map(RawValue::get) == other.definition.as_deref().map(RawValue::get)
            && self.parameters.get() == other.parameters.get()
    }
}

/// A member that is not what the protocol says would make strict frontends refuse the whole list (TOOL-07).
fn has_its_type(key: &str, value: &RawValue) -> bool {
    let first = value.get().as_bytes().first();
    match key {
        "description" | "title" => first == Some(&b'"'),
        "annotations" | "outputSchema" | "_meta" => first == Some(&b'{'),
        "icons" => first == Some(&b'['),
        _ => true,
    }
}

/// The members of a definition in their order; of a key that comes twice the last value.
fn members(definition: &RawValue) -> IndexMap<String, &RawValue> {
    serde_json::from_str(definition.get()).unwrap_or_default()
}

/// What the annotations say about repeating a call.
#[derive(Default)]
struct Hints {
    read_only: bool,
    idempotent: bool,
}

impl Hints {
    fn of(annotations: &RawValue) -> Self {
        let members = members(annotations);
        let is_true = |key: &str| members.get(key).is_some_and(|raw| raw.get() == "true");
        Self {
            read_only: is_true("readOnlyHint"),
            idempotent: is_true("idempotentHint"),
        }
    }
}

/// A name of others in a text of ours.
pub(super) fn shown(name: &str) -> String {
    text::truncate(&text::one_line(name), LONGEST_SHOWN).into_owned()
}

/// Bytes of a server's or tool's name in a warning.
const LONGEST_SHOWN: usize = 100;

fn raw(value: &Value) -> Arc<RawValue> {
    serde_json::value::to_raw_value(value)
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
        .into()
}
