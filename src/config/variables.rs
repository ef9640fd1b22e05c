//! `${VAR}` and `${env:VAR}`, from `.env` of the Hermes home and from the environment.

use std::{collections::BTreeMap, path::Path};

use super::dotenv::DotEnv;
use crate::environment::Environment;

/// Where placeholders get their values.
#[derive(Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
}

/// A text with its placeholders replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interpolated {
    pub(super) text: String,
    /// Names of placeholders that stay as they are, since nothing sets them.
    pub(super) unset: Vec<String>,
}

impl Variables {
    /// The environment, and over it the file `.env`, as Hermes loads it.
    ///
    /// A file that isn't there is no matter; a line that cannot be read is skipped.
    pub fn read(environment: &Environment, dotenv: &Path) -> Self {
        let mut values: BTreeMap<String, String> = environment
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        if let Ok(text) = std::fs::read_to_string(dotenv) {
            values.extend(DotEnv::parse(&text, environment).into_values());
        }
        Self { values }
    }

    /// Replaces every placeholder, once: a value that looks like one is not looked up again.
    ///
    /// A variable that is set and empty gives nothing for `${VAR}`, and keeps `${env:VAR}` as it is; so does Hermes.
    pub(super) fn interpolate(&self, text: &str) -> Interpolated {
        let mut out = String::with_capacity(text.len());
        let mut unset = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else {
                break;
            };
            let (before, placeholder) = (&rest[..start], &rest[start..=start + length]);
            out.push_str(before);
            let body = placeholder[2..placeholder.len() - 1].trim();
            let (name, may_be_empty) = match body.strip_prefix("env:") {
                Some(name) => (name.trim(), false),
                None => (body, true),
            };
            match self
                .values
                .get(name)
                .filter(|value| may_be_empty || !value.is_empty())
            {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str(placeholder);
                    unset.push(name.to_owned());
                }
            }
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        Interpolated { text: out, unset }
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self {
            values: pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_unset_ones_stay() {
        let variables: Variables = [
            ("TOK", "t0k"),
            ("EMPTY", ""),
            ("NESTED", "${TOK}"),
            ("A B", "spaced"),
        ]
        .into_iter()
        .collect();
        for (text, expected, unset) in [
            ("plain", "plain", &[][..]),
            ("Bearer ${TOK}", "Bearer t0k", &[]),
            ("${env:TOK}/${ env: TOK }", "t0k/t0k", &[]),
            ("${NESTED}", "${TOK}", &[]),
            ("a${EMPTY}b", "ab", &[]),
            ("a${env:EMPTY}b", "a${env:EMPTY}b", &["EMPTY"]),
            ("${NOPE} ${TOK}", "${NOPE} t0k", &["NOPE"]),
            ("$TOK $(x) %X% ${open", "$TOK $(x) %X% ${open", &[]),
            ("${TOK:-default}", "${TOK:-default}", &["TOK:-default"]),
            ("${A B}", "spaced", &[]),
        ] {
            let got = variables.interpolate(text);
            assert_eq!(
                (got.text.as_str(), got.unset),
                (expected, unset.iter().map(|s| (*s).to_owned()).collect()),
                "{text}"
            );
        }
    }

    #[test]
    fn dotenv_comes_over_the_environment_and_bad_lines_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".env");
        std::fs::write(
            &path,
            "# comment\nexport A=1\nB='two words'\nthis is no line\nC=\"x\" # note\n",
        )
        .unwrap();
        let environment: Environment = [("A", "own"), ("D", "own")].into_iter().collect();
        let variables = Variables::read(&environment, &path);
        for (text, expected) in [
            ("${A}", "1"),
            ("${B}", "two words"),
            ("${C}", "x"),
            ("${D}", "own"),
        ] {
            assert_eq!(variables.interpolate(text).text, expected);
        }
        // A dollar sign belongs to a password, and blanks need no quotes.
        std::fs::write(
            &path,
            "P=pa$word$x\nQ=\"q$uote\"\nW=two words\nH=a#b\nE=\nR2=\"a\\nb\"\nX=${A}!\n",
        )
        .unwrap();
        let variables = Variables::read(&environment, &path);
        for (text, expected) in [
            ("${P}", "pa$word$x"),
            ("${Q}", "q$uote"),
            ("${W}", "two words"),
            ("${H}", "a#b"),
            ("<${E}>", "<>"),
            ("${R2}", "a\nb"),
            ("${X}", "own!"),
        ] {
            assert_eq!(variables.interpolate(text).text, expected, "{text}");
        }
        let none = Variables::read(&environment, &dir.path().join("gone"));
        assert_eq!(none.interpolate("${A}").text, "own");
    }
}
