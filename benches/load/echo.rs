//! The echo server that every client talks to: a plain loop over stdin and stdout.

use std::io::{BufRead, Write};

use serde::Deserialize;
use serde_json::{json, value::RawValue};

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

pub(crate) fn serve(tools: usize) {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let (mut line, mut answer) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).unwrap() > 0 {
        let request: Request<'_> = serde_json::from_slice(&line).unwrap();
        if let Some(id) = request.id {
            answer.clear();
            write!(answer, r#"{{"jsonrpc":"2.0","id":{},"result":"#, id.get()).unwrap();
            result(&request, tools, &mut answer);
            answer.extend_from_slice(b"}\n");
            output.write_all(&answer).unwrap();
            output.flush().unwrap();
        }
        line.clear();
    }
}

fn result(request: &Request<'_>, tools: usize, out: &mut Vec<u8>) {
    match request.method {
        "tools/call" => {
            let call: Call<'_> = serde_json::from_str(request.params.unwrap().get()).unwrap();
            write!(
                out,
                r#"{{"content":[{{"type":"text","text":{}}}]}}"#,
                call.arguments.text.get()
            )
            .unwrap();
        }
        "initialize" => {
            let answer = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            });
            serde_json::to_writer(out, &answer).unwrap();
        }
        "tools/list" => {
            let list: Vec<_> = (0..tools)
                .map(|n| {
                    tool(if n == 0 {
                        "echo".into()
                    } else {
                        format!("tool_{n}")
                    })
                })
                .collect();
            serde_json::to_writer(out, &json!({"tools": list})).unwrap();
        }
        _ => out.extend_from_slice(b"{}"),
    }
}

fn tool(name: String) -> serde_json::Value {
    json!({
        "name": name,
        "description": "Gives back the text that it was given, unchanged, however long it is.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What to give back."},
                "times": {"type": "integer", "minimum": 1, "default": 1},
            },
            "required": ["text"],
        },
    })
}
