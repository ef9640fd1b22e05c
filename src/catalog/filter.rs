//! `tools.include` and `tools.exclude`: patterns over original names; include wins (TOOL-06, B43).

use regex::Regex;

use crate::config::ToolsPolicy;

/// A compiled filter of one server.
pub(super) struct Filter<'a> {
    include: Option<Vec<Pattern<'a>>>,
    exclude: Vec<Pattern<'a>>,
}

struct Pattern<'a> {
    text: &'a str,
    /// `None` for a plain name, and for a class with its range upside down, which is no glob.
    glob: Option<Regex>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(policy: &'a ToolsPolicy) -> Self {
        let compile = |patterns: &'a [String]| patterns.iter().map(|text| Pattern::new(text)).collect();
        Self {
            include: policy.include.as_deref().map(compile),
            exclude: compile(&policy.exclude),
        }
    }

    /// Whether a tool is offered.
    pub(super) fn allows(&self, tool: &str) -> bool {
        match &self.include {
            Some(include) => include.iter().any(|pattern| pattern.matches(tool)),
            None => !self.exclude.iter().any(|pattern| pattern.matches(tool)),
        }
    }

    /// The patterns of `include` that no tool has.
    pub(super) fn unused<'t>(&self, tools: impl Iterator<Item = &'t str> + Clone) -> Vec<&'a str> {
        let include = self.include.iter().flatten();
        include
            .filter(|pattern| !tools.clone().any(|tool| pattern.matches(tool)))
            .map(|pattern| pattern.text)
            .collect()
    }
}

impl<'a> Pattern<'a> {
    fn new(text: &'a str) -> Self {
        let glob = text
            .contains(['*', '?', '['])
            .then(|| Regex::new(&to_regex(text)).ok())
            .flatten();
        Self { text, glob }
    }

    fn matches(&self, tool: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.is_match(tool),
            None => self.text == tool,
        }
    }
}

/// A glob as Python's `fnmatch` reads it: `*`, `?`, `[…]` and `[!…]`; a bracket without its end is itself.
fn to_regex(glob: &str) -> String {
    let mut out = String::from(r"(?s)\A");
    let mut rest = glob;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => match class_end(rest) {
                Some(end) => {
                    let (inside, after) = (&rest[..end], &rest[end + 1..]);
                    let (negated, inside) = inside
                        .strip_prefix('!')
                        .map_or(("", inside), |inside| ("^", inside));
                    out.push_str(&format!("[{negated}{}]", escape_class(inside)));
                    rest = after;
                }
                None => out.push_str(r"\["),
            },
            other => out.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push_str(r"\z");
    out
}

/// Where a class ends; a `]` right at its start belongs to it.
fn class_end(rest: &str) -> Option<usize> {
    let skip = rest.len()
        - rest
            .trim_start_matches('!')
            .len()
            .max(rest.len().saturating_sub(1));
    let skip = if rest[skip..].starts_with(']') {
        skip + 1
    } else {
        skip
    };
    rest[skip..].find(']').map(|at| skip + at)
}

fn escape_class(inside: &str) -> String {
    let mut out = String::new();
    for character in inside.chars() {
        if matches!(character, '\\' | '[' | ']' | '^' | '&' | '~') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(include: Option<&[&str]>, exclude: &[&str], tools: &[&str]) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let policy = ToolsPolicy {
            include: include.map(owned),
            exclude: owned(exclude),
            ..ToolsPolicy::default()
        };
        let filter = Filter::new(&policy);
        tools
            .iter()
            .filter(|tool| filter.allows(tool))
            .map(|tool| (*tool).to_owned())
            .collect()
    }

    #[test]
    fn include_wins_over_exclude_and_an_empty_one_is_nothing() {
        let tools = ["list_issues", "List_all", "delete_repo", "a.b"];
        assert_eq!(
            allowed(Some(&["list_*"]), &["list_issues"], &tools),
            ["list_issues"],
            "B43 (1)"
        );
        assert!(allowed(Some(&[]), &[], &tools).is_empty(), "B43 (2)");
        assert_eq!(
            allowed(None, &["a.b"], &tools),
            ["list_issues", "List_all", "delete_repo"],
            "B43 (3)"
        );
        assert_eq!(allowed(None, &[], &tools).len(), 4);
        assert!(allowed(Some(&["nope"]), &[], &tools).is_empty());
    }

    #[test]
    fn globs_are_those_of_python_and_know_case() {
        for (glob, tool, expected) in [
            ("*", "anything", true),
            ("get_*", "get_", true),
            ("get_*", "Get_x", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a.c", "abc", false),
            ("[ab]x", "bx", true),
            ("[!ab]x", "bx", false),
            ("[!ab]x", "cx", true),
            ("[a-c]", "b", true),
            ("[]]", "]", true),
            ("[", "[", true),
            ("a[", "a[", true),
            ("[!]", "[!]", true),
            ("a[\\]b", "a\\b", true),
            ("*(", "x(", true),
        ] {
            assert_eq!(Pattern::new(glob).matches(tool), expected, "{glob} on {tool}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_pattern_compiles(glob in "[a\\[\\]!*?^&~\\\\]{0,12}") {
            proptest::prop_assert!(Regex::new(&to_regex(&glob)).is_ok(), "{}", to_regex(&glob));
        }
    }
}
