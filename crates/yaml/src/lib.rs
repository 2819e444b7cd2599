//! YAML as `kubectl` reads and writes it.
//!
//! `kubectl` parses YAML 1.1 with a Go library and converts it to JSON first. This crate follows the rules of
//! both, and recorded cases verify them (`tests/conformance/yaml`). An event parser handles the syntax; the
//! interpretation of scalars, tags, keys, anchors and merge keys is implemented here.
//!
//! What `kubectl` reads differently than it looks is a [`Warning`]: of duplicate keys the last one counts, and what
//! follows `...` is not read up to the next `---`. Deliberate differences: files, nesting, aliases and values are
//! limited. Not supported, although `kubectl` accepts them: NEL, LS and PS as line breaks, `"\'"`,
//! and a block scalar that is not indented.

mod alias;
mod builder;
mod conflict;
pub mod edit;
mod emitter;
mod events;
mod go;
mod json;
mod order;
pub mod pointer;
mod positions;
mod repair;
mod scalar;
mod stream;
mod syntax;
mod tag;

pub use positions::Positions;

use serde_json::Value;

/// One document of a YAML stream, as the JSON value that `kubectl` gets.
#[derive(Clone, Debug)]
pub struct Document {
    /// The index in the stream, from 0; empty documents count, but are not returned.
    pub index: u32,
    /// The line of its first node, from 1.
    pub line: u32,
    /// The value.
    pub value: Value,
    /// The line of each item of `items`, if that is a list of the document.
    pub item_lines: Vec<u32>,
}

/// The text between two separator lines of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRange {
    /// The indices of its documents: one, but for a text of several JSON documents.
    pub documents: std::ops::Range<u32>,
    /// Its bytes, without the separator lines.
    pub bytes: std::ops::Range<usize>,
}

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// Why a document cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The position.
    pub at: Position,
    /// The reason.
    pub message: String,
}

/// What `kubectl` reads differently than it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// The position.
    pub at: Position,
    /// What is read, and why.
    pub message: String,
}

/// The subject of a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// A key that a mapping has twice.
    DuplicateKey,
    /// A document that is not read.
    UnreadDocument,
}

/// The content of a stream: the valid documents, and an error for each invalid one.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The documents in order, without empty ones.
    pub documents: Vec<Document>,
    /// The errors in order.
    pub errors: Vec<Error>,
    /// The warnings in order.
    pub warnings: Vec<Warning>,
}

/// Reads a stream of documents.
pub fn read_stream(bytes: &[u8]) -> Stream {
    stream::read_stream(bytes)
}

/// Splits a stream into the texts between its separator lines.
pub fn split_texts(bytes: &[u8]) -> Vec<TextRange> {
    stream::split_texts(bytes)
}

/// The first conflict that a merge left in a text, as an error; `read` finds them, too.
pub fn find_conflict(bytes: &[u8]) -> Option<Error> {
    conflict::find_conflict(bytes)
}

/// The position of the value at `pointer` (a JSON pointer) in document `index`: that of its key for the entry
/// of a mapping. `None` if the value does not exist.
pub fn locate_value(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    Positions::new(bytes).locate_value(index, pointer)
}

/// Like `locate_value`, or the position of the closest existing parent.
pub fn locate_nearest(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    Positions::new(bytes).locate_nearest(index, pointer)
}

/// Whether `write` writes a text without quotes.
pub fn is_plain(text: &str) -> bool {
    emitter::is_plain(text)
}

/// Appends `value` as one block-style document that `kubectl` parses to the same value.
pub fn write_document(value: &Value, out: &mut String) {
    emitter::write_document(value, emitter::TextForm::Readable, out);
}

/// Appends `value` with the bytes of Go's library: long texts are folded, and characters are escaped as it does.
pub fn write_as_go(value: &Value, out: &mut String) {
    emitter::write_document(value, emitter::TextForm::AsGo, out);
}

/// The first document of a text as Go's library reads it, without splitting the text beforehand as `read` does.
/// Integers up to 2^64 - 1 keep their digits. An empty text is null.
pub fn read_as_go(text: &str) -> Result<Value, Error> {
    stream::read_first(text)
}

/// The value with the keys of all mappings in the order of `kubectl`: letters by code point, runs of digits
/// by number.
pub fn sort_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().map(|(k, v)| (k, sort_keys(v))).collect();
            entries.sort_by(|a, b| order::compare_keys(&a.0, &b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sort_keys).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
