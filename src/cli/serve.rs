//! `hermesd-mcp serve`, the default.

use super::{Exit, Failure, Outcome, context::Context};
use crate::{
    api::ListenError,
    config,
    daemon::{self, Error},
};

pub(super) fn run(context: &Context) -> Outcome {
    let options = daemon::Options {
        config_path: config::locate(context.config.as_deref(), &context.environment),
        socket: context.socket.clone(),
        environment: context.environment.clone(),
        log: context.log.clone(),
    };
    match daemon::run(options) {
        Ok(()) => Ok(Exit::Success),
        Err(error) => Err(failure(&error)),
    }
}

fn failure(error: &Error) -> Failure {
    let text = error.to_string();
    match error {
        Error::Listen(ListenError::AlreadyRunning { .. }) => Failure::new(Exit::AlreadyRunning, text)
            .next("use the one that runs: `hermesd-mcp status`")
            .next("for a second one give it a home (HERMES_HOME) or a --socket of its own"),
        Error::Config(_) => {
            Failure::new(Exit::Config, text).next("correct the file, then `hermesd-mcp check`")
        }
        Error::Path(_) => Failure::new(Exit::Config, text),
        _ => Failure::new(Exit::Failure, text),
    }
}
