//! From parser events to JSON values: keys, anchors and aliases, merge keys, duplicate keys, bounds.
//!
//! Facts: a merge key (`<<`) assigns at its place, so keys after it win; of several merged mappings
//! the earlier wins; aliases are copies. The builder keeps its own stack, so depth costs no call stack.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{Event, ScalarStyle, Span, Tag};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::scalar::{self, Scalar};
use super::{Error, Position};

/// Values that anchors and aliases may copy in one document.
const COPIED_VALUES: usize = 1_000_000;

type Result<T> = std::result::Result<T, Error>;

/// A collection that is being filled.
enum Frame {
    List {
        items: Vec<Value>,
        anchor: usize,
    },
    /// `from` is where its keys' lines begin in the builder's `lines`.
    Mapping {
        map: Map<String, Value>,
        from: usize,
        key: Option<Key>,
        anchor: usize,
    },
}

/// A key that waits for its value.
enum Key {
    Named(String, Position),
    Merge(Position),
}

/// Builds the value of one document.
pub(super) struct Builder {
    stack: Vec<Frame>,
    /// The line of each key of the open mappings, in the order of their maps; 0 for merged keys, which
    /// may be given again.
    lines: Vec<u32>,
    anchors: BTreeMap<usize, (Value, usize)>,
    /// Values that anchors and aliases have copied so far.
    copied: usize,
    /// Lines before the text that the parser sees.
    offset: u32,
    pub(super) done: Option<Value>,
    pub(super) first: Option<Position>,
}

pub(super) fn position(offset: u32, span: &Span) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: offset + number(span.start.line()), column: number(span.start.col()) + 1 }
}

fn error(at: Position, message: impl Into<String>) -> Error {
    Error { at, message: message.into() }
}

impl Builder {
    pub(super) fn new(offset: u32) -> Self {
        Self {
            stack: Vec::new(),
            lines: Vec::new(),
            anchors: BTreeMap::new(),
            copied: 0,
            offset,
            done: None,
            first: None,
        }
    }

    /// Takes one event of the document.
    pub(super) fn event(&mut self, event: Event<'_>, span: &Span) -> Result<()> {
        let at = position(self.offset, span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.first.get_or_insert(at);
                self.scalar(text, style, anchor, tag.as_deref(), at)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.first.get_or_insert(at);
                self.stack.push(Frame::List { items: Vec::new(), anchor });
                Ok(())
            }
            Event::MappingStart(_, anchor, _) => {
                self.first.get_or_insert(at);
                let from = self.lines.len();
                self.stack.push(Frame::Mapping { map: Map::new(), from, key: None, anchor });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(at),
            Event::Alias(anchor) => self.alias(anchor, at),
            _ => Ok(()),
        }
    }

    fn keep(&mut self, anchor: usize, value: &Value, at: Position) -> Result<()> {
        if anchor > 0 {
            let size = size(value);
            self.copy(size, at)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok(())
    }

    /// Counts values before they are copied.
    fn copy(&mut self, size: usize, at: Position) -> Result<()> {
        self.copied += size;
        if self.copied > COPIED_VALUES {
            return Err(error(at, format!("anchors and aliases copy more than {COPIED_VALUES} values")));
        }
        Ok(())
    }

    fn close(&mut self, at: Position) -> Result<()> {
        let (value, anchor) = match self.stack.pop() {
            Some(Frame::List { items, anchor }) => (Value::Array(items), anchor),
            Some(Frame::Mapping { map, anchor, from, .. }) => {
                self.lines.truncate(from);
                (Value::Object(map), anchor)
            }
            None => return Err(error(at, "a collection ends that never began")),
        };
        self.keep(anchor, &value, at)?;
        if self.expects_key() {
            return Err(error(at, "a key must be text, a number or a boolean, not a list or mapping"));
        }
        self.value(value)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<()> {
        let plain = matches!(style, ScalarStyle::Plain);
        let (resolved, text) = resolve(text, plain, tag).map_err(|why| error(at, why))?;
        if anchor > 0 {
            let value = scalar::value(&resolved, &text).map_err(|why| error(at, why))?;
            self.keep(anchor, &value, at)?;
        }
        if !self.expects_key() {
            let value = match resolved {
                Scalar::Text => Value::String(text.into_owned()),
                other => scalar::value(&other, &text).map_err(|why| error(at, why))?,
            };
            return self.value(value);
        }
        if plain && text == "<<" {
            self.key(Key::Merge(at));
            return Ok(());
        }
        let name = match resolved {
            Scalar::Text => text.into_owned(),
            other => scalar::key(&other, &text).map_err(|why| error(at, why))?,
        };
        self.key(Key::Named(name, at));
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<()> {
        let Some((_, size)) = self.anchors.get(&anchor) else {
            return Err(error(at, "an alias inside the value it stands for"));
        };
        self.copy(*size, at)?;
        let value = self.anchors.get(&anchor).map(|(value, _)| value.clone()).unwrap_or_default();
        if !self.expects_key() {
            return self.value(value);
        }
        let name = match value {
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return Err(error(at, "a key must be text, a number or a boolean")),
        };
        self.key(Key::Named(name, at));
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame::Mapping { key: None, .. }))
    }

    fn key(&mut self, given: Key) {
        if let Some(Frame::Mapping { key, .. }) = self.stack.last_mut() {
            *key = Some(given);
        }
    }

    /// Puts a value where the innermost open collection wants it.
    fn value(&mut self, value: Value) -> Result<()> {
        match self.stack.last_mut() {
            None => self.done = Some(value),
            Some(Frame::List { items, .. }) => items.push(value),
            Some(Frame::Mapping { map, key, from, .. }) => match key.take() {
                Some(Key::Named(name, at)) => assign(map, &mut self.lines, *from, (name, at), value)?,
                Some(Key::Merge(at)) => merge(map, &mut self.lines, value, at)?,
                None => {}
            },
        }
        Ok(())
    }
}

/// How many values a value holds, itself included.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Sets a key of the innermost mapping, whose keys' lines begin at `from`.
fn assign(
    map: &mut Map<String, Value>,
    lines: &mut Vec<u32>,
    from: usize,
    (name, at): (String, Position),
    value: Value,
) -> Result<()> {
    match map.entry(name) {
        Entry::Vacant(entry) => {
            lines.push(at.line);
            entry.insert(value);
            Ok(())
        }
        Entry::Occupied(mut entry) => {
            entry.insert(value);
            let name = entry.key().clone();
            let index = map.keys().position(|key| *key == name);
            match index.and_then(|index| lines.get_mut(from + index)) {
                Some(line) if *line > 0 => Err(error(
                    at,
                    format!(
                        "the key `{name}` is given twice in this mapping: first on line {line}, again on line {}",
                        at.line
                    ),
                )),
                Some(line) => {
                    *line = at.line;
                    Ok(())
                }
                None => Ok(()),
            }
        }
    }
}

fn merge(map: &mut Map<String, Value>, lines: &mut Vec<u32>, value: Value, at: Position) -> Result<()> {
    let refuse = || error(at, "the merge key `<<` needs a mapping or a list of mappings");
    match value {
        Value::Object(merged) => {
            for (name, value) in merged {
                if map.insert(name, value).is_none() {
                    lines.push(0);
                }
            }
            Ok(())
        }
        Value::Array(items) => {
            for item in items.into_iter().rev() {
                if !item.is_object() {
                    return Err(refuse());
                }
                merge(map, lines, item, at)?;
            }
            Ok(())
        }
        _ => Err(refuse()),
    }
}

/// The scalar's meaning, and its text (which a tag may have changed).
fn resolve<'t>(
    text: Cow<'t, str>,
    plain: bool,
    tag: Option<&Tag>,
) -> std::result::Result<(Scalar, Cow<'t, str>), String> {
    match tag.map(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:")) {
        None if plain => Ok((scalar::resolve(&text), text)),
        Some(Some(name)) => {
            let (resolved, replaced) = scalar::tagged(&name, &text)?;
            Ok((resolved, replaced.map_or(text, Cow::Owned)))
        }
        None | Some(None) => Ok((Scalar::Text, text)),
    }
}
