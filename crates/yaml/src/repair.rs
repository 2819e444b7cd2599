//! Puts blanks where the parser wants them and `kubectl` does not.
//!
//! YAML 1.1 readers let the lines of a quoted text begin at any column and a comment follow a value at
//! once. There blanks change nothing, so a text that the parser refuses for want of them gets them.

use super::events;
use granit_parser::{ErrorKind, ScanError};

/// Places that one text may need repaired; each costs reading the text once more.
const MAX_REPAIRS: usize = 100;
/// Bytes that may be read again for repairs.
const MAX_BYTES: usize = 32 << 20;

/// How many blanks would mend an error, if blanks would.
pub(super) fn blanks(error: &ScanError) -> Option<usize> {
    match error.kind() {
        ErrorKind::InvalidQuotedScalarIndent => Some(40),
        ErrorKind::CommentNotSeparated => Some(1),
        _ => None,
    }
}

/// The text with all the blanks it lacks; `None` if there is no end to them.
pub(super) fn repaired(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for _ in 0..MAX_REPAIRS.min(1 + MAX_BYTES / text.len().max(1)) {
        let Some((at, blanks)) = first_lack(&text) else { return Some(text) };
        if !text.is_char_boundary(at) {
            return None;
        }
        text.insert_str(at, &" ".repeat(blanks));
    }
    None
}

fn first_lack(text: &str) -> Option<(usize, usize)> {
    let mut parser = events::parser(text);
    loop {
        if let Err(error) = parser.next_event()? {
            return Some((error.marker().byte_offset()?, blanks(&error)?));
        }
    }
}
