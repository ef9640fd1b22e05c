//! `.env` as python-dotenv reads it for Hermes.
//!
//! Our own reader, because `dotenvy` differs where it hurts: it expands `$NAME` inside values (a password with a
//! dollar sign), refuses spaces in unquoted values, and reads the process environment by itself.

use std::collections::BTreeMap;

use crate::environment::Environment;

/// The variables of a `.env` file.
#[derive(Clone, Default)]
pub(super) struct DotEnv {
    values: BTreeMap<String, String>,
}

impl DotEnv {
    /// Reads the text of a file. `${NAME}` and `${NAME:-default}` inside a value are replaced by an earlier value of
    /// the file or, failing that, by `env`. A line that cannot be read is skipped.
    pub(super) fn parse(text: &str, env: &Environment) -> Self {
        let mut dotenv = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return dotenv;
            }
            match binding(rest) {
                Some(Binding {
                    name,
                    value,
                    rest: after,
                }) => {
                    if let (Some(name), Some(value)) = (name, value) {
                        let value = dotenv.expand(&value, env);
                        dotenv.values.insert(name.to_owned(), value);
                    }
                    rest = after;
                }
                None => rest = rest.find(is_break).map_or("", |end| &rest[end..]),
            }
        }
    }

    /// The value of a variable, also an empty one.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The variables, by name.
    pub(super) fn into_values(self) -> BTreeMap<String, String> {
        self.values
    }

    fn expand(&self, value: &str, env: &Environment) -> String {
        let mut result = String::with_capacity(value.len());
        let mut rest = value;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else {
                break;
            };
            let body = &rest[start + 2..start + length];
            let (name, default) = body.split_once(":-").unwrap_or((body, ""));
            result += &rest[..start];
            if name.contains(':') {
                result += &rest[start..=start + length];
            } else {
                result += self.get(name).or_else(|| env.get(name)).unwrap_or(default);
            }
            rest = &rest[start + length + 1..];
        }
        result + rest
    }
}

/// Names may be public, values never.
impl std::fmt::Debug for DotEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

struct Binding<'t> {
    /// `None` for a comment.
    name: Option<&'t str>,
    /// `None` for a name without `=`.
    value: Option<String>,
    rest: &'t str,
}

fn binding(text: &str) -> Option<Binding<'_>> {
    let text = match text.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => skip_blanks(rest),
        _ => text,
    };
    let (name, text) = name(text)?;
    let text = skip_blanks(text);
    let (value, text) = match text.strip_prefix('=') {
        Some(text) => {
            let (value, text) = value(skip_blanks(text))?;
            (Some(value), text)
        }
        None => (None, text),
    };
    let text = skip_blanks(text);
    let text = if text.starts_with('#') {
        text.trim_start_matches(|c| !is_break(c))
    } else {
        text
    };
    (text.is_empty() || text.starts_with(is_break)).then_some(Binding {
        name,
        value,
        rest: text,
    })
}

fn name(text: &str) -> Option<(Option<&str>, &str)> {
    if text.starts_with('#') {
        return Some((None, text));
    }
    if let Some(quoted) = text.strip_prefix('\'') {
        let (name, rest) = quoted.split_once('\'')?;
        return (!name.is_empty()).then_some((Some(name), rest));
    }
    let end = text
        .find(|c: char| c == '=' || c == '#' || c.is_whitespace())
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!name.is_empty()).then_some((Some(name), rest))
}

fn value(text: &str) -> Option<(String, &str)> {
    match text.chars().next() {
        Some(quote @ ('\'' | '"')) => quoted(&text[1..], quote),
        _ => {
            let (line, rest) = text.split_at(text.find(is_break).unwrap_or(text.len()));
            // A comment needs a space before it; `a#b` is a value.
            let comment = line
                .char_indices()
                .find(|(at, c)| *c == '#' && line[..*at].ends_with(char::is_whitespace))
                .map_or(line.len(), |(at, _)| at);
            Some((line[..comment].trim_end().to_owned(), rest))
        }
    }
}

/// The text up to the closing quote with its escapes undone; it may hold line breaks.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((value, &text[at + 1..]));
        }
        if c != '\\' {
            value.push(c);
            continue;
        }
        let (_, escaped) = chars.next()?;
        match unescape(escaped, quote) {
            Some(c) => value.push(c),
            None => value.extend(['\\', escaped]),
        }
    }
    None
}

fn unescape(c: char, quote: char) -> Option<char> {
    match c {
        '\\' | '\'' => Some(c),
        _ if quote == '\'' => None,
        '"' => Some('"'),
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        _ => None,
    }
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() && !is_break(c))
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against python-dotenv 1.2, which Hermes uses.
    #[test]
    fn files_are_read_as_by_python_dotenv() {
        let env: Environment = [("P", "process")].into_iter().collect();
        for (text, expected) in [
            ("A=b", Some("b")),
            ("\u{feff}A=b\r\n", Some("b")),
            ("export A=b", Some("b")),
            ("  A = b c  # comment", Some("b c")),
            ("A=b#c", Some("b#c")),
            ("A=# c", Some("# c")),
            ("A=", Some("")),
            ("A", None),
            ("# A=b", None),
            ("A='b # c' # d", Some("b # c")),
            ("A=\"b\\n\\t\\\"c\\\"\"", Some("b\n\t\"c\"")),
            ("A='b\\n\\'c'", Some("b\\n'c")),
            ("A=\"two\nlines\"", Some("two\nlines")),
            ("A=pa$$word$x", Some("pa$$word$x")),
            ("A=C:\\dir", Some("C:\\dir")),
            ("A=1\nA=2", Some("2")),
            ("B=1\nA=${B}-${P}-${NONE}-${NONE:-d}", Some("1-process--d")),
            ("A=${NONE", Some("${NONE")),
            ("'A'=b", Some("b")),
            ("A='open\nB=1", None),
            ("what is this\nA=b", Some("b")),
            ("A=\" b \"", Some(" b ")),
        ] {
            assert_eq!(DotEnv::parse(text, &env).get("A"), expected, "{text:?}");
        }
        assert!(!format!("{:?}", DotEnv::parse("A=secret", &env)).contains("secret"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_comes_to_an_end(text in "[a-z='\"\\\\ #${}:\n\r\té-]{0,60}") {
            DotEnv::parse(&text, &Environment::default());
        }
    }
}
