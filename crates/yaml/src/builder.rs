//! Builds JSON values from parser events: anchors and aliases, merge keys, duplicate keys, limits.
//!
//! As in `kubectl`, the position of a merge key matters: it overrides earlier keys of the mapping, and later
//! keys override it.

use super::alias::Aliases;
use super::events::{MAX_DEPTH, is_merge, new_parser, to_position};
use super::scalar::{self, PlainScalar};
use super::{Error, Position, Warning, WarningKind, repair, syntax, tag};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::map::Entry;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The largest number of duplicate keys that are reported for a document.
const MAX_DUPLICATES: usize = 100;
/// The largest number of nodes of a document, including aliases; an API server accepts far fewer.
const MAX_NODES: usize = 1_000_000;

/// Builds the documents of one text.
pub(super) struct Builder<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    /// The number of lines of the file before `text`.
    first_line: u32,
    aliases: Aliases,
    /// The line of each key in every open mapping (0 if it came from a merge key).
    key_lines: Vec<u32>,
    /// The duplicate keys of the document.
    duplicates: Vec<Warning>,
    /// The lines of the items of the document's `items`.
    item_lines: Vec<u32>,
    /// Whether the next sequence is the document's `items`.
    at_items: bool,
    depth: usize,
    /// Whether the last error can be repaired with spaces.
    lacks_spaces: bool,
    /// Whether integers above [`i64::MAX`] stay integers.
    large_integers: bool,
}

/// The next item of a text.
pub(super) enum Next {
    /// A document.
    Document(Built),
    /// The end of the text.
    End,
}

/// A document of a text.
pub(super) struct Built {
    /// The line of its first node.
    pub(super) line: u32,
    /// Its value, or why it has none.
    pub(super) value: Result<Value, Error>,
    /// What `kubectl` reads differently than it looks.
    pub(super) warnings: Vec<Warning>,
    /// The lines of the items of its `items`.
    pub(super) item_lines: Vec<u32>,
}

type Spanned<'a> = (Event<'a>, Span);

impl<'a> Builder<'a> {
    pub(super) fn new(text: &'a str, first_line: u32) -> Self {
        Self {
            text,
            parser: new_parser(text),
            first_line,
            aliases: Aliases::default(),
            key_lines: Vec::new(),
            duplicates: Vec::new(),
            item_lines: Vec::new(),
            at_items: false,
            depth: 0,
            lacks_spaces: false,
            large_integers: false,
        }
    }

    /// Keeps integers up to [`u64::MAX`] as they are.
    pub(super) fn with_large_integers(self) -> Self {
        Self { large_integers: true, ..self }
    }

    /// The next document. After an error, the rest of the text is not read.
    pub(super) fn next_document(&mut self) -> Next {
        loop {
            match self.next_event() {
                Ok((Event::DocumentStart(..), _)) => break,
                Ok((Event::StreamEnd, _)) => return Next::End,
                Ok(_) => {}
                Err(error) => {
                    let line = error.at.line;
                    let value = Err(error);
                    return Next::Document(Built {
                        line,
                        value,
                        warnings: Vec::new(),
                        item_lines: Vec::new(),
                    });
                }
            }
        }
        self.depth = 0;
        self.aliases = Aliases::default();
        self.key_lines.clear();
        self.duplicates.clear();
        self.item_lines.clear();
        self.at_items = false;
        let mut line = 0;
        let value = self.next_event().and_then(|event| {
            line = self.start_position(&event.1).line;
            self.build_node(event)
        });
        let warnings = std::mem::take(&mut self.duplicates);
        let item_lines = std::mem::take(&mut self.item_lines);
        Next::Document(Built { line, value, warnings, item_lines })
    }

    fn next_event(&mut self) -> Result<Spanned<'a>, Error> {
        match self.parser.next_event() {
            Some(Ok((Event::Anchor(_, name), span))) => {
                self.anchor_name(&name, &span)?;
                self.next_event()
            }
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.describe_syntax_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// YAML 1.1 is stricter about these names than the parser.
    fn anchor_name(&self, name: &str, span: &Span) -> Result<(), Error> {
        if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Ok(());
        }
        self.fail_at(span, format!("the anchor `&{name}` may only have ASCII letters, digits, `-` and `_`"))
    }

    fn start_position(&self, span: &Span) -> Position {
        to_position(self.first_line, span.start.line(), span.start.col())
    }

    fn describe_syntax_error(&mut self, error: &ScanError) -> Error {
        self.lacks_spaces = repair::missing_blanks(error).is_some();
        let at = to_position(self.first_line, error.marker().line(), error.marker().col());
        Error { at, message: syntax::syntax_message(error) }
    }

    fn fail_at<T>(&self, span: &Span, message: impl Into<String>) -> Result<T, Error> {
        Err(Error { at: self.start_position(span), message: message.into() })
    }

    fn build_node(&mut self, (event, span): Spanned<'a>) -> Result<Value, Error> {
        self.aliases.nodes += 1;
        if self.aliases.nodes > MAX_NODES {
            return self.fail_at(&span, format!("this document has more than {MAX_NODES} values: split it"));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.build_scalar(text, style, tag.as_deref(), &span)?;
                if anchor != 0 {
                    self.aliases
                        .store_value(anchor, &value, 1)
                        .or_else(|message| self.fail_at(&span, message))?;
                }
                Ok(value)
            }
            Event::SequenceStart(_, anchor, _) => self.build_collection(anchor, &span, Self::build_sequence),
            Event::MappingStart(_, anchor, _) => self.build_collection(anchor, &span, Self::build_mapping),
            Event::Alias(anchor) => self.expand_alias(anchor, &span),
            _ => self.fail_at(&span, "a value is missing here"),
        }
    }

    /// Builds a collection one level deeper and stores it if it has an anchor.
    fn build_collection(
        &mut self,
        anchor: usize,
        span: &Span,
        build: fn(&mut Self) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        if self.depth == MAX_DEPTH {
            return self.fail_at(span, format!("collections are nested deeper than {MAX_DEPTH} levels here"));
        }
        if anchor != 0 {
            self.aliases.open_collection(anchor);
        }
        let before = self.aliases.nodes - 1;
        self.depth += 1;
        let value = build(self)?;
        self.depth -= 1;
        if anchor != 0 {
            self.aliases
                .store_value(anchor, &value, self.aliases.nodes - before)
                .or_else(|message| self.fail_at(span, message))?;
        }
        Ok(value)
    }

    fn build_sequence(&mut self) -> Result<Value, Error> {
        let is_list = std::mem::take(&mut self.at_items);
        let mut items = Vec::new();
        loop {
            let event = self.next_event()?;
            if matches!(event.0, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            if is_list {
                let line = self.start_position(&event.1).line;
                self.item_lines.push(line);
            }
            items.push(self.build_node(event)?);
        }
    }

    fn build_mapping(&mut self) -> Result<Value, Error> {
        let base = self.key_lines.len();
        let mut map = Map::new();
        loop {
            let (event, span) = self.next_event()?;
            match event {
                Event::MappingEnd => {
                    self.key_lines.truncate(base);
                    return Ok(Value::Object(shrink_map(map)));
                }
                Event::Scalar(text, style, _, tag) if is_merge(&text, style, tag.as_deref()) => {
                    self.merge_mappings(&mut map)?;
                }
                event => {
                    let key = self.build_key(event, &span)?;
                    let next = self.next_event()?;
                    if self.depth == 1 && key == "items" {
                        self.item_lines.clear();
                        self.at_items = matches!(next.0, Event::SequenceStart(..));
                    }
                    let value = self.build_node(next)?;
                    self.insert_entry(&mut map, base, key, value, &span)?;
                }
            }
        }
    }

    fn insert_entry(
        &mut self,
        map: &mut Map<String, Value>,
        base: usize,
        key: String,
        value: Value,
        span: &Span,
    ) -> Result<(), Error> {
        let line = self.start_position(span).line;
        match map.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
                self.key_lines.push(line);
                Ok(())
            }
            Entry::Occupied(mut entry) => {
                entry.insert(value);
                let key = entry.key().clone();
                self.overwrite_key(map, base, &key, span)
            }
        }
    }

    /// The key already exists: from a merge key, which it overrides, or as a duplicate. The last one counts, as in
    /// `kubectl`.
    fn overwrite_key(
        &mut self,
        map: &Map<String, Value>,
        base: usize,
        key: &str,
        span: &Span,
    ) -> Result<(), Error> {
        if self.duplicates.len() == MAX_DUPLICATES {
            return Ok(());
        }
        let at = self.start_position(span);
        let slot = map.keys().position(|other| other == key).unwrap_or_default();
        // The search above is work that the length of the text does not limit.
        self.aliases.charge_bytes(slot).or_else(|message| self.fail_at(span, message))?;
        let Some(line) = self.key_lines.get_mut(base + slot) else { return Ok(()) };
        let first = std::mem::replace(line, at.line);
        if first == 0 {
            return Ok(());
        }
        *line = first;
        let message = describe_duplicate(key, first, at.line);
        self.duplicates.push(Warning { kind: WarningKind::DuplicateKey, at, message });
        Ok(())
    }

    fn build_key(&mut self, event: Event<'a>, span: &Span) -> Result<String, Error> {
        self.aliases.nodes += 1;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let (plain, text) = self.resolve_scalar(text, style, tag.as_deref(), span)?;
                if anchor != 0 {
                    let value = self.to_value(plain, &text, span)?;
                    self.aliases
                        .store_value(anchor, &value, 1)
                        .or_else(|message| self.fail_at(span, message))?;
                }
                match scalar::to_key(plain, &text) {
                    Ok(None) => Ok(text.into_owned()),
                    Ok(Some(key)) => Ok(key),
                    Err(message) => self.fail_at(span, message),
                }
            }
            Event::Alias(anchor) => match self.expand_alias(anchor, span)? {
                Value::String(text) => Ok(text),
                Value::Bool(value) => Ok(value.to_string()),
                Value::Number(number) => match scalar::to_key(scalar::resolve_plain(&number.to_string()), "")
                {
                    Ok(Some(key)) => Ok(key),
                    _ => self.fail_at(span, "this alias cannot be a mapping key"),
                },
                _ => self.fail_at(span, "this alias cannot be a mapping key: it does not stand for a scalar"),
            },
            _ => self.fail_at(span, "a mapping key must be a scalar, not a mapping or a list"),
        }
    }

    fn merge_mappings(&mut self, map: &mut Map<String, Value>) -> Result<(), Error> {
        let (event, span) = self.next_event()?;
        let sequence = matches!(event, Event::SequenceStart(..));
        let sources = match self.build_node((event, span))? {
            Value::Object(source) => vec![Value::Object(source)],
            Value::Array(sources) if sequence => sources,
            _ => vec![Value::Null],
        };
        // The first of several sources takes precedence.
        for source in sources.into_iter().rev() {
            let Value::Object(source) = source else {
                return self.fail_at(&span, "a merge key (`<<`) takes a mapping or a list of mappings");
            };
            for (key, value) in source {
                if map.insert(key, value).is_none() {
                    self.key_lines.push(0);
                }
            }
        }
        Ok(())
    }

    fn expand_alias(&mut self, anchor: usize, span: &Span) -> Result<Value, Error> {
        self.aliases.expand_alias(anchor).or_else(|message| self.fail_at(span, message))
    }

    /// After an error: whether the text could be read with additional spaces.
    pub(super) fn lacks_spaces(&self) -> bool {
        self.lacks_spaces
    }

    fn build_scalar(
        &self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<Value, Error> {
        let (plain, text) = self.resolve_scalar(text, style, tag, span)?;
        if plain == PlainScalar::Text {
            return Ok(Value::String(text.into_owned()));
        }
        self.to_value(plain, &text, span)
    }

    fn to_value(&self, plain: PlainScalar, text: &str, span: &Span) -> Result<Value, Error> {
        match plain {
            PlainScalar::Uint(value) if self.large_integers => Ok(Value::Number(value.into())),
            _ => scalar::to_value(plain, text).or_else(|message| self.fail_at(span, message)),
        }
    }

    fn resolve_scalar(
        &self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<(PlainScalar, Cow<'a, str>), Error> {
        // Only these characters can come from escapes that YAML 1.1 does not have.
        if style == ScalarStyle::DoubleQuoted
            && text.bytes().any(|byte| byte == b'/' || byte >= 0xF0)
            && let Some(escape) = foreign_escape(self.text, span)
        {
            return self.fail_at(
                span,
                format!("`{escape}` is an escape in JSON but not in YAML: write the character itself"),
            );
        }
        match tag {
            Some(tag) => tag::resolve_tagged(tag, text).or_else(|message| self.fail_at(span, message)),
            None if style == ScalarStyle::Plain => Ok((scalar::resolve_plain(&text), text)),
            None => Ok((PlainScalar::Text, text)),
        }
    }
}

fn describe_duplicate(key: &str, first: u32, again: u32) -> String {
    format!("key `{key}` is defined twice in this mapping: first on line {first}, again on line {again}")
}

/// An escape in a double-quoted scalar that JSON has but YAML 1.1 does not: `\/` or half of a surrogate pair.
fn foreign_escape<'a>(text: &'a str, span: &Span) -> Option<&'a str> {
    let source = span.slice(text)?;
    let mut from = 0;
    while let Some(at) = source.get(from..)?.find('\\') {
        let escape = source.get(from + at..)?;
        if escape.starts_with("\\/") {
            return escape.get(..2);
        }
        if escape.starts_with("\\u") && escape.get(2..6).is_some_and(is_surrogate) {
            return escape.get(..6);
        }
        from += at + 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
    }
    None
}

/// Whether hexadecimal digits are half of a surrogate pair.
fn is_surrogate(hex: &str) -> bool {
    u32::from_str_radix(hex, 16).is_ok_and(|code| (0xD800..0xE000).contains(&code))
}

/// The same map without spare capacity: a map that grew can have room for twice as many keys, which would add
/// up in a large repo.
fn shrink_map(map: Map<String, Value>) -> Map<String, Value> {
    let mut exact = Map::with_capacity(map.len());
    exact.extend(map);
    exact
}
