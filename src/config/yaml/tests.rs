use std::io::Write;

use serde_json::{Value, json};

use super::*;

fn value(text: &str) -> Result<Value, String> {
    match load(text) {
        Ok(Some(node)) => to_json(&node),
        Ok(None) => Ok(Value::Null),
        Err(error) => Err(format!(
            "{}:{}: {}",
            error.mark.line, error.mark.column, error.message
        )),
    }
}

#[test]
fn documents_are_read_as_pyyaml_reads_them() {
    for (text, expected) in [
        ("", json!(null)),
        ("# only a comment\n", json!(null)),
        ("\u{feff}a: 1\n", json!({"a": 1})),
        ("---\na: 1\n...\n", json!({"a": 1})),
        ("a: yes\nb: 'yes'\n", json!({"a": true, "b": "yes"})),
        ("a: 1\na: 2\n", json!({"a": 2})),
        ("a: &x {b: 1}\nc: *x\n", json!({"a": {"b": 1}, "c": {"b": 1}})),
        (
            "base: &b {x: 1, y: 2}\nm:\n  <<: *b\n  y: 3\n",
            json!({"base": {"x": 1, "y": 2}, "m": {"x": 1, "y": 3}}),
        ),
        (
            "m:\n  <<: [{x: 1}, {x: 2, z: 3}]\n",
            json!({"m": {"x": 1, "z": 3}}),
        ),
        ("on: 1\nnull: 2\n", json!({"true": 1, "null": 2})),
        ("a: |\n  one\n  two\n", json!({"a": "one\ntwo\n"})),
        ("a: !!str 12\nb: !!int '7'\n", json!({"a": "12", "b": 7})),
    ] {
        assert_eq!(value(text), Ok(expected), "{text:?}");
    }
}

#[test]
fn what_is_no_yaml_has_a_place_and_a_reason() {
    for (text, place) in [
        ("a: [1, 2\nb: 3\n", "2:2"),
        ("a:\n\tb: 1\n", "2:2"),
        ("a: 'open\n", "1:4"),
        ("a: *nowhere\n", "1:4"),
        ("a: 1\n---\nb: 2\n", "2:1"),
    ] {
        let error = value(text).unwrap_err();
        assert!(error.starts_with(place), "{text:?}: {error}");
    }
}

#[test]
fn a_bomb_is_refused_early() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let last = n - 1;
        bomb.push_str(&format!(
            "a{n}: &a{n} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}, *a{last}]\n"
        ));
    }
    assert!(value(&bomb).unwrap_err().contains("expands to more than"));
    let mut nested = String::from("[x]");
    for n in 0..40 {
        nested = format!("&n{n} [{nested}, {}]", "y, ".repeat(400));
    }
    assert!(
        value(&format!("a: {nested}\n"))
            .unwrap_err()
            .contains("expands to more than")
    );
    let deep = value(&"[".repeat(100_000)).unwrap_err();
    assert!(deep.contains("deep") || deep.contains("recursion"), "{deep}");
}

#[test]
fn other_peoples_oddities_are_not_ours() {
    let text = "theirs: !vault secret\n? [a, b]\n: c\nmine: {a: 1}\n";
    let root = load(text).unwrap().unwrap();
    let mut oddities = Vec::new();
    let fields = root.fields(&mut oddities).unwrap();
    assert_eq!(
        fields.iter().map(|field| field.name).collect::<Vec<_>>(),
        ["theirs", "mine"]
    );
    assert_eq!((fields[1].value.mark.line, fields[1].value.mark.column), (4, 7));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_loader_fail_to_end(text in "[a-c:\\[\\]{}&*<!|>'\"#\n\t -]{0,80}") {
        let lines = text.lines().count() + 1;
        if let Err(error) = load(&text) {
            proptest::prop_assert!(error.mark.line <= lines + 1, "{:?}", error);
        }
    }
}

/// Compares some thousand generated documents with the real PyYAML: nothing that it accepts is refused or read
/// otherwise. (It refuses a few things more; that is no harm.)
#[test]
fn generated_documents_are_read_as_by_the_real_pyyaml() {
    let documents: Vec<String> = (1..=3).flat_map(documents).collect();
    let input: String = documents
        .iter()
        .map(|text| json!(text).to_string() + "\n")
        .collect();
    let Some(output) = pyyaml(&input) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "python3 with PyYAML is needed here: python3 -m pip install pyyaml"
        );
        eprintln!("skipped: there is no python3 with PyYAML");
        return;
    };
    let answers: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), documents.len());
    let mut same = 0;
    for (text, answer) in documents.iter().zip(&answers) {
        let Some(expected) = answer.get("ok") else {
            continue;
        };
        match value(text) {
            Ok(got) => assert!(
                is_alike(expected, &got),
                "{text:?}\n PyYAML: {expected}\n here:   {got}"
            ),
            Err(error) => panic!("{text:?}\n PyYAML: {expected}\n here:   {error}"),
        }
        same += 1;
    }
    assert!(same > 2_000, "only {same} documents were valid");
}

/// A date has no JSON form and stays text here; numbers are compared as numbers.
fn is_alike(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::String(text), Value::String(_)) if text == "<date>" => true,
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| is_alike(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn pyyaml(input: &str) -> Option<String> {
    const SCRIPT: &str = r#"
import sys, json, math, datetime, yaml
def key(k):
    if isinstance(k, bool): return 'true' if k else 'false'
    if k is None: return 'null'
    if isinstance(k, (datetime.date, datetime.datetime)): raise ValueError('a date as a key')
    return str(k)
def plain(v):
    if isinstance(v, dict):
        # Python takes 1 and true for one key; JSON does not.
        if len({key(k) for k in v}) != len(v) or any(isinstance(k, float) for k in v) or (1 in v or 0 in v): raise ValueError('keys')
        return {key(k): plain(x) for k, x in v.items()}
    if isinstance(v, list): return [plain(x) for x in v]
    if isinstance(v, (datetime.date, datetime.datetime)): return '<date>'
    if isinstance(v, float) and (math.isinf(v) or math.isnan(v)): return None
    return v
for line in sys.stdin:
    try: print(json.dumps({'ok': plain(yaml.safe_load(json.loads(line)))}))
    except Exception as e: print(json.dumps({'err': str(e)[:80]}))
"#;
    let mut child = std::process::Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().ok()?;
    // Without PyYAML the script ends before it reads anything.
    let _ = writer.join();
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).ok())?
}

/// A thousand documents of scalars, nesting and merges; the same for the same seed.
fn documents(seed: u64) -> Vec<String> {
    const ATOMS: &[&str] = &[
        "yes",
        "No",
        "on",
        "OFF",
        "true",
        "False",
        "y",
        "n",
        "~",
        "null",
        "",
        "0755",
        "0o755",
        "0x1F",
        "0b101",
        "1_000",
        "08",
        "0",
        "-0",
        "+1",
        "-17",
        "1e3",
        "1.0e+3",
        "1.",
        ".5",
        "-.5",
        ".inf",
        ".nan",
        "22:22",
        "190:20:30",
        "1:60",
        "12:30:45.5",
        "2024-01-02",
        "foo",
        "foo bar",
        "'yes'",
        "\"no\"",
        "\"a\\nb\"",
        "http://x:80/y",
        "8080:80",
        "${VAR}",
        "${A:-b}",
        "a:b",
        "-x",
        "--flag",
        "@scope",
        "%x",
        "!!str 12",
        "!!int 7",
        "!!float 3",
        "!!bool yes",
        "a#b",
        "a #b",
        "[a, b]",
        "{a: 1}",
        "{a: yes, b: [1, 2]}",
        "|\n    line1\n    line2\n",
        ">\n    fold1\n    fold2\n",
        "it's",
        "1,2",
        "0xZZ",
        "1__2",
        "-",
        "12345678901234567890",
        ".",
        "..",
        "0.0",
        "00",
        "0_7",
        "+.inf",
        "TRUE",
        "tRue",
        "é",
        "日本",
        "\"unterminated",
        "a: b",
    ];
    const KEYS: &[&str] = &[
        "a", "b", "c", "command", "args", "env", "yes", "null", "\"q k\"", "a b", "x-y", "0755", "<<",
    ];
    fn pick<'a>(random: &mut fastrand::Rng, list: &[&'a str]) -> &'a str {
        list[random.usize(..list.len())]
    }
    fn block(random: &mut fastrand::Rng, depth: usize) -> Option<String> {
        let indent = " ".repeat(depth * 2);
        if depth > 2 || random.u8(..100) < 40 {
            return None;
        }
        let mut out = String::new();
        if random.u8(..4) == 0 {
            for _ in 0..random.usize(1..4) {
                out.push_str(&format!("{indent}- {}\n", pick(random, ATOMS)));
            }
            return Some(out);
        }
        for _ in 0..random.usize(1..5) {
            match (pick(random, KEYS), block(random, depth + 1)) {
                ("<<", _) => {
                    let merged = pick(random, &["{m1: 1, a: 9}", "[{m1: 1},{m1: 2, m2: 3}]"]);
                    out.push_str(&format!("{indent}<<: {merged}\n"));
                }
                (key, Some(inner)) => out.push_str(&format!("{indent}{key}:\n{inner}")),
                (key, None) => out.push_str(&format!("{indent}{key}: {}\n", pick(random, ATOMS))),
            }
        }
        Some(out)
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let single = ATOMS.iter().map(|atom| format!("k: {atom}\n"));
    let nested: Vec<String> = (0..4_000).filter_map(|_| block(&mut random, 0)).collect();
    single.chain(nested).collect()
}
