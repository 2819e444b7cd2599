//! Splits a file into documents like `kubectl`, and parses each separately.
//!
//! A line that starts with `---`, followed only by spaces or a comment, ends the text of a document before it
//! is parsed, so that an error in one document does not affect the others. Text that starts like JSON is
//! parsed as JSON if it is valid, otherwise as YAML.

use super::builder::{Builder, Built, Next};
use super::conflict::find_conflict;
use super::{Document, Error, Position, Stream, TextRange, Warning, WarningKind, json, repair};
use serde_json::Value;

/// The largest file, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// The number of errors after which the rest of a file is not read.
const MAX_ERRORS: usize = 1000;

/// The text between two separator lines.
pub(super) struct Chunk<'a> {
    /// The text, without a byte order mark.
    pub(super) bytes: &'a [u8],
    /// The position in the file.
    pub(super) start: usize,
    /// The number of lines of the file before it.
    pub(super) first_line: u32,
}

impl<'a> Chunk<'a> {
    fn new(body: &'a [u8], start: usize, first_line: u32) -> Self {
        let bytes = without_mark(body);
        Self { bytes, start: start + (body.len() - bytes.len()), first_line }
    }
}

/// Reads all documents of a file.
pub(super) fn read_stream(bytes: &[u8]) -> Stream {
    let mut stream = Stream::default();
    if bytes.len() > MAX_BYTES {
        let message = format!("this file is larger than {} MiB: split it", MAX_BYTES >> 20);
        stream.errors.push(Error { at: Position { line: 1, column: 1 }, message });
        return stream;
    }
    // Both sides of a conflict in one document would be an error that says nothing of the cause.
    if let Some(conflict) = find_conflict(bytes) {
        stream.errors.push(conflict);
        return stream;
    }
    let mut index = 0;
    for chunk in split_chunks(bytes) {
        read_chunk(&chunk, &mut index, &mut stream);
        if stream.errors.len() > MAX_ERRORS {
            break;
        }
    }
    stream
}

pub(super) fn read_chunk(chunk: &Chunk<'_>, index: &mut u32, stream: &mut Stream) {
    let first = *index;
    if chunk.bytes.trim_ascii().is_empty() {
        // A file may have millions of these.
        *index += 1;
        return;
    }
    match decode_text(chunk).and_then(|text| check_separators(text, chunk.first_line).map_or(Ok(text), Err)) {
        Ok(text) => match json::parse_values(text) {
            Some(values) => {
                let (mut line, mut from) = (chunk.first_line + 1, 0);
                for json::LocatedValue { start, value } in values {
                    line += count_lines(text.as_bytes().get(from..start).unwrap_or_default());
                    from = start;
                    let own = text.get(start..).filter(|_| value.get("items").is_some());
                    let item_lines = own.map(|own| json::item_lines(own, line)).unwrap_or_default();
                    push_document(stream, index, Document { index: *index, line, value, item_lines });
                }
            }
            None => read_yaml(text, chunk.first_line, index, stream),
        },
        Err(error) => {
            stream.errors.push(error);
            *index += 1;
        }
    }
    *index = (*index).max(first + 1);
}

fn push_document(stream: &mut Stream, index: &mut u32, document: Document) {
    if !document.value.is_null() {
        stream.documents.push(document);
    }
    *index += 1;
}

/// What `kubectl` refuses in a text between two separators: content on the line of a `---`, and directives without a
/// document.
fn check_separators(text: &str, first_line: u32) -> Option<Error> {
    let (line, message) = if only_directives(text.as_bytes()) {
        let before = text.lines().take_while(|line| !line.starts_with('%')).count();
        (
            before + 1,
            "kubectl reads this directive as a document of its own, which has no content: remove the line",
        )
    } else {
        // The separators that it accepts are not in the text.
        let (line, _) = text.lines().enumerate().find(|(_, line)| line.starts_with("---"))?;
        (line + 1, "kubectl refuses content on the line of `---`: write it on the next line")
    };
    Some(Error { at: super::events::to_position(first_line, line, 0), message: message.to_owned() })
}

/// Reads the first document of a text, whose large integers stay integers.
pub(super) fn read_first(text: &str) -> Result<Value, Error> {
    let chunk = Chunk::new(text.as_bytes(), 0, 0);
    let text = decode_text(&chunk)?;
    let mut builder = Builder::new(text, 0).with_large_integers();
    match builder.next_document() {
        Next::End => Ok(Value::Null),
        Next::Document(Built { value: Err(_), .. }) if builder.lacks_spaces() => {
            let repaired = repair::insert_spaces(text).unwrap_or_else(|| text.to_owned());
            match Builder::new(&repaired, 0).with_large_integers().next_document() {
                Next::Document(built) => built.value,
                Next::End => Ok(Value::Null),
            }
        }
        Next::Document(built) => built.value,
    }
}

fn read_yaml(text: &str, first_line: u32, index: &mut u32, stream: &mut Stream) {
    let mut builder = Builder::new(text, first_line);
    let Next::Document(Built { line, value, warnings, item_lines }) = builder.next_document() else { return };
    match value {
        Ok(value) => {
            stream.warnings.extend(warnings);
            push_document(stream, index, Document { index: *index, line, value, item_lines });
            stream.warnings.extend(unread_document(&mut builder));
        }
        Err(error) => {
            if builder.lacks_spaces()
                && let Some(text) = repair::insert_spaces(text)
            {
                return read_yaml(&text, first_line, index, stream);
            }
            stream.warnings.extend(warnings);
            stream.errors.push(error);
            *index += 1;
        }
    }
}

/// The warning about a document that follows the first one of a text. `kubectl` reads only that.
fn unread_document(builder: &mut Builder<'_>) -> Option<Warning> {
    let Next::Document(Built { line, value: Ok(value), .. }) = builder.next_document() else { return None };
    let message =
        "kubectl does not read what follows `...` up to the next `---`, so this document is left out";
    let at = Position { line, column: 1 };
    let kind = WarningKind::UnreadDocument;
    (!value.is_null()).then(|| Warning { kind, at, message: message.to_owned() })
}

/// The text of a chunk: UTF-8 without the characters that YAML does not allow.
pub(super) fn decode_text<'a>(chunk: &Chunk<'a>) -> Result<&'a str, Error> {
    let (at, message) = match std::str::from_utf8(chunk.bytes) {
        Ok(text) => {
            let Some((at, found)) = find_forbidden(text) else { return Ok(text) };
            let code = u32::from(found);
            let message = format!(
                "the control character U+{code:04X} is not allowed in YAML: remove it, or write it as an escape in double quotes"
            );
            (at, message)
        }
        Err(error) => (error.valid_up_to(), "this is not UTF-8 text: save the file as UTF-8".to_owned()),
    };
    let before = String::from_utf8_lossy(chunk.bytes.get(..at).unwrap_or_default()).into_owned();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
    Err(Error { at: super::events::to_position(chunk.first_line, line + 1, column), message })
}

/// The first character that YAML does not allow in a file.
fn find_forbidden(text: &str) -> Option<(usize, char)> {
    let bytes = text.as_bytes().iter();
    // Without an early exit, the loop is vectorized.
    let is_suspect = bytes.fold(false, |any, &byte| {
        any | (byte < 0x20 && !matches!(byte, 9 | 10 | 13)) | matches!(byte, 0x7F | 0xC2 | 0xEF)
    });
    if !is_suspect {
        return None;
    }
    text.char_indices().find(|&(_, found)| {
        !matches!(found, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..)
    })
}

/// Splits a file into the texts between its separator lines.
pub(super) fn split_texts(bytes: &[u8]) -> Vec<TextRange> {
    let (mut next, mut ranges) = (0, Vec::new());
    for chunk in split_chunks(bytes) {
        let first = next;
        read_chunk(&chunk, &mut next, &mut Stream::default());
        ranges
            .push(TextRange { documents: first..next, bytes: chunk.start..chunk.start + chunk.bytes.len() });
    }
    ranges
}

/// Splits a file at its separator lines.
pub(super) fn split_chunks(bytes: &[u8]) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut line, mut from) = (0, 0u32, 0);
    while let Some((at, end)) = find_separator(bytes, from) {
        from = end;
        let body = bytes.get(start..at).unwrap_or_default();
        if !body.is_empty() || start > 0 {
            chunks.push(Chunk::new(body, start, line));
        }
        line += count_lines(bytes.get(start..end).unwrap_or_default());
        start = end;
    }
    let body = bytes.get(start..).unwrap_or_default();
    chunks.push(Chunk::new(body, start, line));
    chunks
}

/// The next separator line at or after `from`, which is the start of a line: its start, and the start of the
/// next line.
fn find_separator(bytes: &[u8], mut from: usize) -> Option<(usize, usize)> {
    loop {
        let rest = bytes.get(from..)?;
        if !rest.starts_with(b"---") {
            from += find_dashes(rest)? + 1;
            continue;
        }
        let length = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
        let tail = rest.get(3..length)?.trim_ascii();
        if tail.is_empty() || tail.starts_with(b"#") {
            return Some((from, from + length));
        }
        from += length;
    }
}

fn find_dashes(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|&byte| byte == b'\n')?;
        if bytes.get(at + 1..)?.starts_with(b"---") {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Whether a text contains only directives (`%YAML 1.1`).
fn only_directives(body: &[u8]) -> bool {
    let mut found = false;
    for line in without_mark(body).split(|&byte| byte == b'\n') {
        match line.trim_ascii_start().first() {
            None | Some(b'#') => {}
            Some(b'%') if line.starts_with(b"%") => found = true,
            Some(_) => return false,
        }
    }
    found
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

#[allow(clippy::naive_bytecount)] // vectorised well enough, and no dependency
pub(super) fn count_lines(bytes: &[u8]) -> u32 {
    let count = bytes.iter().filter(|&&byte| byte == b'\n').count();
    u32::try_from(count).unwrap_or(u32::MAX)
}
