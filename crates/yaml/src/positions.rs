//! Finds the position of the value at a JSON pointer, for messages.
//!
//! Documents are parsed again into trees of positions. Aliases and merge keys are followed, so that the
//! position is where the value is written, not where it is repeated.

use super::events::{self, MAX_DEPTH};
use super::stream::{self, Chunk};
use super::{Position, json, repair, scalar, tag};
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// The largest number of merge keys that one search follows.
const MAX_MERGES: u32 = 10_000;

/// The positions of values in a file, for many searches: the file and each of its documents are parsed once.
pub struct Positions<'a> {
    chunks: Vec<IndexedChunk<'a>>,
}

/// The documents between two separator lines.
struct IndexedChunk<'a> {
    chunk: Chunk<'a>,
    /// The index of the first document.
    first: u32,
    /// The documents, as far as they can be parsed.
    documents: OnceCell<Vec<Option<NodeTree>>>,
}

impl<'a> Positions<'a> {
    /// The positions in a file.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut next = 0;
        let chunks = stream::split_chunks(bytes).into_iter().map(|chunk| {
            let first = next;
            next += documents_in(&chunk);
            IndexedChunk { chunk, first, documents: OnceCell::new() }
        });
        Self { chunks: chunks.collect() }
    }

    /// The position of the value at `pointer` in document `index`; see `locate_value`.
    pub fn locate_value(&self, index: u32, pointer: &str) -> Option<Position> {
        self.find_tree(index)?.follow_pointer(pointer, false)
    }

    /// Like `locate_value`, or the position of the closest existing parent.
    pub fn locate_nearest(&self, index: u32, pointer: &str) -> Option<Position> {
        self.find_tree(index)?.follow_pointer(pointer, true)
    }

    fn find_tree(&self, index: u32) -> Option<&NodeTree> {
        let after = self.chunks.partition_point(|indexed| indexed.first <= index);
        let indexed = self.chunks.get(after.checked_sub(1)?)?;
        let documents = indexed.documents.get_or_init(|| read_trees(&indexed.chunk));
        documents.get(usize::try_from(index - indexed.first).ok()?)?.as_ref()
    }
}

/// How many documents a chunk counts as. Only JSON can have several.
fn documents_in(chunk: &Chunk<'_>) -> u32 {
    let values =
        stream::decode_text(chunk).ok().and_then(json::parse_values).map_or(1, |values| values.len());
    u32::try_from(values).unwrap_or(u32::MAX).max(1)
}

/// The nodes of each document of a chunk.
fn read_trees(chunk: &Chunk<'_>) -> Vec<Option<NodeTree>> {
    let Ok(text) = stream::decode_text(chunk) else { return Vec::new() };
    let Some(values) = json::parse_values(text) else { return vec![read_tree(text, chunk.first_line)] };
    let starts: Vec<usize> = values.iter().map(|read| read.start).collect();
    let (mut line, mut from) = (chunk.first_line, 0);
    let mut trees = Vec::with_capacity(starts.len());
    for (nth, start) in starts.iter().enumerate() {
        let end = starts.get(nth + 1).copied().unwrap_or(text.len());
        line += stream::count_lines(text.as_bytes().get(from..*start).unwrap_or_default());
        from = *start;
        trees.push(text.get(*start..end).and_then(|text| read_tree(text, line)));
    }
    trees
}

/// The nodes of the first document of a text.
fn read_tree(text: &str, first_line: u32) -> Option<NodeTree> {
    let text = repair::insert_spaces(text)?;
    let mut reader = Reader::new(&text, first_line);
    while !matches!(reader.parser.next_event()?.ok()?.0, Event::DocumentStart(..)) {}
    let (event, span) = events::next_event(&mut reader.parser)?;
    let root = reader.read_node(&event, &span)?;
    Some(NodeTree { nodes: reader.nodes, root })
}

/// The nodes of a document, by index.
struct NodeTree {
    nodes: Vec<Node>,
    root: usize,
}

/// Reads the nodes of a document.
struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    first_line: u32,
    nodes: Vec<Node>,
    /// The node of each anchor.
    anchors: BTreeMap<usize, usize>,
    depth: usize,
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

impl<'a> Reader<'a> {
    fn new(text: &'a str, first_line: u32) -> Self {
        Self {
            parser: events::new_parser(text),
            first_line,
            nodes: Vec::new(),
            anchors: BTreeMap::new(),
            depth: 0,
        }
    }

    fn to_position(&self, span: &Span) -> Position {
        events::to_position(self.first_line, span.start.line(), span.start.col())
    }

    fn read_node(&mut self, event: &Event<'a>, span: &Span) -> Option<usize> {
        let number = self.nodes.len();
        self.nodes.push(Node { at: self.to_position(span), kind: Kind::Scalar });
        if let Some(anchor) = event.anchor_id() {
            self.anchors.insert(anchor, number);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH + 1 {
            return None;
        }
        let kind = match event {
            Event::Alias(anchor) => Kind::Alias(*self.anchors.get(anchor)?),
            Event::SequenceStart(..) => self.read_sequence()?,
            Event::MappingStart(..) => self.read_mapping()?,
            _ => Kind::Scalar,
        };
        self.depth -= 1;
        self.nodes.get_mut(number)?.kind = kind;
        Some(number)
    }

    fn read_sequence(&mut self) -> Option<Kind> {
        let mut items = Vec::new();
        loop {
            match events::next_event(&mut self.parser)? {
                (Event::SequenceEnd, _) => return Some(Kind::Sequence(items)),
                (event, span) => items.push(self.read_node(&event, &span)?),
            }
        }
    }

    fn read_mapping(&mut self) -> Option<Kind> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = events::next_event(&mut self.parser)?;
            let key = match &event {
                Event::MappingEnd => return Some(Kind::Mapping(entries)),
                Event::Scalar(text, style, _, tag) => resolve_key(text, *style, tag.as_deref())?,
                _ => return None,
            };
            self.read_node(&event, &span)?;
            let (event, value) = events::next_event(&mut self.parser)?;
            let value = self.read_node(&event, &value)?;
            entries.push(Entry { key, at: self.to_position(&span), value });
        }
    }
}

impl NodeTree {
    /// The position of the value at `pointer`, or with `nearest` that of its closest parent.
    fn follow_pointer(&self, pointer: &str, nearest: bool) -> Option<Position> {
        let mut at = self.nodes.get(self.root)?.at;
        let mut node = self.root;
        let mut merges = 0;
        for step in pointer.split('/').skip(1) {
            match self.follow_step(node, &crate::pointer::unescape(step), &mut merges) {
                Some(found) => (at, node) = found,
                None if nearest => break,
                None => return None,
            }
        }
        Some(at)
    }

    fn follow_step(&self, node: usize, step: &str, merges: &mut u32) -> Option<(Position, usize)> {
        let node = self.resolve_alias(node)?;
        match &self.nodes.get(node)?.kind {
            Kind::Sequence(items) => {
                let item = *items.get(step.parse::<usize>().ok()?)?;
                Some((self.nodes.get(item)?.at, item))
            }
            _ => self.find_entry(node, step, 0, merges),
        }
    }

    /// The node that an alias refers to, or the node itself.
    fn resolve_alias(&self, node: usize) -> Option<usize> {
        match self.nodes.get(node)?.kind {
            Kind::Alias(target) => Some(target),
            _ => Some(node),
        }
    }

    /// The effective entry for a key in a mapping: the last one.
    fn find_entry(
        &self,
        mapping: usize,
        key: &str,
        depth: usize,
        merges: &mut u32,
    ) -> Option<(Position, usize)> {
        *merges += 1;
        if depth > MAX_DEPTH || *merges > MAX_MERGES {
            return None;
        }
        let mapping = self.resolve_alias(mapping)?;
        let Kind::Mapping(entries) = &self.nodes.get(mapping)?.kind else { return None };
        let found = entries.iter().rev().filter(|entry| entry.key.as_deref().is_none_or(|name| name == key));
        for entry in found {
            if entry.key.is_some() {
                return Some((entry.at, entry.value));
            }
            let sources = match &self.nodes.get(entry.value)?.kind {
                Kind::Sequence(items) => items.as_slice(),
                _ => std::slice::from_ref(&entry.value),
            };
            let merged = sources.iter().find_map(|source| self.find_entry(*source, key, depth + 1, merges));
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
pub(super) fn resolve_key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<Option<String>> {
    if events::is_merge(text, style, tag) {
        return Some(None);
    }
    let (plain, text) = match tag {
        Some(tag) => tag::resolve_tagged(tag, text.into()).ok()?,
        None if style == ScalarStyle::Plain => (scalar::resolve_plain(text), text.into()),
        None => (scalar::PlainScalar::Text, text.into()),
    };
    Some(Some(scalar::to_key(plain, &text).ok()?.unwrap_or_else(|| text.into_owned())))
}
