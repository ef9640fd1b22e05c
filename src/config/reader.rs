//! Typed values out of the tree, with a finding for whatever does not fit.

use std::time::Duration;

use super::{
    diagnostic::{Diagnostic, Severity},
    scalar::Scalar,
    variables::Variables,
    yaml::{Field, Kind, Node, Oddity},
};
use crate::text;

/// Longer than any wait makes sense, and far below what a clock can add.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

/// Collects findings while values are read.
pub(super) struct Reader<'a> {
    variables: &'a Variables,
    findings: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(variables: &'a Variables) -> Self {
        Self {
            variables,
            findings: Vec::new(),
        }
    }

    /// The findings, in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.findings
            .sort_by_key(|finding| (finding.line, finding.column));
        self.findings
    }

    /// The first error since `mark`, a former number of [`count`](Self::count).
    pub(super) fn first_error_since(&self, mark: usize) -> Option<&Diagnostic> {
        self.findings[mark..]
            .iter()
            .find(|finding| finding.severity == Severity::Error)
    }

    pub(super) fn count(&self) -> usize {
        self.findings.len()
    }

    pub(super) fn error(&mut self, at: &Node, key: &str, message: impl Into<String>) {
        self.find(Severity::Error, at, key, message.into());
    }

    pub(super) fn warn(&mut self, at: &Node, key: &str, message: impl Into<String>) {
        self.find(Severity::Warning, at, key, message.into());
    }

    fn find(&mut self, severity: Severity, at: &Node, key: &str, message: String) {
        let (line, column) = (at.mark.line, at.mark.column);
        // Keys come from the file, and the file may hold anything.
        let (key, message) = (
            text::one_line(key).into_owned(),
            text::one_line(&message).into_owned(),
        );
        self.findings.push(Diagnostic {
            severity,
            line,
            column,
            key,
            message,
        });
    }

    fn mismatch(&mut self, node: &Node, key: &str, expected: &str) {
        // The type is named and never the value, which may be a secret.
        self.error(node, key, format!("expected {expected}, found {}", node.what()));
    }

    /// The fields of a mapping; null is an empty one. Anything else is an error.
    pub(super) fn mapping<'n>(&mut self, node: &'n Node, key: &str) -> Option<Vec<Field<'n>>> {
        if node.is_null() {
            return Some(Vec::new());
        }
        let mut oddities = Vec::new();
        let fields = node.fields(&mut oddities);
        for Oddity { mark, message } in oddities {
            let at = Node {
                kind: Kind::Merge,
                mark,
            };
            self.warn(&at, key, message);
        }
        if fields.is_none() {
            self.mismatch(node, key, "a mapping");
        }
        fields
    }

    /// Warns of keys that nobody reads, with the nearest that somebody does.
    pub(super) fn unknown(
        &mut self,
        fields: &[Field<'_>],
        path: &str,
        known: &[&str],
        hints: &[(&str, &str)],
    ) {
        for field in fields {
            if known.contains(&field.name) {
                continue;
            }
            let hint = match hints.iter().find(|(name, _)| *name == field.name) {
                Some((_, hint)) => format!("; {hint}"),
                None => match text::nearest(field.name, known.iter().copied()).first() {
                    Some(near) => format!("; did you mean '{near}'?"),
                    None => String::new(),
                },
            };
            self.warn(
                field.key,
                &format!("{path}.{}", field.name),
                format!("unknown key, it has no effect{hint}"),
            );
        }
    }

    /// Text with its placeholders replaced; numbers and booleans count as they are written.
    pub(super) fn text(&mut self, node: &Node, key: &str) -> Option<String> {
        match &node.kind {
            Kind::Scalar(Scalar::Null, _) => {
                self.mismatch(node, key, "text");
                None
            }
            Kind::Scalar(_, written) => Some(self.interpolated(node, key, written)),
            _ => {
                self.mismatch(node, key, "text");
                None
            }
        }
    }

    fn interpolated(&mut self, node: &Node, key: &str, written: &str) -> String {
        let got = self.variables.interpolate(written);
        for name in got.unset {
            self.warn(node, key, format!("the variable '{name}' is not set, neither in .env nor in the environment; the placeholder stays as it is"));
        }
        got.text
    }

    /// A list of texts. A single text is not taken for one; see [`names`](Self::names).
    pub(super) fn texts(&mut self, node: &Node, key: &str) -> Option<Vec<String>> {
        let Kind::Sequence(items) = &node.kind else {
            self.mismatch(node, key, "a list");
            return None;
        };
        let texts = items
            .iter()
            .enumerate()
            .map(|(n, item)| self.text(item, &format!("{key}[{n}]")));
        // All of them, so that every mistake is told.
        texts.collect::<Vec<_>>().into_iter().collect()
    }

    /// A text or a list of texts.
    pub(super) fn names(&mut self, node: &Node, key: &str) -> Option<Vec<String>> {
        match &node.kind {
            Kind::Scalar(Scalar::Text, written) => Some(vec![self.interpolated(node, key, written)]),
            Kind::Sequence(_) => self.texts(node, key),
            _ => {
                self.warn(
                    node,
                    key,
                    format!(
                        "expected text or a list of texts, found {}; it is ignored",
                        node.what()
                    ),
                );
                None
            }
        }
    }

    /// Hermes' rule for booleans: real ones, the numbers 0 and 1, and the words true, 1, yes, on, false, 0, no, off in
    /// any case. Anything else is the default, with a warning (B37).
    pub(super) fn boolean(&mut self, node: &Node, key: &str, default: bool) -> bool {
        let value = match &node.kind {
            Kind::Scalar(Scalar::Null, _) => Some(default),
            Kind::Scalar(Scalar::Bool(value), _) => Some(*value),
            Kind::Scalar(_, written) => match self
                .variables
                .interpolate(written)
                .text
                .trim()
                .to_lowercase()
                .as_str()
            {
                "true" | "1" | "yes" | "on" => Some(true),
                "false" | "0" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        };
        value.unwrap_or_else(|| {
            self.warn(
                node,
                key,
                format!(
                    "expected true or false, found {}; it counts as {default}",
                    node.what()
                ),
            );
            default
        })
    }

    /// A number, or text that is one.
    fn number(&mut self, node: &Node, key: &str, unit: &str) -> Option<f64> {
        let value = match &node.kind {
            Kind::Scalar(Scalar::Float(value), _) => Some(*value),
            Kind::Scalar(Scalar::Int(digits), _) => digits.parse().ok(),
            Kind::Scalar(Scalar::Text, written) => {
                let written = self.interpolated(node, key, written);
                let number = written.trim().parse().ok();
                if number.is_none() {
                    let digits: String = written
                        .chars()
                        .take_while(|c| c.is_ascii_digit() || *c == '.')
                        .collect();
                    let hint = match digits.is_empty() {
                        true => String::new(),
                        false => format!("; write {digits} without a unit"),
                    };
                    self.error(
                        node,
                        key,
                        format!("expected a number of {unit}, found text{hint}"),
                    );
                    return None;
                }
                number
            }
            _ => None,
        };
        if value.is_none() {
            self.mismatch(node, key, &format!("a number of {unit}"));
        }
        value
    }

    /// Seconds above 0.
    pub(super) fn seconds(&mut self, node: &Node, key: &str) -> Option<Duration> {
        let seconds = self.number(node, key, "seconds")?;
        if seconds > 0.0 && seconds <= LONGEST {
            return Some(Duration::from_secs_f64(seconds));
        }
        let why = if seconds > LONGEST {
            "at most a year"
        } else {
            "more than 0"
        };
        self.error(node, key, format!("expected {why} in seconds"));
        None
    }

    /// Seconds, where 0 means off and a value that does not fit is a warning.
    pub(super) fn optional_seconds(&mut self, node: &Node, key: &str) -> Option<Duration> {
        let before = self.findings.len();
        let seconds = self.number(node, key, "seconds");
        for finding in &mut self.findings[before..] {
            finding.severity = Severity::Warning;
        }
        match seconds {
            Some(seconds) if seconds > 0.0 && seconds <= LONGEST => Some(Duration::from_secs_f64(seconds)),
            Some(seconds) if seconds != 0.0 => {
                self.warn(node, key, "expected 0 (off) or more seconds; it is ignored");
                None
            }
            _ => None,
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn whole(&mut self, node: &Node, key: &str, unit: &str, least: u64) -> Option<u64> {
        let number = self.number(node, key, unit)?;
        if number.fract() == 0.0 && number >= least as f64 && number <= u32::MAX.into() {
            return Some(number as u64);
        }
        self.error(
            node,
            key,
            format!("expected a whole number of {unit}, at least {least}"),
        );
        None
    }

    /// One of some words; anything else is the default, with a warning.
    pub(super) fn word<T: Copy>(&mut self, node: &Node, key: &str, words: &[(&str, T)], default: T) -> T {
        let written = match &node.kind {
            Kind::Scalar(Scalar::Null, _) => return default,
            Kind::Scalar(_, written) => written.trim().to_lowercase(),
            _ => String::new(),
        };
        match words.iter().find(|(word, _)| *word == written) {
            Some((_, value)) => *value,
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.warn(
                    node,
                    key,
                    format!("expected one of: {}; the default counts", words.join(", ")),
                );
                default
            }
        }
    }
}
