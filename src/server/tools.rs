//! Reading a tool list leniently: a bad element is left out, never the list (TOOL-07).

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::view::ListedTool;
use crate::name::ToolName;

/// The usable elements of a `tools/list`, and a warning for each that isn't.
pub(super) fn listed_tools(items: &[Box<RawValue>]) -> (Vec<ListedTool>, Vec<String>) {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let mut seen = HashSet::new();
    let mut warnings = Vec::new();
    let mut tools = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        if !item.get().starts_with('{') {
            warnings.push(format!("tool {n} of its list is left out: it is not an object"));
            continue;
        }
        let name = match serde_json::from_str::<Name>(item.get()) {
            Ok(Name { name }) if !name.is_empty() => name,
            Ok(_) => {
                warnings.push(format!("tool {n} of its list has an empty name and is left out"));
                continue;
            }
            Err(error) => {
                warnings.push(format!("tool {n} of its list is left out: {error}"));
                continue;
            }
        };
        if !seen.insert(name.clone()) {
            warnings.push(format!(
                "tool '{name}' is listed twice; the first one counts (PAGE-03)"
            ));
            continue;
        }
        tools.push(ListedTool {
            name: ToolName::new(name),
            definition: item.clone().into(),
        });
    }
    (tools, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_elements_are_left_out_with_a_warning_each() {
        let items: Vec<Box<RawValue>> = [
            r#"{"name":"a","inputSchema":{}}"#,
            r#"{"name":"b"}"#,
            r#"{"name":"a","description":"again"}"#,
            r#"{"name":5}"#,
            r#"{"description":"no name"}"#,
            r#"{"name":""}"#,
            r#""text""#,
            r#"["c"]"#,
            "null",
        ]
        .into_iter()
        .map(|json| RawValue::from_string(json.into()).unwrap())
        .collect();
        let (tools, warnings) = listed_tools(&items);
        assert_eq!(
            tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(tools[0].definition.get(), items[0].get());
        assert_eq!(warnings.len(), 7, "{warnings:?}");
    }
}
