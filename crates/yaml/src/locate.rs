//! Finds the position of the value at a JSON pointer, for messages.
//!
//! The document is parsed again into a tree of positions. Aliases and merge keys are followed, so that the
//! position is where the value is written, not where it is repeated.

use super::events::{self, MAX_DEPTH};
use super::stream::{self, Chunk};
use super::{Position, Stream, json, repair, scalar, tag};
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::collections::BTreeMap;

/// The largest number of merge keys that one search follows.
const MAX_MERGES: u32 = 10_000;

/// See [`super::locate`] and, with `nearest`, [`super::locate_nearest`].
pub(super) fn locate(bytes: &[u8], index: u32, pointer: &str, nearest: bool) -> Option<Position> {
    let mut next = 0;
    for chunk in stream::chunks(bytes) {
        let first = next;
        stream::read_chunk(&chunk, &mut next, &mut Stream::default());
        if index < next {
            return locate_in(&chunk, index - first, pointer, nearest);
        }
    }
    None
}

fn locate_in(chunk: &Chunk<'_>, nth: u32, pointer: &str, nearest: bool) -> Option<Position> {
    let text = stream::text(chunk).ok()?;
    let nth = usize::try_from(nth).ok()?;
    let (text, first_line, nth) = match json::read(text) {
        Some(values) => {
            let (start, _) = values.get(nth)?;
            let end = values.get(nth + 1).map_or(text.len(), |(start, _)| *start);
            (text.get(*start..end)?, chunk.first_line + stream::lines(text.get(..*start)?.as_bytes()), 0)
        }
        None => (text, chunk.first_line, nth),
    };
    let text = repair::repaired(text)?;
    let mut tree = Tree::new(&text, first_line);
    for _ in 0..=nth {
        while !matches!(tree.parser.next_event()?.ok()?.0, Event::DocumentStart(..)) {}
    }
    let (event, span) = tree.event()?;
    let root = tree.node(&event, &span)?;
    tree.follow(root, pointer, nearest)
}

/// The nodes of a document, by index.
struct Tree<'a> {
    parser: Parser<'a, StrInput<'a>>,
    first_line: u32,
    nodes: Vec<Node>,
    /// The node of each anchor.
    anchors: BTreeMap<usize, usize>,
    depth: usize,
    merges: u32,
}

struct Node {
    at: Position,
    kind: Kind,
}

enum Kind {
    Scalar,
    Alias(usize),
    Sequence(Vec<usize>),
    Mapping(Vec<Entry>),
}

struct Entry {
    /// `None` for a merge key.
    key: Option<String>,
    at: Position,
    value: usize,
}

impl<'a> Tree<'a> {
    fn new(text: &'a str, first_line: u32) -> Self {
        Self {
            parser: events::parser(text),
            first_line,
            nodes: Vec::new(),
            anchors: BTreeMap::new(),
            depth: 0,
            merges: 0,
        }
    }

    fn event(&mut self) -> Option<(Event<'a>, Span)> {
        loop {
            match self.parser.next_event()?.ok()? {
                (Event::Anchor(..), _) => {}
                event => return Some(event),
            }
        }
    }

    fn position(&self, span: &Span) -> Position {
        events::position(self.first_line, span.start.line(), span.start.col())
    }

    fn node(&mut self, event: &Event<'a>, span: &Span) -> Option<usize> {
        let number = self.nodes.len();
        self.nodes.push(Node { at: self.position(span), kind: Kind::Scalar });
        if let Some(anchor) = event.anchor_id() {
            self.anchors.insert(anchor, number);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH + 1 {
            return None;
        }
        let kind = match event {
            Event::Alias(anchor) => Kind::Alias(*self.anchors.get(anchor)?),
            Event::SequenceStart(..) => self.sequence()?,
            Event::MappingStart(..) => self.mapping()?,
            _ => Kind::Scalar,
        };
        self.depth -= 1;
        self.nodes.get_mut(number)?.kind = kind;
        Some(number)
    }

    fn sequence(&mut self) -> Option<Kind> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Some(Kind::Sequence(items)),
                (event, span) => items.push(self.node(&event, &span)?),
            }
        }
    }

    fn mapping(&mut self) -> Option<Kind> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.event()?;
            let key = match &event {
                Event::MappingEnd => return Some(Kind::Mapping(entries)),
                Event::Scalar(text, style, _, tag) => key(text, *style, tag.as_deref())?,
                _ => return None,
            };
            self.node(&event, &span)?;
            let (event, value) = self.event()?;
            let value = self.node(&event, &value)?;
            entries.push(Entry { key, at: self.position(&span), value });
        }
    }

    /// The position of the value at `pointer` below `root`, or with `nearest` that of its closest parent.
    fn follow(&mut self, root: usize, pointer: &str, nearest: bool) -> Option<Position> {
        let mut at = self.nodes.get(root)?.at;
        let mut node = root;
        for step in pointer.split('/').skip(1) {
            match self.step(node, &crate::pointer::unescape(step)) {
                Some(found) => (at, node) = found,
                None if nearest => break,
                None => return None,
            }
        }
        Some(at)
    }

    fn step(&mut self, node: usize, step: &str) -> Option<(Position, usize)> {
        let node = self.target(node)?;
        match &self.nodes.get(node)?.kind {
            Kind::Sequence(items) => {
                let item = *items.get(step.parse::<usize>().ok()?)?;
                Some((self.nodes.get(item)?.at, item))
            }
            _ => self.entry(node, step, 0),
        }
    }

    /// The node that an alias refers to, or the node itself.
    fn target(&self, node: usize) -> Option<usize> {
        match self.nodes.get(node)?.kind {
            Kind::Alias(target) => Some(target),
            _ => Some(node),
        }
    }

    /// The effective entry for a key in a mapping: the last one.
    fn entry(&mut self, mapping: usize, wanted: &str, depth: usize) -> Option<(Position, usize)> {
        self.merges += 1;
        if depth > MAX_DEPTH || self.merges > MAX_MERGES {
            return None;
        }
        let mapping = self.target(mapping)?;
        let Kind::Mapping(entries) = &self.nodes.get(mapping)?.kind else { return None };
        let found: Vec<_> = entries
            .iter()
            .rev()
            .filter(|entry| entry.key.as_deref().is_none_or(|key| key == wanted))
            .map(|entry| (entry.key.is_some(), entry.at, entry.value))
            .collect();
        for (explicit, at, value) in found {
            if explicit {
                return Some((at, value));
            }
            let sources = match &self.nodes.get(value)?.kind {
                Kind::Sequence(items) => items.clone(),
                _ => vec![value],
            };
            let merged = sources.into_iter().find_map(|source| self.entry(source, wanted, depth + 1));
            if merged.is_some() {
                return merged;
            }
        }
        None
    }
}

/// The JSON key of a mapping key; the inner `None` is a merge key, the outer one a key that JSON cannot
/// represent.
#[allow(clippy::option_option)] // three outcomes
pub(super) fn key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<Option<String>> {
    if events::is_merge(text, style, tag) {
        return Some(None);
    }
    let (plain, text) = match tag {
        Some(tag) => tag::resolve(tag, text.into()).ok()?,
        None if style == ScalarStyle::Plain => (scalar::plain(text), text.into()),
        None => (scalar::Plain::Text, text.into()),
    };
    Some(Some(scalar::key(plain, &text).ok()?.unwrap_or_else(|| text.into_owned())))
}
