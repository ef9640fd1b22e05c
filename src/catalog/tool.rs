//! One tool of the merged list, ready for both families of methods.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    schema::{self, Repaired},
    utility::Utility,
};
use crate::{
    name::{ExposedName, ServerName, ToolName},
    server::ListedTool,
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
    /// A tool that a server lists. The second value is a warning.
    pub(super) fn native(
        server: &ServerName,
        listed: &ListedTool,
        parallel_safe: bool,
    ) -> (Self, Option<String>) {
        let members: IndexMap<String, &RawValue> =
            serde_json::from_str(listed.definition.get()).unwrap_or_default();
        let description = members
            .get("description")
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| format!("MCP tool {} from {server}", listed.name));
        let input = members.get("inputSchema").copied();
        let (parameters, problem) = match (schema::repair(input), input) {
            (Repaired::Unchanged, Some(raw)) => (raw.to_owned().into(), None),
            (Repaired::Unchanged, None) => (raw(&schema::permissive()), None),
            (Repaired::Changed(value), _) => (raw(&value), None),
            (Repaired::Replaced(value, why), _) => (raw(&value), Some(why)),
        };
        let warning = problem.map(|why| {
            format!(
                "tool '{}' of server '{server}': {why}; it is offered with a schema that takes anything",
                listed.name
            )
        });
        let annotations = members
            .get("annotations")
            .filter(|raw| raw.get().starts_with('{'))
            .copied();
        let tool = Self {
            // Given by the catalog, when all names are known.
            name: ExposedName::new(""),
            server: server.clone(),
            tool: listed.name.clone(),
            kind: ToolKind::Tool,
            description,
            parameters,
            annotations: annotations.map(|raw| raw.to_owned().into()),
            parallel_safe,
            definition: Some(listed.definition.clone()),
        };
        (tool, warning)
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

    /// The element of MCP's `tools/list`: the server's own members, byte for byte, but for the name and a schema that
    /// had to be repaired. `execution` is left out: it speaks of tasks, which the daemon does not offer.
    pub(super) fn mcp_json(&self) -> String {
        let name = to_json(&self.name);
        let definition = self.definition.as_deref().map_or("{}", RawValue::get);
        let members: IndexMap<String, &RawValue> = serde_json::from_str(definition).unwrap_or_default();
        let mut out = format!(r#"{{"name":{name}"#);
        for (key, value) in &members {
            if !matches!(key.as_str(), "name" | "inputSchema" | "execution") && has_its_type(key, value) {
                out.push_str(&format!(",{}:{}", to_json(key), value.get()));
            }
        }
        if self.definition.is_none() {
            out.push_str(&format!(",\"description\":{}", to_json(&self.description)));
        }
        out.push_str(&format!(",\"inputSchema\":{}}}", self.parameters.get()));
        out
    }

    /// Whether both are offered alike. The order of a list does not matter (B47).
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let text = |raw: &Option<Arc<RawValue>>| raw.as_ref().map(|raw| raw.get().to_owned());
        self.name == other.name
            && self.server == other.server
            && self.tool == other.tool
            && self.kind == other.kind
            && self.parallel_safe == other.parallel_safe
            && text(&self.definition) == text(&other.definition)
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

fn raw(value: &Value) -> Arc<RawValue> {
    serde_json::value::to_raw_value(value)
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
        .into()
}
