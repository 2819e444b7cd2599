//! A stream of documents: split where `kubectl` splits it, each read on its own, so that one broken
//! document hides no other; JSON is read as JSON.

use std::fmt;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::build::{Builder, position};
use super::{Document, Error, Position, Stream};

/// Larger texts are refused: no manifest is, and reading one would stall the run.
const LARGEST: usize = 64 << 20;

/// Deeper collections are refused.
const DEEPEST: usize = 256;

/// One part of a stream, between separators.
pub(super) struct Chunk<'t> {
    pub(super) text: &'t str,
    /// Lines before it.
    pub(super) offset: u32,
}

pub(super) fn parser(text: &str) -> Parser<'_, granit_parser::StrInput<'_>> {
    let mut options = Options::default();
    options.flow_nesting_limit = DEEPEST;
    options.block_nesting_limit = DEEPEST;
    options.emit_anchor_events = true;
    Parser::new_from_str_with_options(text, options)
}

/// Reads a stream; see [`super::read`].
pub(super) fn read(bytes: &[u8]) -> Stream {
    let text = match text(bytes) {
        Ok(text) => text,
        Err(error) => return Stream { documents: Vec::new(), errors: vec![error] },
    };
    if text.trim_start().starts_with(['{', '[']) {
        match json(text) {
            Ok(Some(stream)) => return stream,
            Ok(None) => {}
            Err(error) => return Stream { documents: Vec::new(), errors: vec![error] },
        }
    }
    let mut stream = Stream::default();
    let mut index = 0;
    for chunk in chunks(text) {
        documents(&chunk, &mut index, &mut stream);
    }
    stream
}

/// The bytes as text without a byte order mark.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Error> {
    if bytes.len() > LARGEST {
        let message = format!("the file is larger than {} MiB", LARGEST >> 20);
        return Err(Error { at: Position { line: 1, column: 1 }, message });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let at = Position { line: number(line), column: number(column) };
            Err(Error { at, message: "this is not UTF-8 text".to_owned() })
        }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The parts of a stream: a line that begins with `---` begins a new one, unless only directives and
/// comments came before it.
pub(super) fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut offset, mut bare, mut directives) = (0, 0, true, false);
    let (mut at, mut line) = (0, 0);
    for raw in text.split_inclusive('\n') {
        let separator = raw
            .strip_prefix("---")
            .is_some_and(|rest| rest.starts_with([' ', '\t', '\r', '\n']) || rest.is_empty());
        if separator && at > start && !(bare && directives) {
            chunks.push(Chunk { text: &text[start..at], offset });
            (start, offset, bare, directives) = (at, line, true, false);
        }
        directives |= bare && raw.starts_with('%');
        let blank = raw.trim_start().is_empty() || raw.trim_start().starts_with(['#', '%']);
        bare &= blank;
        at += raw.len();
        line += 1;
    }
    chunks.push(Chunk { text: &text[start..], offset });
    chunks
}

fn documents(chunk: &Chunk<'_>, index: &mut u32, stream: &mut Stream) {
    let mut parser = parser(chunk.text);
    let mut builder = Builder::new(chunk.offset);
    let mut any = false;
    loop {
        let failed = match parser.next_event() {
            None | Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((Event::DocumentEnd, _))) => {
                any = true;
                let at = builder.first.unwrap_or(Position { line: chunk.offset + 1, column: 1 });
                if let Some(value) = builder.done.take().filter(|v| !v.is_null()) {
                    stream.documents.push(Document { index: *index, line: at.line, value });
                }
                *index += 1;
                builder = Builder::new(chunk.offset);
                continue;
            }
            Some(Ok((event, span))) => {
                let refused = refusal(&event, &span, chunk.text)
                    .map(|message| Error { at: position(chunk.offset, &span), message: message.to_owned() });
                refused.or_else(|| builder.event(event, &span).err())
            }
            Some(Err(error)) => {
                let span = Span::empty(*error.marker());
                Some(Error { at: position(chunk.offset, &span), message: syntax(&error.info()) })
            }
        };
        if let Some(error) = failed {
            stream.errors.push(error);
            break;
        }
    }
    if !any {
        *index += 1;
    }
}

/// What `kubectl`'s reader refuses and the parser, which reads YAML 1.2, does not.
fn refusal(event: &Event<'_>, span: &Span, text: &str) -> Option<&'static str> {
    match event {
        Event::Scalar(_, ScalarStyle::DoubleQuoted, ..) => {
            let raw = span.slice(text).unwrap_or_default();
            let escaped = raw.contains("\\/") && raw.replace("\\\\", "").contains("\\/");
            escaped.then_some("`\\/` is no escape in YAML 1.1: write `/`")
        }
        Event::Anchor(_, name) => {
            let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            (!name.bytes().all(word)).then_some("the name of an anchor has letters, digits, `_` and `-` only")
        }
        _ => None,
    }
}

/// The parser's words, without its own idea of the position.
fn syntax(info: &str) -> String {
    let words = info.split(" at byte").next().unwrap_or(info).trim();
    format!("this is not valid YAML: {words}")
}

/// A JSON value whose objects have no key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StrictSeed.deserialize(deserializer).map(Strict)
    }
}

#[derive(Clone, Copy)]
struct StrictSeed;

impl<'de> DeserializeSeed<'de> for StrictSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "Kubernetes has no integers beyond int64")]
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(StrictSeed)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` is given twice in this object")));
            }
            let value = entries.next_value_seed(StrictSeed)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// The stream as JSON values one after the other; `None` when it is no JSON, but may be YAML.
fn json(text: &str) -> Result<Option<Stream>, Error> {
    let mut stream = Stream::default();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    loop {
        let from = values.byte_offset();
        match values.next() {
            None => return Ok(Some(stream)),
            Some(Ok(Strict(value))) => {
                let blank = text[from..].len() - text[from..].trim_start().len();
                let line = number(text[..from + blank].matches('\n').count() + 1);
                let index = number(stream.documents.len());
                stream.documents.push(Document { index, line, value });
            }
            Some(Err(error)) if error.is_data() => {
                let at = Position { line: number(error.line()), column: number(error.column()) };
                let message = error.to_string();
                let message = message.split(" at line").next().unwrap_or_default().to_owned();
                return Err(Error { at, message });
            }
            Some(Err(_)) => return Ok(None),
        }
    }
}
