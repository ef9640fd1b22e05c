//! `hermesd-mcp socket`, and where every subcommand finds the daemon.

use std::path::PathBuf;

use super::{Exit, Failure, Outcome, context::Context};

pub(super) fn run(context: &Context) -> Outcome {
    let path = locate(context)?;
    context.print(&format!("{}\n", path.display()))?;
    Ok(Exit::Success)
}

/// The socket's path by the rule of DESIGN.md. Stand-in until `crate::paths` is merged.
pub(super) fn locate(context: &Context) -> Result<PathBuf, Failure> {
    let environment = &context.environment;
    Ok(context
        .socket
        .clone()
        .or_else(|| environment.get_non_empty("HERMESD_MCP_SOCKET").map(PathBuf::from))
        .unwrap_or_else(|| environment.hermes_home().dir().join("run/mcp.sock")))
}
