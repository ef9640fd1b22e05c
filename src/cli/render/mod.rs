//! What people see: pure functions from the daemon's JSON to text. Nothing here reads a clock, a terminal or a
//! socket, so every view is tested against a golden text.
//!
//! Text that came from a server is cleaned before it is shown ([`clean`]): a tool's description must not be able to
//! drive the terminal (S-11).

pub(crate) mod signature;
pub(crate) mod status;
mod style;
mod table;
pub(crate) mod tools;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use style::{Paint, Style};
pub(crate) use table::{Cell, table, wrap};

/// Text of a server, safe for a terminal. Line breaks and tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    crate::text::sanitize(text)
}

/// The same, on one line.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name as a shell takes it.
pub(crate) fn quote(name: &str) -> String {
    clean(&shell_words::quote(name)).into_owned()
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Seconds as the two largest units: `42s`, `3m 05s`, `2h 07m`, `9d 01h`.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// The text under a key; empty when there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The items under a key; none when it isn't a list.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (65, "1m 05s"),
            (7_620, "2h 07m"),
            (781_200, "9d 01h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn names_are_quoted_for_a_shell() {
        assert_eq!(quote("github"), "github");
        assert_eq!(quote("it's mine"), r"'it'\''s mine'");
    }
}
