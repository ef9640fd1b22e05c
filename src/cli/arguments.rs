//! The arguments of `call`, from the command line to the JSON that the tool gets.
//!
//! Values are kept as the text the user wrote (a number above 2^64, `1.0`, the order of keys): what a tool gets is
//! what was typed.

use std::fmt::Write as _;

use serde_json::{Value, value::RawValue};

use super::render::signature::{kind_of, kinds, parameters, type_text};

/// What the command line gives.
pub(super) enum Given<'a> {
    /// `key=value` and `key:=json` words.
    Words(&'a [String]),
    /// The whole object as JSON.
    Json(&'a str),
}

/// Everything that is wrong with the arguments, one line each.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong(pub(super) Vec<String>);

/// The arguments as one JSON object. With `schema`, words are typed by it, and unknown and missing names are found.
pub(super) fn build(given: &Given<'_>, schema: Option<&Value>) -> Result<Box<RawValue>, Wrong> {
    let mut wrong = Vec::new();
    let mut names = Vec::new();
    let json = match given {
        Given::Words(words) => object_of_words(words, schema, &mut names, &mut wrong),
        Given::Json(json) => {
            match serde_json::from_str::<Value>(json) {
                Ok(Value::Object(object)) => names.extend(object.keys().cloned()),
                Ok(other) => wrong.push(format!(
                    "the arguments must be a JSON object, not {}",
                    article(kind_of(&other))
                )),
                Err(error) => wrong.push(format!("the arguments are not JSON: {error}")),
            }
            (*json).to_owned()
        }
    };
    // A word that could not be read may well be the one that seems to be missing.
    if let Some(schema) = schema.filter(|_| wrong.is_empty()) {
        check_names(&names, schema, &mut wrong);
    }
    if !wrong.is_empty() {
        return Err(Wrong(wrong));
    }
    RawValue::from_string(json).map_err(|error| Wrong(vec![format!("the arguments are not JSON: {error}")]))
}

fn object_of_words(
    words: &[String],
    schema: Option<&Value>,
    names: &mut Vec<String>,
    wrong: &mut Vec<String>,
) -> String {
    let mut json = String::from("{");
    for word in words {
        let Some((key, text)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) else {
            wrong.push(format!("'{word}' is not key=value or key:=json"));
            continue;
        };
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => (
                key,
                raw(text).map_err(|error| format!("'{key}' is not JSON: {error}")),
            ),
            None => (key, typed(key, text, schema)),
        };
        if names.iter().any(|name| name == key) {
            wrong.push(format!("'{key}' is given twice"));
            continue;
        }
        match value {
            Ok(value) => {
                let comma = if json.len() > 1 { "," } else { "" };
                // Writing to a string can't fail.
                let _ = write!(json, "{comma}{}:{value}", Value::from(key));
                names.push(key.to_owned());
            }
            Err(error) => wrong.push(error),
        }
    }
    json.push('}');
    json
}

/// Checked JSON as it was written.
fn raw(text: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str::<Box<RawValue>>(text).map(|raw| raw.get().to_owned())
}

/// A value as JSON: parsed when the schema wants something else than a string, else the string itself.
fn typed(key: &str, text: &str, schema: Option<&Value>) -> Result<String, String> {
    let string = || Value::from(text).to_string();
    let Some((schema, node)) = schema.and_then(|schema| Some((schema, schema["properties"].get(key)?)))
    else {
        return Ok(string());
    };
    let kinds = kinds(node, schema);
    if kinds.is_empty() || kinds == ["string"] {
        return Ok(string());
    }
    if let (Ok(raw), Ok(value)) = (raw(text), serde_json::from_str::<Value>(text)) {
        let kind = kind_of(&value);
        let fits = kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
        if fits && kind != "string" {
            return Ok(raw);
        }
    }
    if kinds.contains(&"string") {
        return Ok(string());
    }
    Err(format!(
        "'{key}' must be {}, not '{text}' (`{key}:=JSON` sends any JSON)",
        article(&type_text(node, schema))
    ))
}

fn check_names(names: &[String], schema: &Value, wrong: &mut Vec<String>) {
    let parameters = parameters(schema);
    for name in names {
        if parameters.iter().any(|parameter| parameter.name == name) || is_open(schema) {
            continue;
        }
        let names = parameters.iter().map(|parameter| parameter.name);
        let hint = match crate::text::nearest(name, names).first() {
            Some(near) => format!("; did you mean '{near}'?"),
            None => String::new(),
        };
        wrong.push(format!("no argument is called '{name}'{hint}"));
    }
    for parameter in parameters.iter().filter(|parameter| parameter.required) {
        if !names.iter().any(|name| name == parameter.name) {
            let kind = type_text(parameter.schema, schema);
            wrong.push(format!("'{}' is required ({kind})", parameter.name));
        }
    }
}

/// Whether a schema may take names that it does not list. JSON Schema always does unless told otherwise; a person who
/// types a name that isn't listed has more likely made a mistake, so only an explicit permission counts.
fn is_open(schema: &Value) -> bool {
    let explicit = match &schema["additionalProperties"] {
        Value::Bool(allowed) => *allowed,
        Value::Object(_) => true,
        _ => false,
    };
    explicit
        || ["patternProperties", "anyOf", "oneOf", "allOf", "$ref"]
            .iter()
            .any(|key| !schema[key].is_null())
}

fn article(noun: &str) -> String {
    match noun {
        "null" | "any" => noun.to_owned(),
        noun if noun.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {noun}"),
        noun => format!("a {noun}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "ratio": {"type": "number"},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"type": "object"},
                "note": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                "free": {},
            },
            "required": ["path"],
        })
    }

    fn words(words: &[&str]) -> Result<String, Wrong> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        build(&Given::Words(&words), Some(&schema())).map(|raw| raw.get().to_owned())
    }

    #[test]
    fn values_are_typed_by_the_schema() {
        for (word, json) in [
            ("limit=5", r#""limit":5"#),
            ("limit=18446744073709551616", r#""limit":18446744073709551616"#),
            ("ratio=1.0", r#""ratio":1.0"#),
            ("ratio=2", r#""ratio":2"#),
            ("deep=true", r#""deep":true"#),
            (r#"tags=["b", "a"]"#, r#""tags":["b", "a"]"#),
            (r#"where={"z":1,"a":2}"#, r#""where":{"z":1,"a":2}"#),
            ("note=7", r#""note":7"#),
            ("note=null", r#""note":null"#),
            ("note=[1]", r#""note":"[1]""#),
            (r#"note="q""#, r#""note":"\"q\"""#),
            ("free=5", r#""free":"5""#),
            ("free:=5", r#""free":5"#),
        ] {
            assert_eq!(
                words(&["path=/a=b", word]).unwrap(),
                format!(r#"{{"path":"/a=b",{json}}}"#),
                "{word}"
            );
        }
        assert_eq!(
            words(&["path=5"]).unwrap(),
            r#"{"path":"5"}"#,
            "a string stays a string"
        );
        assert_eq!(words(&["path="]).unwrap(), r#"{"path":""}"#);
        assert_eq!(
            words(&["path:=[1]"]).unwrap(),
            r#"{"path":[1]}"#,
            "`:=` is the user's word"
        );
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        assert_eq!(
            words(&["limit=many", "nonsense", "=x", "deep=1", "free:={"])
                .unwrap_err()
                .0,
            [
                "'limit' must be an integer, not 'many' (`limit:=JSON` sends any JSON)",
                "'nonsense' is not key=value or key:=json",
                "'=x' is not key=value or key:=json",
                "'deep' must be a boolean, not '1' (`deep:=JSON` sends any JSON)",
                "'free' is not JSON: EOF while parsing an object at line 1 column 1",
            ]
        );
        assert_eq!(
            words(&["paht=/a", "limit=1"]).unwrap_err().0,
            [
                "no argument is called 'paht'; did you mean 'path'?",
                "'path' is required (string)"
            ]
        );
        assert_eq!(
            words(&["path=a", "path=b"]).unwrap_err().0,
            ["'path' is given twice"]
        );
    }

    #[test]
    fn a_whole_object_is_kept_as_written_and_checked() {
        let json = r#"{ "path": "x", "limit": 1e400 }"#;
        let built = build(&Given::Json(r#"{ "path": "x", "ratio": 1.0 }"#), Some(&schema())).unwrap();
        assert_eq!(built.get(), r#"{ "path": "x", "ratio": 1.0 }"#);
        assert!(
            build(&Given::Json(json), Some(&schema())).is_err(),
            "not a number that JSON readers take"
        );
        for (json, error) in [
            ("[1]", "the arguments must be a JSON object, not an array"),
            ("{}", "'path' is required (string)"),
            (r#"{"path":"","zzz":1}"#, "no argument is called 'zzz'"),
        ] {
            assert_eq!(
                build(&Given::Json(json), Some(&schema())).unwrap_err().0,
                [error],
                "{json}"
            );
        }
        assert!(build(&Given::Json("{"), None).unwrap_err().0[0].starts_with("the arguments are not JSON"));
    }

    #[test]
    fn a_schema_that_permits_other_names_or_none_at_all_takes_them() {
        let open = json!({"properties": {}, "additionalProperties": {"type": "string"}});
        let given = ["any=1".to_owned()];
        for schema in [Some(&open), None] {
            let built = build(&Given::Words(&given), schema).unwrap();
            assert_eq!(built.get(), r#"{"any":"1"}"#);
        }
    }

    proptest! {
        #[test]
        fn what_is_built_is_an_object_with_the_given_strings(pairs in proptest::collection::btree_map("[a-z]{1,6}", ".*", 0..5)) {
            let given: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let built = build(&Given::Words(&given), None).unwrap();
            let object: std::collections::BTreeMap<String, String> = serde_json::from_str(built.get()).unwrap();
            prop_assert_eq!(object, pairs);
        }
    }
}
