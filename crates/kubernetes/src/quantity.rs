//! Resource quantities (`500m`, `4Gi`, `1e3`) with exact arithmetic.
//!
//! Facts: Kubernetes' `resource.Quantity`: decimal and binary suffixes, with a finest step of 1n. Finer
//! amounts are rounded up (away from zero), as in `Value()` and `MilliValue()`.

use std::borrow::Cow;
use std::fmt;
use std::ops::Sub;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

const NANO: i128 = 1_000_000_000;

/// An exact amount, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

impl Quantity {
    /// A whole number of units.
    pub fn from_int(value: i64) -> Self {
        Self(i128::from(value) * NANO)
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64) -> Self {
        Self(i128::from(value) * (NANO / 1000))
    }

    /// Multiplies the amount.
    #[must_use]
    pub fn multiply_by(self, times: i64) -> Self {
        Self(self.0.saturating_mul(i128::from(times)))
    }

    /// An amount in billionths.
    pub fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    /// The amount in billionths.
    pub fn as_nanos(self) -> i128 {
        self.0
    }

    /// Parses a JSON value: a quantity as a string, or a number.
    pub fn from_json(value: &serde_json::Value) -> Option<Self> {
        match value {
            serde_json::Value::String(text) => Self::parse(text),
            serde_json::Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Parses a quantity; `None` if it is malformed.
    ///
    /// ```
    /// use federate_kubernetes::quantity::Quantity;
    /// assert_eq!(Quantity::parse("1.5Gi").map(|q| q.value()), Some(1_610_612_736));
    /// assert_eq!(Quantity::parse("100m").map(|q| q.milli_value()), Some(100));
    /// assert_eq!(Quantity::parse("1Q"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (factor, exponent) = parse_suffix(suffix)?;
        let magnitude = to_nano(whole, fraction, factor, exponent)?;
        Some(Self(if negative { -magnitude } else { magnitude }))
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(self) -> i64 {
        saturate_to_i64(ceil_div(self.0, NANO))
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli_value(self) -> i64 {
        saturate_to_i64(ceil_div(self.0, NANO / 1000))
    }

    /// The amount as a floating point number: its digits times a power of ten, in steps of a thousand.
    #[expect(clippy::cast_precision_loss, reason = "it is an approximation")]
    pub fn as_approximate_f64(self) -> f64 {
        let (mut digits, mut factor) = (self.0, 1e-9);
        for larger in [1e-6, 1e-3, 1.0] {
            if digits % 1000 != 0 {
                break;
            }
            (digits, factor) = (digits / 1000, larger);
        }
        digits as f64 * factor
    }

    /// A percentage of the amount, rounded away from zero.
    #[must_use]
    pub fn take_percent(self, percent: i64) -> Self {
        Self(ceil_div(self.0.saturating_mul(i128::from(percent)), 100))
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An amount of a resource, such as `500m` or `17179869184`.",
            "type": "string",
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 % NANO == 0 { write!(f, "{}", self.0 / NANO) } else { write!(f, "{}m", self.milli_value()) }
    }
}

/// A suffix as a binary factor and a power of ten.
fn parse_suffix(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// `whole.fraction × factor × 10^exponent` in billionths, rounded up; saturates on overflow.
fn to_nano(whole: &str, fraction: &str, factor: i128, exponent: i32) -> Option<i128> {
    const CAP: i128 = i128::MAX >> 8;
    let fraction = fraction.trim_end_matches('0');
    let mut digits: i128 = 0;
    for c in whole.bytes().chain(fraction.bytes()) {
        digits = digits.checked_mul(10)?.checked_add(i128::from(c - b'0'))?;
    }
    let shift = exponent.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let digits = digits.checked_mul(factor)?;
    if digits == 0 {
        return Some(0);
    }
    if shift >= 0 {
        let power = u32::try_from(shift).ok().and_then(|s| 10i128.checked_pow(s));
        return Some(power.and_then(|p| digits.checked_mul(p)).unwrap_or(CAP).min(CAP));
    }
    match 10i128.checked_pow(shift.unsigned_abs()) {
        Some(power) => Some(ceil_div(digits, power)),
        None => Some(1),
    }
}

/// Division rounded away from zero; `by` is positive.
fn ceil_div(amount: i128, by: i128) -> i128 {
    let quotient = amount / by;
    quotient + if amount % by == 0 { 0 } else { amount.signum() }
}

fn saturate_to_i64(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<i64> {
        Quantity::parse(text).map(Quantity::value)
    }

    #[test]
    fn reads_every_suffix() {
        assert_eq!(value("1024m"), Some(2));
        assert_eq!(value("2500Mi"), Some(2_621_440_000));
        assert_eq!(value("1e3"), Some(1000));
        assert_eq!(value("1E"), Some(1_000_000_000_000_000_000));
        assert_eq!(value(".5"), Some(1));
        assert_eq!(value("5."), Some(5));
        assert_eq!(value("-1500m"), Some(-2));
        assert_eq!(Quantity::parse("0.1").map(Quantity::milli_value), Some(100));
        assert_eq!(Quantity::parse("1n").map(Quantity::milli_value), Some(1));
        assert_eq!(Quantity::parse("0.0000000001"), Some(Quantity(1)));
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["", "-", "Gi", "1 Gi", "1gi", "1e", "1.2.3", "0x10", "1KiB"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn subtracts_exactly() {
        let (Some(a), Some(b)) = (Quantity::parse("1"), Quantity::parse("999m")) else {
            panic!("both are quantities")
        };
        assert_eq!((a - b).milli_value(), 1);
    }
}
