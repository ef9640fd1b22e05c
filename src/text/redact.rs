//! Secrets out of text: those that the configuration holds, by value, and what looks like one, by pattern (S-18, B63).

use std::{borrow::Cow, sync::LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use regex::Regex;

const REDACTED: &str = "[REDACTED]";
/// Shorter values are too common to be taken out of every text.
const SHORTEST: usize = 6;

/// What looks like a credential, in any case. Hermes' list, with the shapes that it misses.
static PATTERNS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let patterns = [
        // A whole header, whatever its scheme.
        r"(?P<keep1>\b(?:proxy-)?authorization\b[\x22']?\s*[:=]\s*[\x22']?)(?:(?:bearer|basic|token|digest)\s+)?[^\s,;\x22']+",
        r"\b(?P<keep2>bearer\s+)[^\s,;\x22']+",
        // key=value and JSON's "key": "value".
        r"(?P<keep3>\b[\w-]*(?:token|key|password|passwd|secret|credential)[\x22']?\s*=\s*[\x22']?)[^\s&,;\x22']+",
        r"(?P<keep4>\x22[\w-]*(?:token|key|password|passwd|secret)\x22\s*:\s*\x22)[^\x22]+",
        r"(?P<keep5>[?&](?:code|sig|signature|auth|state)=)[^\s&,;\x22']+",
        // Known shapes.
        r"\bgh[pousr]_[A-Za-z0-9_]+",
        r"\bgithub_pat_[A-Za-z0-9_]+",
        r"\bsk-[A-Za-z0-9_.-]+",
        r"\bxox[a-z]-[A-Za-z0-9-]+",
        r"\bAKIA[0-9A-Z]{12,}",
        r"\bAIza[0-9A-Za-z_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        // user:password@ in an address.
        r"(?P<keep6>\b[a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@",
    ];
    // The patterns are constants, and a test compiles them.
    Regex::new(&format!("(?i){}", patterns.join("|"))).ok()
});

/// What has to be in a text for a pattern to match at all: a cheap look before the expensive one.
static HINTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let hints = [
        "authorization",
        "bearer",
        "token",
        "key",
        "passw",
        "secret",
        "credential",
        "gh",
        "sk-",
        "xox",
        "akia",
        "aiza",
        "eyj",
        "-----begin",
        "://",
        "?",
        "&",
    ];
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(hints)
        .ok()
});

/// Takes secrets out of text that leaves the daemon. The replacement is the whole value, never a part of it.
#[derive(Debug, Default)]
pub struct Redactor {
    values: Option<AhoCorasick>,
}

impl Redactor {
    /// Knows these values, and their base64 and URL-encoded forms. Values of less than six characters are left alone.
    pub fn new(secrets: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut forms = Vec::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            if secret.chars().count() >= SHORTEST {
                forms.push(secret.to_owned());
                forms.extend(encoded(secret));
            }
        }
        forms.sort();
        forms.dedup();
        // What cannot be built with so many values would be a fault of memory; then the patterns still work.
        let values = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms)
            .ok();
        Self {
            values: values.filter(|_| !forms.is_empty()),
        }
    }

    /// The text without secrets.
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
        if !HINTS
            .as_ref()
            .is_none_or(|hints| hints.is_match(by_value.as_ref()))
        {
            return by_value;
        }
        match by_pattern(&by_value) {
            Some(redacted) => Cow::Owned(redacted),
            None => by_value,
        }
    }
}

fn by_pattern(text: &str) -> Option<String> {
    let patterns = PATTERNS.as_ref()?;
    let mut out = String::new();
    let mut end = 0;
    for found in patterns.captures_iter(text) {
        let whole = found.get(0)?;
        let kept = (1..=6)
            .find_map(|n| found.name(&format!("keep{n}")))
            .map_or("", |kept| kept.as_str());
        out.push_str(&text[end..whole.start()]);
        out.push_str(kept);
        out.push_str(REDACTED);
        if whole.as_str().ends_with('@') {
            out.push('@');
        }
        end = whole.end();
    }
    if end == 0 {
        return None;
    }
    out.push_str(&text[end..]);
    Some(out)
}

fn encoded(secret: &str) -> Vec<String> {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let mut forms = vec![
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        percent_encoded(secret),
    ];
    // How a quote or a backslash in it looks inside JSON.
    forms.push(secret.replace('\\', "\\\\").replace('"', "\\\""));
    forms
}

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_compile() {
        assert!(PATTERNS.is_some() && HINTS.is_some());
    }

    #[test]
    fn what_looks_like_a_secret_goes_and_the_rest_stays() {
        let redactor = Redactor::default();
        for (text, expected) in [
            ("nothing to see: 401", "nothing to see: 401"),
            ("token ghp_0123456789abcdef!", "token [REDACTED]!"),
            ("sk-proj-a1-b2 is gone", "[REDACTED] is gone"),
            ("Bearer abc.def rest", "Bearer [REDACTED] rest"),
            (
                "Authorization: Bearer sk-abc123def456 x",
                "Authorization: [REDACTED] x",
            ),
            ("api_key=SECRET1&code=2", "api_key=[REDACTED]&code=[REDACTED]"),
            (
                "https://x/mcp?api_key=SECRET1&code=SECRET2 xoxp-1-2-3",
                "https://x/mcp?api_key=[REDACTED]&code=[REDACTED] [REDACTED]",
            ),
            ("password=hunter2; next", "password=[REDACTED]; next"),
            (
                r#"{"access_token": "abc", "n": 1}"#,
                r#"{"access_token": "[REDACTED]", "n": 1}"#,
            ),
            ("postgres://me:pw@host/db", "postgres://[REDACTED]@host/db"),
            ("AKIAIOSFODNN7EXAMPLE", "[REDACTED]"),
            ("eyJhbGciOi.eyJzdWIi.sig", "[REDACTED]"),
            ("a keyboard and a tokenizer", "a keyboard and a tokenizer"),
        ] {
            assert_eq!(redactor.redact(text), expected, "{text}");
        }
    }

    #[test]
    fn configured_values_go_in_every_form() {
        let redactor = Redactor::new(["plain-secret-77", "a b/c\"d", "short", "plain-secret-77-longer"]);
        for (text, expected) in [
            ("TOK is plain-secret-77", "TOK is [REDACTED]"),
            ("plain-secret-77-longer", "[REDACTED]"),
            ("cGxhaW4tc2VjcmV0LTc3==", "[REDACTED]=="),
            ("a%20b%2Fc%22d", "[REDACTED]"),
            (r#"in json: "a b/c\"d""#, r#"in json: "[REDACTED]""#),
            ("short stays", "short stays"),
        ] {
            assert_eq!(redactor.redact(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_found_is_nothing_copied() {
        assert!(matches!(
            Redactor::new(["plain-secret-77"]).redact("all is well"),
            Cow::Borrowed(_)
        ));
    }

    proptest::proptest! {
        #[test]
        fn once_is_enough(text in "[a-z =:\"&?_-]{0,40}(token=|Bearer |sk-|plain-secret-77)?[a-z =:\"&?/@.-]{0,40}") {
            let redactor = Redactor::new(["plain-secret-77"]);
            let once = redactor.redact(&text).into_owned();
            proptest::prop_assert_eq!(redactor.redact(&once), once.as_str());
            proptest::prop_assert!(!once.contains("plain-secret-77"));
        }
    }
}
