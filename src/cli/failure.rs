//! How a subcommand fails: an exit code, what is wrong, and what to do next.

use serde_json::Value;

use super::{
    exit::Exit,
    render::{Style, clean, quote},
};
use crate::client::{ClientError, RpcError};

/// A failure as it is shown on stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What was tried, on what, and why it failed. Text that came from a server is cleaned when it is shown.
    pub(crate) message: String,
    /// Lines below the message: a signature, a server's last words.
    pub(crate) details: Vec<String>,
    /// What to do next, one step each.
    pub(crate) next: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            details: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next.push(step.into());
        self
    }

    pub(crate) fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// The whole text for stderr, with a line end.
    pub(crate) fn render(&self, style: Style) -> String {
        let mut text = format!("{} {}\n", style.bad("error:"), clean(&self.message));
        for line in self.details.iter().flat_map(|detail| detail.split('\n')) {
            text.push_str(format!("  {}", clean(line)).trim_end());
            text.push('\n');
        }
        for step in &self.next {
            text.push_str(&format!("{} {}\n", style.dim("next:"), clean(step)));
        }
        text
    }
}

/// Anything unexpected of the command line itself, such as a file that cannot be written.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failure, format!("{error:#}"))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            error if error.is_unreachable() => Exit::Unavailable,
            ClientError::Interrupted => Exit::Interrupted,
            // 1009: the daemon's own verdict on the configuration.
            ClientError::Rpc(RpcError { code: 1009, .. }) => Exit::Config,
            _ => Exit::Failure,
        };
        let failure = Self::new(exit, error.to_string());
        match &error {
            ClientError::NoSocket { .. } => failure
                .next("start it with `hermesd-mcp serve`")
                .next("if it listens elsewhere, name its socket with --socket PATH or HERMESD_MCP_SOCKET"),
            ClientError::Stale { .. } => {
                failure.next("start it with `hermesd-mcp serve`; it takes the place of the one that died")
            }
            ClientError::NotASocket { .. } => failure.next("name the daemon's socket with --socket PATH"),
            ClientError::ForeignOwner { .. } => failure
                .next("run the daemon and the client as the same user, or choose another --socket PATH"),
            ClientError::Permission { path } => failure.next(format!(
                "the socket and its folder must be yours: `ls -ld {}`",
                quote(&path.parent().unwrap_or(path).to_string_lossy())
            )),
            ClientError::Unresponsive { .. } => {
                failure.next("the daemon is stuck or overloaded: read its log, then start it again")
            }
            ClientError::Timeout { .. } | ClientError::Gone { .. } => {
                failure.next("`hermesd-mcp status` shows whether the daemon still answers")
            }
            ClientError::Rpc(error) => explain(failure, error),
            ClientError::Connect { .. } | ClientError::Protocol { .. } | ClientError::Interrupted => failure,
        }
    }
}

/// What to do about one of the daemon's own error codes (DESIGN.md, "The wire").
fn explain(mut failure: Failure, error: &RpcError) -> Failure {
    let near: Vec<&str> = error.data["did_you_mean"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // The daemon's own text may name them already.
    if near.first().is_some_and(|near| !error.message.contains(*near)) {
        failure = failure.next(format!("did you mean {}?", near.join(", ")));
    }
    let server = error.data["server"].as_str();
    match (error.code, server) {
        (1001, _) => failure.next("`hermesd-mcp status` lists the servers"),
        (1003, _) => failure.next("`hermesd-mcp tools` lists every tool with its arguments"),
        (1002 | 1010 | 1011, Some(server)) => failure
            .next("`hermesd-mcp status` says why")
            .next(format!("`hermesd-mcp logs {}` shows what it wrote", quote(server))),
        (1006, _) => failure.next("allow more time with --timeout SECONDS, or `timeout` in the configuration"),
        (1009, _) => failure.next("`hermesd-mcp check` shows every finding with its place"),
        (1013, _) => failure.next("the daemon is stopping; start it again with `hermesd-mcp serve`"),
        (-32601, _) => failure.next(
            "the daemon is of another version than this command: `hermesd-mcp stop`, then `hermesd-mcp serve`",
        ),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(error: ClientError) -> (u8, String) {
        let failure = Failure::from(error);
        (failure.exit.code(), failure.render(Style::PLAIN))
    }

    #[test]
    fn no_daemon_says_how_to_start_one() {
        let (code, text) = text(ClientError::NoSocket {
            path: "/run/mcp.sock".into(),
        });
        assert_eq!(code, 69);
        insta::assert_snapshot!(text, @r"
        error: no daemon is running: there is no socket at /run/mcp.sock
        next: start it with `hermesd-mcp serve`
        next: if it listens elsewhere, name its socket with --socket PATH or HERMESD_MCP_SOCKET
        ");
    }

    #[test]
    fn an_unknown_tool_comes_with_the_nearest_names() {
        let (code, text) = text(ClientError::Rpc(RpcError {
            code: 1003,
            message: "no tool 'mcp_time_nwo'\u{1b}[31m".into(),
            data: json!({"did_you_mean": ["mcp_time_now", "mcp_time_new"]}),
        }));
        assert_eq!(code, 1);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        insta::assert_snapshot!(text.replace("[31m", ""), @r"
        error: no tool 'mcp_time_nwo'
        next: did you mean mcp_time_now, mcp_time_new?
        next: `hermesd-mcp tools` lists every tool with its arguments
        ");
    }

    #[test]
    fn a_server_that_is_down_points_to_its_log() {
        let (code, text) = text(ClientError::Rpc(RpcError {
            code: 1002,
            message: "MCP server 'my files' is not connected".into(),
            data: json!({"server": "my files", "retryable": true}),
        }));
        assert_eq!(code, 1);
        insta::assert_snapshot!(text, @r"
        error: MCP server 'my files' is not connected
        next: `hermesd-mcp status` says why
        next: `hermesd-mcp logs 'my files'` shows what it wrote
        ");
    }
}
