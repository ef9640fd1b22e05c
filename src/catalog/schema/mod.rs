//! Repair of input schemas, so that one careless server does not make a provider refuse the whole list (B44), without
//! harming what is right (B45).
//!
//! A schema that needs no repair is offered as the server sent it, to the byte. After a repair every local `$ref`
//! leads somewhere; one that leads nowhere, or out of the schema, is taken out and told.

mod keyword;
mod reference;
mod repair;

use std::collections::HashMap;

use repair::Repair;
use serde_json::{Value, json, value::RawValue};

/// References that are named one by one.
const NAMED: usize = 3;

/// An end for certain.
const MOST_PASSES: usize = 8;

/// What a repair came to.
#[derive(Debug, Default)]
pub(super) struct Repaired {
    /// The repaired schema; `None` when nothing was wrong.
    pub(super) schema: Option<Value>,
    /// What the user should know, each a clause about "its input schema".
    pub(super) notes: Vec<String>,
}

/// The schema of a tool that takes anything.
pub(super) fn permissive() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Repairs an input schema. Its depth is bounded by the JSON reader (128), so nothing here recurses deeper.
pub(super) fn repair(raw: Option<&RawValue>) -> Repaired {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
        return Repaired {
            schema: Some(permissive()),
            notes: Vec::new(),
        };
    };
    let original: Value = match serde_json::from_str(raw.get()) {
        Ok(value) => value,
        Err(error) => return replaced(&format!("cannot be read ({error})")),
    };
    if !original.is_object() {
        return replaced("is not an object");
    }
    let before = reference::unresolved(&original);
    let mut collapse = true;
    let mut repaired = repaired(&original, collapse);
    let mut unresolved = reference::unresolved(&repaired);
    if !unresolved.is_subset(&before) {
        // A reference into a branch that is gone: keep the unions then.
        collapse = false;
        repaired = self::repaired(&original, collapse);
        unresolved = reference::unresolved(&repaired);
    }
    if !unresolved.is_empty() {
        reference::remove(&mut repaired, &unresolved);
        // What stood beside a reference may need the rest of the repair now.
        repaired = self::repaired(&repaired, collapse);
    }
    // Only now: a union may have hidden what it is.
    if let Some(kind) = repaired.get("type").filter(|kind| *kind != "object") {
        return replaced(&format!("has type {kind} instead of \"object\""));
    }
    let mut notes: Vec<String> = unresolved
        .iter()
        .take(NAMED)
        .map(|reference| {
            format!(
                "its input schema refers to '{reference}', which it does not hold; the reference is left out"
            )
        })
        .collect();
    if unresolved.len() > NAMED {
        notes.push(format!(
            "its input schema has {} more references that lead nowhere",
            unresolved.len() - NAMED
        ));
    }
    Repaired {
        schema: (repaired != original).then_some(repaired),
        notes,
    }
}

fn replaced(why: &str) -> Repaired {
    Repaired {
        schema: Some(permissive()),
        notes: vec![format!(
            "its input schema {why}; it is offered with one that takes anything"
        )],
    }
}

/// Repairs until nothing is left to do: what one repair takes out may have hidden something from it. Two or three
/// times do for anything that was seen.
fn repaired(original: &Value, collapse: bool) -> Value {
    let mut value = original.clone();
    for _ in 0..MOST_PASSES {
        let mut repair = Repair {
            collapse,
            moved: HashMap::new(),
        };
        let mut next = repair.root(&value);
        reference::follow(&mut next, &repair.moved);
        if next == value {
            break;
        }
        value = next;
    }
    value
}

#[cfg(test)]
mod tests;
