//! `hermes/tools` for people: each tool as a signature with what it and its arguments are for.

use serde_json::Value;

use super::{
    Style, clean, count, items, quote,
    signature::{argument_table, signature},
    text, wrap,
};

/// Width of descriptions, terminal cells.
const COLUMNS: usize = 100;

/// Renders the answer to `hermes/tools`, grouped by server in the order of the list. `server` is the one that was
/// asked for.
pub(crate) fn render_tools(answer: &Value, server: Option<&str>, style: Style) -> String {
    let tools = items(answer, "tools");
    if tools.is_empty() {
        let (what, why) = match server {
            Some(server) => (
                format!("No tools from MCP server '{}'", clean(server)),
                "`hermesd-mcp status` shows whether it is connected".to_owned(),
            ),
            None => (
                "No tools".to_owned(),
                "`hermesd-mcp status` shows which servers are configured and connected".to_owned(),
            ),
        };
        return format!("{}\n{} {why}\n", style.bold(&what), style.dim("next:"));
    }
    let mut servers: Vec<&str> = Vec::new();
    for tool in tools {
        let server = text(tool, "server");
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    let mut out = String::new();
    for server in servers {
        let own: Vec<&Value> = tools
            .iter()
            .filter(|tool| text(tool, "server") == server)
            .collect();
        let head = format!("{}  {}", clean(server), count(own.len(), "tool"));
        out.push_str(&format!("{}\n\n", style.good(&head)));
        for tool in own {
            out.push_str(&render_tool(tool, style));
            out.push('\n');
        }
    }
    if let Some(name) = tools.first().map(|tool| text(tool, "name")) {
        let example = format!("hermesd-mcp call {} key=value", quote(name));
        out.push_str(&format!("{} `{example}` calls one\n", style.dim("next:")));
    }
    out
}

/// One tool: signature, description, arguments.
pub(crate) fn render_tool(tool: &Value, style: Style) -> String {
    let schema = &tool["parameters"];
    let mut out = format!("  {}\n", signature(text(tool, "name"), schema, style));
    for paragraph in clean(text(tool, "description")).lines() {
        for line in wrap(paragraph, COLUMNS) {
            out.push_str(&format!("      {line}\n"));
        }
    }
    out.push_str(&argument_table(schema, "      · ", style));
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_grouped_by_server_with_signature_and_arguments() {
        let answer = json!({"generation": 1, "tools": [
            {
                "name": "mcp_files_read", "server": "files", "tool": "read", "toolset": "mcp-files",
                "description": "Reads a file.\n\nThe whole content is returned as text, whatever its size, so ask for a range of a file that may be long.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "Where\nit is"},
                        "lines": {"type": "array", "items": {"type": "integer"}, "description": "範囲"},
                    },
                    "required": ["path"],
                },
            },
            {"name": "mcp_time_now", "server": "time", "description": "\u{1b}]0;owned\u{7}Now", "parameters": {"type": "object", "properties": {}}},
        ]});
        let text = render_tools(&answer, None, Style::PLAIN);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "S-11: {text:?}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn no_tools_says_where_to_look() {
        insta::assert_snapshot!(render_tools(&json!({"tools": []}), None, Style::PLAIN));
        insta::assert_snapshot!(render_tools(&json!({"tools": []}), Some("x"), Style::PLAIN));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let answer = json!({"tools": [{"name": "a", "server": "s", "parameters": {"properties": {"x": {"type": "string"}}}}]});
        let colored = render_tools(&answer, None, Style::COLORED);
        let plain = render_tools(&answer, None, Style::PLAIN);
        assert_ne!(colored, plain);
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
    }
}
