//! What looks like a credential, whoever's it is.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::{Captures, Regex};

/// Names whose value is a secret wherever it is assigned (`=`): Hermes' list, and a few more.
const ASSIGNED: &str = "(?:token|key|passw(?:or)?d|passphrase|secret|credential)";
/// Names whose value is a secret in JSON, and in what Python and Ruby print. A mere `key` isn't: there it is the name
/// of an issue or of a map's entry.
const MEMBER: &str = "(?:token|passw(?:or)?d|passphrase|secret|credentials?|authorization|cookie|\
    (?:api|access|private|secret|auth|signing|encryption|client|account|master)[_-]?key)";
/// The rest of a name. ASCII only: Unicode's classes would make the pattern large.
const NAME: &str = "[0-9A-Za-z_-]";
/// A value without quotes. A backslash before a quote is not its own: then the text is inside a JSON string.
const BARE: &str = r#"(?:[^\s&,;"'\\]|\\[^\s"'])+"#;
/// What a header's value, and sometimes a variable's, may begin with.
const SCHEMES: &str = r"(?:(?:bearer|basic|token|digest|negotiate)[ \t]+)*";

/// All patterns as one. A group at the very start of a match and one at its very end are kept; all else of it goes.
static PATTERNS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let assignment = format!(r#"(?:{NAME}*{ASSIGNED}\\*["']?[ \t]*=+>?[ \t]*|--{NAME}*{ASSIGNED}[ \t]+)"#);
    let patterns = [
        // "key": "value", also inside a JSON string, and Python's 'key': 'value'.
        format!(r#"("{NAME}*{MEMBER}"\s*(?::|=>)\s*")(?:[^"\\]|\\.)+"#),
        format!(r#"(\\+"{NAME}*{MEMBER}\\+"\s*(?::|=>)\s*\\+")(?:[^"\\]|\\+[^"\\])+"#),
        format!(r"('{NAME}*{MEMBER}'\s*(?::|=>)\s*b?')(?:[^'\\]|\\.)+"),
        // Headers. Of a cookie all is secret; of the others the next word, so that the rest of a message stays.
        format!(r#"(\b(?:proxy-)?authorization\\*["']?[ \t]*[:=][ \t]*\\*["']?){SCHEMES}{BARE}"#),
        format!(
            r#"(\b(?:x-{NAME}*(?:key|token|secret|auth)|api[_-]?key)\\*["']?[ \t]*:[ \t]*\\*["']?){SCHEMES}{BARE}"#
        ),
        r#"(\b(?:set-)?cookie[ \t]*:[ \t]*)[^\s"'\\][^\r\n"'\\]*"#.into(),
        format!(r"(\bbearer\s+){BARE}"),
        // name=value and --name value, in quotes or without; the quotes stay.
        format!(r#"({assignment}\\+")(?:[^"\\]|\\+[^"\\])+"#),
        format!(r#"({assignment}")(?:[^"\\]|\\.)+"#),
        format!(r"({assignment}')[^']+"),
        format!("({assignment}){SCHEMES}{BARE}"),
        // Parts of an address: what a login hands back, what signs it, who logs in.
        format!(r#"([?&](?:code|auth|sig|{NAME}*signature|jwt|pass|pwd|session(?:_?id)?)=)[^\s&,;"'\#\\]+"#),
        r#"(\b[a-z][a-z0-9+.-]*://)[^\s/@:"'?\#]*:[^\s/"'?\#]*(@)"#.into(),
        // Known shapes.
        format!(r"\bgh[pousr]_{NAME}+|\bgithub_pat_{NAME}+|\bglpat-{NAME}{{10,}}"),
        format!(r"(?:\b|_)sk-{NAME}+(?:\.{NAME}+)*|\b[sr]k_(?:live|test)_{NAME}+"),
        format!(r"\b(?:xox[a-z]|xapp)-{NAME}+"),
        format!(r"\b(?:npm|hf)_{NAME}{{20,}}"),
        r"\b(?-i:AKIA|ASIA)[0-9A-Z]{12,}".into(),
        format!(r"\b(?-i:AIza){NAME}{{30,}}|\b(?-i:ya29)\.{NAME}{{10,}}"),
        format!(r"\b(?-i:eyJ){NAME}{{4,}}\.{NAME}+\.{NAME}*"),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)".into(),
    ];
    // ASCII word boundaries, too: those of Unicode are beyond the fast engine. The patterns are constants, and a test
    // compiles them.
    let all = patterns.join("|").replace(r"\b", r"(?-u:\b)");
    Regex::new(&format!("(?i){all}")).ok()
});

/// A cheap look before the expensive one: what a text must hold for any pattern to match.
static HINTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let hints = [
        "token",
        "key",
        "passw",
        "passphrase",
        "secret",
        "credential",
        "auth",
        "bearer",
        "cookie",
        "?",
        "&",
        "://",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "sk-",
        "sk_",
        "rk_",
        "xox",
        "xapp-",
        "npm_",
        "hf_",
        "akia",
        "asia",
        "aiza",
        "ya29.",
        "eyj",
    ];
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(hints)
        .ok()
});

/// The text with everything that looks like a credential replaced; `None` when nothing does.
pub(super) fn replaced(text: &str, replacement: &str) -> Option<String> {
    if HINTS.as_ref().is_some_and(|hints| !hints.is_match(text)) {
        return None;
    }
    let mut out = String::new();
    let mut end = 0;
    for found in PATTERNS.as_ref()?.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        let (before, after) = kept(&found);
        out.push_str(&text[end..whole.start()]);
        out.push_str(before);
        out.push_str(replacement);
        out.push_str(after);
        end = whole.end();
    }
    if end == 0 {
        return None;
    }
    out.push_str(&text[end..]);
    Some(out)
}

/// What stays of a match at its start and at its end.
fn kept<'t>(found: &Captures<'t>) -> (&'t str, &'t str) {
    let mut groups = found.iter().skip(1).flatten().map(|group| group.as_str());
    (
        groups.next().unwrap_or_default(),
        groups.next().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_compile() {
        assert!(PATTERNS.is_some() && HINTS.is_some());
    }

    /// What the quick look lets pass must not hold a match.
    #[test]
    fn every_pattern_has_a_hint() {
        let (patterns, hints) = (PATTERNS.as_ref().unwrap(), HINTS.as_ref().unwrap());
        for (text, _) in super::super::tests::BY_PATTERN {
            assert!(!patterns.is_match(text) || hints.is_match(text), "{text}");
        }
    }
}
