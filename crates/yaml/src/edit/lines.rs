//! The lines of a text, and the comments that belong to a value.
//!
//! A comment directly above a key, with the same indentation, belongs to the key. Comments below a value that are
//! indented more than its key belong to the value.

use std::ops::Range;

/// Returns the line ending of a text.
pub(super) fn eol(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// Returns the offset of the line that contains byte `at`.
pub(super) fn start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1)
}

/// Returns the offset of the line after the one that contains byte `at`, or of the end of the text.
pub(super) fn next(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |length| at + length + 1)
}

/// Returns the leading blanks of the line of byte `at`.
pub(super) fn blanks(text: &str, at: usize) -> &str {
    let line = text.get(start(text, at)..at).unwrap_or_default();
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// Returns the text before `at` on its line, if it is only blanks.
pub(super) fn margin(text: &str, at: usize) -> Option<&str> {
    let blanks = blanks(text, at);
    (blanks.len() == at - start(text, at)).then_some(blanks)
}

/// Whether there are only spaces before `at` on its line.
pub(super) fn leads(text: &str, at: usize) -> bool {
    text.get(start(text, at)..at).is_some_and(|before| before.bytes().all(|b| b == b' '))
}

/// Returns the lines of an entry, which begins a line at `span.start` and has `column` characters before it, with its
/// comments below `floor`.
pub(super) fn of_entry(text: &str, span: Range<usize>, column: usize, floor: usize) -> Range<usize> {
    above(text, start(text, span.start), column, floor)..below(text, next(text, span.end), column)
}

/// Returns the offset of the comments directly above `line` with the same indentation.
fn above(text: &str, mut line: usize, column: usize, floor: usize) -> usize {
    while line > floor {
        let previous = start(text, line - 1);
        let comment = text.get(previous..line).and_then(comment_column) == Some(column);
        if previous < floor || !comment {
            break;
        }
        line = previous;
    }
    line
}

/// Returns the end of the comments from `line` on that are indented more than `column`.
fn below(text: &str, line: usize, column: usize) -> usize {
    let (mut end, mut at) = (line, line);
    while at < text.len() {
        let after = next(text, at);
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

/// Returns the column of the comment of a line that has only a comment.
fn comment_column(line: &str) -> Option<usize> {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    line.get(blanks..)?.starts_with('#').then_some(blanks)
}
