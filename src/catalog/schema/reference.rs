//! `$ref`: after a repair every one of them leads somewhere (B45).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::keyword::{Holds, holds};

/// One more step of a JSON pointer.
pub(super) fn child(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// Lets references follow what was moved: from old pointers to new ones.
pub(super) fn follow(schema: &mut Value, moved: &HashMap<String, String>) {
    if moved.is_empty() {
        return;
    }
    for_each_schema(schema, &mut |node| {
        if let Some(Value::String(reference)) = node.get_mut("$ref")
            && let Some(new) = followed(reference, moved)
        {
            *reference = new;
        }
    });
}

/// Where the longest old place that a reference goes through is now, and the rest of the way.
fn followed(reference: &str, moved: &HashMap<String, String>) -> Option<String> {
    let pointer = percent_decoded(reference);
    let mut end = pointer.len();
    loop {
        if let Some(new) = moved.get(&pointer[..end]) {
            return Some(format!("{new}{}", &pointer[end..]));
        }
        end = pointer[..end].rfind('/')?;
    }
}

/// The references that lead nowhere: to a place that isn't there, or out of the schema. Nothing is ever fetched for
/// one (TOOL-08).
pub(super) fn unresolved(schema: &Value) -> BTreeSet<String> {
    let mut references = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut own_ids = 0;
    visit(schema, &mut |node| {
        for keyword in ["$anchor", "$dynamicAnchor"] {
            names.extend(text(node, keyword).map(|name| format!("#{name}")));
        }
        for keyword in ["$id", "id"] {
            if let Some(id) = text(node, keyword) {
                own_ids += 1;
                names.insert(id.trim_end_matches('#').to_owned());
            }
        }
        references.extend(text(node, "$ref").map(str::to_owned));
    });
    // With an id in its middle, a schema is several, and a pointer may start at any of them.
    let is_one = own_ids == 0 || own_ids == 1 && (schema.get("$id").is_some() || schema.get("id").is_some());
    references.retain(|reference| {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let is_known = names.contains(reference.as_str()) || (!base.is_empty() && names.contains(base));
        let is_here = base.is_empty()
            && (fragment.is_empty() || schema.pointer(&percent_decoded(fragment)).is_some() || !is_one);
        !is_known && !is_here
    });
    references
}

/// Takes references out; what stands beside them stays.
pub(super) fn remove(schema: &mut Value, unwanted: &BTreeSet<String>) {
    for_each_schema(schema, &mut |node| {
        if text(node, "$ref").is_some_and(|reference| unwanted.contains(reference)) {
            node.shift_remove("$ref");
        }
    });
}

fn text<'a>(node: &'a Map<String, Value>, keyword: &str) -> Option<&'a str> {
    node.get(keyword).and_then(Value::as_str)
}

fn visit(schema: &Value, look: &mut impl FnMut(&Map<String, Value>)) {
    if let Value::Object(node) = schema {
        look(node);
        for (keyword, value) in node {
            match (holds(keyword), value) {
                (Holds::Data, _) => {}
                (Holds::Map, Value::Object(map)) => map.values().for_each(|value| visit(value, look)),
                (_, value) => visit(value, look),
            }
        }
    } else if let Value::Array(list) = schema {
        list.iter().for_each(|value| visit(value, look));
    }
}

/// The same to change them. What stands under an unknown keyword may be schemas as well.
fn for_each_schema(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    if let Value::Object(node) = schema {
        change(node);
        for (keyword, value) in node.iter_mut() {
            match (holds(keyword), value) {
                (Holds::Data, _) => {}
                (Holds::Map, Value::Object(map)) => {
                    map.values_mut().for_each(|value| for_each_schema(value, change))
                }
                (_, value) => for_each_schema(value, change),
            }
        }
    } else if let Value::Array(list) = schema {
        list.iter_mut().for_each(|value| for_each_schema(value, change));
    }
}

/// A reference is a URI: `#/$defs/My%20Type`.
fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, hex(0), hex(1)) {
            // Two hexadecimal digits are less than 256.
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
