//! `tools.include` and `tools.exclude`: patterns over original names; include wins (TOOL-06, B43).

use super::glob::Glob;
use crate::config::ToolsPolicy;

/// A compiled filter of one server.
pub(super) struct Filter<'a> {
    include: Option<Vec<Pattern<'a>>>,
    exclude: Vec<Pattern<'a>>,
}

struct Pattern<'a> {
    text: &'a str,
    glob: Glob,
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
        Self {
            text,
            glob: Glob::new(text),
        }
    }

    fn matches(&self, tool: &str) -> bool {
        self.glob.matches(tool)
    }
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
}
