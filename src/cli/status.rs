//! `hermesd-mcp status`

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{
    Exit, Outcome,
    context::{ANSWER_TIMEOUT, Context},
    render::status::render_status,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only this server
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
    let status = context
        .connect()?
        .request("hermes/status", &params, ANSWER_TIMEOUT)?;
    if args.json {
        context.print_json(&status)?;
    } else {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        context.print(&render_status(&status, now, context.style()))?;
    }
    Ok(Exit::Success)
}
