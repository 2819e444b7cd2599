//! The style of text for people, tables, and words that they share.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

pub use federate_kubernetes::finding::{count_with_verb, format_count};

/// The style of text output.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// The width of the terminal in columns; `None` if the text goes elsewhere, where only lists of clusters are folded.
    pub width: Option<usize>,
    /// Whether to use colour.
    pub color: bool,
    /// Whether to name every cluster, on as many lines as needed.
    pub full: bool,
    /// Whether to leave out summaries.
    pub quiet: bool,
}

/// The width, in columns, of text that goes to no terminal.
const DEFAULT_COLUMNS: usize = 80;

impl TextStyle {
    /// The width to which lists are folded.
    pub(super) fn columns(self) -> usize {
        self.width.unwrap_or(DEFAULT_COLUMNS)
    }

    /// The text in a colour.
    pub fn paint_text(self, color: AnsiColor, text: &str) -> String {
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
    pub fn paint_bold(self, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = Style::new().bold();
        format!("{style}{text}{style:#}")
    }
}

/// Writes a table: the first and the last column are left-aligned, the others right-aligned. A row with a text in its last
/// column is red.
pub fn write_table<const N: usize>(
    out: &mut String,
    head: [&str; N],
    rows: &[[String; N]],
    style: TextStyle,
) {
    let mut lines = vec![head];
    lines.extend(rows.iter().map(|row| row.each_ref().map(String::as_str)));
    let widths: [usize; N] =
        std::array::from_fn(|at| lines.iter().map(|cells| cells[at].chars().count()).max().unwrap_or(0));
    for (number, cells) in lines.iter().enumerate() {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let _ = match at {
                0 => write!(line, "{cell:width$}"),
                _ if at + 1 == N => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let line = match cells.last() {
            _ if number == 0 => style.paint_bold(line.trim_end()),
            Some(note) if !note.is_empty() => style.paint_text(AnsiColor::Red, line.trim_end()),
            _ => line.trim_end().to_owned(),
        };
        let _ = writeln!(out, "{line}");
    }
}

/// Writes lines below a title, indented; nothing where there are none.
pub(super) fn write_section(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}
