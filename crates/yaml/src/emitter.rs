//! Writes YAML that `kubectl` parses to the same value: block style, two spaces, list items under their key
//! without indentation, literal blocks for multi-line text, quotes only if needed.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::go;
use super::scalar::{self, PlainScalar};

/// Longer keys are written in the explicit form, because parsers limit the length of simple keys.
const MAX_SIMPLE_KEY: usize = 500;

/// How texts are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// For people: never folded, and with few escapes.
    Readable,
    /// As Go's library writes them.
    AsGo,
}

/// Appends a document.
pub(super) fn write_document(value: &Value, texts: TextForm, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => write_mapping(map, 0, texts, out),
        Value::Array(items) if !items.is_empty() => write_list(items, 0, texts, out),
        other => {
            write_inline(other, 0, texts, out);
            out.push('\n');
        }
    }
}

fn write_indent(depth: usize, out: &mut String) {
    const SPACES: &str = "                                                                ";
    let mut left = depth;
    while left > 0 {
        let take = left.min(SPACES.len());
        out.push_str(&SPACES[..take]);
        left -= take;
    }
}

/// The entries of a mapping, each on its own line, indented by `depth` spaces.
fn write_mapping(map: &Map<String, Value>, depth: usize, texts: TextForm, out: &mut String) {
    for (position, (name, value)) in map.iter().enumerate() {
        if position > 0 {
            write_indent(depth, out);
        }
        write_key(name, depth, texts, out);
        write_entry(value, depth, texts, out);
    }
}

fn write_key(name: &str, depth: usize, texts: TextForm, out: &mut String) {
    let explicit = match texts {
        TextForm::Readable => name.len() > MAX_SIMPLE_KEY,
        TextForm::AsGo => go::is_explicit_key(name),
    };
    if explicit {
        out.push_str("? ");
        match texts {
            TextForm::Readable => write_quoted(name, out),
            TextForm::AsGo => go::write_text(name, depth + 2, out),
        }
        out.push('\n');
        write_indent(depth, out);
        out.push(':');
        return;
    }
    match texts {
        TextForm::AsGo => go::write_key(name, out),
        TextForm::Readable if is_plain(name) => out.push_str(name),
        TextForm::Readable => write_quoted(name, out),
    }
    out.push(':');
}

/// The text after a key.
fn write_entry(value: &Value, depth: usize, texts: TextForm, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            write_indent(depth + 2, out);
            write_mapping(map, depth + 2, texts, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            write_indent(depth, out);
            write_list(items, depth, texts, out);
        }
        other => {
            out.push(' ');
            write_inline(other, depth, texts, out);
            out.push('\n');
        }
    }
}

/// The items of a list, each starting with `- `, indented by `depth` spaces.
fn write_list(items: &[Value], depth: usize, texts: TextForm, out: &mut String) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            write_indent(depth, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_mapping(map, depth + 2, texts, out),
            Value::Array(items) if !items.is_empty() => write_list(items, depth + 2, texts, out),
            other => {
                write_inline(other, depth, texts, out);
                out.push('\n');
            }
        }
    }
}

/// A value on one line, or a literal block.
fn write_inline(value: &Value, depth: usize, texts: TextForm, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, depth, texts, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn write_number(number: &serde_json::Number, out: &mut String) {
    match number.as_f64() {
        Some(float) if number.is_f64() => out.push_str(&float_text(float)),
        _ => {
            let written = write!(out, "{number}");
            debug_assert!(written.is_ok(), "a String takes everything");
        }
    }
}

fn write_string(text: &str, depth: usize, texts: TextForm, out: &mut String) {
    if texts == TextForm::AsGo {
        return go::write_text(text, depth + 2, out);
    }
    if text.contains('\n') {
        if literal_fits(text) {
            return write_literal(text, depth, out);
        }
        return write_quoted(text, out);
    }
    if is_plain(text) { out.push_str(text) } else { write_quoted(text, out) }
}

/// Whether the text can be written without quotes.
pub(super) fn is_plain(text: &str) -> bool {
    has_plain_syntax(text) && !is_ambiguous(text)
}

/// Whether a parser would interpret the unquoted text as another value.
fn is_ambiguous(text: &str) -> bool {
    text == "<<" || is_date(text) || scalar::resolve_plain(text) != PlainScalar::Text
}

/// Whether no part of the text has a meaning in YAML's block style.
fn has_plain_syntax(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let spaced = bytes.get(1).is_none_or(|b| *b == b' ');
    let begins = match first {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
        | b'@' | b'`' | b' ' => false,
        b'?' | b':' | b'-' => !spaced,
        _ => true,
    };
    let marker = text.starts_with("---") || text.starts_with("...");
    begins && !marker && !matches!(last, b' ' | b':') && inner_plain(text)
}

fn inner_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ascii_ok = bytes.iter().enumerate().all(|(at, byte)| match byte {
        b':' => bytes.get(at + 1).is_some_and(|next| *next != b' '),
        b'#' => at > 0 && bytes[at - 1] != b' ',
        b' '..=b'~' => true,
        _ => *byte >= 0x80,
    });
    ascii_ok && (text.is_ascii() || text.chars().all(is_printable))
}

/// Characters that YAML parsers accept unescaped.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// A literal block cannot end in a space or have one before a line break.
fn literal_fits(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '\n' | '\t') || is_printable(c))
        && text.bytes().any(|b| !matches!(b, b'\n' | b' ' | b'\t'))
        && !text.ends_with(' ')
        && !text.contains(" \n")
}

fn write_literal(text: &str, depth: usize, out: &mut String) {
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
            write_indent(depth + 2, out);
            out.push_str(line);
        }
    }
    // The caller writes the line break after the last line.
    for _ in 1..text.len() - body.len() {
        out.push('\n');
    }
}

/// In single quotes if possible; in double quotes if the text needs escapes or would be interpreted as
/// another value.
fn write_quoted(text: &str, out: &mut String) {
    if !text.is_empty() && !is_ambiguous(text) && text.chars().all(is_printable) {
        out.push('\'');
        for (at, part) in text.split('\'').enumerate() {
            out.push_str(if at > 0 { "''" } else { "" });
            out.push_str(part);
        }
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
            c if is_printable(c) => out.push(c),
            c => write_escape(u32::from(c), out),
        }
    }
    out.push('"');
}

fn write_escape(code: u32, out: &mut String) {
    let written = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}

/// Whether the text starts like an ISO date, which other parsers interpret as a date.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5].is_ascii_digit()
}

/// A float like Go's `%g`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
fn float_text(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) || value == 0.0 {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
