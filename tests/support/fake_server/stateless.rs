//! The era without a handshake (2026-07-28): each request says what it needs, and nothing is asked of the client.

use serde_json::{Value, json};

use crate::{calls::text_result, server::Server};

const VERSION: &str = "2026-07-28";
const META: &str = "io.modelcontextprotocol/";

/// Answers what is special; gives whether that was all there is to do.
pub(crate) fn request(server: &mut Server, method: &str, id: &str, params: &str) -> bool {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let is_first = !std::mem::replace(&mut server.was_asked, true);
    let is_refused = server.options.mode("refuses-once") && is_first;
    if method == "initialize" || is_refused {
        let error =
            json!({"code": -32022, "message": "no handshakes here", "data": {"supported": [VERSION]}});
        server.output.members(id, &format!(r#","error":{error}"#));
        return true;
    }
    if let Some(missing) = missing(&params["_meta"]) {
        server
            .output
            .error(id, -32602, &format!("{method}: _meta lacks {missing}"));
        return true;
    }
    match method {
        "server/discover" => server.output.result(id, &discovery(&server.options.name)),
        "subscriptions/listen" => listen(server, id, &params),
        "tools/call" => return call(server, id, &params),
        "tools/list" => return false,
        // `ping` and `logging/setLevel` are of the other era.
        _ => server.output.error(id, -32601, "method not found"),
    }
    true
}

fn missing(meta: &Value) -> Option<&'static str> {
    [
        (
            "protocolVersion",
            meta[format!("{META}protocolVersion")] == VERSION,
        ),
        (
            "clientInfo",
            meta[format!("{META}clientInfo")]["name"].is_string(),
        ),
        (
            "clientCapabilities",
            meta[format!("{META}clientCapabilities")].is_object(),
        ),
    ]
    .into_iter()
    .find_map(|(name, is_there)| (!is_there).then_some(name))
}

fn discovery(name: &str) -> String {
    json!({
        "resultType": "complete",
        "supportedVersions": [VERSION],
        "capabilities": {"tools": {"listChanged": true}},
        "_meta": {format!("{META}serverInfo"): {"name": name, "version": "2.0.0"}},
        "instructions": "be brief",
    })
    .to_string()
}

/// Stays unanswered: what it is about is told by notifications that name it.
fn listen(server: &mut Server, id: &str, params: &Value) {
    let notices = json!({
        "notifications": params["notifications"],
        "_meta": {format!("{META}subscriptionId"): id.parse::<i64>().unwrap()},
    });
    server
        .output
        .notification("notifications/subscriptions/acknowledged", &notices);
}

/// `rounds` wants to be called again as often as it is told to; `raw_result` asks for whatever it is told to.
fn call(server: &mut Server, id: &str, params: &Value) -> bool {
    if params["name"] != "rounds" {
        return false;
    }
    let wanted = params["arguments"]["text"]
        .as_str()
        .unwrap_or_default()
        .parse()
        .unwrap_or(0);
    let done = params["requestState"]
        .as_str()
        .and_then(|state| state.strip_prefix("round "))
        .and_then(|round| round.parse().ok())
        .unwrap_or(0u32);
    let result = if done < wanted {
        json!({"resultType": "input_required", "requestState": format!("round {}", done + 1)}).to_string()
    } else {
        text_result(&format!("after {done} rounds"))
    };
    server.output.result(id, &result);
    true
}
