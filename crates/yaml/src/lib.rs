//! YAML as `kubectl` reads and writes it.
//!
//! `kubectl` reads YAML 1.1 with a Go library and turns it into JSON before anything else looks at it; the
//! rules here are that pair's, and recorded cases hold them in place (`tests/conformance/yaml`).
//! The syntax is left to an event parser; what scalars, tags, keys, anchors and merge keys mean is ours.
//!
//! Deliberate differences, each on the side of caution: a key given twice is an error, further documents
//! after `...` or after a `---` with content on its line are read instead of dropped, `%` directives may
//! precede `---`, and files, nesting, aliases and values are limited. Not taken, though `kubectl` takes
//! them: NEL, LS and PS as line breaks, `"\'"`, and a block of text that is not indented at all.

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

/// One document of a YAML stream, as the JSON value that `kubectl` makes of it.
#[derive(Clone, Debug)]
pub struct Document {
    /// Which document of the stream, from 0; empty documents count, but are not returned.
    pub index: u32,
    /// Line of its first node, from 1.
    pub line: u32,
    /// What it says.
    pub value: Value,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Where.
    pub at: Position,
    /// What is wrong.
    pub message: String,
}

/// What a stream holds: the documents that could be read, and an error for each that could not.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// In order; empty documents are left out.
    pub documents: Vec<Document>,
    /// In order.
    pub errors: Vec<Error>,
}

/// Reads a stream of documents.
pub fn read(bytes: &[u8]) -> Stream {
    stream::read(bytes)
}

/// Where the value at `pointer` (a JSON pointer) of document `index` stands: its key if it is a
/// mapping's entry. `None` when there is no such value.
pub fn locate(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    locate::locate(bytes, index, pointer, false)
}

/// The same, or the place of the closest parent that there is.
pub fn locate_nearest(bytes: &[u8], index: u32, pointer: &str) -> Option<Position> {
    locate::locate(bytes, index, pointer, true)
}

/// Whether [`write()`] puts a text down as it is, without quotes; it is read back as that text then.
pub fn is_plain(text: &str) -> bool {
    emit::plain(text)
}

/// Appends `value` as one block-style document that `kubectl` reads back as the same value.
pub fn write(value: &Value, out: &mut String) {
    emit::document(value, out);
}

/// The value with the keys of all mappings in the order in which `kubectl` writes them: letters by
/// code, runs of digits by number.
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
