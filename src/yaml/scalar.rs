//! What a scalar means: the resolution of YAML 1.1 as `kubectl`'s reader does it.
//!
//! Facts: the first character decides what is tried at all; words are looked up; integers are read
//! with Go's base prefixes after `_` is dropped; dates and sexagesimal numbers stay text; an integer
//! beyond int64 is a float in JSON, and cannot be a key.

use serde_json::{Number, Value};

/// A resolved scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond int64.
    Unsigned(u64),
    Float(f64),
    Text,
}

/// Resolves an untagged plain scalar.
pub(super) fn resolve(text: &str) -> Scalar {
    let Some(first) = text.bytes().next() else { return Scalar::Null };
    match first {
        b'0'..=b'9' | b'+' | b'-' => word(text).unwrap_or_else(|| number(text)),
        b'.' => word(text).or_else(|| float(text)).unwrap_or(Scalar::Text),
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            word(text).unwrap_or(Scalar::Text)
        }
        _ => Scalar::Text,
    }
}

fn word(text: &str) -> Option<Scalar> {
    // The longest word is `false`; most text is longer.
    if text.len() > 5 {
        return None;
    }
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn number(text: &str) -> Scalar {
    let dropped;
    let plain = if text.contains('_') {
        dropped = text.replace('_', "");
        dropped.as_str()
    } else {
        text
    };
    integer(plain).or_else(|| float(plain)).unwrap_or(Scalar::Text)
}

/// An integer with an optional sign and one of Go's prefixes: `0x`, `0b`, `0o` or a bare `0` (octal).
fn integer(text: &str) -> Option<Scalar> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let bytes = rest.as_bytes();
    let (radix, digits) = match bytes {
        [b'0', b'x' | b'X', ..] => (16, &rest[2..]),
        [b'0', b'b' | b'B', ..] => (2, &rest[2..]),
        [b'0', b'o' | b'O', ..] => (8, &rest[2..]),
        [b'0', _, ..] => (8, &rest[1..]),
        _ => (10, rest),
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (i64::try_from(magnitude), negative) {
        (Ok(value), true) => Some(Scalar::Int(-value)),
        (Ok(value), false) => Some(Scalar::Int(value)),
        (Err(_), true) => (magnitude == 1 << 63).then_some(Scalar::Int(i64::MIN)),
        // A sign keeps Go from reading it as unsigned.
        (Err(_), false) if text.starts_with('+') => None,
        (Err(_), false) => Some(Scalar::Unsigned(magnitude)),
    }
}

/// `[sign] digits [. digits] [e [sign] digits]`, where digits may lack on one side of the point.
fn float(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_shaped = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    let value: f64 = (shaped && exponent_shaped).then(|| text.parse().ok())??;
    value.is_finite().then_some(Scalar::Float(value))
}

/// The scalar as JSON holds it; an error for the floats that JSON has no word for.
pub(super) fn value(scalar: &Scalar, text: &str) -> Result<Value, String> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(*value),
        Scalar::Int(value) => Value::from(*value),
        #[expect(clippy::cast_precision_loss, reason = "Kubernetes has no integers beyond int64")]
        Scalar::Unsigned(value) => float_value(*value as f64).unwrap_or_default(),
        Scalar::Float(value) => {
            float_value(*value).ok_or_else(|| format!("`{text}` is a number that JSON cannot express"))?
        }
        Scalar::Text => Value::String(text.to_owned()),
    })
}

/// A float as JSON: an integer when its shortest digits are one that fits int64.
fn float_value(value: f64) -> Option<Value> {
    if value.is_finite()
        && value.fract() == 0.0
        && value.abs() < 1e19
        && let Ok(whole) = format!("{value}").parse::<i64>()
    {
        return Some(Value::from(whole));
    }
    Number::from_f64(value).map(Value::Number)
}

/// The scalar as a key of a JSON object; an error for what cannot be one.
pub(super) fn key(scalar: &Scalar, text: &str) -> Result<String, String> {
    Ok(match scalar {
        Scalar::Text => text.to_owned(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => float_key(*value),
        Scalar::Null => return Err("a key cannot be null: quote it if it is meant as text".to_owned()),
        Scalar::Unsigned(_) => return Err(format!("the key {text} is too large for an integer: quote it")),
    })
}

/// Go's `%g` with the shortest digits of a float32.
fn float_key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "keys are written as float32")]
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    general(&format!("{value:e}"), &value.to_string())
}

/// A float as it is written: Go's `%g` with the shortest digits.
pub(super) fn float_text(value: f64) -> String {
    general(&format!("{value:e}"), &value.to_string())
}

/// Chooses between `1.5e+06` and plain digits as Go does: by an exponent below -4 or above 5.
fn general(scientific: &str, plain: &str) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return plain.to_owned() };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) || mantissa.trim_start_matches('-') == "0" {
        return plain.to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Resolves a scalar that carries an explicit core tag (`int` of `!!int`).
pub(super) fn tagged(tag: &str, text: &str) -> Result<(Scalar, Option<String>), String> {
    let any = || word(text).unwrap_or_else(|| resolve(text));
    let mismatch = || format!("`{}` cannot be read as !!{tag}", excerpt(text));
    match tag {
        "str" => Ok((Scalar::Text, None)),
        "binary" => {
            let bytes = base64(text).ok_or_else(|| "!!binary is not followed by base64".to_owned())?;
            Ok((Scalar::Text, Some(String::from_utf8_lossy(&bytes).into_owned())))
        }
        "bool" => match any() {
            found @ Scalar::Bool(_) => Ok((found, None)),
            _ => Err(mismatch()),
        },
        "null" => match any() {
            Scalar::Null => Ok((Scalar::Null, None)),
            _ => Err(mismatch()),
        },
        "int" => match any() {
            found @ (Scalar::Int(_) | Scalar::Unsigned(_)) => Ok((found, None)),
            _ => Err(mismatch()),
        },
        #[expect(clippy::cast_precision_loss, reason = "asked for")]
        "float" => match any() {
            Scalar::Int(value) => Ok((Scalar::Float(value as f64), None)),
            Scalar::Unsigned(value) => Ok((Scalar::Float(value as f64), None)),
            found @ Scalar::Float(_) => Ok((found, None)),
            _ => Err(mismatch()),
        },
        "timestamp" if !is_date(text) => Err(mismatch()),
        _ => Ok((Scalar::Text, None)),
    }
}

/// Whether the text begins as an ISO date does.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5].is_ascii_digit()
}

fn excerpt(text: &str) -> &str {
    text.char_indices().nth(20).map_or(text, |(end, _)| &text[..end])
}

/// Standard base64 with padding; line breaks are skipped.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0u32, 0, 0);
    for byte in text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                0
            }
            _ => return None,
        };
        if padding > 0 && byte != b'=' {
            return None;
        }
        bits = bits << 6 | u32::from(digit);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    if count != 0 || padding > 2 {
        return None;
    }
    out.truncate(out.len() - padding);
    Some(out)
}
