//! `hermesd-mcp logs`

use serde_json::{Value, json};

use super::{
    Exit, Outcome,
    context::{ANSWER_TIMEOUT, Context},
    render::{clean, items},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server, as it is named in the configuration
    server: String,
    /// How many of its last lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    lines: u32,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let params = json!({"server": args.server, "lines": args.lines});
    let answer = context
        .connect()?
        .request("hermes/logs", &params, ANSWER_TIMEOUT)?;
    let lines = items(&answer, "lines");
    if lines.is_empty() {
        // Not on stdout: there it would look like a line of the server.
        anstream::eprintln!("MCP server '{}' wrote nothing to its stderr", clean(&args.server));
    }
    let text: String = lines
        .iter()
        .filter_map(Value::as_str)
        .map(|line| format!("{}\n", clean(line)))
        .collect();
    context.print(&text)?;
    Ok(Exit::Success)
}
