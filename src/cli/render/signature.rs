//! A tool's JSON schema as a signature that people read: `name(path: string, limit?: integer = 10)`.

use serde_json::Value;

use super::{Cell, Paint, Style, clean_line, table, text};

/// How far `$ref`s and nested alternatives are followed. A schema may refer to itself.
const DEPTH: usize = 8;

/// One argument of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a str,
    pub(crate) required: bool,
    pub(crate) schema: &'a Value,
}

/// The arguments of a schema: the required ones first, each group in the schema's order.
pub(crate) fn parameters(schema: &Value) -> Vec<Parameter<'_>> {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let mut parameters: Vec<Parameter<'_>> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, schema)| Parameter {
            name,
            required: required.iter().any(|item| item == name),
            schema,
        })
        .collect();
    parameters.sort_by_key(|parameter| !parameter.required);
    parameters
}

/// Follows a local `$ref`.
fn resolve<'a>(mut node: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..DEPTH {
        let Some(target) = node["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix('#'))
        else {
            break;
        };
        let Some(target) = root.pointer(target) else { break };
        node = target;
    }
    node
}

/// The JSON types that a node allows; empty when it says nothing.
pub(crate) fn kinds<'a>(node: &'a Value, root: &'a Value) -> Vec<&'a str> {
    fn collect<'a>(node: &'a Value, root: &'a Value, depth: usize, kinds: &mut Vec<&'a str>) {
        let node = resolve(node, root);
        match &node["type"] {
            Value::String(kind) => kinds.push(kind),
            Value::Array(list) => kinds.extend(list.iter().filter_map(Value::as_str)),
            _ => {}
        }
        if node["nullable"] == true {
            kinds.push("null");
        }
        if node["type"].is_null() {
            kinds.extend(node.get("const").map(|value| kind_of(value)));
            kinds.extend(
                node["enum"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|value| kind_of(value)),
            );
        }
        if depth < DEPTH {
            for key in ["anyOf", "oneOf", "allOf"] {
                for part in node[key].as_array().into_iter().flatten() {
                    collect(part, root, depth + 1, kinds);
                }
            }
        }
    }
    let mut all = Vec::new();
    collect(node, root, 0, &mut all);
    distinct(all)
}

/// Every item once, in the order of the first.
fn distinct<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// The JSON type of a value; a whole number is an `integer`.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() && number.as_f64().is_none_or(|n| n.fract() != 0.0) => {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A node's type as people write it: `string`, `integer[]`, `"a"|"b"`, `string|null`.
pub(crate) fn type_text(node: &Value, root: &Value) -> String {
    fn of(node: &Value, root: &Value, depth: usize) -> Vec<String> {
        let node = resolve(node, root);
        if let Some(values) = node["enum"].as_array().filter(|values| !values.is_empty()) {
            return values.iter().map(Value::to_string).collect();
        }
        if let Some(value) = node.get("const") {
            return vec![value.to_string()];
        }
        let mut texts = Vec::new();
        let types = match &node["type"] {
            Value::String(kind) => vec![kind.as_str()],
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        for kind in types {
            texts.push(match kind {
                "array" if depth < DEPTH && node["items"].is_object() => {
                    match of(&node["items"], root, depth + 1).as_slice() {
                        [one] => format!("{one}[]"),
                        many => format!("({})[]", many.join("|")),
                    }
                }
                kind => kind.to_owned(),
            });
        }
        if texts.is_empty() && depth < DEPTH {
            for key in ["anyOf", "oneOf", "allOf"] {
                for part in node[key].as_array().into_iter().flatten() {
                    texts.extend(of(part, root, depth + 1));
                }
            }
        }
        if texts.is_empty() {
            texts.push("any".to_owned());
        }
        if node["nullable"] == true {
            texts.push("null".to_owned());
        }
        distinct(texts)
    }
    clean_line(&of(node, root, 0).join("|"))
}

/// `name(path: string, limit?: integer = 10)`.
pub(crate) fn signature(name: &str, schema: &Value, style: Style) -> String {
    let arguments: Vec<String> = parameters(schema)
        .into_iter()
        .map(|parameter| {
            let optional = if parameter.required { "" } else { "?" };
            let default = match parameter.schema.get("default") {
                Some(Value::Null) | None => String::new(),
                Some(value) => format!(" = {}", clean_line(&value.to_string())),
            };
            let kind = type_text(parameter.schema, schema);
            format!(
                "{}{optional}: {}{default}",
                clean_line(parameter.name),
                style.dim(&kind)
            )
        })
        .collect();
    format!("{}({})", style.bold(&clean_line(name)), arguments.join(", "))
}

/// One line an argument: name, type, whether it is required, and its description.
pub(crate) fn argument_table(schema: &Value, indent: &str, style: Style) -> String {
    let rows: Vec<Vec<Cell>> = parameters(schema)
        .into_iter()
        .map(|parameter| {
            let resolved = resolve(parameter.schema, schema);
            let description = match text(parameter.schema, "description") {
                "" => text(resolved, "description"),
                description => description,
            };
            let (need, paint) = match parameter.required {
                true => ("required", Paint::Plain),
                false => ("optional", Paint::Dim),
            };
            vec![
                Cell::plain(clean_line(parameter.name)),
                Cell::new(need, paint),
                Cell::plain(clean_line(description)),
            ]
        })
        .collect();
    table(&rows, indent, style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_arguments_come_first_and_optional_ones_have_a_mark_and_a_default() {
        let schema = json!({
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "default": 10},
                "path": {"type": "string"},
                "mode": {"enum": ["r", "w"]},
                "tags": {"type": "array", "items": {"type": ["string", "null"]}},
                "ids": {"type": "array", "items": {"type": "integer"}},
                "where": {"$ref": "#/$defs/Place"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "soft": {"type": "number", "nullable": true},
                "x": {},
            },
            "required": ["path"],
            "$defs": {"Place": {"type": "object", "description": "A place"}},
        });
        assert_eq!(
            signature("t", &schema, Style::PLAIN),
            r#"t(path: string, limit?: integer = 10, mode?: "r"|"w", tags?: (string|null)[], ids?: integer[], where?: object, note?: string|null, soft?: number|null, x?: any)"#
        );
        assert_eq!(kinds(&schema["properties"]["note"], &schema), ["string", "null"]);
        assert_eq!(kinds(&schema["properties"]["mode"], &schema), ["string"]);
        assert!(argument_table(&schema, "", Style::PLAIN).contains("where  optional  A place"));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/properties/a"}, "b": {"anyOf": [{"$ref": "#/properties/b"}]}},
        });
        assert_eq!(signature("t", &schema, Style::PLAIN), "t(a?: any, b?: any)");
        assert!(kinds(&schema["properties"]["b"], &schema).is_empty());
    }

    #[test]
    fn whole_numbers_are_integers() {
        for (value, kind) in [
            (json!(1), "integer"),
            (json!(1.0), "integer"),
            (json!(1.5), "number"),
        ] {
            assert_eq!(kind_of(&value), kind, "{value}");
        }
    }
}
