//! Colours, or none.

use anstyle::{AnsiColor, Effects};

/// Whether text is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    color: bool,
}

/// What a piece of text is, for the eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Style {
    /// No colours: files, pipes, `NO_COLOR`, `--color never`.
    pub(crate) const PLAIN: Self = Self { color: false };
    /// Colours.
    pub(crate) const COLORED: Self = Self { color: true };

    pub(crate) fn paint(self, text: &str, paint: Paint) -> String {
        let style = match paint {
            Paint::Plain => return text.to_owned(),
            Paint::Bold => anstyle::Style::new().effects(Effects::BOLD),
            Paint::Dim => anstyle::Style::new().effects(Effects::DIMMED),
            Paint::Good => AnsiColor::Green.on_default(),
            Paint::Warn => AnsiColor::Yellow.on_default(),
            Paint::Bad => AnsiColor::Red.on_default(),
        };
        if self.color && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint(text, Paint::Bold)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(text, Paint::Dim)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint(text, Paint::Good)
    }

    pub(crate) fn warn(self, text: &str) -> String {
        self.paint(text, Paint::Warn)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(text, Paint::Bad)
    }
}
