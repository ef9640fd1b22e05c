//! The tools' behaviour.

use std::{borrow::Cow, collections::HashMap, io::Write, sync::Arc, thread, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    definitions, output, process,
    server::{Server, pause},
    slow,
};

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    delay_ms: Option<u64>,
}

/// Answers one `tools/call`. `id` and `params` are JSON text.
pub(crate) fn call(server: &mut Server, id: &str, params: &str) {
    server.calls += 1;
    if server
        .options
        .crash_after
        .is_some_and(|limit| server.calls >= limit)
    {
        std::process::exit(server.options.exit_code);
    }
    let Ok(call) = serde_json::from_str::<Call<'_>>(params) else {
        return server
            .output
            .error(id, -32602, "params are not those of tools/call");
    };
    pause(server.options.call_delay_ms);
    if server.options.mode("mute-calls") {
        return;
    }
    if server.options.mode("result-and-error") {
        let members = r#","result":{"content":[]},"error":{"code":-32000,"message":"both members"}"#;
        return server.output.members(id, members);
    }
    if server.options.mode("wrong-shape") {
        return server.output.members(id, r#","error":"oops""#);
    }
    let raw = call.arguments.map_or("{}", RawValue::get);
    if call.name == "echo" {
        return echo(server, id, raw);
    }
    let token = call.meta.and_then(|meta| meta.progress_token);
    let known = server.tools.iter().any(|tool| tool["name"] == *call.name);
    if !known {
        return server
            .output
            .error(id, -32602, &format!("unknown tool: {}", call.name));
    }
    match call.name.as_ref() {
        "raw_args" => server
            .output
            .result(id, &text_result(call.arguments.map_or("(absent)", RawValue::get))),
        "raw_params" => server.output.result(id, &text_result(params)),
        "slow" => slow::slow(server, id, raw, token),
        "progress" => slow::progress(server, id, raw, token),
        name => with_values(server, name, id, &serde_json::from_str(raw).unwrap_or_default()),
    }
}

/// A result of one text block, as JSON text.
pub(crate) fn text_result(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// The hot path: the text goes back as it came, without being unescaped.
fn echo(server: &Server, id: &str, arguments: &str) {
    let echo = serde_json::from_str(arguments).unwrap_or(Echo {
        text: None,
        delay_ms: None,
    });
    let text = echo.text.map_or("\"\"", RawValue::get);
    if server.options.mode("byte-ff") || server.options.mode("lone-surrogate") {
        let end = if server.options.mode("byte-ff") {
            "$FF"
        } else {
            r"\ud83d"
        };
        let text = text.trim_end_matches('"');
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":{text}{end}"}}]}}}}"#
        );
        return raw_line(id, &line);
    }
    if let Some(delay) = echo.delay_ms {
        let (output, id) = (Arc::clone(&server.output), id.to_owned());
        let members = format!(r#","result":{{"content":[{{"type":"text","text":{text}}}]}}"#);
        thread::spawn(move || {
            pause(delay);
            output.members(&id, &members);
        });
        return;
    }
    server.output.echo(id, text);
}

/// The tools that need no speed.
fn with_values(server: &mut Server, name: &str, id: &str, arguments: &Value) {
    let output = Arc::clone(&server.output);
    let number = |key: &str| arguments[key].as_u64();
    let text = |key: &str| arguments[key].as_str();
    let reply = match name {
        "add" => {
            (arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0)).to_string()
        }
        "fail" => {
            let text = text("text").unwrap_or("it went wrong");
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            return output.result(id, &result.to_string());
        }
        "env" => json!(
            std::env::vars_os()
                .map(|(key, value)| (
                    key.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned()
                ))
                .collect::<HashMap<_, _>>()
        )
        .to_string(),
        "cwd" => std::env::current_dir()
            .expect("a working directory")
            .display()
            .to_string(),
        "pid" => std::process::id().to_string(),
        "big" => return big(id, arguments),
        "blocks" => {
            let is_error = arguments["is_error"] == true;
            return output.result(id, &definitions::blocks(is_error));
        }
        "raw_result" => return output.result(id, text("result").unwrap_or("{}")),
        "raw_line" => return raw_line(id, text("line").unwrap_or_default()),
        "die" => std::process::exit(arguments["code"].as_i64().map_or(1, |code| code as i32)),
        "append" | "read_only_once" | "idempotent_once" => match append(name, arguments) {
            Some(reply) => reply,
            None => std::process::exit(server.options.exit_code),
        },
        "spawn_grandchild" => process::spawn_grandchild(&server.options.marker).to_string(),
        "counter" => {
            server.count += 1;
            server.count.to_string()
        }
        "stderr" => {
            for _ in 0..number("times").unwrap_or(1) {
                eprintln!("{}", text("text").unwrap_or_default());
            }
            "written".into()
        }
        "notify" => {
            let data = "n".repeat(number("bytes").unwrap_or(64) as usize);
            for index in 0..number("count").unwrap_or(1) {
                output.notification(
                    "notifications/message",
                    &json!({"level": "info", "data": data, "index": index}),
                );
            }
            "sent".into()
        }
        "flood" => {
            process::flood((number("bytes").unwrap_or(0) >> 16) as usize, &[b'x'; 1 << 16]);
            "flooded".into()
        }
        "stop_reading" => {
            output.result(id, &text_result("not reading"));
            let seconds = arguments["seconds"].as_f64().unwrap_or(1.0);
            return thread::sleep(Duration::from_secs_f64(seconds));
        }
        "change_tools" => return change_tools(server, id, arguments),
        "ask" => {
            let ours = format!("\"ask-{}\"", server.calls);
            let question = format!(
                r#"{{"jsonrpc":"2.0","id":{ours},"method":{},"params":{}}}"#,
                arguments["method"], arguments["params"]
            );
            server.asking.insert(ours, id.to_owned());
            return output.line(question.as_bytes());
        }
        _ => return echo(server, id, &arguments.to_string()),
    };
    output.result(id, &text_result(&reply));
}

fn change_tools(server: &mut Server, id: &str, arguments: &Value) {
    if let Some(name) = arguments["remove"].as_str() {
        server.tools.retain(|tool| tool["name"] != name);
    }
    if let Some(name) = arguments["add"].as_str() {
        server.tools.push(definitions::echo_like(name));
    }
    server.list_changed(arguments["notices"].as_u64().unwrap_or(1));
    server.output.result(id, &text_result("changed"));
}

/// Leaves a trace in a file, so that a test sees how often a call was carried out (CANC-07). None: don't answer.
fn append(tool: &str, arguments: &Value) -> Option<String> {
    let file = arguments["file"].as_str().expect("'file' is a path");
    let is_first = !std::path::Path::new(file).exists();
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file)
        .expect("'file' opens");
    writeln!(file, "{}", arguments["line"].as_str().unwrap_or(tool)).expect("'file' is writable");
    (tool != "append" && !is_first).then(|| "the second time".into())
}

/// A long line in pieces, so that it never arrives in one read (B16).
fn big(id: &str, arguments: &Value) {
    let bytes = arguments["bytes"].as_u64().unwrap_or(0) as usize;
    let chunk = arguments["chunk"].as_u64().unwrap_or(64 << 10).max(1) as usize;
    let pause = Duration::from_micros(arguments["pause_us"].as_u64().unwrap_or(0));
    let text: String = ('a'..='z').cycle().take(bytes).collect();
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}}\n",
        text_result(&text)
    );
    for piece in line.as_bytes().chunks(chunk) {
        output::write(piece);
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
}

/// Any bytes as the answer (B17, B19).
fn raw_line(id: &str, line: &str) {
    let line = line.replace("$ID", id);
    let mut bytes = Vec::new();
    for (index, part) in line.split("$FF").enumerate() {
        if index > 0 {
            bytes.push(0xFF);
        }
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.push(b'\n');
    output::write(&bytes);
}
