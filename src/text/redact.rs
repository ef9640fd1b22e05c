//! Secrets out of text: those that the configuration holds, by value, and what looks like one, by pattern (S-18, B63).

mod pattern;

use std::{borrow::Cow, collections::BTreeSet, fmt};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{Engine, engine::general_purpose};

/// What stands in the place of a secret: all of it, never a part (B63).
const REDACTED: &str = "[REDACTED]";
/// Characters of the shortest value that is taken out; a shorter one would tear holes into every text.
const SHORTEST: usize = 6;
/// Characters of the shortest line of a secret of several lines that is a secret of its own: a key that a server
/// prints on stderr comes line by line.
const SHORTEST_LINE: usize = 16;

/// Takes secrets out of text that leaves the daemon.
#[derive(Default)]
pub struct Redactor {
    values: Option<AhoCorasick>,
}

impl Redactor {
    /// Knows these values, and how they look in JSON, in a URL and in base64. Values of less than six characters are
    /// left alone.
    pub fn new(secrets: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            if is_long(secret, SHORTEST) {
                add_forms(secret, &mut forms);
                let lines = secret.lines().map(str::trim);
                forms.extend(
                    lines
                        .filter(|line| is_long(line, SHORTEST_LINE))
                        .map(str::to_owned),
                );
            }
        }
        // Such a value would be found again in what replaced it.
        forms.retain(|form| !REDACTED.contains(form.as_str()));
        // The longest goes first where several begin at one place. That so many values cannot be built is a matter of
        // memory; then the patterns still work.
        let values = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms)
            .ok();
        Self {
            values: values.filter(|_| !forms.is_empty()),
        }
    }

    /// The text without secrets; the text itself when there are none. Twice is as good as once.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let by_value = match &self.values {
            Some(values) if values.is_match(text) => {
                let mut out = String::with_capacity(text.len());
                values.replace_all_with(text, &mut out, |_, _, out| {
                    out.push_str(REDACTED);
                    true
                });
                Cow::Owned(out)
            }
            _ => Cow::Borrowed(text),
        };
        match pattern::replaced(&by_value, REDACTED) {
            Some(redacted) => Cow::Owned(redacted),
            None => by_value,
        }
    }
}

impl fmt::Debug for Redactor {
    /// The automaton would print what it looks for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.as_ref().map_or(0, AhoCorasick::patterns_len);
        f.debug_struct("Redactor").field("values", &values).finish()
    }
}

fn is_long(text: &str, least: usize) -> bool {
    text.chars().nth(least - 1).is_some()
}

/// A secret as it is and as others may write it.
fn add_forms(secret: &str, forms: &mut BTreeSet<String>) {
    forms.insert(secret.to_owned());
    if let Ok(json) = serde_json::to_string(secret) {
        forms.insert(json.trim_matches('"').to_owned());
        forms.insert(json[1..json.len() - 1].to_owned());
    }
    let encoded = percent_encoded(secret);
    forms.insert(encoded.replace("%20", "+"));
    forms.insert(lower_case_escapes(&encoded));
    forms.insert(encoded);
    for engine in [general_purpose::STANDARD_NO_PAD, general_purpose::URL_SAFE_NO_PAD] {
        forms.insert(engine.encode(secret));
        forms.extend((1..3).map(|offset| inner_base64(&engine, secret, offset)));
    }
}

/// What base64 makes of a secret that begins `offset` bytes after the start of a group, as in `user:password`. Only
/// the characters that the secret alone decides.
fn inner_base64(engine: &impl Engine, secret: &str, offset: usize) -> String {
    let shifted = [&[0; 3][..offset], secret.as_bytes()].concat();
    let whole = shifted.len() * 8 / 6;
    let first = (offset * 8).div_ceil(6);
    engine.encode(shifted)[first..whole].to_owned()
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// `%2F` as `%2f`.
fn lower_case_escapes(encoded: &str) -> String {
    let mut digits = 0;
    encoded
        .chars()
        .map(|c| {
            if c == '%' {
                digits = 2;
                return c;
            }
            if digits == 0 {
                return c;
            }
            digits -= 1;
            c.to_ascii_lowercase()
        })
        .collect()
}

#[cfg(test)]
mod tests;
