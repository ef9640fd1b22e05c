//! The merged list: an immutable snapshot with a generation number. May import [`crate::server`] and below.
//!
//! Always true: names are unique, valid and at most 64 bytes; a call is routed by this table and never by a name's
//! form; what a filter excludes is not in the table; the generation moves only when the list really changed.

mod filter;
mod glob;
mod name;
mod scan;
mod schema;
mod tool;
mod utility;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use filter::Filter;
use name::{Contested, Parts};
use serde::Serialize;
use tool::shown;
pub use tool::{CatalogTool, ToolKind};
pub use utility::Utility;

use crate::{
    config::ToolsPolicy,
    name::{ExposedName, ServerName, ToolName},
    server::ListedTool,
    text,
};

/// What one server brings.
pub struct ServerTools<'a> {
    /// Its name.
    pub server: &'a ServerName,
    /// What of it is offered.
    pub policy: &'a ToolsPolicy,
    /// Whether its calls may run side by side.
    pub parallel_safe: bool,
    /// Its own list.
    pub tools: &'a [ListedTool],
    /// Whether it declared resources.
    pub has_resources: bool,
    /// Whether it declared prompts.
    pub has_prompts: bool,
}

/// A server's tools under one name. Only servers with at least one tool have one (TOOL-16).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Toolset {
    /// `mcp-<server>`.
    pub name: String,
    /// `<server>`.
    pub alias: ServerName,
    /// The exposed names, in order.
    pub tools: Vec<ExposedName>,
}

/// The merged list of all servers.
pub struct Catalog {
    generation: u64,
    name_format: String,
    /// By exposed name.
    tools: Vec<CatalogTool>,
    routes: HashMap<ExposedName, usize>,
    /// By server and original name; a native tool goes before a utility of the same name.
    originals: HashMap<ServerName, HashMap<ToolName, usize>>,
    contested: Contested,
    warnings: Vec<String>,
    hermes: OnceLock<Arc<str>>,
    mcp: OnceLock<Arc<str>>,
}

impl Catalog {
    /// No tools; generation 0.
    pub fn empty() -> Self {
        Self {
            generation: 0,
            name_format: String::new(),
            tools: Vec::new(),
            routes: HashMap::new(),
            originals: HashMap::new(),
            contested: Contested::new(),
            warnings: Vec::new(),
            hermes: OnceLock::new(),
            mcp: OnceLock::new(),
        }
    }

    /// Merges what the servers bring. The generation is that of `previous`, or one more when the list changed.
    pub fn build(servers: &[ServerTools<'_>], name_format: &str, previous: &Self) -> Self {
        let mut tools = Vec::new();
        let mut warnings = Vec::new();
        for server in servers {
            collect(server, &mut tools, &mut warnings);
        }
        let parts: Vec<Parts<'_>> = tools
            .iter()
            .map(|tool| Parts {
                server: tool.server.as_str(),
                tool: tool.tool.as_str(),
                is_utility: tool.kind != ToolKind::Tool,
            })
            .collect();
        let mut contested = match previous.name_format == name_format {
            true => previous.contested.clone(),
            false => Contested::new(),
        };
        let assigned = name::assign(&parts, name_format, &mut contested);
        for (tool, assigned) in tools.iter_mut().zip(assigned) {
            tool.name = assigned.name;
            warnings.extend(assigned.note);
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let is_same = tools.len() == previous.tools.len()
            && tools
                .iter()
                .zip(&previous.tools)
                .all(|(new, old)| new.is_same(old));
        let routes = tools
            .iter()
            .enumerate()
            .map(|(n, tool)| (tool.name.clone(), n))
            .collect();
        let mut originals: HashMap<ServerName, HashMap<ToolName, usize>> = HashMap::new();
        for (n, tool) in tools.iter().enumerate() {
            let of_server = originals.entry(tool.server.clone()).or_default();
            if tool.kind == ToolKind::Tool || !of_server.contains_key(&tool.tool) {
                of_server.insert(tool.tool.clone(), n);
            }
        }
        Self {
            generation: previous.generation + u64::from(!is_same),
            name_format: name_format.to_owned(),
            tools,
            routes,
            originals,
            contested,
            warnings: warnings
                .iter()
                .map(|warning| text::one_line(warning).into_owned())
                .collect(),
            hermes: OnceLock::new(),
            mcp: OnceLock::new(),
        }
    }

    /// Moves whenever the list really changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All tools, by exposed name: the same list is the same bytes (B47).
    pub fn tools(&self) -> &[CatalogTool] {
        &self.tools
    }

    /// The tool of an exposed name.
    pub fn route(&self, exposed: &str) -> Option<&CatalogTool> {
        self.routes.get(exposed).map(|n| &self.tools[*n])
    }

    /// The tool by its server and its original name. A utility is found under the utility's name, unless the server
    /// has a tool of that name itself.
    pub fn find(&self, server: &str, tool: &str) -> Option<&CatalogTool> {
        let n = self.originals.get(server)?.get(tool)?;
        Some(&self.tools[*n])
    }

    /// The exposed names nearest to one that isn't there.
    pub fn did_you_mean(&self, name: &str) -> Vec<ExposedName> {
        let names = self.tools.iter().map(|tool| tool.name.as_str());
        text::nearest(name, names)
            .into_iter()
            .map(ExposedName::from)
            .collect()
    }

    /// What the exposed names of a server's tools begin with, as a rule. For texts only.
    pub fn prefix_of(&self, server: &ServerName) -> String {
        name::prefix(&self.name_format, server.as_str())
    }

    /// The toolsets, by server name.
    pub fn toolsets(&self) -> Vec<Toolset> {
        let mut toolsets: std::collections::BTreeMap<&ServerName, Vec<ExposedName>> =
            std::collections::BTreeMap::new();
        for tool in &self.tools {
            toolsets.entry(&tool.server).or_default().push(tool.name.clone());
        }
        toolsets
            .into_iter()
            .map(|(server, tools)| Toolset {
                name: format!("mcp-{server}"),
                alias: server.clone(),
                tools,
            })
            .collect()
    }

    /// What the user should know: names that collide or were cut, definitions that were repaired beyond recognition,
    /// filters that name nothing.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The `tools` of `hermes/tools` as JSON text, made once per snapshot.
    pub fn hermes_tools_json(&self) -> &Arc<str> {
        self.hermes
            .get_or_init(|| self.hermes_tools_json_where(|_| true).into())
    }

    /// The same for some of the tools.
    pub fn hermes_tools_json_where(&self, wanted: impl Fn(&CatalogTool) -> bool) -> String {
        array(
            self.tools
                .iter()
                .filter(|tool| wanted(tool))
                .map(CatalogTool::hermes_json),
        )
    }

    /// The result of MCP's `tools/list` as JSON text, made once per snapshot.
    pub fn mcp_list_result(&self) -> Arc<str> {
        let json = || {
            format!(
                r#"{{"tools":{}}}"#,
                array(self.tools.iter().map(CatalogTool::mcp_json))
            )
            .into()
        };
        self.mcp.get_or_init(json).clone()
    }
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn collect(server: &ServerTools<'_>, tools: &mut Vec<CatalogTool>, warnings: &mut Vec<String>) {
    let filter = Filter::new(server.policy);
    let name = shown(server.server.as_str());
    let before = tools.len();
    for listed in server
        .tools
        .iter()
        .filter(|listed| filter.allows(listed.name.as_str()))
    {
        let (tool, notes) = CatalogTool::native(server.server, listed, server.parallel_safe);
        tools.push(tool);
        warnings.extend(notes);
    }
    if !server.tools.is_empty() {
        let names = server.tools.iter().map(|listed| listed.name.as_str());
        for pattern in filter.unused(names.clone()) {
            let near = text::nearest(pattern, names.clone());
            let hint = near
                .first()
                .map(|near| format!("; did you mean '{}'?", shown(near)))
                .unwrap_or_default();
            warnings.push(format!(
                "tools.include of server '{name}' names '{}', which it does not have{hint}",
                shown(pattern)
            ));
        }
        if tools.len() == before {
            warnings.push(format!(
                "tools.include and tools.exclude of server '{name}' leave none of its {} tools",
                server.tools.len()
            ));
        }
    }
    let policy = server.policy;
    let resources = Utility::RESOURCES
        .into_iter()
        .filter(|_| server.has_resources && policy.resources);
    let prompts = Utility::PROMPTS
        .into_iter()
        .filter(|_| server.has_prompts && policy.prompts);
    tools.extend(
        resources
            .chain(prompts)
            .map(|utility| CatalogTool::utility(server.server, utility, server.parallel_safe)),
    );
}

#[cfg(test)]
mod tests;
