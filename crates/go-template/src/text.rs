//! Texts as Go has them: bytes that are usually UTF-8. Functions such as `trunc` cut them between any two bytes, and
//! `b64dec` makes any bytes of them, so they become Rust strings only at the end.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

/// An immutable text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoText(Rc<[u8]>);

impl GoText {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text with U+FFFD for each byte that is not part of a character.
    pub(crate) fn to_valid(&self) -> Cow<'_, str> {
        to_valid_text(&self.0)
    }
}

impl fmt::Debug for GoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_valid(), f)
    }
}

impl From<&str> for GoText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<&[u8]> for GoText {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<String> for GoText {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for GoText {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

/// The text of `bytes` with U+FFFD for each byte that is not part of a character.
pub(crate) fn to_valid_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(chars(bytes).map(|(_, c)| c).collect()),
    }
}

/// The first character of `bytes` and its length; a byte that begins no character is U+FFFD.
pub(crate) fn first_char(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((char::from(first), 1));
    }
    for length in 2..=4 {
        let Some(part) = bytes.get(..length) else { break };
        if let Some(c) = std::str::from_utf8(part).ok().and_then(|text| text.chars().next()) {
            return Some((c, length));
        }
    }
    Some((char::REPLACEMENT_CHARACTER, 1))
}

/// The characters of `bytes` with their bytes.
pub(crate) fn chars(bytes: &[u8]) -> impl Iterator<Item = (&[u8], char)> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, length) = first_char(rest)?;
        let (part, after) = rest.split_at(length);
        rest = after;
        Some((part, c))
    })
}

/// The number of characters.
pub(crate) fn count_chars(bytes: &[u8]) -> usize {
    chars(bytes).count()
}

/// Where `needle` is first found, in a time that does not grow with the product of both.
pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    // For each start of the needle, the longest one that also ends there (Knuth, Morris and Pratt).
    let mut borders = vec![0; needle.len()];
    let mut matched = 0;
    let advance = |borders: &[usize], mut matched: usize, byte: u8| {
        while matched > 0 && needle.get(matched) != Some(&byte) {
            matched = borders.get(matched - 1).copied().unwrap_or(0);
        }
        if needle.get(matched) == Some(&byte) { matched + 1 } else { 0 }
    };
    for (at, byte) in needle.iter().enumerate().skip(1) {
        matched = advance(&borders, matched, *byte);
        if let Some(border) = borders.get_mut(at) {
            *border = matched;
        }
    }
    if needle.is_empty() {
        return Some(0);
    }
    matched = 0;
    for (at, byte) in bytes.iter().enumerate() {
        matched = advance(&borders, matched, *byte);
        if matched == needle.len() {
            return Some(at + 1 - needle.len());
        }
    }
    None
}

/// The parts between separators, at most `limit` of them; without a separator, the characters.
pub(crate) fn split<'b>(bytes: &'b [u8], separator: &[u8], limit: usize) -> Vec<&'b [u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while parts.len() + 1 < limit {
        let (end, skipped) = if separator.is_empty() {
            match first_char(rest) {
                Some((_, length)) if length < rest.len() => (length, 0),
                _ => break,
            }
        } else {
            match find(rest, separator) {
                Some(at) => (at, separator.len()),
                None => break,
            }
        };
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after.get(skipped..).unwrap_or_default();
    }
    if !(rest.is_empty() && separator.is_empty()) {
        parts.push(rest);
    }
    parts
}

/// Each `old` replaced by `new`; an empty `old` is before each character and at the end.
pub(crate) fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    if !old.is_empty() {
        return split(bytes, old, usize::MAX).join(new);
    }
    let mut out = new.to_vec();
    for (part, _) in chars(bytes) {
        out.extend_from_slice(part);
        out.extend_from_slice(new);
    }
    out
}

/// The text without characters at both ends for which `cut` holds.
pub(crate) fn trim(bytes: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    let kept = |(_, (_, c)): &(usize, (&[u8], char))| !cut(*c);
    let mut start = None;
    let mut end = 0;
    let mut offset = 0;
    for entry in chars(bytes).enumerate() {
        let length = entry.1.0.len();
        if kept(&entry) {
            start.get_or_insert(offset);
            end = offset + length;
        }
        offset += length;
    }
    start.and_then(|start| bytes.get(start..end)).unwrap_or_default()
}

/// The text with each character replaced; what is not UTF-8 becomes U+FFFD, as in Go's functions for cases.
pub(crate) fn map_chars(bytes: &[u8], mut map: impl FnMut(char) -> char) -> String {
    chars(bytes).map(|(_, c)| map(c)).collect()
}

/// The upper case of a character that has one of one character.
pub(crate) fn to_upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

/// The lower case of a character.
pub(crate) fn to_lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// Whether a character is shown as it is, and not escaped, in quotes.
pub(crate) fn is_printable(c: char) -> bool {
    // Combining characters are only escaped where they have no character before them.
    c == '\'' || c == '"' || c == '\\' || format!("{:?}", format!("a{c}")) == format!("\"a{c}\"")
}
