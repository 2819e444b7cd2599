//! Lines of a text, and which comment lines belong to which value.
//!
//! A comment right above a key, with the same indentation, is about that key. Comments below a value that
//! are indented more than its key are part of the value.

use std::ops::Range;

/// How a text ends its lines.
pub(super) fn eol(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// Where the line begins that holds byte `at`.
pub(super) fn start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1)
}

/// Where the line after the one that holds byte `at` begins, or the text ends.
pub(super) fn next(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |length| at + length + 1)
}

/// The blanks that begin the line of byte `at`.
pub(super) fn blanks(text: &str, at: usize) -> &str {
    let line = text.get(start(text, at)..at).unwrap_or_default();
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// What stands before `at` on its line, if those are only blanks.
pub(super) fn margin(text: &str, at: usize) -> Option<&str> {
    let blanks = blanks(text, at);
    (blanks.len() == at - start(text, at)).then_some(blanks)
}

/// Whether only blanks stand before `at` on its line.
pub(super) fn leads(text: &str, at: usize) -> bool {
    text.get(start(text, at)..at).is_some_and(|before| before.bytes().all(|b| b == b' '))
}

/// The lines of an entry that begins its line at `span.start`, `column` characters in, with the comments
/// that belong to it; none of those above `floor`.
pub(super) fn of_entry(text: &str, span: Range<usize>, column: usize, floor: usize) -> Range<usize> {
    above(text, start(text, span.start), column, floor)..below(text, next(text, span.end), column)
}

/// Where the comments begin that stand right above the line at `line` with the same indentation.
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

/// Where the comments end that stand from `line` on and are indented more than `column`.
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

/// The column of a line's comment, when it has nothing else.
fn comment_column(line: &str) -> Option<usize> {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    line.get(blanks..)?.starts_with('#').then_some(blanks)
}
