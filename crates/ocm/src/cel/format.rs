//! The function `format`, and numbers as texts in Go's notation.
//!
//! Facts: the clauses are those of version 4 of the library of texts. `%s` writes any value, lists as `[a, b]` and maps
//! sorted by key as `{a: b}`; `%d` decimal numbers, `%f` and `%e` with 6 digits or those of a precision, at most 1,000;
//! `%b`, `%o`, `%x` and `%X` whole numbers, `%b` also booleans, `%x` also texts. More arguments than clauses are ignored,
//! unless the compiler sees both.

use super::cel_type::CelType;
use super::value::CelValue;
use federate_kubernetes::hex::to_hex;

use CelValue::{Bool, Bytes, Double, Int, List, Map, Null, Span, Text, Time, Type, Uint};

/// The digits of `%f` and `%e` without a precision.
const DEFAULT_PRECISION: usize = 6;

/// The largest precision.
const MAX_PRECISION: usize = 1000;

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatPart<'f> {
    /// Text that stays.
    Literal(&'f str),
    /// A clause for the next argument: its letter, and its precision.
    Clause(char, usize),
}

/// Parses a format; `None` if it is malformed.
pub(super) fn parse_format(format: &str) -> Option<Vec<FormatPart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (literal, after) = rest.split_at(at);
        parts.push(FormatPart::Literal(literal));
        rest = after.get(1..)?;
        if let Some(after) = rest.strip_prefix('%') {
            parts.push(FormatPart::Literal("%"));
            rest = after;
            continue;
        }
        let mut precision = DEFAULT_PRECISION;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c: char| !c.is_ascii_digit())?;
            let (digits, after) = after.split_at(end);
            precision = digits.parse().ok().filter(|precision| *precision <= MAX_PRECISION)?;
            rest = after;
        }
        let clause = rest.chars().next().filter(|clause| "sdfebxXo".contains(*clause))?;
        parts.push(FormatPart::Clause(clause, precision));
        rest = rest.get(1..)?;
    }
    parts.push(FormatPart::Literal(rest));
    Some(parts)
}

/// Whether a clause may have an argument of a type.
pub(super) fn accepts_type(clause: char, argument: &CelType) -> bool {
    use CelType as T;
    match (clause, argument) {
        (_, T::Dyn) => true,
        ('s', argument) => !matches!(argument, T::Optional(_) | T::Library(_)),
        ('d' | 'f' | 'e', argument) => matches!(argument, T::Int | T::Uint | T::Double),
        ('b', argument) => matches!(argument, T::Int | T::Uint | T::Bool),
        ('o', argument) => matches!(argument, T::Int | T::Uint),
        (_, argument) => matches!(argument, T::Int | T::Uint | T::Text | T::Bytes),
    }
}

/// Formats values; `None` for an error.
pub(super) fn format_values(format: &str, values: &[CelValue]) -> Option<String> {
    let mut values = values.iter();
    let mut text = String::new();
    for part in parse_format(format)? {
        match part {
            FormatPart::Literal(literal) => text.push_str(literal),
            FormatPart::Clause(clause, precision) => {
                text.push_str(&format_value(clause, precision, values.next()?)?);
            }
        }
    }
    Some(text)
}

#[expect(clippy::cast_precision_loss, reason = "as the hub converts it")]
fn format_value(clause: char, precision: usize, value: &CelValue) -> Option<String> {
    let number = || match value {
        Int(number) => Some(*number as f64),
        Uint(number) => Some(*number as f64),
        Double(number) => Some(*number),
        _ => None,
    };
    Some(match (clause, value) {
        ('s', value) => write_value(value)?,
        ('d', Int(_) | Uint(_) | Double(_)) => write_value(value)?,
        ('f' | 'e', Double(number)) if !number.is_finite() => write_decimal(*number),
        ('f', _) => format!("{:.precision$}", number()?),
        ('e', _) => pad_exponent(&format!("{:.precision$e}", number()?)),
        ('b', Bool(value)) => u8::from(*value).to_string(),
        ('b', _) => write_whole(value, |number| format!("{number:b}"))?,
        ('o', _) => write_whole(value, |number| format!("{number:o}"))?,
        ('x', Text(text)) => to_hex(text.as_bytes()),
        ('X', Text(text)) => to_hex(text.as_bytes()).to_uppercase(),
        ('x', Bytes(bytes)) => to_hex(bytes),
        ('X', Bytes(bytes)) => to_hex(bytes).to_uppercase(),
        ('x', _) => write_whole(value, |number| format!("{number:x}"))?,
        ('X', _) => write_whole(value, |number| format!("{number:X}"))?,
        _ => return None,
    })
}

/// A whole number by its sign and size.
fn write_whole(value: &CelValue, write: impl Fn(u64) -> String) -> Option<String> {
    match value {
        Int(number) if *number < 0 => Some(format!("-{}", write(number.unsigned_abs()))),
        Int(number) => Some(write(number.unsigned_abs())),
        Uint(number) => Some(write(*number)),
        _ => None,
    }
}

/// A value as `%s` writes it.
fn write_value(value: &CelValue) -> Option<String> {
    Some(match value {
        Null => "null".to_owned(),
        Bool(value) => value.to_string(),
        Int(number) => number.to_string(),
        Uint(number) => number.to_string(),
        Double(number) => write_decimal(*number),
        Text(text) => text.to_string(),
        // Bytes that are no text would stay as they are.
        Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Time(time) => time.to_string(),
        Span(span) => write_span(*span),
        Type(name) => (*name).to_owned(),
        List(items) => {
            let items: Option<Vec<String>> = items.iter().map(write_value).collect();
            format!("[{}]", items?.join(", "))
        }
        Map(entries) => {
            let mut texts = Vec::with_capacity(entries.len());
            for (key, value) in entries.iter() {
                texts.push((write_value(key)?, write_value(value)?));
            }
            texts.sort_by(|a, b| a.0.cmp(&b.0));
            let texts: Vec<String> = texts.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("{{{}}}", texts.join(", "))
        }
        _ => return None,
    })
}

/// A number without an exponent.
fn write_decimal(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        number.to_string()
    }
}

/// A span in seconds.
#[expect(clippy::cast_precision_loss, reason = "as the hub converts it")]
pub(super) fn write_span(span: jiff::SignedDuration) -> String {
    let seconds = span.as_secs() as f64 + f64::from(span.subsec_nanos()) / 1e9;
    format!("{seconds}s")
}

/// A number as `string()` writes it: with an exponent below 0.0001 and from 1,000,000 on.
pub(super) fn write_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let text = format!("{number:e}");
    let exponent = text.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()).unwrap_or(0);
    if (-4..6).contains(&exponent) { number.to_string() } else { pad_exponent(&text) }
}

/// A number in Rust's scientific notation with a sign and two digits of the exponent.
fn pad_exponent(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// A text in quotes, with the escapes of the language.
pub(super) fn quote_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_an_exponent_where_go_writes_one() {
        for (number, text) in [
            (60.0, "60"),
            (0.5, "0.5"),
            (0.0, "0"),
            (123_456.0, "123456"),
            (1_000_000.0, "1e+06"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (-2.5e100, "-2.5e+100"),
        ] {
            assert_eq!(write_double(number), text);
        }
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(write_double), ["NaN", "+Inf", "-Inf"]);
    }

    #[test]
    fn a_malformed_format_is_an_error() {
        for format in ["%", "%q", "%.", "%.5", "%.2", "%.1001f", "a%-d", "%é"] {
            assert_eq!(parse_format(format), None, "{format}");
        }
        assert_eq!(format_values("%s %s", &[Int(1)]), None);
        assert_eq!(format_values("100%% %.0f", &[Double(2.5)]).as_deref(), Some("100% 2"));
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quote_text("a\"b\\\n\u{7}\u{b}"), r#""a\"b\\\n\a\v""#);
    }
}
