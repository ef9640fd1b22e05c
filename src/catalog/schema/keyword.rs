//! What JSON Schema's keywords hold, in every draft that servers use (draft-04 to 2020-12).

use serde_json::{Map, Value};

/// What stands under a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// One schema.
    Schema,
    /// One schema, or a list of them.
    SchemaOrList,
    /// A list of schemas.
    List,
    /// A map from names to schemas. The names are no keywords (B45).
    Map,
    /// A value that is compared or shown, never a schema.
    Data,
    /// Something of another kind, or nothing that we know.
    Other,
}

pub(super) fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        "items" => Holds::SchemaOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
        | "properties" => Holds::Map,
        "const" | "default" | "enum" | "examples" => Holds::Data,
        _ => Holds::Other,
    }
}

/// Whether the schemas under a keyword speak of the same value as the schema that holds them. `{"required": ["a"]}`
/// is a whole schema there: the properties stand outside.
pub(super) fn is_in_place(keyword: &str) -> bool {
    matches!(
        keyword,
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas" | "dependencies"
    )
}

/// Whether a keyword only tells about a value and allows or forbids nothing.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "$comment"
            | "default"
            | "deprecated"
            | "description"
            | "examples"
            | "nullable"
            | "readOnly"
            | "title"
            | "writeOnly"
    ) || keyword.starts_with("x-")
}

pub(super) fn is_type(name: &str) -> bool {
    matches!(
        name,
        "array" | "boolean" | "integer" | "null" | "number" | "object" | "string"
    )
}

/// Whether a schema's `type` is or holds this one.
pub(super) fn has_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}
