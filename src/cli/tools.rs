//! `hermesd-mcp tools`

use serde_json::json;

use super::{
    Exit, Outcome,
    context::{ANSWER_TIMEOUT, Context},
    render::tools::render_tools,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the tools of this server
    server: Option<String>,
    /// Print the daemon's answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Outcome {
    let params = match &args.server {
        Some(server) => json!({"server": server}),
        None => json!({}),
    };
    let answer = context
        .connect()?
        .request("hermes/tools", &params, ANSWER_TIMEOUT)?;
    if args.json {
        context.print_json(&answer)?;
    } else {
        context.print(&render_tools(&answer, args.server.as_deref(), context.style()))?;
    }
    Ok(Exit::Success)
}
