//! `hermesd-mcp call`

use std::{
    io::{self, IsTerminal, Read, Write},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Exit, Failure, Outcome,
    arguments::{self, Given, Wrong},
    context::{ANSWER_TIMEOUT, Context},
    interrupt,
    render::{Style, clean, clean_line, quote, text, tools::render_tool},
};
use crate::client::Notification;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tool, as `hermesd-mcp tools` names it
    name: String,
    /// The arguments: key=value (typed by the tool's schema) or key:=json; a single - reads a JSON object from stdin
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// All arguments as one JSON object
    #[arg(long, value_name = "OBJECT", conflicts_with = "words")]
    json: Option<String>,
    /// Send the arguments even if they do not fit the tool's schema
    #[arg(long)]
    no_check: bool,
    /// Seconds that the call may take [default: the server's `timeout`]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
    /// Print the daemon's answer as it is (JSON)
    #[arg(long)]
    raw: bool,
}

/// A wait that a duration can hold; a day is longer than any tool.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("must be a number of seconds above 0 and at most 86400".to_owned()),
    }
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<f64>,
    _meta: Value,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let mut client = context.connect()?;
    let listed = client.request("hermes/tools", &json!({}), ANSWER_TIMEOUT)?;
    // A name that isn't in the list goes to the daemon all the same: it knows whether the server is down, or which
    // names are near.
    let tool = super::render::items(&listed, "tools")
        .iter()
        .find(|tool| text(tool, "name") == args.name);
    let schema = tool.map(|tool| &tool["parameters"]).filter(|_| !args.no_check);
    let stdin;
    let given = match (&args.json, args.words.as_slice()) {
        (Some(json), _) => Given::Json(json),
        (None, [word]) if word == "-" => {
            stdin = read_stdin()?;
            Given::Json(&stdin)
        }
        (None, words) => Given::Words(words),
    };
    let arguments =
        arguments::build(&given, schema).map_err(|wrong| does_not_fit(wrong, &args.name, tool))?;

    let interrupter = client.interrupter();
    interrupt::on_ctrl_c(move || interrupter.interrupt());
    let params = Params {
        name: &args.name,
        arguments: &arguments,
        timeout: args.timeout,
        _meta: json!({"progressToken": "call"}),
    };
    let mut progress = Progress::new();
    // The daemon bounds the call; ours is only for a daemon that hangs, and only known when the user gave it.
    let timeout = args
        .timeout
        .map(|seconds| Duration::from_secs_f64(seconds) + ANSWER_TIMEOUT);
    let answer = client.request_with("hermes/call", &params, timeout, &mut |notification| {
        progress.show(&notification)
    });
    progress.clear();
    let raw = answer?;
    let answer: Value = serde_json::from_str(raw.get())
        .map_err(|error| Failure::new(Exit::Failure, format!("the daemon's answer is not JSON: {error}")))?;
    if args.raw {
        context.print(&format!("{}\n", raw.get()))?;
        return Ok(if answer["error"].is_null() {
            Exit::Success
        } else {
            Exit::Failure
        });
    }
    if let Some(error) = answer["error"].as_str() {
        return Err(tool_error(error, &answer));
    }
    context.print(&result_text(&answer["result"], io::stdout().is_terminal()))?;
    Ok(Exit::Success)
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("cannot read the arguments from stdin: {error}"),
        )
    })?;
    Ok(text)
}

fn does_not_fit(Wrong(wrong): Wrong, name: &str, tool: Option<&Value>) -> Failure {
    let mut failure = Failure::new(Exit::Usage, format!("the arguments do not fit {}", clean(name)));
    failure.details = wrong;
    match tool {
        Some(tool) => failure
            .detail("")
            .detail(render_tool(tool, Style::PLAIN).trim_end())
            .next("correct them, or send them as they are with --no-check"),
        None => failure,
    }
}

/// A call that failed. A tool's own failure is its text alone; one of the daemon's comes with a code and a server.
fn tool_error(error: &str, answer: &Value) -> Failure {
    let failure = Failure::new(Exit::Failure, error.trim_end());
    match (answer["code"].as_i64(), answer["server"].as_str()) {
        (Some(1006), _) => {
            failure.next("allow more time with --timeout SECONDS, or `timeout` in the configuration")
        }
        (Some(_), Some(server)) => failure.next("`hermesd-mcp status` says why").next(format!(
            "`hermesd-mcp logs {}` shows what it wrote",
            quote(server)
        )),
        _ => failure,
    }
}

/// A result as text with a line end: a string as it is (cleaned for a terminal, exact for a pipe), anything else as
/// JSON.
fn result_text(result: &Value, terminal: bool) -> String {
    let mut out = match result {
        Value::String(text) if terminal => clean(text).into_owned(),
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    };
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// A call's progress, on one line of stderr when that is a terminal.
struct Progress {
    terminal: bool,
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            shown: false,
        }
    }

    fn show(&mut self, notification: &Notification) {
        if self.terminal && notification.method == "notifications/progress" {
            self.shown = true;
            // Progress is a courtesy: a stderr that can't be written to does not end the call.
            let _ = write!(io::stderr(), "\r\x1b[2K{}", progress_text(&notification.params));
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

/// `3 of 5: copying`.
pub(super) fn progress_text(params: &Value) -> String {
    let mut out = params["progress"].to_string();
    if !params["total"].is_null() {
        out.push_str(&format!(" of {}", params["total"]));
    }
    match clean_line(text(params, "message")) {
        message if message.is_empty() => out,
        message => format!("{out}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_call_shows_the_signature() {
        let tool = json!({
            "name": "mcp_files_read", "server": "files", "description": "Reads a file",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Where it is"}},
                "required": ["path"],
            },
        });
        let wrong =
            arguments::build(&Given::Words(&["pth=x".into()]), Some(&tool["parameters"])).unwrap_err();
        let failure = does_not_fit(wrong, "mcp_files_read", Some(&tool));
        assert_eq!(failure.exit, Exit::Usage);
        insta::assert_snapshot!(failure.render(Style::PLAIN), @r"
        error: the arguments do not fit mcp_files_read
          no argument is called 'pth'; did you mean 'path'?
          'path' is required (string)

            mcp_files_read(path: string)
                Reads a file
                · path  required  Where it is
        next: correct them, or send them as they are with --no-check
        ");
    }

    #[test]
    fn a_failure_of_the_server_points_to_its_log_and_one_of_the_tool_does_not() {
        let answer = json!({"error": "x", "code": 1002, "server": "time", "retryable": true});
        let failure = tool_error("MCP server 'time' is not connected", &answer);
        assert_eq!(failure.exit, Exit::Failure);
        assert!(failure.render(Style::PLAIN).contains("`hermesd-mcp logs time`"));
        let failure = tool_error("no such file\n", &json!({"error": "no such file\n"}));
        assert_eq!(failure.render(Style::PLAIN), "error: no such file\n");
    }

    #[test]
    fn results_are_exact_in_a_pipe_and_clean_on_a_terminal() {
        let text = json!("a\u{1b}[31mb\r\n");
        assert_eq!(result_text(&text, false), "a\u{1b}[31mb\r\n");
        assert!(!result_text(&text, true).contains('\u{1b}'));
        assert_eq!(result_text(&json!("x"), false), "x\n");
        assert_eq!(
            result_text(&json!({"b": 1, "a": 2}), false),
            "{\n  \"b\": 1,\n  \"a\": 2\n}\n"
        );
    }

    #[test]
    fn progress_is_one_line() {
        assert_eq!(
            progress_text(&json!({"progress": 3, "total": 5, "message": "a\nb"})),
            "3 of 5: a b"
        );
        assert_eq!(progress_text(&json!({"progress": 0.5})), "0.5");
    }
}
