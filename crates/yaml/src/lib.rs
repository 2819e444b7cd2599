//! Reads and writes YAML as `kubectl` does.
//!
//! `kubectl` parses YAML 1.1 with a Go library and converts it to JSON before it uses the result. This crate
//! implements the rules of both steps, and recorded cases verify them (`tests/conformance/yaml`). An event parser
//! handles the syntax; this crate interprets scalars, tags, keys, anchors and merge keys.
//!
//! Deliberate differences, all of them safer: a duplicate key is an error; documents after `...`, or after a `---`
//! with content on its line, are read instead of dropped; `%` directives may precede `---`; files, nesting, aliases
//! and values are limited. Not supported, although `kubectl` supports them: NEL, LS and PS as line breaks, `"\'"`,
//! and block scalars without indentation.

mod alias;
mod build;
pub mod edit;
mod emit;
mod events;
mod json;
mod locate;
mod order;
mod repair;
mod scalar;
mod stream;
mod syntax;
mod tag;

use serde_json::Value;

/// One document of a YAML stream, as the JSON value to which `kubectl` converts it.
#[derive(Clone, Debug)]
pub struct Document {
    /// The index of the document in the stream, from 0. Empty documents count, but are not returned.
    pub index: u32,
    /// The line of its first node, from 1.
    pub line: u32,
    /// The value of the document.
    pub value: Value,
}

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

/// The reason why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The position of the error.
    pub at: Position,
    /// What is wrong.
    pub message: String,
}

/// The contents of a stream: the valid documents, and the errors of the invalid ones.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The documents, in order, without empty ones.
    pub documents: Vec<Document>,
    /// The errors, in order.
    pub errors: Vec<Error>,
}

/// Reads a stream of documents.
pub fn read(bytes: &[u8]) -> Stream {
    stream::read(bytes)
}

/// Returns the position of the value at `pointer` (a JSON pointer) in document `index`. For an entry of a mapping,
/// this is the position of its key. `None` if there is no such value.
pub fn locate(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    locate::locate(bytes, index, pointer, false)
}

/// Returns the position of the value at `pointer`, or of its closest existing parent.
pub fn locate_nearest(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    locate::locate(bytes, index, pointer, true)
}

/// Whether [`write()`] writes a text without quotes, so that it is read back as the same text.
pub fn is_plain(text: &str) -> bool {
    emit::plain(text)
}

/// Appends `value` to `out` as one document in block style, which `kubectl` reads back as the same value.
pub fn write(value: &Value, out: &mut String) {
    emit::document(value, out);
}

/// Returns the value with the keys of all mappings in the order in which `kubectl` writes them: letters by code
/// point, runs of digits by number.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| order::natural(&a.0, &b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
