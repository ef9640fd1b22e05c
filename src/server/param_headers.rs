//! Headers that repeat parts of a stateless request, so that proxies can route it without reading its body (HTTP-03).

use std::collections::{HashMap, HashSet};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::{request::Params, view::ListedTool};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";
/// The property of a schema that wants its value in a header.
const ANNOTATION: &str = "x-mcp-header";
/// Around a value that a header cannot hold as it is.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// An argument that has to be in a header, too.
#[derive(Debug, PartialEq, Eq)]
struct ParamHeader {
    /// From the arguments to the value.
    path: Vec<String>,
    header: HeaderName,
}

/// Which arguments of which tool have to be in headers.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders(HashMap<String, Vec<ParamHeader>>);

impl ParamHeaders {
    /// Reads the annotations of all tools. A tool whose annotations are wrong must not be called and is left out, with a
    /// warning (HTTP-04).
    pub(super) fn of(tools: &mut Vec<ListedTool>, warnings: &mut Vec<String>) -> Self {
        let mut all = HashMap::new();
        tools.retain(|tool| match annotations(&tool.definition) {
            Ok(headers) if headers.is_empty() => true,
            Ok(headers) => {
                all.insert(tool.name.to_string(), headers);
                true
            }
            Err(why) => {
                warnings.push(format!("tool '{}' is left out: {why}", tool.name));
                false
            }
        });
        Self(all)
    }

    /// The headers of a request.
    pub(super) fn headers(&self, method: &'static str, params: &Params) -> HeaderMap {
        #[derive(Default, Deserialize)]
        struct Named {
            name: Option<String>,
            uri: Option<String>,
            arguments: Option<Value>,
        }
        let mut headers = HeaderMap::new();
        headers.insert(METHOD, HeaderValue::from_static(method));
        if !matches!(method, "tools/call" | "prompts/get" | "resources/read") {
            return headers;
        }
        // The members are our own text.
        let named: Named = serde_json::from_str(&format!("{{{}}}", params.members)).unwrap_or_default();
        if let Some(name) = named.name.as_ref().or(named.uri.as_ref()) {
            headers.extend(encoded(name).map(|value| (NAME, value)));
        }
        let wanted = named.name.filter(|_| method == "tools/call");
        let wanted = wanted.and_then(|name| self.0.get(&name));
        let arguments = named.arguments.unwrap_or_default();
        for ParamHeader { path, header } in wanted.into_iter().flatten() {
            let value = path.iter().try_fold(&arguments, |value, key| value.get(key));
            let text = match value {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
                _ => continue,
            };
            headers.extend(encoded(&text).map(|value| (header.clone(), value)));
        }
        headers
    }
}

/// A text as the value of a header.
fn encoded(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.trim_matches(' ').len() == text.len()
        && !(text.starts_with(SENTINEL.0) && text.ends_with(SENTINEL.1));
    let value = match is_plain {
        true => HeaderValue::from_str(text),
        false => HeaderValue::try_from(format!(
            "{}{}{}",
            SENTINEL.0,
            BASE64_STANDARD.encode(text),
            SENTINEL.1
        )),
    };
    // Both have visible ASCII only.
    value.ok()
}

/// The annotations of one tool.
fn annotations(definition: &RawValue) -> Result<Vec<ParamHeader>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Schema {
        input_schema: Option<Map<String, Value>>,
    }
    // Most tools have none, and a schema is only taken apart for its annotations.
    if memchr::memmem::find(definition.get().as_bytes(), ANNOTATION.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let Ok(Schema {
        input_schema: Some(schema),
    }) = serde_json::from_str(definition.get())
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    collect(&schema, &mut Vec::new(), true, &mut found)?;
    let mut seen = HashSet::new();
    match found.iter().find(|found| !seen.insert(&found.header)) {
        Some(twice) => Err(format!(
            "two of its properties have the {ANNOTATION} '{}'",
            twice.header
        )),
        None => Ok(found),
    }
}

/// Collects the annotations of a schema. `is_reached`: through `properties` alone.
fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    is_reached: bool,
    found: &mut Vec<ParamHeader>,
) -> Result<(), String> {
    for (key, value) in schema {
        match key.as_str() {
            ANNOTATION => {
                if !is_reached || path.is_empty() {
                    return Err(format!("its {ANNOTATION} is not on a property of the arguments"));
                }
                found.push(annotation(schema, value, path)?);
            }
            "properties" => each(value, path, is_reached, found)?,
            "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
                each(value, path, false, found)?;
            }
            // Data and names, not schemas.
            "default" | "const" | "enum" | "examples" | "dependentRequired" => {}
            _ => below(value, path, found)?,
        }
    }
    Ok(())
}

/// The schemas of a map from names to schemas.
fn each(
    map: &Value,
    path: &mut Vec<String>,
    is_reached: bool,
    found: &mut Vec<ParamHeader>,
) -> Result<(), String> {
    for (name, schema) in map.as_object().into_iter().flatten() {
        if let Some(schema) = schema.as_object() {
            path.push(name.clone());
            collect(schema, path, is_reached, found)?;
            path.pop();
        }
    }
    Ok(())
}

/// The schemas anywhere else.
fn below(value: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    match value {
        Value::Object(schema) => collect(schema, path, false, found),
        Value::Array(values) => values.iter().try_for_each(|value| below(value, path, found)),
        _ => Ok(()),
    }
}

fn annotation(schema: &Map<String, Value>, value: &Value, path: &[String]) -> Result<ParamHeader, String> {
    let place = path.join(".");
    let header = value
        .as_str()
        .filter(|name| !name.is_empty())
        .and_then(|name| HeaderName::try_from(format!("{PARAM}{name}")).ok())
        .ok_or_else(|| format!("the {ANNOTATION} of '{place}' is not a name for a header"))?;
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(ParamHeader {
            path: path.to_vec(),
            header,
        }),
        _ => Err(format!(
            "'{place}' has an {ANNOTATION} and is neither string, integer nor boolean"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(schema: &Value) -> ListedTool {
        let definition = json!({"name": "t", "inputSchema": schema}).to_string();
        ListedTool {
            name: "t".into(),
            definition: RawValue::from_string(definition).unwrap().into(),
        }
    }

    fn lines(headers: &HeaderMap) -> Vec<String> {
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn requests_are_named_in_headers() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "deep": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "plain": {"type": "string"},
        }});
        let mut warnings = Vec::new();
        let known = ParamHeaders::of(&mut vec![tool(&schema)], &mut warnings);
        assert_eq!(warnings, Vec::<String>::new());
        for (method, members, expected) in [
            ("tools/list", "", vec!["mcp-method: tools/list"]),
            (
                "tools/call",
                r#""name":"t","arguments":{"region":"eu","n":5,"deep":{"on":true},"plain":"x"}"#,
                vec![
                    "mcp-method: tools/call",
                    "mcp-name: t",
                    "mcp-param-region: eu",
                    "mcp-param-n: 5",
                    "mcp-param-on: true",
                ],
            ),
            (
                "tools/call",
                r#""name":"t","arguments":{"region":null}"#,
                vec!["mcp-method: tools/call", "mcp-name: t"],
            ),
            (
                "prompts/get",
                r#""name":"é","arguments":{}"#,
                vec!["mcp-method: prompts/get", "mcp-name: =?base64?w6k=?="],
            ),
            (
                "resources/read",
                r#""uri":"file:///a b""#,
                vec!["mcp-method: resources/read", "mcp-name: file:///a b"],
            ),
        ] {
            let params = Params {
                members: members.into(),
                ..Params::default()
            };
            assert_eq!(lines(&known.headers(method, &params)), expected, "{members}");
        }
    }

    #[test]
    fn values_that_a_header_cannot_hold_are_wrapped() {
        for (text, expected) in [
            ("a b", "a b"),
            ("", ""),
            (" a", "=?base64?IGE=?="),
            ("a\n", "=?base64?YQo=?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ] {
            assert_eq!(encoded(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_tool_with_a_wrong_annotation_is_left_out_and_no_other() {
        let wrong = [
            json!({"x-mcp-header": "A"}),
            json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": 5}}}),
            json!({"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}}),
            json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
        ];
        for schema in wrong {
            let (mut tools, mut warnings) = (vec![tool(&schema), tool(&json!({}))], Vec::new());
            ParamHeaders::of(&mut tools, &mut warnings);
            assert_eq!((tools.len(), warnings.len()), (1, 1), "{schema} {warnings:?}");
        }
        let named_like_it =
            json!({"properties": {"x-mcp-header": {"type": "string"}}, "examples": [{"x-mcp-header": 1}]});
        let mut warnings = Vec::new();
        ParamHeaders::of(&mut vec![tool(&named_like_it)], &mut warnings);
        assert_eq!(warnings, Vec::<String>::new());
    }
}
