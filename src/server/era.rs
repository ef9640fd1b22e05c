//! The two eras of MCP: with a handshake at the start of a connection (to 2025-11-25), and stateless, where each
//! request says by itself what it needs (2026-07-28).

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::{ProtocolEra, Remote, ServerConfig, Transport};

/// The version without a handshake.
pub(super) const STATELESS_VERSION: &str = "2026-07-28";
/// What every stateless request has in `params._meta` (LIFE-08).
pub(super) const REQUEST_META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"hermesd-mcp","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"io.modelcontextprotocol/clientCapabilities":{}"#
);
/// How long it is remembered which era a server speaks: one that was updated is asked again (LIFE-11).
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// With `initialize`.
    Handshake,
    /// With nothing; `server/discover` tells about the server.
    Stateless,
}

/// Error codes that only a server of the stateless era has.
mod code {
    pub(super) const METHOD_NOT_FOUND: i64 = -32601;
    pub(super) const HEADER_MISMATCH: i64 = -32020;
    pub(super) const MISSING_CAPABILITY: i64 = -32021;
    pub(super) const UNSUPPORTED_VERSION: i64 = -32022;
}

/// Whether an error is about headers that do not fit the tool's definition (HTTP-04).
pub fn is_header_mismatch(code: i64) -> bool {
    code == code::HEADER_MISMATCH
}

/// Whether an error is about something that a client has to be able to do.
pub fn is_missing_capability(code: i64) -> bool {
    code == code::MISSING_CAPABILITY
}

/// Whether a server that answers `initialize` with this error may well be one without a handshake.
pub(super) fn refuses_handshake(code: i64) -> bool {
    matches!(code, code::METHOD_NOT_FOUND | code::UNSUPPORTED_VERSION)
}

/// What the answer to `server/discover` says.
pub(super) enum Discovered {
    /// It speaks our stateless version.
    Stateless,
    /// It doesn't know the method, or only versions with a handshake.
    Handshake,
    /// It is stateless, and cannot be talked to; why.
    Unusable(String),
}

/// Judges a result of `server/discover`.
pub(super) fn discovered(result: &RawValue) -> Discovered {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Versions {
        supported_versions: Vec<String>,
    }
    // Some servers answer whatever they don't know with an empty object.
    match serde_json::from_str::<Versions>(result.get()) {
        Ok(versions) => choose(&versions.supported_versions),
        Err(_) => Discovered::Handshake,
    }
}

/// Judges an error as the answer to `server/discover`. Unknown method, invalid parameters: all the same (LIFE-09).
pub(super) fn not_discovered(error: &RawValue) -> Discovered {
    #[derive(Deserialize)]
    struct Fault {
        #[serde(default)]
        code: i64,
        #[serde(default)]
        message: String,
        #[serde(default)]
        data: Option<Supported>,
    }
    #[derive(Deserialize)]
    struct Supported {
        #[serde(default)]
        supported: Vec<String>,
    }
    let Ok(fault) = serde_json::from_str::<Fault>(error.get()) else {
        return Discovered::Handshake;
    };
    match fault.code {
        code::UNSUPPORTED_VERSION => choose(&fault.data.map(|data| data.supported).unwrap_or_default()),
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => Discovered::Unusable(format!(
            "it refused server/discover: {} (code {})",
            fault.message, fault.code
        )),
        _ => Discovered::Handshake,
    }
}

fn choose(supported: &[String]) -> Discovered {
    let has = |known: &str| supported.iter().any(|version| version == known);
    if has(STATELESS_VERSION) {
        Discovered::Stateless
    } else if supported.is_empty() || super::Connection::handshake_versions().any(has) {
        Discovered::Handshake
    } else {
        Discovered::Unusable(format!(
            "it speaks protocol versions {}, of which none is known here (known: {}, {STATELESS_VERSION})",
            supported.join(", "),
            super::Connection::versions(),
        ))
    }
}

/// Which era each server was last seen to speak.
#[derive(Default)]
pub struct Eras(Mutex<HashMap<String, (Era, Instant)>>);

impl Eras {
    /// The era to begin with, and whether the other one may be tried where the server wants that.
    ///
    /// Over HTTP the newer one first, as the specification says. A program may die of a request before its handshake, so
    /// it is asked for the newer one only once it refused the older.
    pub(super) fn first(&self, config: &ServerConfig) -> (Era, bool) {
        match (config.protocol, &config.transport) {
            (ProtocolEra::Legacy, _) | (_, Transport::Remote(Remote { sse: true, .. })) => {
                (Era::Handshake, false)
            }
            (ProtocolEra::Stateless, _) => (Era::Stateless, false),
            (ProtocolEra::Auto, transport) => {
                let seen = self.known().get(&endpoint(config)).copied();
                let era = match (seen, transport) {
                    (Some((era, at)), _) if at.elapsed() < REMEMBERED => era,
                    (_, Transport::Remote(_)) => Era::Stateless,
                    (_, Transport::Stdio(_)) => Era::Handshake,
                };
                (era, true)
            }
        }
    }

    /// Remembers what a server speaks.
    pub(super) fn keep(&self, config: &ServerConfig, era: Era) {
        // The date is that of the first sight, so that the question is asked again some day.
        let mut known = self.known();
        let (seen, at) = known
            .entry(endpoint(config))
            .or_insert_with(|| (era, Instant::now()));
        if *seen != era || at.elapsed() >= REMEMBERED {
            (*seen, *at) = (era, Instant::now());
        }
    }

    /// Held for a lookup, never across an await.
    fn known(&self) -> MutexGuard<'_, HashMap<String, (Era, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stays the same for one server: its address, or how its program is started.
fn endpoint(config: &ServerConfig) -> String {
    match &config.transport {
        Transport::Remote(remote) => format!(
            "{}{}",
            remote.url.origin().ascii_serialization(),
            remote.url.path()
        ),
        Transport::Stdio(stdio) => format!("{:?} {:?} {:?}", stdio.command, stdio.args, stdio.cwd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.into()).unwrap()
    }

    fn name(discovered: &Discovered) -> &'static str {
        match discovered {
            Discovered::Stateless => "stateless",
            Discovered::Handshake => "handshake",
            Discovered::Unusable(_) => "unusable",
        }
    }

    #[test]
    fn what_servers_answer_to_discover_says_which_era_they_speak() {
        for (result, expected) in [
            (
                r#"{"supportedVersions":["2026-07-28","2025-11-25"]}"#,
                "stateless",
            ),
            (r#"{"supportedVersions":["2025-11-25"]}"#, "handshake"),
            (r#"{"supportedVersions":["2031-01-01"]}"#, "unusable"),
            (r#"{"supportedVersions":[]}"#, "handshake"),
            ("{}", "handshake"),
            ("[]", "handshake"),
        ] {
            assert_eq!(name(&discovered(&raw(result))), expected, "{result}");
        }
        for (error, expected) in [
            (r#"{"code":-32601,"message":"no"}"#, "handshake"),
            (r#"{"code":-32602,"message":"no"}"#, "handshake"),
            (r#"{"code":-32000,"message":"not initialized"}"#, "handshake"),
            (
                r#"{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}"#,
                "stateless",
            ),
            (
                r#"{"code":-32022,"message":"v","data":{"supported":["2025-06-18"]}}"#,
                "handshake",
            ),
            (
                r#"{"code":-32022,"message":"v","data":{"supported":["2031-01-01"]}}"#,
                "unusable",
            ),
            (r#"{"code":-32020,"message":"header"}"#, "unusable"),
            (r#"{"code":-32021,"message":"sampling"}"#, "unusable"),
            (r#""?""#, "handshake"),
        ] {
            assert_eq!(name(&not_discovered(&raw(error))), expected, "{error}");
        }
    }
}
