//! The meaning of scalars: how `kubectl` interprets plain text, tags, and mapping keys.
//!
//! The rules are those of a YAML 1.1 parser in Go, followed by a conversion to JSON: `yes`, `on` and `y` are
//! booleans, a leading `0` means octal, `_` may be part of numbers, sexagesimal numbers and timestamps are
//! text, integers beyond 64 bits become floats, and floats are printed as Go prints JSON and then parsed
//! again as an integer if they look like one.

use serde_json::{Number, Value};

/// What plain text resolves to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PlainScalar {
    /// `null`, `~` or empty.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// An integer above [`i64::MAX`].
    Uint(u64),
    /// Any other number, including infinities and NaN.
    Float(f64),
    /// A string.
    Text,
}

/// Resolves untagged plain text.
#[inline]
pub(super) fn resolve_plain(text: &str) -> PlainScalar {
    match text.as_bytes().first() {
        None => PlainScalar::Null,
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => resolve_number(text),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~')
            if text.len() <= 5 =>
        {
            resolve_word(text)
        }
        Some(_) => PlainScalar::Text,
    }
}

fn resolve_word(text: &str) -> PlainScalar {
    match text {
        "~" | "null" | "Null" | "NULL" => PlainScalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            PlainScalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            PlainScalar::Bool(false)
        }
        _ => PlainScalar::Text,
    }
}

fn resolve_number(text: &str) -> PlainScalar {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return PlainScalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return PlainScalar::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return PlainScalar::Float(f64::NAN),
        _ => {}
    }
    if text.starts_with('.') && !underscores_between_digits(text) {
        return PlainScalar::Text;
    }
    if text.contains('_') { resolve_digits(&text.replace('_', "")) } else { resolve_digits(text) }
}

/// A number that starts with a point allows underscores only between two digits; other numbers allow them
/// anywhere.
fn underscores_between_digits(text: &str) -> bool {
    text.split('_').skip(1).all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        && text.split('_').rev().skip(1).all(|part| part.ends_with(|c: char| c.is_ascii_digit()))
}

fn resolve_digits(text: &str) -> PlainScalar {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let signed = rest.len() < text.len();
    if let Some(magnitude) = parse_magnitude(rest) {
        if let Some(value) = with_sign(magnitude, negative) {
            return PlainScalar::Int(value);
        }
        if !signed {
            return PlainScalar::Uint(magnitude);
        }
    }
    if is_decimal_float(rest)
        && let Ok(value) = text.parse::<f64>()
        && value.is_finite()
    {
        return PlainScalar::Float(value);
    }
    signed_binary(text).map_or(PlainScalar::Text, PlainScalar::Int)
}

/// The digits of an integer in the base of its prefix: `0x`, `0b`, `0o`, `0` (octal) or none.
fn parse_magnitude(text: &str) -> Option<u64> {
    let (base, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &text[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &text[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &text[2..]),
        [b'0'] => return Some(0),
        [b'0', ..] => (8, &text[1..]),
        _ => (10, text),
    };
    if digits.starts_with('+') {
        return None; // from_str_radix would take the sign
    }
    u64::from_str_radix(digits, base).ok()
}

fn with_sign(magnitude: u64, negative: bool) -> Option<i64> {
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// `0b-1` and `0b+1` are numbers for `kubectl`: the sign may follow the prefix.
fn signed_binary(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok()
}

/// `1`, `1.`, `1.5` or `.5`, with an optional exponent, without a sign.
fn is_decimal_float(text: &str) -> bool {
    let bytes = text.as_bytes();
    let whole = count_digits(bytes, 0);
    let mut at = whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = count_digits(bytes, at + 1);
        if whole == 0 && fraction == 0 {
            return false;
        }
        at += 1 + fraction;
    } else if whole == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = count_digits(bytes, at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == bytes.len()
}

fn count_digits(bytes: &[u8], from: usize) -> usize {
    bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count()
}

/// The JSON number for a float in `kubectl`: whole numbers below 1e21 are printed without a point, with the
/// shortest digits that identify the float, and become integers if they fit. `None` for infinities and NaN,
/// which JSON does not have.
pub(super) fn float_to_number(value: f64) -> Option<Number> {
    if value.fract() == 0.0 && value.abs() < 1e21 {
        let text = value.to_string();
        if let Ok(whole) = text.parse::<i64>() {
            return Some(whole.into());
        }
        if let Ok(whole) = text.parse::<u64>() {
            return Some(whole.into());
        }
    }
    Number::from_f64(value)
}

/// The JSON value for resolved plain text.
pub(super) fn to_value(plain: PlainScalar, text: &str) -> Result<Value, String> {
    Ok(match plain {
        PlainScalar::Null => Value::Null,
        PlainScalar::Bool(value) => Value::Bool(value),
        PlainScalar::Int(value) => Value::Number(value.into()),
        PlainScalar::Uint(value) => u64_to_number(value).map_or(Value::Null, Value::Number),
        PlainScalar::Float(value) => Value::Number(float_to_number(value).ok_or_else(|| {
            format!("`{text}` cannot be represented as a JSON number; quote it to keep it as text")
        })?),
        PlainScalar::Text => Value::String(text.to_owned()),
    })
}

/// Integers above [`i64::MAX`] lose digits, because `kubectl` converts them to floats.
#[allow(clippy::cast_precision_loss)] // the loss is the rule
pub(super) fn u64_to_number(value: u64) -> Option<Number> {
    float_to_number(value as f64)
}

/// The JSON key for a mapping key in `kubectl`. `None` stands for the text itself.
pub(super) fn to_key(plain: PlainScalar, text: &str) -> Result<Option<String>, String> {
    Ok(Some(match plain {
        PlainScalar::Text => return Ok(None),
        PlainScalar::Null => {
            return Err("a mapping key cannot be null; quote it to use it as text".to_owned());
        }
        PlainScalar::Uint(_) => {
            return Err(format!(
                "the mapping key `{text}` is too large an integer; quote it to use it as text"
            ));
        }
        PlainScalar::Bool(value) => value.to_string(),
        PlainScalar::Int(value) => value.to_string(),
        PlainScalar::Float(value) => float_key(value),
    }))
}

/// A float key is rounded to 32 bits and printed in the shortest form, with an exponent of at least two
/// digits below 1e-4 and from 1e6 on.
#[allow(clippy::cast_possible_truncation)] // the loss is the rule
fn float_key(value: f64) -> String {
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
