//! Quoted texts and characters in Go's syntax.

use std::str::Chars;

use crate::text::{GoText, is_printable};

/// The text between `"` or `` ` ``.
pub(crate) fn unquote_text(quoted: &str) -> Option<GoText> {
    if let Some(raw) = quoted.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', "").into());
    }
    let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match read_char(c, &mut chars, '"')? {
            Unquoted::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unquoted::Byte(byte) => out.push(byte),
        }
    }
    Some(out.into())
}

/// The character between `'`.
pub(crate) fn unquote_char(quoted: &str) -> Option<char> {
    let inside = quoted.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut chars = inside.chars();
    let first = chars.next()?;
    let c = match read_char(first, &mut chars, '\'')? {
        Unquoted::Char(c) => c,
        Unquoted::Byte(byte) => char::from(byte),
    };
    chars.next().is_none().then_some(c)
}

enum Unquoted {
    Char(char),
    Byte(u8),
}

/// The character that begins with `first`.
fn read_char(first: char, rest: &mut Chars<'_>, quote: char) -> Option<Unquoted> {
    if first != '\\' {
        return (first != '\n' && first != quote).then_some(Unquoted::Char(first));
    }
    let escape = rest.next()?;
    let c = match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        c if c == quote => quote,
        'x' => return u8::try_from(read_code(rest, 2, 16, 0)?).ok().map(Unquoted::Byte),
        'u' => char::from_u32(read_code(rest, 4, 16, 0)?)?,
        'U' => char::from_u32(read_code(rest, 8, 16, 0)?)?,
        '0'..='7' => {
            let code = read_code(rest, 2, 8, escape.to_digit(8)?)?;
            return u8::try_from(code).ok().map(Unquoted::Byte);
        }
        _ => return None,
    };
    Some(Unquoted::Char(c))
}

/// The number that some more digits make.
fn read_code(rest: &mut Chars<'_>, digits: usize, base: u32, first: u32) -> Option<u32> {
    let mut code = first;
    for _ in 0..digits {
        code = code.checked_mul(base)?.checked_add(rest.next()?.to_digit(base)?)?;
    }
    Some(code)
}

/// Appends a text in double quotes. With `ascii`, all other characters are escaped.
pub(crate) fn quote_text(bytes: &[u8], ascii: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    for (part, c) in crate::text::chars(bytes) {
        if c == char::REPLACEMENT_CHARACTER && part.len() == 1 {
            let byte = part.first().copied().unwrap_or_default();
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        } else {
            escape_char(c, '"', ascii, out);
        }
    }
    out.push(b'"');
}

/// Appends a character in single quotes.
pub(crate) fn quote_char(c: char, ascii: bool, out: &mut Vec<u8>) {
    out.push(b'\'');
    escape_char(c, '\'', ascii, out);
    out.push(b'\'');
}

fn escape_char(c: char, quote: char, ascii: bool, out: &mut Vec<u8>) {
    if c == quote || c == '\\' {
        out.push(b'\\');
    }
    if c == quote || c == '\\' || if ascii { c == ' ' || c.is_ascii_graphic() } else { is_printable(c) } {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return;
    }
    let code = u32::from(c);
    let escaped = match c {
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        c if c.is_ascii() => format!("\\x{code:02x}"),
        _ if code < 0x1_0000 => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    };
    out.extend_from_slice(escaped.as_bytes());
}
