//! Calls of the utility tools: a server's resources and prompts, each as the requests it stands for.

use serde::Deserialize;

use super::{
    CallError, Caller, Request, caller::object_text, exchange::CallLimits, route::Route, shape,
    shape::HermesReply,
};
use crate::{catalog::Utility, server::Params};

impl Caller {
    pub(super) async fn call_utility(
        &self,
        route: &Route,
        utility: Utility,
        request: &Request,
        limits: &CallLimits,
    ) -> Result<HermesReply, CallError> {
        let arguments = object_text(request.arguments.as_deref())?.to_owned();
        let missing = |name: &str| {
            Ok(shape::error_reply(&format!(
                "Missing required parameter '{name}'"
            )))
        };
        match utility {
            Utility::ListResources => {
                let items = self.list(route, "resources/list", "resources", limits).await?;
                Ok(shape::list_resources(&items))
            }
            Utility::ListPrompts => {
                let items = self.list(route, "prompts/list", "prompts", limits).await?;
                Ok(shape::list_prompts(&items))
            }
            Utility::ReadResource => {
                #[derive(Deserialize)]
                struct Arguments {
                    uri: Option<String>,
                }
                let uri = serde_json::from_str::<Arguments>(&arguments)
                    .ok()
                    .and_then(|arguments| arguments.uri);
                let Some(uri) = uri.filter(|uri| !uri.is_empty()) else {
                    return missing("uri");
                };
                let members = format!(r#""uri":{}"#, crate::wire::to_json(&uri));
                let raw = self
                    .send(route, "resources/read", &plain(members), limits, |_| {})
                    .await?;
                Ok(self.shape(route, raw, shape::read_resource).await)
            }
            Utility::GetPrompt => {
                #[derive(Deserialize)]
                struct Arguments {
                    name: Option<String>,
                    arguments: Option<serde_json::Map<String, serde_json::Value>>,
                }
                let parsed = serde_json::from_str::<Arguments>(&arguments).ok();
                let name = parsed
                    .as_ref()
                    .and_then(|parsed| parsed.name.clone())
                    .filter(|name| !name.is_empty());
                let Some(name) = name else { return missing("name") };
                let given = parsed.and_then(|parsed| parsed.arguments).unwrap_or_default();
                let members = format!(
                    r#""name":{},"arguments":{}"#,
                    crate::wire::to_json(&name),
                    crate::wire::to_json(&as_strings(given))
                );
                let raw = self
                    .send(route, "prompts/get", &plain(members), limits, |_| {})
                    .await?;
                Ok(self.shape(route, raw, shape::get_prompt).await)
            }
        }
    }
}

fn plain(members: String) -> Params {
    Params {
        members,
        ..Params::default()
    }
}

/// Prompt arguments are strings (PROM-01): other scalars are written as such, null is left out.
fn as_strings(
    given: serde_json::Map<String, serde_json::Value>,
) -> serde_json::Map<String, serde_json::Value> {
    given
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| match value {
            serde_json::Value::String(_) => (key, value),
            other => (key, serde_json::Value::String(other.to_string())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_arguments_are_strings() {
        let given = serde_json::json!({"a": "x", "b": 1.5, "c": null, "d": [1]});
        let got = as_strings(given.as_object().unwrap().clone());
        assert_eq!(
            serde_json::Value::Object(got),
            serde_json::json!({"a": "x", "b": "1.5", "d": "[1]"})
        );
    }
}
