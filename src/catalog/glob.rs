//! Globs as Python's `fnmatch.fnmatchcase` reads them: `*`, `?`, `[…]` and `[!…]`; a bracket without its end is itself.
//! There is no escape: `[*]` is an asterisk.

use std::ops::RangeInclusive;

/// A compiled glob.
pub(super) struct Glob {
    parts: Vec<Part>,
}

enum Part {
    /// `*`
    Any,
    /// `?`
    One,
    This(char),
    /// `[…]`
    Class {
        is_negated: bool,
        ranges: Vec<RangeInclusive<char>>,
    },
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            parts.push(match c {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => match class_end(rest) {
                    Some(end) => {
                        let class = class(&rest[..end]);
                        rest = &rest[end + 1..];
                        class
                    }
                    None => Part::This('['),
                },
                c => Part::This(c),
            });
        }
        Self { parts }
    }

    /// Whether the whole text matches. Takes at most the product of both lengths.
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // Where to go on when what followed the last `*` did not fit: with one more character for it.
        let mut retry = None;
        loop {
            let part = self.parts.get(at);
            if let Some(Part::Any) = part {
                at += 1;
                retry = Some((at, rest.clone()));
                continue;
            }
            match (part, rest.next()) {
                (None, None) => return true,
                (Some(part), Some(c)) if part.matches(c) => at += 1,
                (_, None) => return false,
                _ => {
                    let Some((after, from)) = &mut retry else {
                        return false;
                    };
                    from.next();
                    at = *after;
                    rest = from.clone();
                }
            }
        }
    }
}

impl Part {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::This(this) => *this == c,
            Self::Class { is_negated, ranges } => {
                ranges.iter().any(|range| range.contains(&c)) != *is_negated
            }
        }
    }
}

/// Where a class ends, as a byte; a `]` right at its start belongs to it.
fn class_end(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('!').unwrap_or(rest);
    let inside = inside.strip_prefix(']').unwrap_or(inside);
    let skipped = rest.len() - inside.len();
    inside.find(']').map(|at| skipped + at)
}

/// A hyphen between two characters makes a range; one that goes down holds nothing.
fn class(inside: &str) -> Part {
    let (is_negated, inside) = inside
        .strip_prefix('!')
        .map_or((false, inside), |inside| (true, inside));
    let mut ranges = Vec::new();
    let mut rest = inside.chars();
    while let Some(first) = rest.next() {
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) => {
                ranges.push(first..=last);
                rest = ahead;
            }
            _ => ranges.push(first..=first),
        }
    }
    Part::Class { is_negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_those_of_python_and_know_case() {
        for (glob, text, expected) in [
            ("*", "anything", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("get_*", "get_", true),
            ("get_*", "Get_x", false),
            ("*_issue*", "list_issues", true),
            ("*ab*ab", "abab_ab", true),
            ("*ab*abc", "abab_ab", false),
            ("a?c", "abc", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("a.c", "abc", false),
            ("[ab]x", "bx", true),
            ("[!ab]x", "bx", false),
            ("[!ab]x", "cx", true),
            ("[^a]x", "bx", false),
            ("[^a]x", "^x", true),
            ("[a-c]", "b", true),
            ("[a-c]", "B", false),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("[c-a]", "b", false),
            ("[!c-a]", "b", true),
            ("[[-?]", "[", false),
            ("[]]", "]", true),
            ("[!]]", "]", false),
            ("[", "[", true),
            ("a[", "a[", true),
            ("[!]", "[!]", true),
            ("[]", "[]", true),
            ("a[\\]b", "a\\b", true),
            ("[*]", "*", true),
            ("[*]", "a", false),
            ("*(", "x(", true),
        ] {
            assert_eq!(Glob::new(glob).matches(text), expected, "{glob} on {text}");
        }
    }

    /// Many asterisks are no exponential trap.
    #[test]
    fn backtracking_is_bounded() {
        let glob = format!("{}b", "*a".repeat(200));
        assert!(!Glob::new(&glob).matches(&"a".repeat(2_000)));
    }

    proptest::proptest! {
        #[test]
        fn a_text_matches_itself_and_its_own_holes(text in "[a-z_.é]{1,12}", hole in 0..12usize) {
            proptest::prop_assert!(Glob::new(&text).matches(&text));
            let hole = hole % text.chars().count();
            let with = |hole_as: &str| -> String {
                text.chars().enumerate().map(|(n, c)| if n == hole { hole_as.to_owned() } else { c.to_string() }).collect()
            };
            proptest::prop_assert!(Glob::new(&with("?")).matches(&text));
            proptest::prop_assert!(Glob::new(&with("*")).matches(&text));
            proptest::prop_assert!(Glob::new(&with("[!A-Z]")).matches(&text));
            proptest::prop_assert!(!Glob::new(&with("[A-Z]")).matches(&text));
        }

        #[test]
        fn every_pattern_is_a_glob(glob in "[a\\[\\]!*?^&~\\\\-]{0,12}", text in "[a\\[\\]!-]{0,6}") {
            let _ = Glob::new(&glob).matches(&text);
        }
    }
}
