//! The four utility tools that give a model access to a server's resources and prompts.

use serde_json::{Value, json};

use crate::name::ServerName;

/// A tool that the daemon makes of a server's capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Utility {
    /// `resources/list`.
    ListResources,
    /// `resources/read`.
    ReadResource,
    /// `prompts/list`.
    ListPrompts,
    /// `prompts/get`.
    GetPrompt,
}

impl Utility {
    /// Those for resources.
    pub(super) const RESOURCES: [Self; 2] = [Self::ListResources, Self::ReadResource];
    /// Those for prompts.
    pub(super) const PROMPTS: [Self; 2] = [Self::ListPrompts, Self::GetPrompt];

    /// Its name, in the place of a tool's original name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }

    pub(super) fn description(self, server: &ServerName) -> String {
        match self {
            Self::ListResources => format!("List available resources from MCP server '{server}'"),
            Self::ReadResource => format!("Read a resource by URI from MCP server '{server}'"),
            Self::ListPrompts => format!("List available prompts from MCP server '{server}'"),
            Self::GetPrompt => format!("Get a prompt by name from MCP server '{server}'"),
        }
    }

    pub(super) fn parameters(self) -> Value {
        match self {
            Self::ListResources | Self::ListPrompts => json!({"type": "object", "properties": {}}),
            Self::ReadResource => json!({
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "URI of the resource to read"}},
                "required": ["uri"],
            }),
            Self::GetPrompt => json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Name of the prompt to retrieve"},
                    "arguments": {
                        "type": "object",
                        "description": "Optional arguments to pass to the prompt",
                        "properties": {},
                        "additionalProperties": true,
                    },
                },
                "required": ["name"],
            }),
        }
    }
}
