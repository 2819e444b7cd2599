//! Writes JSON values as block-style YAML: two spaces a level, list items not indented under their key.
//!
//! Text is written plain where `kubectl` reads it back as the same text, as a literal block where it has
//! several lines, and in quotes otherwise.

use super::scalar::{self, Plain};
use serde_json::{Map, Value};
use std::fmt::Write;

/// Longest key, in bytes as written, that YAML takes without the `?` mark (its limit is 1024 characters).
const SIMPLE_KEY: usize = 1000;

/// Appends `value` as one document.
pub(super) fn document(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(map, 0, false, out),
        Value::Array(items) if !items.is_empty() => sequence(items, 0, false, out),
        _ => {
            scalar(value, None, out);
            out.push('\n');
        }
    }
}

/// Writes the entries of a mapping at column `indent`; `begun` if the first entry's line has begun.
fn mapping(map: &Map<String, Value>, indent: usize, mut begun: bool, out: &mut String) {
    for (key, value) in map {
        if !std::mem::take(&mut begun) {
            spaces(indent, out);
        }
        let start = out.len();
        text(key, None, out);
        if out.len() - start > SIMPLE_KEY {
            out.insert_str(start, "? ");
            out.push('\n');
            spaces(indent, out);
        }
        out.push(':');
        entry(value, indent, out);
    }
}

/// Writes what follows a key's colon, to the end of the line or of the nested collection.
fn entry(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            mapping(map, indent + 2, false, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            sequence(items, indent, false, out);
        }
        _ => {
            out.push(' ');
            scalar(value, Some(indent), out);
            out.push('\n');
        }
    }
}

/// Writes the items of a list at column `indent`; `begun` if the first item's line has begun.
fn sequence(items: &[Value], indent: usize, mut begun: bool, out: &mut String) {
    for item in items {
        if !std::mem::take(&mut begun) {
            spaces(indent, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(map, indent + 2, true, out),
            Value::Array(items) if !items.is_empty() => sequence(items, indent + 2, true, out),
            _ => {
                scalar(item, Some(indent), out);
                out.push('\n');
            }
        }
    }
}

fn spaces(mut count: usize, out: &mut String) {
    const BLANK: &str = "                                ";
    while count > BLANK.len() {
        out.push_str(BLANK);
        count -= BLANK.len();
    }
    out.push_str(BLANK.get(..count).unwrap_or_default());
}

/// Writes a value that has no entries, without the line's end. A literal block may follow if `block` gives
/// the column of the collection around it.
fn scalar(value: &Value, block: Option<usize>, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        // Writing into a String cannot fail.
        Value::Number(number) => drop(write!(out, "{number}")),
        Value::String(value) => text(value, block, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn text(text: &str, block: Option<usize>, out: &mut String) {
    let found = survey(text);
    match block {
        _ if found.plain => out.push_str(text),
        Some(indent) if found.lines && !found.escapes && fits_literal(text) => literal(text, indent, out),
        _ if found.lines || found.escapes || !found.marks || text.contains('\t') => double_quoted(text, out),
        _ => single_quoted(text, out),
    }
}

/// What stands in a text, as far as the choice of its style goes.
#[allow(clippy::struct_excessive_bools)] // independent facts
struct Survey {
    /// It can stand without quotes.
    plain: bool,
    /// It has line feeds.
    lines: bool,
    /// It has characters that only an escape can carry.
    escapes: bool,
    /// It has `"` or `\`.
    marks: bool,
}

fn survey(text: &str) -> Survey {
    let mut found = Survey { plain: plain_ends(text), lines: false, escapes: false, marks: false };
    let mut before = 0;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b':' if matches!(bytes.peek(), None | Some(b' ')) => found.plain = false,
            b'#' if before == b' ' => found.plain = false,
            b'"' | b'\\' => found.marks = true,
            b'\n' => found.lines = true,
            b'\t' => found.plain = false,
            0..=0x1F | 0x7F => found.escapes = true,
            0x80.. => return survey_wide(text, found),
            _ => {}
        }
        before = byte;
    }
    found.plain &= !found.lines && !found.escapes && scalar::plain(text) == Plain::Text;
    found
}

/// The same for text that is not all ASCII: which characters to escape is looked up one by one.
fn survey_wide(text: &str, mut found: Survey) -> Survey {
    found.lines = text.contains('\n');
    found.marks = text.contains(['"', '\\']);
    found.escapes = text.chars().any(|c| c != '\n' && c != '\t' && must_escape(c));
    found.plain &= !found.lines && !found.escapes && !text.contains('\t');
    found.plain &= !text.contains(": ") && !text.ends_with(':') && !text.contains(" #");
    found.plain &= scalar::plain(text) == Plain::Text;
    found
}

/// Characters that YAML refuses, takes for line breaks, or that nobody can see.
fn must_escape(c: char) -> bool {
    matches!(c, '\0'..='\x1F' | '\x7F'..='\u{9F}' | '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Whether the first and the last character allow a text to stand without quotes.
fn plain_ends(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = match bytes.first() {
        None => false,
        Some(b'-') => !matches!(bytes.get(1), None | Some(b' ' | b'\t')) && !text.starts_with("---"),
        Some(first) => !b"?:,[]{}#&*!|>'\"%@` =<".contains(first) && !text.starts_with("..."),
    };
    begins && bytes.last() != Some(&b' ')
}

/// Whether a literal block carries a text of several lines: its first and its last line must have
/// something to see.
fn fits_literal(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    let last = body.rsplit('\n').next().unwrap_or_default();
    let first = body.split('\n').next().unwrap_or_default();
    !first.trim_matches([' ', '\t']).is_empty() && !last.trim_matches([' ', '\t']).is_empty()
}

/// Writes a literal block two columns deeper than `indent`, without its last line feed.
fn literal(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    if text.starts_with([' ', '\t']) {
        out.push('2');
    }
    let body = text.trim_end_matches('\n');
    match text.len() - body.len() {
        0 => out.push('-'),
        1 => {}
        _ => out.push('+'),
    }
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            spaces(indent + 2, out);
            out.push_str(line);
        }
    }
    for _ in 1..text.len() - body.len() {
        out.push('\n');
    }
}

fn single_quoted(text: &str, out: &mut String) {
    out.push('\'');
    for (nth, part) in text.split('\'').enumerate() {
        if nth > 0 {
            out.push_str("''");
        }
        out.push_str(part);
    }
    out.push('\'');
}

fn double_quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c| must_escape(c) || matches!(c, '"' | '\\')) {
        let (clean, tail) = rest.split_at(at);
        out.push_str(clean);
        let mut chars = tail.chars();
        if let Some(c) = chars.next() {
            escape(c, out);
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

fn escape(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        // Writing into a String cannot fail.
        _ => drop(write!(out, "\\u{:04x}", u32::from(c))),
    }
}
