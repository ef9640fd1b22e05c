//! What a plain scalar means to PyYAML, which reads the same file elsewhere: YAML 1.1, so `yes` and `off` are
//! booleans, `0755` is octal, and `22:22` is a number.

use std::sync::LazyLock;

use regex::Regex;

/// A scalar's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    /// An integer in decimal digits, of any size.
    Int(String),
    Float(f64),
    Text,
}

static INT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$",
    )
    .ok()
});
static FLOAT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    )
    .ok()
});

/// The value of a plain scalar. Dates stay text: no key of ours is one.
pub(super) fn plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        _ if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => Scalar::Text,
        _ => int(text).or_else(|| float(text)).unwrap_or(Scalar::Text),
    }
}

/// The value of a scalar with an explicit tag of the core schema; `None` when it does not fit, or the tag is another.
pub(super) fn tagged(tag: &str, text: &str) -> Option<Scalar> {
    match tag {
        "!" | "tag:yaml.org,2002:str" => Some(Scalar::Text),
        "tag:yaml.org,2002:int" => int(text),
        "tag:yaml.org,2002:float" => {
            float(text).or_else(|| text.replace('_', "").parse().ok().map(Scalar::Float))
        }
        "tag:yaml.org,2002:bool" => Some(plain(text)).filter(|value| matches!(value, Scalar::Bool(_))),
        "tag:yaml.org,2002:null" => Some(Scalar::Null),
        _ => None,
    }
}

fn int(text: &str) -> Option<Scalar> {
    if !INT.as_ref()?.is_match(text) {
        return None;
    }
    let digits = text.replace('_', "");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let radix = |digits: &str, radix| i128::from_str_radix(digits, radix).ok().map(|n| n.to_string());
    let number = match digits {
        "0" => "0".to_owned(),
        _ if digits.starts_with("0b") => radix(&digits[2..], 2)?,
        _ if digits.starts_with("0x") => radix(&digits[2..], 16)?,
        _ if digits.starts_with('0') => radix(digits, 8)?,
        _ if digits.contains(':') => {
            let parts = digits.split(':').map(|part| part.parse::<i128>().ok());
            parts
                .into_iter()
                .try_fold(0i128, |total, part| total.checked_mul(60)?.checked_add(part?))?
                .to_string()
        }
        _ => digits.to_owned(),
    };
    let sign = if number == "0" { "" } else { sign };
    Some(Scalar::Int(format!("{sign}{number}")))
}

fn float(text: &str) -> Option<Scalar> {
    if !FLOAT.as_ref()?.is_match(text) {
        return None;
    }
    let lower = text.replace('_', "").to_lowercase();
    let (sign, digits) = match lower.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    let value = match digits {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ if digits.contains(':') => digits
            .split(':')
            .try_fold(0.0, |total, part| Some(total * 60.0 + part.parse::<f64>().ok()?))?,
        _ => digits.parse().ok()?,
    };
    Some(Scalar::Float(sign * value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_compile() {
        assert!(INT.is_some() && FLOAT.is_some());
    }

    #[test]
    fn plain_scalars_are_what_pyyaml_makes_of_them() {
        let int = |n: &str| Scalar::Int(n.into());
        for (text, expected) in [
            ("yes", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("y", Scalar::Text),
            ("tRue", Scalar::Text),
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("nUll", Scalar::Text),
            ("0755", int("493")),
            ("0o755", Scalar::Text),
            ("0x1F", int("31")),
            ("0b101", int("5")),
            ("1_000", int("1000")),
            ("08", Scalar::Text),
            ("-0", int("0")),
            ("+1", int("1")),
            ("22:22", int("1342")),
            ("1:60", Scalar::Text),
            ("12345678901234567890", int("12345678901234567890")),
            ("1e3", Scalar::Text),
            ("1.0e+3", Scalar::Float(1000.0)),
            ("1.", Scalar::Float(1.0)),
            (".5", Scalar::Float(0.5)),
            ("-.5", Scalar::Text),
            (".inf", Scalar::Float(f64::INFINITY)),
            ("12:30:45.5", Scalar::Float(45045.5)),
            ("2024-01-02", Scalar::Text),
            ("0xZZ", Scalar::Text),
            ("8080:80", Scalar::Text),
            (".", Scalar::Text),
            ("-", Scalar::Text),
            ("1,2", Scalar::Text),
            ("${VAR}", Scalar::Text),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
