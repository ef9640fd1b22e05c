//! Why a call did not bring a server's answer, as text for people and models and as a code for programs.

use std::time::Duration;

use super::admission::FAILURES;
use crate::{
    name::{ExposedName, ServerName},
    server::{Lost, ServerView, State, connect_error},
    wire::{Code, RpcError},
};

/// The end of a call that has no answer of the server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// No such server is configured.
    #[error("server '{name}' is not configured; configured are: {configured}")]
    ServerNotFound {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        configured: String,
    },
    /// The tool is not in the list.
    #[error("Unknown tool: {name}{}", suggestion(did_you_mean))]
    ToolNotFound {
        /// The name that was asked for.
        name: String,
        /// The nearest names.
        did_you_mean: Vec<ExposedName>,
    },
    /// The server has the tool, but the configuration does not offer it (B43).
    #[error(
        "tool '{tool}' of MCP server '{server}' is excluded by tools.include or tools.exclude in the configuration"
    )]
    Excluded {
        /// The server.
        server: ServerName,
        /// The tool's original name.
        tool: String,
    },
    /// The server takes calls of the tool only as tasks (TOOL-15).
    #[error(
        "tool '{tool}' of MCP server '{server}' can only be called as a task (execution.taskSupport: required), and hermesd-mcp makes plain calls"
    )]
    NeedsTask {
        /// The server.
        server: ServerName,
        /// The tool's original name.
        tool: String,
    },
    /// `arguments` is not an object (B50).
    #[error("the arguments of a tool call are a JSON object, not {found}")]
    Arguments {
        /// What came instead.
        found: &'static str,
    },
    /// The server is not connected.
    #[error("MCP server '{server}' is not connected{}", detail(*state, reason.as_deref(), *retry_after))]
    Unavailable {
        /// The server.
        server: ServerName,
        /// Its state.
        state: State,
        /// Why, redacted.
        reason: Option<String>,
        /// When the next attempt starts.
        retry_after: Option<Duration>,
    },
    /// The connection broke during the call.
    #[error("MCP server '{server}': {lost}{}", outcome(lost))]
    Lost {
        /// The server.
        server: ServerName,
        /// The tool's original name.
        tool: String,
        /// Whether the server can have seen the request.
        lost: Lost,
    },
    /// No answer in time.
    #[error("MCP call timed out after {}s ({limit}); server '{server}' was told to cancel it", limit.time().as_secs_f64())]
    Timeout {
        /// The server.
        server: ServerName,
        /// The limit.
        limit: TimeLimit,
    },
    /// Too many calls failed one after the other, so the server is left alone for a while.
    #[error("MCP server '{server}' is unreachable after {FAILURES} consecutive failures. Auto-retry available in ~{}s. Do NOT retry this tool yet — use alternative approaches or ask the user to check the MCP server.", retry_after.as_secs_f64().ceil())]
    CircuitOpen {
        /// The server.
        server: ServerName,
        /// When a call may try it again.
        retry_after: Duration,
    },
    /// Its turn did not come.
    #[error("MCP server '{server}' takes {limit} call(s) at a time (max_concurrency), and this one waited {}s for its turn; it was not sent", waited.as_secs_f64())]
    Busy {
        /// The server.
        server: ServerName,
        /// Its `max_concurrency`.
        limit: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The answer is larger than allowed.
    #[error(
        "the answer of MCP server '{server}' has {size} bytes, more than the {limit} of max_result_bytes"
    )]
    TooLarge {
        /// The server.
        server: ServerName,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The server's answer has not the shape that the protocol wants.
    #[error("MCP server '{server}' broke the protocol: {detail}")]
    Protocol {
        /// The server.
        server: ServerName,
        /// What is wrong.
        detail: String,
    },
    /// The server asks something that only a frontend can answer.
    #[error("MCP server '{server}' needs input before it can answer ({what}), and no frontend gives any")]
    NeedsInput {
        /// The server.
        server: ServerName,
        /// What it asks for.
        what: String,
    },
    /// The server answered with a JSON-RPC error.
    #[error("MCP call failed: McpError: {message}")]
    Server {
        /// The server.
        server: ServerName,
        /// Its code.
        code: i64,
        /// Its message, redacted.
        message: String,
        /// The whole error object, as JSON text.
        raw: Box<str>,
    },
}

/// What limited a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// The server's `timeout`: neither an answer nor progress for this long.
    Server(Duration),
    /// The same, as the caller wanted it.
    Call(Duration),
    /// The server's `max_total_timeout`.
    Total(Duration),
}

impl TimeLimit {
    /// The limit itself.
    pub fn time(self) -> Duration {
        match self {
            Self::Server(time) | Self::Call(time) | Self::Total(time) => time,
        }
    }
}

impl std::fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Server(_) => "configured timeout",
            Self::Call(_) => "timeout of this call",
            Self::Total(_) => "max_total_timeout",
        };
        write!(f, "{name}: {}s", self.time().as_secs_f64())
    }
}

fn suggestion(names: &[ExposedName]) -> String {
    match names {
        [] => String::new(),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            format!("; did you mean {}?", names.join(" or "))
        }
    }
}

fn detail(state: State, reason: Option<&str>, retry_after: Option<Duration>) -> String {
    let mut text = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    if let Some(after) = retry_after {
        let what = match state {
            State::Backoff => "reconnecting, retry",
            _ => "next attempt",
        };
        text.push_str(&format!("; {what} in {} s", after.as_secs_f64().ceil()));
    }
    text
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn outcome(lost: &Lost) -> &'static str {
    match lost {
        Lost::Unread | Lost::SessionGone => "",
        Lost::NotSent => "; it was certainly not carried out",
        Lost::Http(failure) if failure.is_refusal() => "",
        Lost::Unknown | Lost::TooLarge { .. } | Lost::Http(_) => {
            "; it may or may not have been carried out, so it is not repeated"
        }
    }
}

fn code_of(lost: &Lost) -> Code {
    match lost {
        Lost::NotSent | Lost::Unread | Lost::SessionGone => Code::ServerUnavailable,
        Lost::Unknown => Code::OutcomeUnknown,
        Lost::TooLarge { .. } => Code::TooLarge,
        Lost::Http(failure) if failure.is_about_credentials() => Code::AuthRequired,
        Lost::Http(failure) if failure.is_passing() => Code::ServerUnavailable,
        Lost::Http(failure) if failure.is_refusal() => Code::ServerError,
        Lost::Http(_) => Code::OutcomeUnknown,
    }
}

impl CallError {
    /// What `status` says about a server that cannot be called, as an error.
    pub fn unavailable(view: &ServerView) -> Self {
        let retry_after = view
            .next_attempt
            .map(|at| at.saturating_duration_since(std::time::Instant::now()));
        Self::Unavailable {
            server: view.name().clone(),
            state: view.state,
            reason: match (view.state, &view.reason) {
                (State::Connecting, None) => Some("it is still connecting".into()),
                (State::Disabled, _) => Some("it is disabled (enabled: false)".into()),
                (_, Some(reason)) => Some(connect_error(view, reason)),
                (state, None) => Some(format!("it is {}", state.as_str())),
            },
            retry_after,
        }
    }

    /// Whether the request itself was wrong, so that no server was involved.
    pub fn is_about_the_request(&self) -> bool {
        matches!(
            self,
            Self::ServerNotFound { .. }
                | Self::ToolNotFound { .. }
                | Self::Excluded { .. }
                | Self::NeedsTask { .. }
                | Self::Arguments { .. }
        )
    }

    /// The error answer.
    pub fn to_rpc(&self) -> RpcError {
        let text = self.to_string();
        match self {
            Self::ServerNotFound { .. } => RpcError::new(Code::ServerNotFound, text),
            Self::ToolNotFound { did_you_mean, .. } => {
                let names: Vec<&str> = did_you_mean.iter().map(ExposedName::as_str).collect();
                RpcError::new(Code::ToolNotFound, text).with("did_you_mean", names)
            }
            Self::Excluded { server, .. }
            | Self::NeedsTask { server, .. }
            | Self::NeedsInput { server, .. } => RpcError::new(Code::Denied, text).server(server),
            Self::Arguments { .. } => RpcError::new(Code::InvalidParams, text),
            Self::Unavailable {
                server,
                state,
                retry_after,
                ..
            } => {
                let code = match state {
                    State::AuthRequired => Code::AuthRequired,
                    _ => Code::ServerUnavailable,
                };
                let error = RpcError::new(code, text)
                    .server(server)
                    .with("state", state.as_str());
                match retry_after {
                    Some(after) => error.with("retry_after_ms", millis(*after)),
                    None => error,
                }
            }
            Self::Lost { server, tool, lost } => {
                let error = RpcError::new(code_of(lost), text)
                    .server(server)
                    .with("tool", tool.as_str());
                let Lost::Http(failure) = lost else {
                    return error;
                };
                let error = error.from_server().with("status", failure.status);
                match failure.retry_after {
                    Some(after) => error.with("retry_after_ms", millis(after)),
                    None => error,
                }
            }
            Self::Timeout { server, limit } => RpcError::new(Code::Timeout, text)
                .server(server)
                .with("after_ms", millis(limit.time())),
            Self::CircuitOpen { server, retry_after } => RpcError::new(Code::ServerUnavailable, text)
                .server(server)
                .with("circuit", "open")
                .with("retry_after_ms", millis(*retry_after)),
            Self::Busy { server, limit, .. } => RpcError::new(Code::Busy, text)
                .server(server)
                .with("limit", *limit),
            Self::TooLarge { server, size, limit } => RpcError::new(Code::TooLarge, text)
                .server(server)
                .with("size", *size)
                .with("limit", *limit),
            Self::Protocol { server, .. } => RpcError::new(Code::ServerProtocol, text)
                .server(server)
                .from_server(),
            Self::Server { server, code, .. } => RpcError::new(Code::ServerError, text)
                .server(server)
                .from_server()
                .with("code", *code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_users_search_for_and_codes() {
        let server = ServerName::from("github");
        let cases = [
            (
                CallError::Unavailable {
                    server: server.clone(),
                    state: State::Backoff,
                    reason: Some("exited with code 1".into()),
                    retry_after: Some(Duration::from_millis(1500)),
                },
                1002,
                "MCP server 'github' is not connected: exited with code 1; reconnecting, retry in 2 s",
            ),
            (
                CallError::ToolNotFound {
                    name: "a".into(),
                    did_you_mean: vec!["b".into(), "c".into()],
                },
                1003,
                "Unknown tool: a; did you mean 'b' or 'c'?",
            ),
            (
                CallError::ToolNotFound {
                    name: "a".into(),
                    did_you_mean: vec![],
                },
                1003,
                "Unknown tool: a",
            ),
            (
                CallError::Timeout {
                    server: server.clone(),
                    limit: TimeLimit::Server(Duration::from_secs(3)),
                },
                1006,
                "MCP call timed out after 3s (configured timeout: 3s); server 'github' was told to cancel it",
            ),
            (
                CallError::Lost {
                    server,
                    tool: "t".into(),
                    lost: Lost::Unknown,
                },
                1015,
                "MCP server 'github': connection lost while the request was running; it may or may not have been carried out, so it is not repeated",
            ),
        ];
        for (error, code, text) in cases {
            let rpc = error.to_rpc();
            assert_eq!((rpc.code, rpc.message.as_str()), (code, text));
        }
    }
}
