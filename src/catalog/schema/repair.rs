//! The walk through a schema that puts right what providers refuse (B44) and nothing else (B45).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::{
    keyword::{Holds, has_type, holds, is_annotation, is_in_place, is_type},
    reference::child,
};

pub(super) struct Repair {
    /// Whether `anyOf: [X, null]` becomes X with `nullable`.
    pub(super) collapse: bool,
    /// JSON pointers whose place changed: old to new.
    pub(super) moved: HashMap<String, String>,
}

/// Where a node is.
struct Place<'a> {
    /// Its pointer before the repair.
    old: &'a str,
    /// Its pointer after it.
    new: &'a str,
    /// For a schema that speaks of the same value as the one around it: the properties known there.
    around: Option<&'a Names>,
}

/// The names that `required` may hold.
#[derive(Clone, Default)]
struct Names {
    known: BTreeSet<String>,
    /// A `$ref` or a pattern may add others: then every name is as good as known.
    is_open: bool,
}

impl Repair {
    /// Repairs a whole schema. Its type is "object" then, unless it says that it is something else.
    pub(super) fn root(&mut self, schema: &Value) -> Value {
        let place = Place {
            old: "#",
            new: "#",
            around: None,
        };
        let mut repaired = self.schema(schema, &place);
        if let Value::Object(root) = &mut repaired
            && (has_type(root, "object") || !root.contains_key("type"))
        {
            // MCP and all providers want an object, even where others would be allowed as well.
            root.insert("type".into(), "object".into());
            complete_object(root, &Names::of(root));
        }
        repaired
    }

    fn schema(&mut self, schema: &Value, place: &Place<'_>) -> Value {
        let Value::Object(node) = schema else {
            return as_schema(schema);
        };
        if self.collapse
            && let Some((keyword, index)) = nullable_union(node)
        {
            return self.collapsed(node, keyword, index, place);
        }
        let mut names = Names::of(node);
        if let Some(around) = place.around {
            names.add(around);
        }
        let mut out = Map::new();
        for (keyword, value) in node {
            let name = self.renamed(node, keyword, place);
            let (old, new) = (child(place.old, keyword), child(place.new, &name));
            let below = Place {
                old: &old,
                new: &new,
                around: is_in_place(keyword).then_some(&names),
            };
            if let Some(value) = self.value(keyword, value, &below) {
                out.insert(name, value);
            }
        }
        complete(&mut out, &names, place.around.is_some());
        Value::Object(out)
    }

    /// What stands under a keyword, repaired; `None` for what no reader can make sense of.
    fn value(&mut self, keyword: &str, value: &Value, place: &Place<'_>) -> Option<Value> {
        match (holds(keyword), value) {
            (Holds::Schema | Holds::SchemaOrList, Value::Object(_)) => Some(self.schema(value, place)),
            (Holds::Map, Value::Object(map)) => Some(Value::Object(
                map.iter()
                    .map(|(name, value)| {
                        // `dependencies` may hold lists of names.
                        let value = match value {
                            Value::Array(_) if keyword == "dependencies" => value.clone(),
                            value => self.at(value, name, place),
                        };
                        (name.clone(), value)
                    })
                    .collect(),
            )),
            (Holds::List | Holds::SchemaOrList, Value::Array(list)) if !list.is_empty() => Some(
                list.iter()
                    .enumerate()
                    .map(|(n, value)| self.at(value, &n.to_string(), place))
                    .collect(),
            ),
            (Holds::Schema | Holds::SchemaOrList, Value::Bool(_)) => Some(value.clone()),
            (Holds::SchemaOrList, _) => Some(as_schema(value)),
            // A name of a type, or whatever it is: everything may follow. B44 (7).
            (Holds::Schema, _) if keyword.starts_with("additional") || keyword.starts_with("unevaluated") => {
                Some(true.into())
            }
            (Holds::Schema | Holds::List | Holds::Map, _) => None,
            (Holds::Data | Holds::Other, _) => sound(keyword, value),
        }
    }

    fn at(&mut self, value: &Value, step: &str, place: &Place<'_>) -> Value {
        let place = Place {
            old: &child(place.old, step),
            new: &child(place.new, step),
            around: place.around,
        };
        self.schema(value, &place)
    }

    /// `definitions` becomes `$defs`, where it is the keyword and not a property's name.
    fn renamed(&mut self, node: &Map<String, Value>, keyword: &str, place: &Place<'_>) -> String {
        if keyword == "definitions" && node[keyword].is_object() && !node.contains_key("$defs") {
            self.moved
                .insert(child(place.old, keyword), child(place.new, "$defs"));
            return "$defs".into();
        }
        keyword.to_owned()
    }

    /// The only real branch of a union, with what stood beside the union.
    fn collapsed(
        &mut self,
        node: &Map<String, Value>,
        keyword: &str,
        index: usize,
        place: &Place<'_>,
    ) -> Value {
        let branch = child(&child(place.old, keyword), &index.to_string());
        self.moved.insert(branch.clone(), place.new.to_owned());
        let inner = Place {
            old: &branch,
            ..*place
        };
        let mut inner = match self.schema(&node[keyword][index], &inner) {
            Value::Object(inner) => inner,
            other => return other,
        };
        for (key, value) in node.iter().filter(|(key, _)| *key != keyword) {
            // A default beside a `$ref` is refused by some.
            let is_wanted = key != "default" || !inner.contains_key("$ref");
            if is_wanted && !inner.contains_key(key) {
                inner.insert(key.clone(), value.clone());
            }
        }
        inner.insert("nullable".into(), true.into());
        Value::Object(inner)
    }
}

impl Names {
    /// Those of a schema and of the schemas in it that speak of the same value.
    fn of(node: &Map<String, Value>) -> Self {
        let mut names = Self::default();
        names.collect(node);
        names
    }

    fn collect(&mut self, node: &Map<String, Value>) {
        self.is_open |= ["$ref", "$dynamicRef", "$recursiveRef", "patternProperties"]
            .iter()
            .any(|keyword| node.contains_key(*keyword));
        if let Some(Value::Object(properties)) = node.get("properties") {
            self.known.extend(properties.keys().cloned());
        }
        for (_, value) in node.iter().filter(|(keyword, _)| is_in_place(keyword)) {
            let parts: Vec<&Value> = match value {
                Value::Array(list) => list.iter().collect(),
                // One schema, or a map of them: the names of either do no harm in the other.
                Value::Object(map) => map.values().chain([value]).collect(),
                _ => Vec::new(),
            };
            parts
                .into_iter()
                .filter_map(Value::as_object)
                .for_each(|part| self.collect(part));
        }
    }

    fn add(&mut self, other: &Self) {
        self.known.extend(other.known.iter().cloned());
        self.is_open |= other.is_open;
    }

    fn has(&self, name: &str) -> bool {
        self.is_open || self.known.contains(name)
    }
}

/// The keyword and the index of the only branch that isn't null, if nothing beside the union allows or forbids
/// anything.
fn nullable_union(node: &Map<String, Value>) -> Option<(&'static str, usize)> {
    let keyword = ["anyOf", "oneOf"]
        .into_iter()
        .find(|keyword| node.contains_key(*keyword))?;
    if node.keys().any(|key| key != keyword && !is_annotation(key)) {
        return None;
    }
    let branches = node[keyword].as_array()?;
    let is_null = |branch: &Value| {
        branch.as_object().is_some_and(|branch| {
            branch.get("type") == Some(&json!("null"))
                && branch.keys().all(|key| key == "type" || is_annotation(key))
        })
    };
    let mut others = branches.iter().enumerate().filter(|(_, branch)| !is_null(branch));
    let (index, branch) = others.next()?;
    (others.next().is_none() && branches.len() > 1 && !branch.is_boolean()).then_some((keyword, index))
}

/// A schema is an object or a boolean; some write the mere name of a type.
fn as_schema(value: &Value) -> Value {
    match value {
        Value::Bool(_) => value.clone(),
        Value::String(kind) if is_type(kind) => json!({"type": kind}),
        _ => json!({}),
    }
}

/// The value of a keyword that holds no schema, if it is one that the keyword can have.
fn sound(keyword: &str, value: &Value) -> Option<Value> {
    match (keyword, value) {
        ("type", Value::String(kind)) => is_type(kind).then(|| value.clone()),
        ("type", Value::Array(kinds)) => {
            let kinds: Vec<Value> = kinds
                .iter()
                .filter(|kind| kind.as_str().is_some_and(is_type))
                .cloned()
                .collect();
            (!kinds.is_empty()).then(|| kinds.into())
        }
        ("enum", Value::Array(values)) => (!values.is_empty()).then(|| value.clone()),
        // Draft 3 had `required: true` at the property itself; today that is refused.
        ("required", Value::Array(_))
        | ("$ref", Value::String(_))
        | ("dependentRequired", Value::Object(_)) => Some(value.clone()),
        ("type" | "enum" | "required" | "$ref" | "dependentRequired", _) => None,
        _ => Some(value.clone()),
    }
}

fn complete(node: &mut Map<String, Value>, names: &Names, is_in_place: bool) {
    let is_object = node.contains_key("properties") || (node.contains_key("required") && !is_in_place);
    if !node.contains_key("type") && is_object {
        node.insert("type".into(), "object".into());
    }
    if has_type(node, "array") && !node.contains_key("items") && !node.contains_key("prefixItems") {
        node.insert("items".into(), json!({}));
    }
    if node.get("type") == Some(&json!("object")) {
        complete_object(node, names);
    } else {
        prune_required(node, names);
    }
}

fn complete_object(node: &mut Map<String, Value>, names: &Names) {
    if !node.contains_key("properties") {
        node.insert("properties".into(), json!({}));
    }
    prune_required(node, names);
}

fn prune_required(node: &mut Map<String, Value>, names: &Names) {
    let Some(Value::Array(required)) = node.get_mut("required") else {
        return;
    };
    required.retain(|name| name.as_str().is_some_and(|name| names.has(name)));
    if required.is_empty() {
        node.shift_remove("required");
    }
}
