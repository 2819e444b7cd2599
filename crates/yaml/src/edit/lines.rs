//! Lines of a text, and which comments belong to which value.
//!
//! A comment directly above a key, with the same indentation, belongs to that key. Comments below a value
//! that are indented deeper than its key belong to the value.

use std::ops::Range;

/// The line ending of a text.
pub(super) fn line_ending(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// The start of the line that contains byte `at`.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1)
}

/// The start of the line after the one that contains byte `at`, or the end of the text.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |length| at + length + 1)
}

/// The indentation of the line that contains byte `at`.
pub(super) fn indentation_at(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// The text before `at` on its line, if it is only spaces.
pub(super) fn margin_before(text: &str, at: usize) -> Option<&str> {
    let blanks = indentation_at(text, at);
    (blanks.len() == at - line_start(text, at)).then_some(blanks)
}

/// Whether only spaces precede `at` on its line.
pub(super) fn is_first_on_line(text: &str, at: usize) -> bool {
    text.get(line_start(text, at)..at).is_some_and(|before| before.bytes().all(|b| b == b' '))
}

/// The lines of an entry that starts its line at `span.start`, `column` characters in, with its comments;
/// none above `floor`.
pub(super) fn find_entry_lines(text: &str, span: Range<usize>, column: usize, floor: usize) -> Range<usize> {
    comments_above(text, line_start(text, span.start), column, floor)
        ..comments_below(text, next_line(text, span.end), column)
}

/// The start of the comments directly above the line at `line` with the same indentation.
fn comments_above(text: &str, mut line: usize, column: usize, floor: usize) -> usize {
    while line > floor {
        let previous = line_start(text, line - 1);
        let comment = text.get(previous..line).and_then(comment_column) == Some(column);
        if previous < floor || !comment {
            break;
        }
        line = previous;
    }
    line
}

/// The end of the comments from `line` on that are indented deeper than `column`.
fn comments_below(text: &str, line: usize, column: usize) -> usize {
    let (mut end, mut at) = (line, line);
    while at < text.len() {
        let after = next_line(text, at);
        let Some(line) = text.get(at..after) else { break };
        match comment_column(line) {
            Some(found) if found > column => end = after,
            None if line.trim().is_empty() => {}
            _ => break,
        }
        at = after;
    }
    end
}

/// The column of the comment on a line that contains nothing else.
fn comment_column(line: &str) -> Option<usize> {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    line.get(blanks..)?.starts_with('#').then_some(blanks)
}
