//! The byte positions of all parts of a document.
//!
//! Unlike the positions for messages, these do not follow aliases or merge keys: they refer to the text
//! itself.

use crate::events::{self, MAX_DEPTH};
use crate::positions;
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, StructureStyle};
use std::ops::Range;

/// A value in the text.
#[derive(Debug)]
pub(super) struct TextNode {
    /// Its bytes: those of the lines of a block scalar, and for a block collection from its first key or dash
    /// to the end of its last value. Empty if the value is not written.
    pub(super) span: Range<usize>,
    /// The number of characters before it on its line.
    pub(super) column: usize,
    /// Whether a tag or an anchor precedes it.
    pub(super) adorned: bool,
    pub(super) kind: NodeKind,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Scalar(ScalarStyle),
    Alias,
    Sequence { flow: bool, items: Vec<TextNode> },
    Mapping { flow: bool, entries: Vec<MappingEntry> },
}

/// A key with its value.
#[derive(Debug)]
pub(super) struct MappingEntry {
    /// The key as JSON; `None` for a merge key.
    pub(super) key: Option<String>,
    /// The bytes of the key as written.
    pub(super) span: Range<usize>,
    /// Whether the key is in double quotes.
    pub(super) quoted: bool,
    /// The end of its `:`; `None` if it has none, or not directly after the key.
    pub(super) colon: Option<usize>,
    pub(super) value: TextNode,
}

impl MappingEntry {
    /// The end of the entry.
    pub(super) fn end_offset(&self) -> usize {
        self.span.end.max(self.colon.unwrap_or(0)).max(self.value.span.end)
    }

    /// Whether a value is written at all.
    pub(super) fn has_text(&self) -> bool {
        !self.value.span.is_empty()
    }
}

/// The root of document number `nth` of a text; `None` if positions cannot be determined.
pub(super) fn read_tree(text: &str, nth: usize) -> Option<TextNode> {
    let mut reader = Reader { text, parser: events::new_parser(text), depth: 0 };
    for _ in 0..=nth {
        while !matches!(reader.parser.next_event()?.ok()?.0, Event::DocumentStart(..)) {}
    }
    let (event, span) = events::next_event(&mut reader.parser)?;
    reader.read_node(&event, &span)
}

struct Reader<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn read_node(&mut self, event: &Event<'a>, span: &Span) -> Option<TextNode> {
        let mut start = span.start.byte_offset()?;
        let mut end = span.end.byte_offset()?;
        self.depth += 1;
        if self.depth > MAX_DEPTH + 1 {
            return None;
        }
        let (kind, tagged) = match event {
            Event::Scalar(value, style, _, tag) => {
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                    Range { start, end } = trim_block(self.text, start..end, value)?;
                }
                (NodeKind::Scalar(*style), tag.is_some())
            }
            Event::Alias(_) => (NodeKind::Alias, false),
            Event::SequenceStart(style, _, tag) => {
                let (items, last) = self.read_sequence()?;
                let flow = *style == StructureStyle::Flow;
                end = if flow { last } else { items.last().map_or(end, |item| item.span.end) };
                (NodeKind::Sequence { flow, items }, tag.is_some())
            }
            Event::MappingStart(style, _, tag) => {
                let (entries, last) = self.read_mapping()?;
                let flow = *style == StructureStyle::Flow;
                end = if flow { last } else { entries.last().map_or(end, MappingEntry::end_offset) };
                (NodeKind::Mapping { flow, entries }, tag.is_some())
            }
            _ => return None,
        };
        self.depth -= 1;
        let anchored = !matches!(event, Event::Alias(_)) && event.anchor_id().is_some();
        Some(TextNode {
            span: start..end.max(start),
            column: span.start.col(),
            adorned: tagged || anchored,
            kind,
        })
    }

    fn read_sequence(&mut self) -> Option<(Vec<TextNode>, usize)> {
        let mut items = Vec::new();
        loop {
            match events::next_event(&mut self.parser)? {
                (Event::SequenceEnd, span) => return Some((items, span.end.byte_offset()?)),
                (event, span) => items.push(self.read_node(&event, &span)?),
            }
        }
    }

    fn read_mapping(&mut self) -> Option<(Vec<MappingEntry>, usize)> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = events::next_event(&mut self.parser)?;
            let (key, quoted) = match &event {
                Event::MappingEnd => return Some((entries, span.end.byte_offset()?)),
                Event::Scalar(text, style, _, tag) => (
                    positions::resolve_key(text, *style, tag.as_deref())?,
                    *style == ScalarStyle::DoubleQuoted,
                ),
                _ => return None,
            };
            let span = self.read_node(&event, &span)?.span;
            let (event, value) = events::next_event(&mut self.parser)?;
            let value = self.read_node(&event, &value)?;
            let colon = find_colon(self.text, span.end);
            entries.push(MappingEntry { key, span, quoted, colon, value });
        }
    }
}

/// The end of the `:` after `from` on the same line.
fn find_colon(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    rest.get(blanks..)?.starts_with(':').then_some(from + blanks + 1)
}

/// The bytes of a block scalar without the blank lines after it, unless they are part of the value.
fn trim_block(text: &str, span: Range<usize>, value: &str) -> Option<Range<usize>> {
    let body = text.get(span.clone())?;
    let keeps = value.ends_with("\n\n") || (!value.is_empty() && value.bytes().all(|b| b == b'\n'));
    let body = if keeps {
        let body = body.trim_end_matches([' ', '\t']);
        let body = body.strip_suffix('\n').unwrap_or(body);
        body.strip_suffix('\r').unwrap_or(body)
    } else {
        body.trim_end()
    };
    if body.is_empty() {
        // Only the header is written.
        let end = text.get(..span.start)?.trim_end().len();
        return Some(end.checked_sub(1)?..end);
    }
    Some(span.start..span.start + body.len())
}
