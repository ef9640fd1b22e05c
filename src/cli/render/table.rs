//! Aligned columns and wrapped paragraphs, measured in terminal cells (a CJK character takes two).

use unicode_width::UnicodeWidthStr;

use super::style::{Paint, Style};

/// One cell.
pub(crate) struct Cell {
    text: String,
    paint: Paint,
    right: bool,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, paint: Paint) -> Self {
        Self {
            text: text.into(),
            paint,
            right: false,
        }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Paint::Plain)
    }

    /// A number: aligned to the right.
    pub(crate) fn number(number: u64) -> Self {
        Self {
            right: true,
            ..Self::plain(number.to_string())
        }
    }
}

/// Cells that a text takes on a terminal.
fn width(text: &str) -> usize {
    text.width()
}

/// Rows as aligned columns, two spaces apart, each line led by `indent`. Nothing is cut: a name must stay usable.
pub(crate) fn table(rows: &[Vec<Cell>], indent: &str, style: Style) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(indent);
        for (column, (cell, column_width)) in row.iter().zip(&widths).enumerate() {
            if column > 0 {
                line.push_str("  ");
            }
            let padding = " ".repeat(column_width - width(&cell.text));
            let painted = style.paint(&cell.text, cell.paint);
            if cell.right {
                line.push_str(&padding);
                line.push_str(&painted);
            } else {
                line.push_str(&painted);
                line.push_str(&padding);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Breaks a paragraph at spaces so that no line is wider than `columns`, unless a single word is.
pub(crate) fn wrap(paragraph: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_cells() {
        let rows = [
            vec![Cell::plain("名前"), Cell::number(7), Cell::plain("a")],
            vec![Cell::plain("x"), Cell::number(1234), Cell::plain("b")],
        ];
        assert_eq!(table(&rows, "", Style::PLAIN), "名前     7  a\nx     1234  b\n");
    }

    #[test]
    fn colours_do_not_move_columns_and_lines_have_no_trailing_space() {
        let rows = |paint| {
            [
                vec![Cell::new("up", paint), Cell::plain("")],
                vec![Cell::plain("down"), Cell::plain("x")],
            ]
        };
        let painted = table(&rows(Paint::Good), "", Style::COLORED);
        let plain = table(&rows(Paint::Good), "", Style::PLAIN);
        assert_eq!(
            anstream::adapter::strip_str(&painted).to_string(),
            "up\ndown  x\n"
        );
        assert_eq!(plain, "up\ndown  x\n");
        assert!(painted.contains("\u{1b}[32mup\u{1b}[0m"), "{painted:?}");
    }

    #[test]
    fn wrapping_keeps_every_word() {
        assert_eq!(wrap("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("averyveryverylongword b", 5), ["averyveryverylongword", "b"]);
        assert!(wrap("  ", 5).is_empty());
    }
}
