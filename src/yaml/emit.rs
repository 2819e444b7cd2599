//! Writing YAML that `kubectl` reads back as the same value: block style, two spaces, list items under
//! their key without indentation, literal blocks for multi-line text, quotes only where needed.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::scalar::{self, Scalar};

/// Keys longer than this are written in the explicit form, since parsers bound how far they look for
/// the `:` of a simple key.
const SIMPLE_KEY: usize = 500;

/// Appends a document.
pub(super) fn document(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(map, 0, out),
        Value::Array(items) if !items.is_empty() => list(items, 0, out),
        other => {
            inline(other, 0, out);
            out.push('\n');
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    const SPACES: &str = "                                                                ";
    let mut left = depth;
    while left > 0 {
        let take = left.min(SPACES.len());
        out.push_str(&SPACES[..take]);
        left -= take;
    }
}

/// The entries of a mapping, each on its own line, `depth` spaces in.
fn mapping(map: &Map<String, Value>, depth: usize, out: &mut String) {
    for (position, (name, value)) in map.iter().enumerate() {
        if position > 0 {
            indent(depth, out);
        }
        key(name, depth, out);
        entry(value, depth, out);
    }
}

fn key(name: &str, depth: usize, out: &mut String) {
    if name.len() > SIMPLE_KEY {
        out.push_str("? ");
        quoted(name, out);
        out.push('\n');
        indent(depth, out);
        out.push(':');
        return;
    }
    if plain(name) && name != "<<" {
        out.push_str(name);
    } else {
        quoted(name, out);
    }
    out.push(':');
}

/// What follows a key.
fn entry(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            indent(depth + 2, out);
            mapping(map, depth + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            indent(depth, out);
            list(items, depth, out);
        }
        other => {
            out.push(' ');
            inline(other, depth, out);
            out.push('\n');
        }
    }
}

/// The items of a list, each begun by `- `, `depth` spaces in.
fn list(items: &[Value], depth: usize, out: &mut String) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            indent(depth, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(map, depth + 2, out),
            Value::Array(items) if !items.is_empty() => list(items, depth + 2, out),
            other => {
                inline(other, depth, out);
                out.push('\n');
            }
        }
    }
}

/// A value that needs no lines of its own, or a literal block.
fn inline(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => string(text, depth, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn write_number(number: &serde_json::Number, out: &mut String) {
    let written = match number.as_f64() {
        // The plain form of large floats would read as an integer.
        Some(float) if number.is_f64() => {
            let size = float.abs();
            if size >= 1e21 || (size < 1e-5 && size > 0.0) { write!(out, "{float:e}") } else { write!(out, "{float:?}") }
        }
        _ => write!(out, "{number}"),
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}

fn string(text: &str, depth: usize, out: &mut String) {
    if text.contains('\n') {
        if literal_fits(text) {
            return literal(text, depth, out);
        }
        return quoted(text, out);
    }
    if plain(text) { out.push_str(text) } else { quoted(text, out) }
}

/// Whether the text can stand without quotes and is read as that text.
fn plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let begins = match first {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'/' | b'.' | b'$' | b'(' | b'+' | b'^' | b'~' => true,
        b'-' => bytes.get(1).is_some_and(|b| !matches!(b, b' ' | b'\t')) && !text.starts_with("---"),
        _ => *first >= 0x80,
    };
    begins
        && !matches!(last, b' ' | b':')
        && text != "..."
        && inner_plain(text)
        && !scalar::is_date(text)
        && matches!(scalar::resolve(text), Scalar::Text)
}

fn inner_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ascii_ok = bytes.iter().enumerate().all(|(at, byte)| match byte {
        b':' => bytes.get(at + 1).is_some_and(|next| !matches!(next, b' ' | b'\t')),
        b'#' => at > 0 && !matches!(bytes[at - 1], b' ' | b'\t'),
        b' '..=b'~' => true,
        _ => *byte >= 0x80,
    });
    ascii_ok && (text.is_ascii() || text.chars().all(printable))
}

/// Characters that YAML readers take as they stand.
fn printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn literal_fits(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || c == '\t' || printable(c))
        && text.lines().any(|line| !line.trim().is_empty())
        && !text.split('\n').any(|line| line.starts_with('\t') || (!line.is_empty() && line.trim().is_empty()))
}

fn literal(text: &str, depth: usize, out: &mut String) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
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
            indent(depth + 2, out);
            out.push_str(line);
        }
    }
    // The line break after the last line is the caller's.
    for _ in 1..text.len() - body.len() {
        out.push('\n');
    }
}

fn quoted(text: &str, out: &mut String) {
    let simple = text.chars().all(printable);
    if simple && text.contains(['"', '\\']) && !text.contains('\'') {
        out.push('\'');
        out.push_str(text);
        return out.push('\'');
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if printable(c) => out.push(c),
            c => escape(u32::from(c), out),
        }
    }
    out.push('"');
}

fn escape(code: u32, out: &mut String) {
    let written = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}
