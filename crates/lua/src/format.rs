//! `string.format`, which is Go's `Sprintf` in gopher-lua.
//!
//! Facts: a verb that does not apply to its value is written as `%!u(int64=3)`, a verb without a value as
//! `%!d(MISSING)`; values without a verb are ignored; `%i` is `%d`.

use mlua::Value;

use super::arguments::{HostArguments, as_number, type_name};
use super::numbers::{self, go_exponent};
use federate_kubernetes::hex::to_hex;

/// The widest field, and the longest fraction.
const MAX_WIDTH: usize = 1000;

/// The part between `%` and the verb.
#[derive(Default)]
struct Spec {
    minus: bool,
    plus: bool,
    zero: bool,
    space: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
}

/// The formatted text.
pub(crate) fn format_string(arguments: &HostArguments<'_>) -> Result<Vec<u8>, String> {
    let pattern = arguments.read_bytes(0)?;
    let mut out = Vec::new();
    let mut rest = pattern.as_slice();
    let mut next = 1;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        out.extend_from_slice(&rest[..at]);
        let (spec, verb, after) = read_spec(&rest[at + 1..]);
        rest = after;
        match verb {
            None => out.extend_from_slice(b"%!(NOVERB)"),
            Some(b'%') => out.push(b'%'),
            Some(verb) if next >= arguments.argument_count() => {
                out.extend_from_slice(format!("%!{}(MISSING)", char::from(verb)).as_bytes());
            }
            Some(verb) => {
                let text = format_value(arguments, next, &spec, verb)?;
                pad_to_width(&mut out, &spec, text);
                next += 1;
            }
        }
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Flags, width and precision, the verb, and what follows it.
fn read_spec(mut rest: &[u8]) -> (Spec, Option<u8>, &[u8]) {
    let mut spec = Spec::default();
    while let Some((flag, after)) = rest.split_first() {
        match flag {
            b'-' => spec.minus = true,
            b'+' => spec.plus = true,
            b'0' => spec.zero = true,
            b' ' => spec.space = true,
            b'#' => spec.sharp = true,
            _ => break,
        }
        rest = after;
    }
    (spec.width, rest) = read_digits(rest);
    if let Some(after) = rest.strip_prefix(b".") {
        let (precision, after) = read_digits(after);
        (spec.precision, rest) = (Some(precision), after);
    }
    match rest.split_first() {
        Some((verb, after)) => (spec, Some(*verb), after),
        None => (spec, None, rest),
    }
}

fn read_digits(rest: &[u8]) -> (usize, &[u8]) {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let text = std::str::from_utf8(&rest[..end]).unwrap_or_default();
    (text.parse().unwrap_or(if end == 0 { 0 } else { MAX_WIDTH }).min(MAX_WIDTH), &rest[end..])
}

/// The text of a value, and whether it may be padded with zeros.
struct Text {
    bytes: Vec<u8>,
    is_number: bool,
}

fn plain_text(text: impl Into<Vec<u8>>) -> Text {
    Text { bytes: text.into(), is_number: false }
}

fn format_value(arguments: &HostArguments<'_>, at: usize, spec: &Spec, verb: u8) -> Result<Text, String> {
    let given = arguments.get(at);
    if let Some(number) = as_number(given) {
        return Ok(format_number_by(number, spec, verb));
    }
    if matches!(given, Value::String(_)) {
        let bytes = arguments.read_bytes(at)?;
        if verb != b's' || spec.width > 0 || spec.precision.is_some() {
            arguments.charge_each(bytes.len())?;
        }
        return Ok(format_bytes(&bytes, spec, verb));
    }
    let name = match given {
        Value::Boolean(truth) => truth.to_string(),
        Value::Nil => "nil".to_owned(),
        other => format!("{}: 0x0", type_name(other)),
    };
    Ok(match verb {
        b's' | b'v' => format_bytes(name.as_bytes(), spec, b's'),
        b't' if matches!(given, Value::Boolean(_)) => plain_text(name),
        b'q' => format_bytes(name.as_bytes(), spec, b'q'),
        _ => plain_text(format!("%!{}(lua.{}={name})", char::from(verb), type_name(given))),
    })
}

fn format_number_by(number: f64, spec: &Spec, verb: u8) -> Text {
    match verb {
        b's' | b'q' => format_bytes(numbers::format_number(number).as_bytes(), spec, verb),
        b'd' | b'i' | b'c' | b'x' | b'X' | b'o' | b'b' | b'U' => {
            format_integer(truncate_to_integer(number), spec, verb)
        }
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => format_float(number, spec, verb),
        b'v' => match numbers::to_integer(number) {
            Some(integer) => format_integer(integer, spec, b'd'),
            None => format_float(number, spec, b'g'),
        },
        _ => match numbers::to_integer(number) {
            Some(integer) => plain_text(format!("%!{}(int64={integer})", char::from(verb))),
            None => {
                plain_text(format!("%!{}(float64={})", char::from(verb), numbers::format_shortest(number)))
            }
        },
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked; what does not fit is the smallest")]
fn truncate_to_integer(number: f64) -> i64 {
    let fits = numbers::to_integer(number.trunc()).is_some();
    if fits { number as i64 } else { i64::MIN }
}

fn format_integer(number: i64, spec: &Spec, verb: u8) -> Text {
    let size = number.unsigned_abs();
    let digits = match verb {
        b'x' if spec.sharp => format!("0x{size:x}"),
        b'x' => format!("{size:x}"),
        b'X' if spec.sharp => format!("0X{size:X}"),
        b'X' => format!("{size:X}"),
        b'o' if spec.sharp => format!("0{size:o}"),
        b'o' => format!("{size:o}"),
        b'b' if spec.sharp => format!("0b{size:b}"),
        b'b' => format!("{size:b}"),
        b'U' => return plain_text(format!("U+{size:04X}")),
        b'c' => {
            let code = u32::try_from(number).ok().and_then(char::from_u32);
            return plain_text(code.unwrap_or(char::REPLACEMENT_CHARACTER).to_string());
        }
        _ => size.to_string(),
    };
    let least = spec.precision.unwrap_or(0);
    let sign = sign_prefix(number < 0, spec);
    Text { bytes: format!("{sign}{digits:0>least$}").into_bytes(), is_number: spec.precision.is_none() }
}

fn sign_prefix(negative: bool, spec: &Spec) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

fn format_float(number: f64, spec: &Spec, verb: u8) -> Text {
    if !number.is_finite() {
        let text = numbers::format_shortest(number);
        return plain_text(text);
    }
    let size = number.abs();
    let digits = match (verb, spec.precision) {
        (b'f' | b'F', precision) => format!("{size:.*}", precision.unwrap_or(6)),
        (b'e' | b'E', precision) => format_scientific(size, precision.unwrap_or(6)),
        (_, None) => numbers::format_shortest(size),
        (_, Some(precision)) => format_general(size, precision.max(1)),
    };
    let digits = if verb.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
    let sign = sign_prefix(number.is_sign_negative(), spec);
    Text { bytes: format!("{sign}{digits}").into_bytes(), is_number: true }
}

fn format_scientific(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{digits}{}", go_exponent(exponent.parse().unwrap_or(0))),
        None => text,
    }
}

/// `%g` with a number of significant digits: no zeros at the end.
fn format_general(size: f64, precision: usize) -> String {
    let text = format!("{size:.*e}", precision - 1);
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let most = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        return format!("{}{}", trim_zeros(digits), go_exponent(exponent));
    }
    let places = usize::try_from(most - 1 - exponent).unwrap_or(0);
    trim_zeros(&format!("{size:.places$}")).to_owned()
}

/// A decimal number without zeros at the end of its fraction.
fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

fn format_bytes(bytes: &[u8], spec: &Spec, verb: u8) -> Text {
    match verb {
        b's' | b'v' => {
            let text = String::from_utf8_lossy(bytes);
            match spec.precision {
                Some(most) if text.chars().count() > most => {
                    plain_text(text.chars().take(most).collect::<String>())
                }
                _ => plain_text(bytes),
            }
        }
        // A string that holds a number is written unchanged, any other as 0.
        b'd' | b'i' => {
            let text = String::from_utf8_lossy(bytes);
            let is_number =
                numbers::parse_number(&text, None).or_else(|| numbers::go_float(text.trim())).is_some();
            if is_number { plain_text(bytes) } else { plain_text("0") }
        }
        b'q' => plain_text(quote_string(&String::from_utf8_lossy(bytes))),
        b'x' => plain_text(to_hex(bytes)),
        b'X' => plain_text(to_hex(bytes).to_uppercase()),
        _ => plain_text(format!("%!{}(string={})", char::from(verb), String::from_utf8_lossy(bytes))),
    }
}

/// A string as Go quotes it.
fn quote_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Pads a text to the width.
fn pad_to_width(out: &mut Vec<u8>, spec: &Spec, text: Text) {
    let length = String::from_utf8_lossy(&text.bytes).chars().count();
    let missing = spec.width.saturating_sub(length);
    let signs = usize::from(text.bytes.first().is_some_and(|first| b"+- ".contains(first)));
    if spec.minus {
        out.extend(text.bytes);
        out.extend(std::iter::repeat_n(b' ', missing));
    } else if spec.zero && text.is_number {
        out.extend_from_slice(&text.bytes[..signs]);
        out.extend(std::iter::repeat_n(b'0', missing));
        out.extend_from_slice(&text.bytes[signs..]);
    } else {
        let filler = if spec.zero && !text.is_number { b'0' } else { b' ' };
        out.extend(std::iter::repeat_n(filler, missing));
        out.extend(text.bytes);
    }
}
