//! Text of others on our terminals and in our logs: no escape sequences, nothing invisible (S-11).

use std::borrow::Cow;

/// Text for a terminal or a log, possibly of several lines: keeps newline and tab, drops escape sequences, control
/// characters, bidirectional controls, zero-width and tag characters.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    clean(text, |character| matches!(character, '\n' | '\t'))
}

/// The same on one line: newline and tab become spaces.
pub fn one_line(text: &str) -> Cow<'_, str> {
    clean(text, |_| false)
}

/// At most `limit` bytes, cut between characters, with `…` where something is missing.
pub fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(limit.saturating_sub('…'.len_utf8()));
    Cow::Owned(format!("{}…", &text[..end]))
}

fn clean(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text
        .chars()
        .any(|character| is_unwanted(character) && !keep(character))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut rest),
            // A sequence can also begin with one 8-bit character.
            '\u{9b}' => skip_until_final(&mut rest),
            _ if !is_unwanted(character) || keep(character) => out.push(character),
            '\n' | '\t' | '\r' if !out.ends_with(' ') => out.push(' '),
            // Between two emoji it makes one of them: a family, a flag.
            '\u{200d}'
                if out.chars().next_back().is_some_and(is_emoji)
                    && rest.clone().next().is_some_and(is_emoji) =>
            {
                out.push(character);
            }
            _ => {}
        }
    }
    Cow::Owned(out)
}

fn is_unwanted(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'          // C0, DEL, C1
        | '\u{ad}'                                     // soft hyphen
        | '\u{61c}' | '\u{200e}' | '\u{200f}'          // bidirectional marks
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}'
        | '\u{2028}' | '\u{2029}'                      // line and paragraph separators
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}') // tags, and variation selectors nobody sees
}

fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// After ESC: CSI ends with a final byte, OSC and its kin with BEL or ST, the others are two characters.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.clone().next() {
        Some('[') => {
            rest.next();
            skip_until_final(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let mut ahead = rest.clone();
            let mut last = ' ';
            while let Some(character) = ahead.next() {
                let is_end =
                    matches!(character, '\u{7}' | '\u{9c}') || (last == '\u{1b}' && character == '\\');
                if is_end {
                    *rest = ahead;
                    return;
                }
                last = character;
            }
            // Without an end it is no sequence: only its beginning goes, so that nobody can hide a whole text.
            rest.next();
        }
        Some('\u{20}'..='\u{7e}') => {
            rest.next();
        }
        _ => {}
    }
}

fn skip_until_final(rest: &mut std::str::Chars<'_>) {
    while let Some('\u{20}'..='\u{3f}') = rest.clone().next() {
        rest.next();
    }
    if let Some('\u{40}'..='\u{7e}') = rest.clone().next() {
        rest.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_trick_is_dropped() {
        for (text, expected) in [
            ("plain é 日本 😀", "plain é 日本 😀"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]no end", "no end"),
            ("\u{9b}31mred", "red"),
            ("bell\u{7} back\u{8}space del\u{7f}", "bell backspace del"),
            ("rtl\u{202e}evil\u{2069}", "rtlevil"),
            ("zero\u{200b}width\u{feff}", "zerowidth"),
            ("tags\u{e0041}\u{e0042}", "tags"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("family 👨\u{200d}👩", "family 👨\u{200d}👩"),
            ("not a family a\u{200d}b", "not a family ab"),
        ] {
            assert_eq!(sanitize(text), expected, "{text:?}");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\r\nb\n\n\tc\u{2028}d"), "a b cd");
        assert!(matches!(one_line("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn cutting_keeps_characters_whole() {
        assert_eq!(truncate("short", 10), "short");
        assert_eq!(truncate("0123456789ab", 10), "0123456…");
        assert_eq!(truncate("ééééééé", 8), "éé…");
    }

    proptest::proptest! {
        #[test]
        fn no_escape_and_no_tag_survives(text in "\\PC*|[\\x00-\\x7f\u{80}-\u{9f}\u{202e}\u{e0041}\\[\\]m;]*") {
            let clean = one_line(&text).into_owned();
            let is_bad = clean.chars().any(|c| c.is_control() || is_unwanted(c) && c != '\u{200d}');
            proptest::prop_assert!(!is_bad, "{:?}", clean);
            proptest::prop_assert_eq!(one_line(&clean), clean.as_str());
        }
    }
}
