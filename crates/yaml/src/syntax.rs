//! Readable messages for syntax errors.

use super::events::MAX_DEPTH;
use granit_parser::{ErrorKind, ScanError};

/// The message for a syntax error; other errors keep the parser's message.
pub(super) fn syntax_message(error: &ScanError) -> String {
    let text = match error.kind() {
        ErrorKind::RecursionLimitExceeded => {
            return format!("collections are nested deeper than {MAX_DEPTH} levels here");
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            return format!("the `{open}` that opens here is never closed");
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return format!("`{close}` closes a collection that `{open}` opened");
        }
        ErrorKind::UnexpectedCharacter { character } => {
            return format!("a value cannot start with `{character}`: quote it");
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "`:` cannot stand here: quote the value if it is text, or check the indentation"
        }
        ErrorKind::BlockSequenceEntryNotAllowed | ErrorKind::BlockEntryInFlowCollection => {
            "a list item (`- `) cannot begin here: put it on its own line, or quote it if it is text"
        }
        ErrorKind::ExpectedBlockMappingKey => "a key is missing here: check the indentation",
        ErrorKind::ExpectedBlockSequenceEntry => "a list item (`- `) is missing here: check the indentation",
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            "this line is neither `key: value` nor a continuation: a `:` is missing, or the indentation is wrong"
        }
        ErrorKind::ExpectedFlowMappingSeparator => "`,` or `}` is missing here",
        ErrorKind::ExpectedFlowSequenceSeparator => "`,` or `]` is missing here",
        ErrorKind::UnclosedQuotedScalar => "this quote is never closed",
        ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation | ErrorKind::TabNotAllowed => {
            "a tab cannot indent: use spaces"
        }
        ErrorKind::UnknownQuotedScalarEscape => {
            "this escape does not exist: write `\\\\` for a backslash, or use single quotes"
        }
        ErrorKind::UnknownAnchor => "this alias has no anchor before it",
        ErrorKind::UndeclaredTagHandle => "this tag's handle is not declared by a `%TAG` directive",
        ErrorKind::InvalidBlockScalarIndent => "this line is indented less than the block of text around it",
        ErrorKind::ExpectedDocumentStart => {
            "this does not belong to the document above: check the indentation"
        }
        _ => return error.info(),
    };
    text.to_owned()
}
