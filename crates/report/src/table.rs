//! The style of text for people, and words that tables share.

use anstyle::{AnsiColor, Style};

/// The style of text output.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// The width of the terminal in columns; `None` if the text goes elsewhere, where nothing is cut.
    pub width: Option<usize>,
    /// Whether to use colour.
    pub color: bool,
    /// Whether to name every cluster, on as many lines as needed.
    pub full: bool,
    /// Whether to leave out summaries.
    pub quiet: bool,
}

impl TextStyle {
    /// The text in a colour.
    pub(super) fn paint_text(self, color: AnsiColor, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = Style::new().fg_color(Some(color.into()));
        format!("{style}{text}{style:#}")
    }

    /// The text in the colour of chosen clusters.
    pub(super) fn paint_chosen(self, text: &str) -> String {
        self.paint_text(AnsiColor::Green, text)
    }

    /// The text in bold.
    pub(super) fn paint_bold(self, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = Style::new().bold();
        format!("{style}{text}{style:#}")
    }
}

/// `1 object is`, `2 objects are`
pub(crate) fn count_with_verb(number: usize, noun: &str, [singular, plural]: [&str; 2]) -> String {
    format!("{} {}", format_count(number, noun), if number == 1 { singular } else { plural })
}

/// `1 object`, `2 objects`
pub fn format_count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
