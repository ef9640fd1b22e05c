//! `hermesd-mcp restart`

use std::time::Duration;

use serde_json::json;

use super::{
    Exit, Failure, Outcome,
    context::Context,
    render::{clean, clean_line, quote, text},
};

/// The daemon may wait for the server's new connection, which takes up to its `connect_timeout` (60 s by default).
const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server, as it is named in the configuration
    server: String,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let params = json!({"server": args.server});
    let answer = context.connect()?.request("hermes/restart", &params, TIMEOUT)?;
    let state = clean_line(text(&answer, "state"));
    let name = clean(&args.server);
    if state != "connected" {
        let cause = [text(&answer, "error"), text(&answer, "reason")]
            .into_iter()
            .find(|cause| !cause.is_empty())
            .unwrap_or(&state);
        return Err(Failure::new(
            Exit::Failure,
            format!("MCP server '{name}' did not start: {cause}"),
        )
        .next(format!(
            "`hermesd-mcp logs {}` shows what it wrote",
            quote(&args.server)
        )));
    }
    context.print(&format!("MCP server '{name}' is connected\n"))?;
    Ok(Exit::Success)
}
