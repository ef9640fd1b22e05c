//! Results of stateless servers, which may not be the end: they can ask for the same request again (MRTR-01, MRTR-02).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CallError, route::Route};
use crate::server::Params;

/// How often one request may be made again because the server wants that.
pub(super) const ROUNDS: u32 = 8;
/// Bytes of the state that a server hands over from one round to the next.
const STATE_BYTES: usize = 64 << 10;

/// What a result is.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The answer.
    Complete,
    /// The same request is wanted again, with this state, which is JSON text.
    Again(Box<str>),
    /// Somebody has to answer a question first: the methods that are asked for.
    Input(Vec<String>),
    /// Nothing that the protocol knows; why.
    Invalid(String),
}

/// Judges a result (LIFE-10).
pub(super) fn outcome(result: &RawValue) -> Outcome {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        result_type: Option<String>,
        #[serde(borrow)]
        request_state: Option<&'a RawValue>,
        #[serde(default)]
        input_requests: Option<indexmap::IndexMap<String, Asked>>,
    }
    #[derive(Deserialize)]
    struct Asked {
        #[serde(default)]
        method: String,
    }
    // Most results don't have it, and they can be large.
    if memchr::memmem::find(result.get().as_bytes(), b"\"resultType\"").is_none() {
        return Outcome::Complete;
    }
    let parts: Parts<'_> = match serde_json::from_str(result.get()) {
        Ok(parts) => parts,
        Err(error) => return Outcome::Invalid(format!("its result has not the shape of one: {error}")),
    };
    match parts.result_type.as_deref() {
        None | Some("complete") => Outcome::Complete,
        Some("input_required") => {
            let asked: Vec<String> = parts
                .input_requests
                .unwrap_or_default()
                .into_values()
                .map(|asked| asked.method)
                .collect();
            match parts.request_state {
                _ if !asked.is_empty() => Outcome::Input(asked),
                Some(state) if state.get().len() <= STATE_BYTES => Outcome::Again(state.get().into()),
                Some(_) => Outcome::Invalid(format!("its requestState has more than {STATE_BYTES} bytes")),
                None => Outcome::Invalid("it wants the request again and doesn't say with what".into()),
            }
        }
        Some(other) => Outcome::Invalid(format!("its result is of the unknown type '{other}'")),
    }
}

/// The same parameters with the state of the last round.
pub(super) fn with_state(params: &Params, state: &str) -> Params {
    let comma = if params.members.is_empty() { "" } else { "," };
    Params {
        members: format!(r#"{}{comma}"requestState":{state}"#, params.members),
        ..params.clone()
    }
}

impl Outcome {
    /// Why a call ends that is not complete.
    pub(super) fn into_error(self, route: &Route) -> CallError {
        let server = route.server.clone();
        match self {
            Self::Input(asked) => CallError::NeedsInput {
                server,
                what: asked.join(", "),
            },
            Self::Again(_) | Self::Complete => CallError::Protocol {
                server,
                detail: format!("it wanted the same request more than {ROUNDS} times again"),
            },
            Self::Invalid(detail) => CallError::Protocol { server, detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_whether_they_are_the_end() {
        let shown = |json: &str| {
            let raw = RawValue::from_string(json.into()).unwrap();
            match outcome(&raw) {
                Outcome::Complete => "complete".to_owned(),
                Outcome::Again(state) => format!("again {state}"),
                Outcome::Input(asked) => format!("input {asked:?}"),
                Outcome::Invalid(why) => format!("invalid: {why}"),
            }
        };
        for (json, expected) in [
            ("{}", "complete"),
            (r#"{"resultType":"complete","content":[]}"#, "complete"),
            (
                r#"{"content":[{"type":"text","text":"\"resultType\""}]}"#,
                "complete",
            ),
            (
                r#"{"resultType":"input_required","requestState":"a\u0062 "}"#,
                r#"again "a\u0062 ""#,
            ),
            (
                r#"{"resultType":"input_required","inputRequests":{"x":{"method":"elicitation/create"}},"requestState":"s"}"#,
                r#"input ["elicitation/create"]"#,
            ),
            (
                r#"{"resultType":"input_required","inputRequests":{}}"#,
                "invalid: it wants the request again and doesn't say with what",
            ),
            (
                r#"{"resultType":"task"}"#,
                "invalid: its result is of the unknown type 'task'",
            ),
        ] {
            assert_eq!(shown(json), expected, "{json}");
        }
        let large = format!(
            r#"{{"resultType":"input_required","requestState":"{}"}}"#,
            "x".repeat(70_000)
        );
        assert!(shown(&large).starts_with("invalid: its requestState"));
        assert!(shown(r#"{"resultType":5}"#).starts_with("invalid: "));
    }

    #[test]
    fn the_state_goes_back_byte_for_byte() {
        let params = Params {
            members: r#""name":"a""#.into(),
            ..Params::default()
        };
        assert_eq!(
            with_state(&params, r#""a\u0062""#).members,
            r#""name":"a","requestState":"a\u0062""#
        );
    }
}
