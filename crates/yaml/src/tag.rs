//! The effect of a tag on a scalar.
//!
//! `!!int`, `!!float`, `!!bool`, `!!null` and `!!timestamp` require that the text resolves to that type,
//! quoted or not; `!!str` keeps the text; `!!binary` is base64; any other tag keeps the text too.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

use super::scalar::{self, PlainScalar};
use granit_parser::Tag;
use std::borrow::Cow;

/// A scalar after its tag is applied: its type and its text.
pub(super) type TaggedScalar<'a> = (PlainScalar, Cow<'a, str>);

/// The name of one of YAML's own tags, such as `int` for `!!int`; `None` for other tags.
pub(super) fn core_name(tag: &Tag) -> Option<Cow<'_, str>> {
    tag.suffix_in_namespace("tag:yaml.org,2002:")
}

/// Resolves `text` with `tag`. The error says what the tag requires.
pub(super) fn resolve_tagged<'a>(tag: &Tag, text: Cow<'a, str>) -> Result<TaggedScalar<'a>, String> {
    let Some(name) = core_name(tag) else { return Ok((PlainScalar::Text, text)) };
    let plain = match &*name {
        "binary" => return Ok((PlainScalar::Text, Cow::Owned(decode_binary(&text)?))),
        "int" | "float" | "bool" | "null" => scalar::resolve_plain(&text),
        "timestamp" if is_timestamp(&text) => PlainScalar::Text,
        "timestamp" => return Err(describe_mismatch(&text, &name)),
        _ => return Ok((PlainScalar::Text, text)),
    };
    match (&*name, plain) {
        ("int", PlainScalar::Int(_) | PlainScalar::Uint(_))
        | ("float", PlainScalar::Float(_))
        | ("bool", PlainScalar::Bool(_))
        | ("null", PlainScalar::Null)
        | ("timestamp", _) => Ok((plain, text)),
        #[allow(clippy::cast_precision_loss)] // what was asked for
        ("float", PlainScalar::Int(value)) => Ok((PlainScalar::Float(value as f64), text)),
        _ => Err(describe_mismatch(&text, &name)),
    }
}

fn describe_mismatch(text: &str, name: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("`{shown}` does not match its tag `!!{name}`")
}

/// Decodes base64 with padding; each byte that is not part of valid UTF-8 becomes U+FFFD.
fn decode_binary(text: &str) -> Result<String, String> {
    // The bits that the last symbol has too many need not be zero.
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let symbols: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let bytes = GeneralPurpose::new(&alphabet::STANDARD, config)
        .decode(symbols)
        .map_err(|_| "this `!!binary` value is not valid base64".to_owned())?;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(out)
}

/// `2001-1-2`, `2001-01-02 3:4:5.6`, or the same with `T` or `t` and then `Z` or an offset `+01:00`.
fn is_timestamp(text: &str) -> bool {
    let mut rest = text;
    let date = take_digits(&mut rest, 4, 4).is_some_and(|year| {
        skip_char(&mut rest, '-')
            && take_digits(&mut rest, 1, 2).is_some_and(|month| {
                skip_char(&mut rest, '-')
                    && take_digits(&mut rest, 1, 2)
                        .is_some_and(|day| (1..=days_in_month(year, month)).contains(&day))
            })
    });
    if !date || rest.is_empty() {
        return date;
    }
    let zoned = skip_char(&mut rest, 'T') || skip_char(&mut rest, 't');
    if !(zoned || skip_char(&mut rest, ' ')) || !skip_time(&mut rest) {
        return false;
    }
    if zoned { is_zone(rest) } else { rest.is_empty() }
}

fn skip_time(rest: &mut &str) -> bool {
    let whole = take_digits(rest, 1, 2).is_some_and(|hour| hour < 24)
        && skip_char(rest, ':')
        && take_digits(rest, 1, 2).is_some_and(|minute| minute < 60)
        && skip_char(rest, ':')
        && take_digits(rest, 1, 2).is_some_and(|second| second < 60);
    whole && (!(skip_char(rest, '.') || skip_char(rest, ',')) || take_digits(rest, 1, usize::MAX).is_some())
}

fn is_zone(mut rest: &str) -> bool {
    if rest == "Z" {
        return true;
    }
    (skip_char(&mut rest, '+') || skip_char(&mut rest, '-'))
        && take_digits(&mut rest, 2, 2).is_some_and(|hours| hours <= 24)
        && skip_char(&mut rest, ':')
        && take_digits(&mut rest, 2, 2).is_some_and(|minutes| minutes < 60)
        && rest.is_empty()
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

fn skip_char(rest: &mut &str, wanted: char) -> bool {
    rest.strip_prefix(wanted).map(|tail| *rest = tail).is_some()
}

/// Parses between `least` and `most` digits; the value is meaningless beyond 18 of them.
fn take_digits(rest: &mut &str, least: usize, most: usize) -> Option<u64> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    let (head, tail) = rest.split_at(count);
    *rest = tail;
    Some(head.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'))))
}
