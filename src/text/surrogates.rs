//! Half an emoji in a JSON text: an escape like `\ud83d` without its other half.

use memchr::memmem;

/// Replaces every unpaired `\uD800` to `\uDFFF` escape by `\ufffd`, in place, and says how many there were.
///
/// A strict JSON reader behind us would drop the whole message for one of them (B17). The two spellings have the same
/// length, so everything else stays where and what it was.
pub fn repair_surrogates(json: &mut [u8]) -> usize {
    let Some(first) = first_suspect(json) else {
        return 0;
    };
    let mut repaired = 0;
    let mut at = first;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let escape = at + found;
        at = escape + 2;
        let Some(unit) = unit_at(json, escape) else {
            continue;
        };
        at = escape + 6;
        match unit {
            0xd800..=0xdbff if matches!(unit_at(json, at), Some(0xdc00..=0xdfff)) => at += 6,
            0xd800..=0xdfff => {
                json[escape + 2..escape + 6].copy_from_slice(b"fffd");
                repaired += 1;
            }
            _ => {}
        }
    }
    repaired
}

/// The first backslash that can matter; none in nearly every message. It is taken back to the start of its run, since
/// `\\ud83d` is a backslash and a word.
fn first_suspect(json: &[u8]) -> Option<usize> {
    let lower = memmem::find(json, b"\\ud");
    let upper = memmem::find(json, b"\\uD");
    let mut at = lower.into_iter().chain(upper).min()?;
    while at > 0 && json[at - 1] == b'\\' {
        at -= 1;
    }
    Some(at)
}

/// The code unit of an escape `\uXXXX` at this place.
fn unit_at(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &str) -> (String, usize) {
        let mut bytes = text.as_bytes().to_vec();
        let count = repair_surrogates(&mut bytes);
        (String::from_utf8(bytes).unwrap(), count)
    }

    #[test]
    fn only_halves_are_replaced() {
        for (text, expected, count) in [
            (r#""cut \ud83d""#, r#""cut \ufffd""#, 1),
            (r#""\uD83D\uDE00 whole""#, r#""\uD83D\uDE00 whole""#, 0),
            (r#""\ude00""#, r#""\ufffd""#, 1),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#, 1),
            (r#""\ud83dx\ude00""#, r#""\ufffdx\ufffd""#, 2),
            (
                r#""a backslash and a word: \\ud83d""#,
                r#""a backslash and a word: \\ud83d""#,
                0,
            ),
            (r#""\\\ud83d""#, r#""\\\ufffd""#, 1),
            (r#""\ud83"#, r#""\ud83"#, 0),
            (r#""é 日本 plain""#, r#""é 日本 plain""#, 0),
        ] {
            assert_eq!(repaired(text), (expected.to_owned(), count), "{text}");
        }
    }

    /// The plain way: every escape in its turn.
    fn reference(text: &str) -> String {
        let mut units: Vec<(usize, u16)> = Vec::new();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] != b'\\' {
                at += 1;
            } else if bytes.get(at + 1) == Some(&b'u') && text.is_char_boundary((at + 6).min(text.len())) {
                let digits = text.get(at + 2..at + 6).unwrap_or("");
                match u16::from_str_radix(digits, 16) {
                    Ok(unit) if digits.len() == 4 && !digits.starts_with('+') => {
                        units.push((at, unit));
                        at += 6;
                    }
                    _ => at += 2,
                }
            } else {
                at += 2;
            }
        }
        let mut out = text.to_owned();
        let mut n = 0;
        while let Some((at, unit)) = units.get(n) {
            let next = units
                .get(n + 1)
                .filter(|(next, _)| *next == at + 6)
                .map(|(_, unit)| *unit);
            let is_high = (0xd800..0xdc00).contains(unit);
            if is_high && next.is_some_and(|unit| (0xdc00..0xe000).contains(&unit)) {
                n += 2;
                continue;
            }
            if (0xd800..0xe000).contains(unit) {
                out.replace_range(at + 2..at + 6, "fffd");
            }
            n += 1;
        }
        out
    }

    proptest::proptest! {
        #[test]
        fn the_quick_way_does_what_the_plain_one_does(text in r#"(\\\\|\\"|\\|\\u[dD][89a-fA-F][0-9a-f]{2}|\\ud8|\\u00[0-9a-f]{2}|u|ud83d|[a-zé" ]){0,30}"#) {
            proptest::prop_assert_eq!(repaired(&text).0, reference(&text));
        }

        /// Afterwards a strict reader takes every string that is JSON otherwise, and what was right is untouched.
        #[test]
        fn a_strict_reader_takes_the_result(body in r#"(\\\\|\\n|\\u[dD][89a-fA-F][0-9a-f]{2}|\\u00[0-9a-f]{2}|[a-z ])*"#) {
            let text = format!("\"{body}\"");
            let was_right = serde_json::from_str::<String>(&text).ok();
            let (result, count) = repaired(&text);
            let read = serde_json::from_str::<String>(&result);
            proptest::prop_assert!(read.is_ok(), "{} -> {}", text, result);
            if was_right.is_some() {
                proptest::prop_assert_eq!((result, count), (text, 0));
            }
        }
    }
}
