//! `hermesd-mcp stop`

use std::time::Duration;

use serde_json::json;

use super::{
    Exit, Failure, Outcome,
    context::{ANSWER_TIMEOUT, Context},
};
use crate::client::ClientError;

/// Calls in flight are drained and every server gets its grace; beyond this something hangs.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(context: &Context) -> Outcome {
    let mut client = context.connect()?;
    match client.request("hermes/shutdown", &json!({}), ANSWER_TIMEOUT) {
        // The daemon may be quicker than its answer.
        Ok(_) | Err(ClientError::Gone { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // The connection ends when the daemon has stopped its servers, so `stop && serve` works.
    if !client.wait_closed(STOP_TIMEOUT) {
        return Err(Failure::new(
            Exit::Failure,
            format!("the daemon did not stop within {} s", STOP_TIMEOUT.as_secs()),
        )
        .next("`hermesd-mcp status` shows which server is still stopping"));
    }
    context.print("stopped\n")?;
    Ok(Exit::Success)
}
