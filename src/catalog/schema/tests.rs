use super::*;

fn outcome(schema: &Value) -> (Value, Vec<String>) {
    let raw = serde_json::value::to_raw_value(schema).unwrap();
    let Repaired {
        schema: changed,
        notes,
    } = repair(Some(&raw));
    (changed.unwrap_or_else(|| schema.clone()), notes)
}

fn quiet_outcome(schema: &Value) -> Value {
    let (repaired, notes) = outcome(schema);
    assert!(notes.is_empty(), "{schema}: {notes:?}");
    repaired
}

/// A schema with one property `p`.
fn with(property: Value) -> Value {
    json!({"type": "object", "properties": {"p": property}})
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
            with(json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null})),
            with(json!({"type": "string", "default": null, "nullable": true})),
        ),
        (
            with(json!({"type": "array"})),
            with(json!({"type": "array", "items": {}})),
        ),
        (
            json!({"type": "object", "additionalProperties": "object"}),
            json!({"type": "object", "additionalProperties": true, "properties": {}}),
        ),
    ] {
        assert_eq!(
            quiet_outcome(&schema).to_string(),
            expected.to_string(),
            "{schema}"
        );
    }
    assert_eq!(repair(None).schema, Some(permissive()), "no schema at all");
}

/// Conformance 58: the repairs of Hermes 0.19 on one schema.
#[test]
fn definitions_nullable_and_dangling_required() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"N": {"properties": {"definitions": {"$ref": "#/definitions/N"}}}},
        "properties": {
            "n": {"$ref": "#/definitions/N"},
            "o": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/N"}], "default": null, "title": "O"},
            "u": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        },
        "required": ["n", "gone", 1],
    });
    let expected = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "$defs": {"N": {"properties": {"definitions": {"$ref": "#/$defs/N"}}, "type": "object"}},
        "properties": {
            "n": {"$ref": "#/$defs/N"},
            "o": {"$ref": "#/$defs/N", "title": "O", "nullable": true},
            "u": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        },
        "required": ["n"],
    });
    assert_eq!(quiet_outcome(&schema).to_string(), expected.to_string());
}

#[test]
fn more_that_providers_refuse() {
    for (property, expected) in [
        (json!("string"), json!({"type": "string"})),
        (json!(null), json!({})),
        (json!({"type": "any"}), json!({})),
        (json!({"type": ["string", "any"]}), json!({"type": ["string"]})),
        (
            json!({"type": null, "description": "d"}),
            json!({"description": "d"}),
        ),
        (
            json!({"type": "string", "required": true}),
            json!({"type": "string"}),
        ),
        (json!({"type": "string", "enum": "a"}), json!({"type": "string"})),
        (
            json!({"type": "array", "items": "string"}),
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (json!({"anyOf": [], "allOf": {"type": "string"}}), json!({})),
        (
            json!({"type": "object", "properties": ["a"]}),
            json!({"type": "object", "properties": {}}),
        ),
        (
            json!({"items": {"properties": {"a": {"type": "array"}}}}),
            json!({"items": {"properties": {"a": {"type": "array", "items": {}}}, "type": "object"}}),
        ),
        (
            json!({"anyOf": [{"type": "array"}, {"type": "null"}], "x-order": 1, "deprecated": true}),
            json!({"type": "array", "items": {}, "x-order": 1, "deprecated": true, "nullable": true}),
        ),
    ] {
        assert_eq!(
            quiet_outcome(&with(property.clone())),
            with(expected),
            "{property}"
        );
    }
    let both = json!({"type": ["object", "null"], "properties": {}});
    assert_eq!(
        quiet_outcome(&both),
        permissive(),
        "the root is an object and nothing else"
    );
}

#[test]
fn what_is_right_is_left_alone() {
    for schema in [
        // B45 (1), (2).
        json!({"type": "object", "properties": {"definitions": {"type": "string"}, "required": {"type": "boolean"}, "type": {"type": "string"}, "$ref": {"type": "string"}}, "required": ["type"]}),
        json!({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}, "dependencies": {"b": ["a"]}}),
        with(json!({"enum": [{"definitions": 1}], "default": {"required": ["x"], "$ref": "#/nowhere"}})),
        with(json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]})),
        with(json!({"type": ["string", "null"], "x-any": {"type": "whatever"}})),
        json!({"type": "object", "properties": {"a": true, "b": {"type": "array", "items": false}}, "additionalProperties": false}),
        // A union whose other keywords say more than it.
        with(json!({"type": "string", "anyOf": [{"minLength": 1}, {"type": "null"}]})),
        // `required` where the properties stand outside, or in a part.
        json!({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["a", "b"]}}),
        json!({"type": "object", "properties": {}, "allOf": [{"type": "object", "properties": {"a": {}}}], "required": ["a"]}),
        json!({"type": "object", "properties": {}, "allOf": [{"$ref": "#/$defs/A"}], "required": ["a"], "$defs": {"A": {"type": "object", "properties": {"a": {}}}}}),
        // References of every kind that resolve.
        json!({"$id": "https://x.example/s", "type": "object", "properties": {"a": {"$ref": "#n"}, "b": {"$ref": "https://x.example/s#/$defs/N"}, "c": {"$ref": "#"}, "d": {"$ref": "#/$defs/a%20b"}},
               "$defs": {"N": {"$anchor": "n", "type": "string"}, "a b": {"type": "string"}}}),
        // B45 (4): recursion is kept as it is.
        json!({"type": "object", "properties": {"b": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}}),
    ] {
        let (repaired, notes) = outcome(&schema);
        assert_eq!(repaired.to_string(), schema.to_string());
        let raw = serde_json::value::to_raw_value(&schema).unwrap();
        assert!(
            repair(Some(&raw)).schema.is_none() && notes.is_empty(),
            "{schema}: {notes:?}"
        );
    }
}

#[test]
fn references_follow_what_was_moved() {
    let schema = json!({
        "type": "object",
        "definitions": {"N": {"type": "string"}},
        "properties": {
            "m": {"anyOf": [{"type": "object", "properties": {"s": {"type": "string"}}}, {"type": "null"}]},
            "a b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "x": {"$ref": "#/properties/m/anyOf/0/properties/s"},
            "y": {"$ref": "#/properties/a%20b/anyOf/0"},
            // Names of properties, though keywords elsewhere.
            "default": {"$ref": "#/definitions/N"},
            "enum": {"type": "object", "properties": {"examples": {"$ref": "#/definitions/N"}}},
        },
    });
    let got = quiet_outcome(&schema);
    let reference = |pointer: &str| got.pointer(pointer).and_then(|node| node["$ref"].as_str());
    for (pointer, expected) in [
        ("/properties/x", "#/properties/m/properties/s"),
        ("/properties/y", "#/properties/a b"),
        ("/properties/default", "#/$defs/N"),
        ("/properties/enum/properties/examples", "#/$defs/N"),
    ] {
        assert_eq!(reference(pointer), Some(expected), "B45 (3): {pointer}");
    }
    assert!(reference::unresolved(&got).is_empty());
}

#[test]
fn a_reference_into_a_dropped_branch_keeps_the_union() {
    let schema = json!({"type": "object", "properties": {
        "m": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "x": {"$ref": "#/properties/m/anyOf/1"},
    }});
    assert_eq!(quiet_outcome(&schema), schema);
}

#[test]
fn a_reference_to_nowhere_is_taken_out_and_told() {
    let (repaired, notes) = outcome(&json!({"type": "object", "properties": {
        "a": {"$ref": "#/$defs/Gone", "description": "d"},
        "b": {"$ref": "https://elsewhere.example/schema.json#/x"},
        "c": {"$ref": "#gone"},
    }}));
    assert_eq!(
        repaired,
        json!({"type": "object", "properties": {"a": {"description": "d"}, "b": {}, "c": {}}})
    );
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("'#/$defs/Gone'"), "{notes:?}");
}

#[test]
fn what_cannot_be_kept_is_replaced_with_a_reason() {
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(10_000), "}".repeat(10_000));
    for (text, why) in [
        (deep.as_str(), "recursion limit"),
        ("[1]", "not an object"),
        ("\"object\"", "not an object"),
        ("true", "not an object"),
        (r#"{"type":"string"}"#, "has type \"string\""),
        (r#"{"type":["string","null"]}"#, "has type [\"string\",\"null\"]"),
        (
            r#"{"anyOf":[{"type":"null"},{"type":"array"}]}"#,
            "has type \"array\"",
        ),
    ] {
        let raw = RawValue::from_string(text.into()).unwrap();
        let Repaired { schema, notes } = repair(Some(&raw));
        assert_eq!(schema, Some(permissive()));
        assert!(notes.len() == 1 && notes[0].contains(why), "{notes:?}");
    }
}

/// As deep as the reader allows, and as wide as a line: neither overflows nor takes long.
#[test]
fn deep_and_wide_schemas_are_repaired_as_well() {
    let levels = 60;
    let deep = format!(
        "{}{{\"type\":\"array\"}}{}",
        r#"{"properties":{"p":"#.repeat(levels),
        "}}".repeat(levels)
    );
    let raw = RawValue::from_string(deep).unwrap();
    let schema = repair(Some(&raw)).schema.unwrap();
    assert_eq!(
        schema.pointer(&"/properties/p".repeat(levels)).unwrap()["items"],
        json!({})
    );

    let mut properties = serde_json::Map::new();
    for n in 0..5_000 {
        properties.insert(
            format!("u{n}"),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        );
        properties.insert(
            format!("r{n}"),
            json!({"$ref": format!("#/properties/u{n}/anyOf/0")}),
        );
    }
    let got = quiet_outcome(&json!({"type": "object", "properties": properties}));
    assert_eq!(got["properties"]["r4999"]["$ref"], "#/properties/u4999");
}

proptest::proptest! {
    /// A repaired schema needs no repair, is an object, and no local reference in it is broken.
    #[test]
    fn once_is_enough(schema in arbitrary_schema()) {
        let (once, _) = outcome(&schema);
        let (twice, notes) = outcome(&once);
        proptest::prop_assert_eq!(twice.to_string(), once.to_string(), "{}", schema);
        proptest::prop_assert!(notes.is_empty(), "{:?}", notes);
        proptest::prop_assert_eq!(&once["type"], "object");
        proptest::prop_assert!(once["properties"].is_object());
        proptest::prop_assert!(reference::unresolved(&once).is_empty(), "{} -> {}", schema, once);
    }
}

fn arbitrary_schema() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "null"})),
        Just(json!({"type": "integer"})),
        Just(json!({})),
        Just(json!("string")),
        Just(json!(null)),
        Just(json!(true)),
        Just(json!({"type": "array"})),
        Just(json!({"type": ["object", "any"]})),
        Just(json!({"required": ["a", 1]})),
        Just(json!({"required": true})),
        Just(json!({"$ref": "#/definitions/a"})),
        Just(json!({"$ref": "#/properties/a/anyOf/0"})),
        Just(json!({"$ref": "#/properties/b/anyOf/1/items"})),
        Just(json!({"$ref": "#"})),
    ];
    leaf.prop_recursive(4, 32, 3, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..3);
        let map = proptest::collection::btree_map("[ab]|default|definitions", inner.clone(), 0..3);
        prop_oneof![
            list.clone()
                .prop_map(|list| json!({"anyOf": list, "default": null})),
            (list.clone(), map.clone())
                .prop_map(|(list, map)| json!({"allOf": list, "properties": map, "required": ["a", "b"]})),
            map.clone()
                .prop_map(|map| json!({"properties": map, "required": ["a", "z"]})),
            (map.clone(), map.clone())
                .prop_map(|(defs, map)| json!({"definitions": defs, "properties": map})),
            map.prop_map(|map| json!({"dependentSchemas": map})),
            inner
                .clone()
                .prop_map(|inner| json!({"items": inner, "not": true})),
            inner.prop_map(|inner| json!({"type": "object", "additionalProperties": inner})),
        ]
    })
}
