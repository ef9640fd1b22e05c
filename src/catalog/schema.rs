//! Repair of input schemas, so that one careless server does not make a provider refuse the whole list (B44), without
//! harming what is right (B45).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json, value::RawValue};

/// Keywords whose value is a schema.
const SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a map of schemas.
const MAP: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// What may stand beside a union that is replaced by its only real branch.
const BESIDE_UNION: [&str; 5] = ["default", "description", "examples", "nullable", "title"];

/// What a repair came to.
pub(super) enum Repaired {
    /// Nothing was wrong.
    Unchanged,
    /// The repaired schema.
    Changed(Value),
    /// Nothing could be kept: the permissive schema, and why.
    Replaced(Value, String),
}

/// The schema of a tool that takes anything.
pub(super) fn permissive() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Repairs an input schema.
pub(super) fn repair(raw: Option<&RawValue>) -> Repaired {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
        return Repaired::Changed(permissive());
    };
    let original: Value = match serde_json::from_str(raw.get()) {
        Ok(value) => value,
        Err(error) => {
            return Repaired::Replaced(permissive(), format!("its input schema cannot be read: {error}"));
        }
    };
    let Value::Object(root) = &original else {
        return Repaired::Replaced(permissive(), "its input schema is not an object".into());
    };
    if let Some(kind) = root
        .get("type")
        .filter(|kind| !kind.is_null() && !allows_object(kind))
    {
        return Repaired::Replaced(
            permissive(),
            format!("its input schema has type {kind} instead of \"object\""),
        );
    }
    let mut repaired = repaired(&original, true);
    if has_new_dangling_reference(&original, &repaired) {
        // A reference into a branch that is gone: keep the unions then.
        repaired = self::repaired(&original, false);
    }
    // A union at the root may have hidden that it is no object.
    if let Some(kind) = repaired.get("type").filter(|kind| !allows_object(kind)) {
        return Repaired::Replaced(
            permissive(),
            format!("its input schema has type {kind} instead of \"object\""),
        );
    }
    match repaired == original {
        true => Repaired::Unchanged,
        false => Repaired::Changed(repaired),
    }
}

fn allows_object(kind: &Value) -> bool {
    kind == "object"
        || kind
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
}

fn repaired(original: &Value, collapse: bool) -> Value {
    let mut repair = Repair {
        collapse,
        moved: BTreeMap::new(),
    };
    let mut value = repair.schema(original, "#", "#");
    if let Value::Object(root) = &mut value {
        root.entry("type").or_insert_with(|| "object".into());
        complete_object(root);
    }
    if !repair.moved.is_empty() {
        rewrite_references(&mut value, &repair.moved);
    }
    value
}

struct Repair {
    collapse: bool,
    /// JSON pointers whose place changed: old to new.
    moved: BTreeMap<String, String>,
}

impl Repair {
    /// `old` and `new` are the pointers to this node before and after the repair.
    fn schema(&mut self, node: &Value, old: &str, new: &str) -> Value {
        let Value::Object(node) = node else {
            return as_schema(node);
        };
        if self.collapse
            && let Some((keyword, index)) = nullable_union(node)
        {
            return self.collapsed(node, keyword, index, old, new);
        }
        let mut out = Map::new();
        for (key, value) in node {
            let name = self.renamed(node, key, old, new);
            let (old, new) = (child(old, key), child(new, &name));
            let value = match value {
                Value::Array(list) if LIST.contains(&key.as_str()) || key == "items" => Value::Array(
                    list.iter()
                        .enumerate()
                        .map(|(n, item)| {
                            self.schema(item, &child(&old, &n.to_string()), &child(&new, &n.to_string()))
                        })
                        .collect(),
                ),
                Value::Object(map) if MAP.contains(&key.as_str()) => Value::Object(
                    map.iter()
                        .map(|(name, value)| {
                            (
                                name.clone(),
                                self.schema(value, &child(&old, name), &child(&new, name)),
                            )
                        })
                        .collect(),
                ),
                Value::Object(_) if SCHEMA.contains(&key.as_str()) => self.schema(value, &old, &new),
                other => other.clone(),
            };
            out.insert(name, value);
        }
        complete(&mut out);
        Value::Object(out)
    }

    /// `definitions` becomes `$defs`, where it is the keyword and not a property's name.
    fn renamed(&mut self, node: &Map<String, Value>, key: &str, old: &str, new: &str) -> String {
        if key == "definitions" && node[key].is_object() && !node.contains_key("$defs") {
            self.moved.insert(child(old, key), child(new, "$defs"));
            return "$defs".into();
        }
        key.to_owned()
    }

    /// `anyOf: [X, null]` becomes X with `nullable`.
    fn collapsed(
        &mut self,
        node: &Map<String, Value>,
        keyword: &str,
        index: usize,
        old: &str,
        new: &str,
    ) -> Value {
        let branch = child(&child(old, keyword), &index.to_string());
        self.moved.insert(branch.clone(), new.to_owned());
        let mut inner = match self.schema(&node[keyword][index], &branch, new) {
            Value::Object(inner) => inner,
            other => return other,
        };
        for key in BESIDE_UNION {
            if let Some(value) = node.get(key)
                && !inner.contains_key(key)
                && !(key == "default" && inner.contains_key("$ref"))
            {
                inner.insert(key.into(), value.clone());
            }
        }
        inner.insert("nullable".into(), true.into());
        Value::Object(inner)
    }
}

/// The keyword and the index of the only branch that isn't null, if nothing else stands beside the union.
fn nullable_union(node: &Map<String, Value>) -> Option<(&'static str, usize)> {
    let keyword = ["anyOf", "oneOf"]
        .into_iter()
        .find(|keyword| node.contains_key(*keyword))?;
    if node
        .keys()
        .any(|key| key != keyword && !BESIDE_UNION.contains(&key.as_str()))
    {
        return None;
    }
    let branches = node[keyword].as_array()?;
    let is_null = |branch: &Value| {
        branch
            .as_object()
            .is_some_and(|branch| branch.len() == 1 && branch.get("type") == Some(&json!("null")))
    };
    let mut others = branches.iter().enumerate().filter(|(_, branch)| !is_null(branch));
    let (index, branch) = others.next()?;
    (others.next().is_none() && branches.len() > 1 && !branch.is_boolean()).then_some((keyword, index))
}

/// A schema is an object or a boolean; some write the mere name of a type.
fn as_schema(node: &Value) -> Value {
    match node {
        Value::Bool(_) => node.clone(),
        Value::String(kind)
            if [
                "string", "number", "integer", "boolean", "array", "object", "null",
            ]
            .contains(&kind.as_str()) =>
        {
            json!({"type": kind})
        }
        _ => json!({}),
    }
}

fn complete(node: &mut Map<String, Value>) {
    if node.get("type").is_none_or(Value::is_null) {
        let is_object = node.contains_key("properties") || node.contains_key("required");
        match is_object {
            true => node.insert("type".into(), "object".into()),
            false => node.shift_remove("type"),
        };
    }
    if node
        .get("additionalProperties")
        .is_some_and(|value| !value.is_boolean() && !value.is_object())
    {
        node.insert("additionalProperties".into(), true.into());
    }
    let kind = node.get("type");
    let is_array = kind.is_some_and(|kind| {
        kind == "array"
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&json!("array")))
    });
    if is_array && !node.contains_key("items") && !node.contains_key("prefixItems") {
        node.insert("items".into(), json!({}));
    }
    if node.get("type") == Some(&json!("object")) {
        complete_object(node);
    }
}

fn complete_object(node: &mut Map<String, Value>) {
    if !node.get("properties").is_some_and(Value::is_object) {
        node.insert("properties".into(), json!({}));
    }
    let Some(required) = node.get("required") else {
        return;
    };
    let known = |name: &Value| {
        name.as_str()
            .is_some_and(|name| node["properties"].get(name).is_some())
    };
    let kept: Vec<Value> = required
        .as_array()
        .into_iter()
        .flatten()
        .filter(|name| known(name))
        .cloned()
        .collect();
    match kept.is_empty() {
        true => node.shift_remove("required"),
        false => node.insert("required".into(), kept.into()),
    };
}

/// One more step of a JSON pointer.
fn child(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

fn rewrite_references(node: &mut Value, moved: &BTreeMap<String, String>) {
    for_each_reference(node, &mut |reference| {
        // The longest old place that the reference goes through.
        let place = moved
            .iter()
            .filter(|(old, _)| {
                reference
                    .strip_prefix(old.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|(old, _)| old.len());
        if let Some((old, new)) = place {
            *reference = format!("{new}{}", &reference[old.len()..]);
        }
    });
}

/// Visits every `$ref` that is a keyword. Values under `enum`, `const`, `default` and `examples` are data.
fn for_each_reference(node: &mut Value, visit: &mut impl FnMut(&mut String)) {
    match node {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("$ref", Value::String(reference)) => visit(reference),
                    ("enum" | "const" | "default" | "examples", _) => {}
                    _ => for_each_reference(value, visit),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| for_each_reference(value, visit)),
        _ => {}
    }
}

fn dangling(root: &Value) -> usize {
    let mut count = 0;
    for_each_reference(&mut root.clone(), &mut |reference| {
        if let Some(pointer) = reference
            .strip_prefix('#')
            .filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
            && root.pointer(pointer).is_none()
        {
            count += 1;
        }
    });
    count
}

fn has_new_dangling_reference(original: &Value, repaired: &Value) -> bool {
    dangling(repaired) > dangling(original)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(schema: &Value) -> Value {
        let raw = serde_json::value::to_raw_value(schema).unwrap();
        match repair(Some(&raw)) {
            Repaired::Unchanged => schema.clone(),
            Repaired::Changed(value) | Repaired::Replaced(value, _) => value,
        }
    }

    #[test]
    fn the_seven_malformed_schemas_of_b44() {
        for (schema, expected) in [
            (json!(null), permissive()),
            (
                json!({"properties": {"a": {"type": "string"}}}),
                json!({"properties": {"a": {"type": "string"}}, "type": "object"}),
            ),
            (json!({"type": "object"}), permissive()),
            (
                json!({"type": "object", "properties": {}, "required": ["x"]}),
                permissive(),
            ),
            (
                json!({"type": "object", "properties": {"w": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}}),
                json!({"type": "object", "properties": {"w": {"type": "string", "default": null, "nullable": true}}}),
            ),
            (
                json!({"type": "object", "properties": {"t": {"type": "array"}}}),
                json!({"type": "object", "properties": {"t": {"type": "array", "items": {}}}}),
            ),
            (
                json!({"type": "object", "additionalProperties": "object"}),
                json!({"type": "object", "additionalProperties": true, "properties": {}}),
            ),
        ] {
            assert_eq!(outcome(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn what_is_right_is_left_alone() {
        // B45 (1), (2), and more.
        for schema in [
            json!({"type": "object", "properties": {"definitions": {"type": "string"}, "required": {"type": "boolean"}, "type": {"type": "string"}}, "required": ["type"]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}),
            json!({"type": "object", "properties": {"a": {"enum": [{"definitions": 1}], "default": {"required": ["x"]}}}}),
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}}}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": false}),
            json!({"type": "object", "properties": {"a": true, "b": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}}),
        ] {
            let raw = serde_json::value::to_raw_value(&schema).unwrap();
            assert!(matches!(repair(Some(&raw)), Repaired::Unchanged), "{schema}");
        }
    }

    #[test]
    fn references_follow_what_was_moved() {
        let schema = json!({
            "type": "object",
            "definitions": {"N": {"type": "string"}},
            "properties": {
                "m": {"anyOf": [{"type": "object", "properties": {"s": {"type": "string"}}}, {"type": "null"}]},
                "n": {"$ref": "#/definitions/N"},
                "x": {"$ref": "#/properties/m/anyOf/0/properties/s"},
            },
        });
        let got = outcome(&schema);
        assert_eq!(got["properties"]["n"]["$ref"], "#/$defs/N");
        assert_eq!(got["properties"]["x"]["$ref"], "#/properties/m/properties/s");
        assert_eq!(dangling(&got), 0);
    }

    #[test]
    fn a_reference_into_a_dropped_branch_keeps_the_union() {
        let schema = json!({"type": "object", "properties": {
            "m": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "x": {"$ref": "#/properties/m/anyOf/1"},
        }});
        let got = outcome(&schema);
        assert_eq!(dangling(&got), 0);
        assert!(got["properties"]["m"]["anyOf"].is_array());
    }

    #[test]
    fn what_cannot_be_kept_is_replaced_with_a_reason() {
        let deep = format!(
            "{}{}",
            r#"{"items":"#.repeat(10_000),
            "{}".to_owned() + &"}".repeat(10_000)
        );
        for (text, why) in [
            (deep.as_str(), "recursion limit"),
            ("[1]", "not an object"),
            ("\"object\"", "not an object"),
            (r#"{"type":"string"}"#, "has type \"string\""),
            (
                r#"{"anyOf":[{"type":"null"},{"type":"array"}]}"#,
                "has type \"array\"",
            ),
        ] {
            let raw = RawValue::from_string(text.into()).unwrap();
            match repair(Some(&raw)) {
                Repaired::Replaced(schema, reason) => {
                    assert_eq!(schema, permissive());
                    assert!(reason.contains(why), "{reason}");
                }
                _ => panic!("{}", &text[..text.len().min(80)]),
            }
        }
    }

    proptest::proptest! {
        /// A repaired schema needs no repair.
        #[test]
        fn once_is_enough(schema in arbitrary_schema()) {
            let once = outcome(&schema);
            let raw = serde_json::value::to_raw_value(&once).unwrap();
            proptest::prop_assert!(matches!(repair(Some(&raw)), Repaired::Unchanged), "{} -> {}", schema, once);
        }
    }

    fn arbitrary_schema() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(json!({"type": "string"})),
            Just(json!({"type": "null"})),
            Just(json!({})),
            Just(json!("string")),
            Just(json!(null)),
            Just(json!({"type": "array"})),
            Just(json!({"required": ["a", 1]})),
            Just(json!({"$ref": "#/definitions/a"})),
        ];
        leaf.prop_recursive(3, 24, 3, |inner| {
            let list = proptest::collection::vec(inner.clone(), 0..3);
            let map = proptest::collection::btree_map("[ab]", inner.clone(), 0..3);
            prop_oneof![
                list.clone()
                    .prop_map(|list| json!({"anyOf": list, "default": null})),
                map.clone()
                    .prop_map(|map| json!({"properties": map, "required": ["a", "z"]})),
                map.prop_map(|map| json!({"definitions": map})),
                inner.prop_map(|inner| json!({"type": "object", "additionalProperties": inner})),
            ]
        })
    }
}
