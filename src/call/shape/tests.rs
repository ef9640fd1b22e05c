use serde_json::{Value, json, value::RawValue};

use super::*;

struct Bench {
    dir: tempfile::TempDir,
    media: MediaStore,
    redactor: Redactor,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    Bench {
        media: MediaStore::new(dir.path().into()),
        dir,
        redactor: Redactor::default(),
    }
}

impl Bench {
    fn with<R>(&self, shape: impl FnOnce(&ShapeContext<'_>) -> R) -> R {
        shape(&ShapeContext {
            server: &"s".into(),
            read_resource_tool: Some("mcp_s_read_resource"),
            media: &self.media,
            redactor: &self.redactor,
        })
    }

    fn tool(&self, result: &str) -> String {
        let raw = RawValue::from_string(result.into()).unwrap();
        self.with(|context| tool_result(&raw, context))
            .to_json()
            .to_owned()
    }
}

#[test]
fn the_shapes_of_the_reference() {
    let bench = bench();
    for (result, expected) in [
        (
            r#"{"content":[{"type":"text","text":"héllo ☃"}]}"#,
            r#"{"result":"héllo ☃"}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"one"},{"type":"text","text":""},{"type":"text","text":"two"}]}"#,
            r#"{"result":"one\ntwo"}"#,
        ),
        (r#"{"content":[]}"#, r#"{"result":""}"#),
        ("{}", r#"{"result":""}"#),
        (
            r#"{"structuredContent":{"n":12345678901234567890123,"a":1.0}}"#,
            r#"{"result":{"n":12345678901234567890123,"a":1.0}}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"summary"}],"structuredContent":{"b":1,"a":2}}"#,
            r#"{"result":"summary","structuredContent":{"b":1,"a":2}}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}"#,
            r#"{"result":"{\"a\": 1}"}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"first part. "},{"type":"text","text":"second part"}],"isError":true}"#,
            r#"{"error":"first part. second part"}"#,
        ),
        (
            r#"{"content":[],"isError":true}"#,
            r#"{"error":"MCP tool returned an error"}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"no: token=abc"}],"isError":true,"structuredContent":{"why":"x"}}"#,
            r#"{"error":"no: token=[REDACTED]","structuredContent":{"why":"x"}}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"ghp_kept"}]}"#,
            r#"{"result":"ghp_kept"}"#,
        ),
        (
            r#"{"content":[{"type":"resource_link","uri":"x://a","name":"A","mimeType":"text/plain"},{"type":"resource_link","uri":"x://b"}]}"#,
            r#"{"result":"[MCP resource link: uri=x://a, name=A, mimeType=text/plain — fetch it with mcp_s_read_resource]\n[MCP resource link: uri=x://b — fetch it with mcp_s_read_resource]"}"#,
        ),
        (
            r#"{"content":[{"type":"resource","resource":{"uri":"x://a","text":"inside"}}]}"#,
            r#"{"result":"inside"}"#,
        ),
        (
            r#"{"content":[{"type":"x-chart","name":"c","data":[1]}]}"#,
            r#"{"result":"[MCP content dropped: unsupported block (type=x-chart, size=40, name=c)]"}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"a"}],"_meta":{"com.example/a":1,"io.modelcontextprotocol/x":2}}"#,
            r#"{"result":"a","_meta":{"com.example/a":1}}"#,
        ),
        (
            r#"{"content":{"type":"text","text":"not a list"}}"#,
            r#"{"result":"not a list"}"#,
        ),
        // What is malformed in one place is lost there only.
        (r#"{"content":"a mere text"}"#, r#"{"result":"a mere text"}"#),
        (
            r#"{"content":["a",5,null,{"type":"text","text":7},{"type":"text","resource":"x","text":"b"},{"type":"text"}]}"#,
            r#"{"result":"a\n5\n7\nb"}"#,
        ),
        (
            r#"{"content":[{"type":"resource","resource":{"uri":"x://a","text":""}},{"type":"resource","resource":{"uri":"x://a"}}]}"#,
            r#"{"result":"[MCP embedded resource without content: uri=x://a]"}"#,
        ),
        (
            r#"{"content":[{"type":"resource","resource":{"uri":"x://a","text":"why: token=abc"}}],"isError":true}"#,
            r#"{"error":"why: token=[REDACTED]"}"#,
        ),
        (
            r#"{"content":[{"type":"x-chart","mimeType":"a/b","uri":"x://a","size":5,"name":"two\nlines"}]}"#,
            r#"{"result":"[MCP content dropped: unsupported block (type=x-chart, mimeType=a/b, uri=x://a, size=5, name=two lines)]"}"#,
        ),
        (
            r#"{"content":[],"_meta":{"a":1,"mcp.dev/x":2,"tools.mcp.com/x":2,"com.example.mcp/x":3,"com.mcp.x/y":2}}"#,
            r#"{"result":"","_meta":{"a":1,"com.example.mcp/x":3}}"#,
        ),
        (
            r#"{"structuredContent":null,"content":null,"isError":"no"}"#,
            r#"{"result":""}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":2}}"#,
            r#"{"result":"{\"a\":1}","structuredContent":{"a":2}}"#,
        ),
        (r#"[1,2]"#, r#"{"result":"[1,2]"}"#),
        ("null", r#"{"result":"null"}"#),
    ] {
        assert_eq!(bench.tool(result), expected, "{result}");
    }
}

#[test]
fn data_is_saved_and_named() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let bench = bench();
    let png = BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
    let result = json!({"content": [
        {"type": "image", "data": png, "mimeType": "image/png"},
        {"type": "audio", "data": BASE64_STANDARD.encode("sound"), "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "res://a/b%20c.pdf", "blob": BASE64_STANDARD.encode("0123456789"), "mimeType": "application/pdf"}},
        {"type": "image", "data": BASE64_STANDARD.encode("<svg/>"), "mimeType": "image/svg+xml"},
    ]});
    let shaped: Value = serde_json::from_str(&bench.tool(&result.to_string())).unwrap();
    let lines: Vec<&str> = shaped["result"].as_str().unwrap().lines().collect();
    let root = bench.dir.path().display();
    assert!(
        lines[0].starts_with(&format!("MEDIA:{root}/images/img_")) && lines[0].ends_with(".png"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with(&format!("MEDIA:{root}/audio/audio_")) && lines[1].ends_with(".wav"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with(&format!("[MCP resource saved to {root}/documents/doc_")),
        "{lines:?}"
    );
    assert!(
        lines[2]
            .ends_with("_b c.pdf (application/pdf, 10 bytes) — read it with read_file or terminal tools]")
    );
    assert_eq!(
        lines[3],
        "[MCP image block could not be cached (image/svg+xml, 6 bytes)]"
    );
    let path = lines[0].strip_prefix("MEDIA:").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"\x89PNG\r\n\x1a\nrest");
}

#[test]
fn bad_data_is_told_inline() {
    let bench = bench();
    let shaped = bench.tool(
        r#"{"content":[{"type":"resource","resource":{"uri":"x://a","blob":"%%%"}},{"type":"audio"}]}"#,
    );
    assert!(
        shaped.contains("[MCP embedded resource could not be decoded: "),
        "{shaped}"
    );
    assert!(
        shaped.contains("[MCP audio block could not be cached (unknown type, 0 bytes)]"),
        "{shaped}"
    );
}

#[test]
fn the_utilities() {
    let bench = bench();
    let items = |list: &[&str]| -> Vec<Box<RawValue>> {
        list.iter()
            .map(|json| RawValue::from_string((*json).into()).unwrap())
            .collect()
    };
    assert_eq!(
        list_resources(&items(&[
            r#"{"uri":"x://a","name":"A","size":5,"mimeType":"t"}"#,
            r#"{"name":"no uri"}"#
        ]))
        .to_json(),
        r#"{"resources":[{"uri":"x://a","name":"A","mimeType":"t"}]}"#
    );
    assert_eq!(
        list_prompts(&items(&[
            r#"{"name":"p","arguments":[{"name":"a","required":true}],"icons":[]}"#
        ]))
        .to_json(),
        r#"{"prompts":[{"name":"p","arguments":[{"name":"a","required":true}]}]}"#
    );
    let raw = |json: &str| RawValue::from_string(json.into()).unwrap();
    let read = raw(r#"{"contents":[{"uri":"x://a","text":"one"},{"uri":"x://b","text":"two"}]}"#);
    assert_eq!(
        bench.with(|context| read_resource(&read, context)).to_json(),
        r#"{"result":"one\ntwo"}"#
    );
    let prompt = raw(
        r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":"plain"}]}"#,
    );
    assert_eq!(
        bench.with(|context| get_prompt(&prompt, context)).to_json(),
        r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"plain"}],"description":"d"}"#
    );
    let odd = raw(
        r#"{"messages":["hi",{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},5],"description":7}"#,
    );
    assert_eq!(
        bench.with(|context| get_prompt(&odd, context)).to_json(),
        r#"{"messages":[{"role":"user","content":"hi"},{"role":"user","content":"a\nb"},{"role":"user","content":""}]}"#
    );
    let odd = raw(r#"{"contents":{"uri":"x://a","text":"alone"}}"#);
    assert_eq!(
        bench.with(|context| read_resource(&odd, context)).to_json(),
        r#"{"result":"alone"}"#
    );
    assert_eq!(
        list_prompts(&items(&[
            r#"{"name":"p","arguments":{"a":1}}"#,
            "5",
            r#"{"name":""}"#
        ]))
        .to_json(),
        r#"{"prompts":[{"name":"p","arguments":[]}]}"#
    );
    assert_eq!(
        list_resources(&items(&[r#"{"uri":"x://a","description":5}"#])).to_json(),
        r#"{"resources":[{"uri":"x://a","name":"x://a"}]}"#
    );
}

#[test]
fn a_shaped_result_is_a_result_of_mcp_too() {
    let reply = error_reply("Missing required parameter 'uri'");
    let result: Value = serde_json::from_str(as_mcp_result(&reply).get()).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["content"][0]["text"],
        r#"{"error":"Missing required parameter 'uri'"}"#
    );
}

proptest::proptest! {
    /// Whatever a server sends, the shape is a JSON object with `result` or `error`.
    #[test]
    fn no_result_breaks_the_shape(kind in "text|image|audio|resource|resource_link|x|", text in ".{0,20}", extra in "null|1|\\[\\]|\\{\\}|\"a\"", is_error in proptest::bool::ANY) {
        let bench = bench();
        let result = format!(
            r#"{{"content":[{{"type":{},"text":{},"data":{extra},"uri":{extra}}},{extra}],"isError":{is_error},"_meta":{extra}}}"#,
            json!(kind), json!(text)
        );
        let shaped: Value = serde_json::from_str(&bench.tool(&result)).unwrap();
        proptest::prop_assert!(shaped.get("result").is_some() != shaped.get("error").is_some(), "{}", shaped);
    }
}
