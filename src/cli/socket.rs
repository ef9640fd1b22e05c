//! `hermesd-mcp socket`, and where every subcommand finds the daemon.

use std::path::PathBuf;

use super::{Exit, Failure, Outcome, context::Context};
use crate::{config, paths};

pub(super) fn run(context: &Context) -> Outcome {
    let path = locate(context)?;
    context.print(&format!("{}\n", path.display()))?;
    Ok(Exit::Success)
}

/// The socket's path by the same rule as the daemon's ([`paths::socket_path`]).
///
/// A configuration that can't be read is no reason to fail: the daemon may well run with an older one, and `check`
/// says what is wrong.
pub(super) fn locate(context: &Context) -> Result<PathBuf, Failure> {
    let environment = &context.environment;
    let path = config::locate(context.config.as_deref(), environment);
    let configured = config::load(&path, environment)
        .ok()
        .and_then(|config| config.settings.socket);
    match paths::socket_path(context.socket.as_deref(), configured.as_deref(), environment) {
        Ok(path) => Ok(path.to_path_buf()),
        Err(error) => Err(Failure::new(Exit::Config, error.to_string())),
    }
}
