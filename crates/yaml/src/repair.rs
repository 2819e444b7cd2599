//! Inserts spaces that the parser requires but `kubectl` does not.
//!
//! YAML 1.1 parsers accept lines of a quoted text at any column, and a comment directly after a value.
//! Additional spaces do not change the meaning there, so they are inserted into a text that the parser
//! refuses without them.

use super::events;
use granit_parser::{ErrorKind, ScanError};

/// The largest number of repairs in a text; each parses the text again.
const MAX_REPAIRS: usize = 100;
/// The largest number of bytes that are parsed again for repairs.
const MAX_BYTES: usize = 32 << 20;

/// The number of spaces that would repair an error, if spaces would.
pub(super) fn missing_blanks(error: &ScanError) -> Option<usize> {
    match error.kind() {
        ErrorKind::InvalidQuotedScalarIndent => Some(40),
        ErrorKind::CommentNotSeparated => Some(1),
        _ => None,
    }
}

/// The text with all missing spaces; `None` if there are too many.
pub(super) fn insert_spaces(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for _ in 0..MAX_REPAIRS.min(1 + MAX_BYTES / text.len().max(1)) {
        let Some((at, blanks)) = missing_spaces(&text) else { return Some(text) };
        if !text.is_char_boundary(at) {
            return None;
        }
        text.insert_str(at, &" ".repeat(blanks));
    }
    None
}

fn missing_spaces(text: &str) -> Option<(usize, usize)> {
    let mut parser = events::new_parser(text);
    loop {
        if let Err(error) = parser.next_event()? {
            return Some((error.marker().byte_offset()?, missing_blanks(&error)?));
        }
    }
}
