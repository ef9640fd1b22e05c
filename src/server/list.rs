//! Reads lists: page by page, within limits.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    connection::Connection,
    request::{Lost, Params, Reply},
};
use crate::wire::Limits;

/// Why a list could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The connection is gone.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The server answered with an error.
    #[error("the server answered {method} with an error: {error}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The server's error, as JSON text.
        error: String,
    },
    /// The server's answer has not the shape of a list.
    #[error("the server's answer to {method} is not a list: {reason}")]
    Shape {
        /// The method.
        method: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// A list that was read to its end or to a limit.
#[derive(Debug, Default)]
pub struct Listed {
    /// The items, each in the server's own bytes.
    pub items: Vec<Box<RawValue>>,
    /// Why the list was cut, if it was (PAGE-02).
    pub truncated: Option<String>,
    /// How long it is fresh, if the server says so (`ttlMs`).
    pub fresh_for: Option<Duration>,
}

impl Connection {
    /// Reads a whole list: every page, up to the limits. A repeated cursor ends it too (PAGE-01, PAGE-02).
    ///
    /// # Errors
    /// When the first page cannot be read. A later page that fails cuts the list.
    pub async fn list(&self, method: &'static str, key: &str, limits: &Limits) -> Result<Listed, ListError> {
        let mut listed = Listed::default();
        let mut cursors: Vec<String> = Vec::new();
        let mut bytes = 0;
        let mut begun_anew = false;
        loop {
            let members = cursors
                .last()
                .map(|cursor| format!("\"cursor\":{cursor}"))
                .unwrap_or_default();
            let mut request = self.request(
                method,
                &Params {
                    members,
                    ..Params::default()
                },
            )?;
            let page = match request.answer().await? {
                Reply::Result(raw) => {
                    bytes += raw.get().len();
                    page_of(method, key, &raw)
                }
                // PAGE-04: the cursor is not valid any more.
                Reply::Error(raw) if !cursors.is_empty() && !begun_anew && is_invalid_params(&raw) => {
                    (listed, cursors, bytes, begun_anew) = (Listed::default(), Vec::new(), 0, true);
                    continue;
                }
                Reply::Error(raw) => Err(ListError::Refused {
                    method,
                    error: raw.get().to_owned(),
                }),
            };
            let page = match page {
                Ok(page) => page,
                Err(error) if cursors.is_empty() => return Err(error),
                Err(error) => {
                    listed.truncated = Some(error.to_string());
                    return Ok(listed);
                }
            };
            if bytes > limits.list_bytes && !cursors.is_empty() {
                listed.truncated = Some(format!(
                    "it has more than {} bytes (limits.list_bytes)",
                    limits.list_bytes
                ));
                return Ok(listed);
            }
            let room = limits.list_items.saturating_sub(listed.items.len());
            if page.items.len() > room {
                listed.items.extend(page.items.into_iter().take(room));
                listed.truncated = Some(format!(
                    "it has more than {} items (limits.list_items)",
                    limits.list_items
                ));
                return Ok(listed);
            }
            listed.items.extend(page.items);
            listed.fresh_for = match (listed.fresh_for, page.fresh_for) {
                (Some(all), Some(page)) => Some(all.min(page)),
                (all, page) => all.or(page),
            };
            let Some(cursor) = page.next else {
                return Ok(listed);
            };
            if cursors.contains(&cursor) {
                listed.truncated = Some("the server repeats a cursor".into());
                return Ok(listed);
            }
            cursors.push(cursor);
            if cursors.len() >= limits.list_pages {
                listed.truncated = Some(format!(
                    "it has more than {} pages (limits.list_pages)",
                    limits.list_pages
                ));
                return Ok(listed);
            }
        }
    }
}

fn is_invalid_params(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    serde_json::from_str::<Code>(error.get()).is_ok_and(|error| error.code == -32602)
}

/// One page: its items, and the JSON text of the cursor to the next.
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
    fresh_for: Option<Duration>,
}

fn page_of(method: &'static str, key: &str, raw: &RawValue) -> Result<Page, ListError> {
    let shape = |reason: String| ListError::Shape { method, reason };
    let members: std::collections::HashMap<String, &RawValue> =
        serde_json::from_str(raw.get()).map_err(|error| shape(error.to_string()))?;
    let items = members
        .get(key)
        .ok_or_else(|| shape(format!("it has no '{key}'")))?;
    let items = serde_json::from_str(items.get()).map_err(|error| shape(format!("'{key}': {error}")))?;
    // An empty string is a cursor, only null or nothing ends the list; what isn't a string is no cursor.
    let next = members
        .get("nextCursor")
        .map(|cursor| cursor.get())
        .filter(|cursor| cursor.starts_with('"'));
    Ok(Page {
        items,
        next: next.map(str::to_owned),
        fresh_for: members
            .get("ttlMs")
            .and_then(|ttl| ttl.get().parse().ok())
            .map(Duration::from_millis),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_leniently_and_cursors_strictly() {
        let page = |json: &str| {
            page_of(
                "tools/list",
                "tools",
                &RawValue::from_string(json.into()).unwrap(),
            )
        };
        let good = page(r#"{"tools":[{"name":"a"},1],"nextCursor":"","x":1}"#).unwrap();
        assert_eq!(good.items.len(), 2);
        assert_eq!(
            good.next.as_deref(),
            Some("\"\""),
            "an empty string is a cursor (PAGE-01)"
        );
        for end in [
            r#"{"tools":[]}"#,
            r#"{"tools":[],"nextCursor":null}"#,
            r#"{"tools":[],"nextCursor":5}"#,
        ] {
            assert!(page(end).unwrap().next.is_none(), "{end}");
        }
        for bad in ["[]", "{}", r#"{"tools":{}}"#] {
            assert!(page(bad).is_err(), "{bad}");
        }
    }
}
