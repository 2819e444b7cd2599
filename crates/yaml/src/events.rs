//! The parser's events: limits, positions, and merge keys.

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::{Position, tag};

/// The deepest allowed nesting of collections.
pub(super) const MAX_DEPTH: usize = 512;

/// The events of a text.
pub(super) fn new_parser(text: &str) -> Parser<'_, StrInput<'_>> {
    Parser::new_from_str_with_options(text, parser_options())
}

fn parser_options() -> granit_parser::Options {
    granit_parser::options! {
        emit_comments: false,
        emit_anchor_events: true,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    }
}

/// The next event that is not an anchor; `None` at the end and after a syntax error.
pub(super) fn next_event<'a>(parser: &mut Parser<'a, StrInput<'a>>) -> Option<(Event<'a>, Span)> {
    loop {
        match parser.next_event()?.ok()? {
            (Event::Anchor(..), _) => {}
            event => return Some(event),
        }
    }
}

/// Converts the parser's position (line from 1, column from 0) to one in the whole file.
pub(super) fn to_position(first_line: u32, line: usize, column: usize) -> Position {
    Position {
        line: first_line.saturating_add(u32::try_from(line).unwrap_or(u32::MAX)),
        column: u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1),
    }
}

/// Whether a scalar is a merge key.
pub(super) fn is_merge(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    text == "<<"
        && match tag {
            None => style == ScalarStyle::Plain,
            Some(tag) => {
                (tag.handle().is_empty() && tag.suffix() == "!")
                    || (tag.handle() == "!" && tag.suffix().is_empty())
                    || tag::core_name(tag).as_deref() == Some("merge")
            }
        }
}
