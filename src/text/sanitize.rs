//! Text of others on our terminals and in our logs: no escape sequences, nothing invisible (S-11).

use std::borrow::Cow;

/// Text for a terminal, a log or a model, possibly of several lines: keeps newline and tab, drops escape sequences,
/// control characters, bidirectional controls, zero-width and tag characters.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    clean(text, true)
}

/// The same on one line: newline and tab become spaces.
pub fn one_line(text: &str) -> Cow<'_, str> {
    clean(text, false)
}

/// At most `limit` bytes, cut between characters, with `…` where something is missing and there is room for it.
pub fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    match limit.checked_sub(MARK.len()) {
        Some(room) => Cow::Owned(format!("{}{MARK}", &text[..text.floor_char_boundary(room)])),
        None => Cow::Borrowed(&text[..text.floor_char_boundary(limit)]),
    }
}

/// What `truncate` puts at the end.
const MARK: &str = "…";
/// Characters of the longest escape sequence with a text in it (a window's title, a link). What goes on for longer
/// is no sequence: nobody can hide a whole message in one.
const LONGEST_SEQUENCE: usize = 2_048;

fn clean(text: &str, has_lines: bool) -> Cow<'_, str> {
    let is_kept = |c| has_lines && matches!(c, '\n' | '\t');
    if !text.chars().any(|c| is_unwanted(c) && !is_kept(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut rest),
            // The same openings as one 8-bit character.
            '\u{9b}' => skip_control_sequence(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut rest),
            '\u{2028}' | '\u{2029}' if has_lines => out.push('\n'),
            '\n' | '\t' | '\r' | '\u{2028}' | '\u{2029}' if !has_lines && !out.ends_with(' ') => {
                out.push(' ')
            }
            '\u{fe0e}' | '\u{fe0f}' | '\u{200d}'
                if shapes_an_emoji(c, out.chars().next_back(), rest.clone().next()) =>
            {
                out.push(c);
            }
            _ if is_kept(c) || !is_unwanted(c) => out.push(c),
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// Whether a character is one that a reader does not see or that moves what he sees. Some of them are right between
/// emoji.
fn is_unwanted(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'                   // C0, DEL, C1
        | '\u{61c}' | '\u{200e}' | '\u{200f}'                   // bidirectional marks,
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'     // overrides and isolates
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}'     // zero width
        | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{180b}'..='\u{180f}'
        | '\u{ad}' | '\u{34f}' | '\u{17b4}' | '\u{17b5}'        // others without a shape
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'
        | '\u{fe00}'..='\u{fe0f}'                               // variation selectors: a run of them is a message
        | '\u{2028}' | '\u{2029}'                               // line and paragraph separators
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}') // tags, and selectors nobody uses
}

/// A joiner between two emoji makes one of them; a selector after a character says whether it is text or a picture.
fn shapes_an_emoji(c: char, before: Option<char>, after: Option<char>) -> bool {
    match c {
        '\u{200d}' => before.is_some_and(is_emoji) && after.is_some_and(is_emoji),
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(|before| {
            (is_emoji(before) && before != '\u{fe0f}') || matches!(before, '0'..='9' | '#' | '*' | '©' | '®')
        }),
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// After ESC: a control sequence, a string that ends with BEL or ST, or intermediate characters and a final one.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.clone().next() {
        Some('[') => {
            rest.next();
            skip_control_sequence(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        _ => {
            skip_while(rest, |c| matches!(c, ' '..='/'));
            skip_one(rest, |c| matches!(c, '0'..='~'));
        }
    }
}

/// Parameters, intermediates, one final character.
fn skip_control_sequence(rest: &mut std::str::Chars<'_>) {
    skip_while(rest, |c| matches!(c, ' '..='?'));
    skip_one(rest, |c| matches!(c, '@'..='~'));
}

/// Up to BEL or ST, on the same line and not too far. Without that end only the opening was dropped. Every look ahead
/// ends at the next ESC, so that many openings cost no more than one.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    for _ in 0..LONGEST_SEQUENCE {
        let is_end = match ahead.next() {
            Some('\u{7}' | '\u{9c}') => true,
            Some('\u{1b}') if ahead.clone().next() == Some('\\') => ahead.next().is_some(),
            None | Some('\u{1b}' | '\n' | '\r' | '\u{80}'..='\u{9f}') => return,
            Some(_) => false,
        };
        if is_end {
            *rest = ahead;
            return;
        }
    }
}

fn skip_while(rest: &mut std::str::Chars<'_>, wanted: impl Fn(char) -> bool) {
    while skip_one(rest, &wanted) {}
}

fn skip_one(rest: &mut std::str::Chars<'_>, wanted: impl Fn(char) -> bool) -> bool {
    let is_wanted = rest.clone().next().is_some_and(wanted);
    if is_wanted {
        rest.next();
    }
    is_wanted
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
            (
                "charset\u{1b}(B, save\u{1b}7 and keys\u{1b}=",
                "charset, save and keys",
            ),
            ("8-bit \u{9d}0;title\u{9c}end", "8-bit end"),
            ("\u{1b}]0;title\nnext line\u{7}", "0;title\nnext line"),
            ("\u{1b}", ""),
            ("selectors a\u{fe0f}b\u{fe00}", "selectors ab"),
            (
                "heart ❤\u{fe0f}\u{fe0f}\u{fe0f} and 1\u{fe0f}\u{20e3}",
                "heart ❤\u{fe0f} and 1\u{fe0f}\u{20e3}",
            ),
            ("rainbow 🏳\u{fe0f}\u{200d}🌈", "rainbow 🏳\u{fe0f}\u{200d}🌈"),
            ("filler\u{3164}\u{ad}\u{34f}", "filler"),
            ("line\u{2028}line", "line\nline"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("family 👨\u{200d}👩", "family 👨\u{200d}👩"),
            ("not a family a\u{200d}b", "not a family ab"),
        ] {
            assert_eq!(sanitize(text), expected, "{text:?}");
        }
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\r\nb\n\n\tc\u{2028}d"), "a b c d");
        assert!(matches!(one_line("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn cutting_keeps_characters_whole() {
        assert_eq!(truncate("short", 10), "short");
        assert_eq!(truncate("0123456789ab", 10), "0123456…");
        assert_eq!(truncate("ééééééé", 8), "éé…");
        assert_eq!(
            (truncate("éé", 3).as_ref(), truncate("éé", 2).as_ref()),
            ("…", "é")
        );
        assert_eq!(truncate("abc", 0), "");
    }

    /// Looking for the end of each of many openings takes no quadratic time: this would take minutes.
    #[test]
    fn openings_without_an_end_cost_little() {
        for opening in ["\u{1b}]", "\u{9d}", "\u{1b}]x", "\u{9d}["] {
            let clean = sanitize(&opening.repeat(1 << 19)).len();
            assert!(clean <= 1 << 19, "{opening:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_escape_and_no_tag_survives(text in "\\PC*|[\\x00-\\x7f\u{80}-\u{9f}\u{202e}\u{e0041}\\[\\]m;]*") {
            let clean = one_line(&text).into_owned();
            let is_bad = clean
                .chars()
                .any(|c| c.is_control() || is_unwanted(c) && !matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}'));
            proptest::prop_assert!(!is_bad, "{:?}", clean);
            proptest::prop_assert_eq!(one_line(&clean), clean.as_str());
        }
    }
}
