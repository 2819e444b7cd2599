//! Inserts blanks that the parser requires and `kubectl` does not.
//!
//! In YAML 1.1, the lines of a quoted scalar may begin at any column, and a comment may follow a value without a
//! blank. Blanks do not change the meaning there, so they are inserted into a text that the parser rejects without
//! them.

use super::events;
use granit_parser::{ErrorKind, ScanError};

/// The number of repairs of one text. Each of them requires reading the text again.
const MAX_REPAIRS: usize = 100;
/// The total number of bytes that are read again for repairs.
const MAX_BYTES: usize = 32 << 20;

/// Returns the number of blanks that fix an error. `None` if blanks do not fix it.
pub(super) fn blanks(error: &ScanError) -> Option<usize> {
    match error.kind() {
        ErrorKind::InvalidQuotedScalarIndent => Some(40),
        ErrorKind::CommentNotSeparated => Some(1),
        _ => None,
    }
}

/// Returns the text with all missing blanks. `None` if there are too many.
pub(super) fn repaired(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for _ in 0..MAX_REPAIRS.min(1 + MAX_BYTES / text.len().max(1)) {
        let Some((at, blanks)) = first_missing(&text) else { return Some(text) };
        if !text.is_char_boundary(at) {
            return None;
        }
        text.insert_str(at, &" ".repeat(blanks));
    }
    None
}

/// Returns the offset and the number of the first missing blanks.
fn first_missing(text: &str) -> Option<(usize, usize)> {
    let mut parser = events::parser(text);
    loop {
        if let Err(error) = parser.next_event()? {
            return Some((error.marker().byte_offset()?, blanks(&error)?));
        }
    }
}
