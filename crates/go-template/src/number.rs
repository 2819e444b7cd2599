//! Numbers as Go reads and writes them.

/// An integer in Go's syntax: with a sign, a prefix for its base (`0x`, `0o`, `0b`, `0`) and `_` between digits.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    let magnitude = i128::from(parse_uint(digits)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Like `parse_int`, without a sign, up to 2^64 - 1.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    if !has_proper_underscores(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (base, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.get(1..).unwrap_or_default())
    } else {
        (10, lower.as_str())
    };
    parse_digits(&digits.replace('_', ""), base)
}

/// Digits of a base, without a sign.
pub(crate) fn parse_digits(digits: &str, base: u32) -> Option<u64> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// An integer with a sign in a base without prefixes.
pub(crate) fn parse_int_in(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    let magnitude = i128::from(parse_digits(digits, base)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Whether each `_` is between digits, or between a prefix and a digit.
fn has_proper_underscores(text: &str) -> bool {
    if !text.contains('_') {
        return true;
    }
    let bytes = text.as_bytes();
    let is_digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after_prefix = at == 2 && matches!(before, Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B'));
        (is_digit(before) || after_prefix) && is_digit(bytes.get(at + 1))
    })
}

/// A floating-point number in Go's syntax; `None` if it is too large, too.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    if !has_proper_underscores(text) {
        return None;
    }
    let text = text.replace('_', "");
    let (negative, magnitude) = split_sign(&text);
    let lower = magnitude.to_ascii_lowercase();
    let sign = if negative { -1.0 } else { 1.0 };
    if let Some(digits) = lower.strip_prefix("0x") {
        return parse_hex_float(digits).map(|number| number * sign);
    }
    if matches!(lower.as_str(), "inf" | "infinity") {
        return Some(f64::INFINITY * sign);
    }
    if lower == "nan" {
        return Some(f64::NAN);
    }
    let number = lower.parse::<f64>().ok().filter(|number| number.is_finite())?;
    lower.starts_with(|c: char| c.is_ascii_digit() || c == '.').then_some(number * sign)
}

/// Hexadecimal digits with an optional point and an exponent of two.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once('p')?;
    let exponent = parse_int_in(exponent, 10)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.len() > 13 {
        // More digits than a number of 64 bits keeps are no literal that anybody writes.
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "52 bits at most")]
    let mantissa = parse_digits(&all, 16)? as f64;
    let shift = exponent.checked_sub(i64::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let number = mantissa * f64::from(i32::try_from(shift.clamp(-2000, 2000)).ok()?).exp2();
    number.is_finite().then_some(number)
}

/// The whole number of a float as Go's conversion gives it: what does not fit is the smallest one.
pub(crate) fn float_to_int(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        #[expect(clippy::cast_possible_truncation, reason = "it fits; the fraction is cut")]
        return number as i64;
    }
    i64::MIN
}

/// More digits than any number has behind its point.
const MAX_DIGITS: usize = 1_100;

/// The digits of a number and the exponent of ten of the first one: `d.ddd * 10^exponent`.
struct Decimal {
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// The digits of the absolute value: the fewest that identify it, or `precision` after the first.
    fn new(number: f64, precision: Option<usize>) -> Self {
        let number = number.abs();
        // No number has more digits; the rest are zeros.
        let shown = precision.map(|precision| precision.min(MAX_DIGITS));
        let text = match shown {
            Some(shown) => format!("{number:.shown$e}"),
            None => format!("{number:e}"),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mut digits = mantissa.replace('.', "");
        let missing = precision.unwrap_or(0).saturating_sub(MAX_DIGITS);
        digits.push_str(&"0".repeat(missing));
        Self { digits, exponent: exponent.parse().unwrap_or(0) }
    }

    fn write_scientific(&self, letter: char) -> String {
        let (first, rest) = self.digits.split_at(1.min(self.digits.len()));
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if self.exponent < 0 { '-' } else { '+' };
        format!("{first}{point}{rest}{letter}{sign}{:02}", self.exponent.unsigned_abs())
    }

    fn write_plain(&self) -> String {
        let Ok(exponent) = usize::try_from(self.exponent) else {
            let zeros = usize::try_from(self.exponent.unsigned_abs()).unwrap_or(0).saturating_sub(1);
            return format!("0.{}{}", "0".repeat(zeros), self.digits);
        };
        let whole = exponent + 1;
        match self.digits.get(whole..) {
            Some("") | None => format!("{:0<whole$}", self.digits),
            Some(fraction) => format!("{}.{fraction}", self.digits.get(..whole).unwrap_or_default()),
        }
    }
}

/// A finite number in the form of a verb (`e`, `f` or `g`), with the fewest digits that identify it or with `precision`.
/// `keep_zeros` is the flag `#`.
pub(crate) fn format_float(number: f64, verb: char, precision: Option<usize>, keep_zeros: bool) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let magnitude = number.abs();
    let text = match (verb, precision) {
        ('e', _) => Decimal::new(number, precision).write_scientific('e'),
        ('f', Some(precision)) => {
            let shown = precision.min(MAX_DIGITS);
            format!("{magnitude:.shown$}{}", "0".repeat(precision - shown))
        }
        ('f', None) => format!("{magnitude}"),
        _ => format_general(number, precision, keep_zeros),
    };
    format!("{sign}{text}")
}

/// The form of `%g`: with an exponent if it is below -4 or not below the precision, which is 6 where none is given.
fn format_general(number: f64, precision: Option<usize>, keep_zeros: bool) -> String {
    let significant = precision.map(|precision| precision.max(1));
    let mut decimal = Decimal::new(number, significant.map(|digits| digits - 1));
    let wanted = significant.unwrap_or(6);
    let length = decimal.digits.trim_end_matches('0').len().max(1);
    if keep_zeros {
        let missing = wanted.saturating_sub(decimal.digits.len());
        decimal.digits.push_str(&"0".repeat(missing));
    } else {
        decimal.digits.truncate(length);
    }
    let threshold = i32::try_from(wanted).unwrap_or(i32::MAX);
    if decimal.exponent < -4 || decimal.exponent >= threshold {
        decimal.write_scientific('e')
    } else {
        decimal.write_plain()
    }
}

/// A number as `%v` prints it.
pub(crate) fn display_float(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        format_float(number, 'g', None, false)
    }
}
