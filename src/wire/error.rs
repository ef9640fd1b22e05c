//! The errors of the socket API: stable codes, the text, and machine-readable data.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::name::ServerName;

/// Every code that the daemon itself answers with. Negative ones are JSON-RPC's, positive ones are ours (ERR-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// The line is not JSON.
    ParseError = -32700,
    /// The message is not a request.
    InvalidRequest = -32600,
    /// No such method.
    MethodNotFound = -32601,
    /// The parameters do not fit the method.
    InvalidParams = -32602,
    /// A fault of the daemon.
    Internal = -32603,
    /// No server of that name is configured.
    ServerNotFound = 1001,
    /// The server is configured, but not connected.
    ServerUnavailable = 1002,
    /// No tool of that name is offered; `data.did_you_mean` has the nearest names.
    ToolNotFound = 1003,
    /// The server wants the user to log in.
    AuthRequired = 1005,
    /// No answer in time; the server was told to cancel.
    Timeout = 1006,
    /// The frontend cancelled the request.
    Cancelled = 1007,
    /// A limit on requests or connections is reached.
    Busy = 1008,
    /// The configuration cannot be used; `data` has file, line and path.
    ConfigInvalid = 1009,
    /// The server answered with an error of its own.
    ServerError = 1010,
    /// The server answered with something that is not MCP.
    ServerProtocol = 1011,
    /// A message is over its limit.
    TooLarge = 1012,
    /// The daemon is stopping.
    ShuttingDown = 1013,
    /// Not allowed.
    Denied = 1014,
    /// The connection broke after the request was written: it may or may not have been carried out.
    OutcomeUnknown = 1015,
}

impl Code {
    /// Whether the same request can succeed later without anybody changing it.
    fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::ServerUnavailable | Self::Timeout | Self::Busy | Self::ShuttingDown
        )
    }
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The daemon, or the request.
    Gateway,
    /// The MCP server.
    Server,
}

/// An error answer.
#[derive(Debug, Clone, Serialize)]
pub struct RpcError {
    /// The code; see [`Code`].
    pub code: i32,
    /// One sentence: what, on what, why, and what to do.
    pub message: String,
    /// Details for programs.
    pub data: Box<ErrorData>,
}

/// The `data` of an error: always `origin` and `retryable`.
#[derive(Debug, Clone, Serialize)]
pub struct ErrorData {
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerName>,
    /// Whose fault.
    pub origin: Origin,
    /// Whether trying again later can help.
    pub retryable: bool,
    /// Further members.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl RpcError {
    /// An error of the gateway.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: code as i32,
            message: message.into(),
            data: Box::new(ErrorData {
                server: None,
                origin: Origin::Gateway,
                retryable: code.is_retryable(),
                more: Map::new(),
            }),
        }
    }

    /// Names the server.
    #[must_use]
    pub fn server(mut self, server: &ServerName) -> Self {
        self.data.server = Some(server.clone());
        self
    }

    /// Says that the server is at fault.
    #[must_use]
    pub fn from_server(mut self) -> Self {
        self.data.origin = Origin::Server;
        self
    }

    /// Adds a member to `data`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.more.insert(key.into(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_origin_and_retryable() {
        let error =
            RpcError::new(Code::ToolNotFound, "tool 'x' is not in the list").with("did_you_mean", vec!["y"]);
        assert_eq!(
            crate::wire::to_json(&error),
            r#"{"code":1003,"message":"tool 'x' is not in the list","data":{"origin":"gateway","retryable":false,"did_you_mean":["y"]}}"#
        );
        let error = RpcError::new(Code::Timeout, "late")
            .server(&"s".into())
            .from_server();
        assert_eq!(
            crate::wire::to_json(&error),
            r#"{"code":1006,"message":"late","data":{"server":"s","origin":"server","retryable":true}}"#
        );
    }
}
