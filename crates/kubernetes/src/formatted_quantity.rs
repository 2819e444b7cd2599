//! Formatted quantities: `resource.Quantity` remembers the format in which an amount was written, and formats
//! sums like their first term.
//!
//! Facts: the canonical form has no fraction and the largest suffix that allows this. An amount in `BinarySI`
//! that is not a whole number, or is below 1024, is formatted in `DecimalSI`. An empty sum takes the format
//! of the next amount that is added or subtracted.

use std::fmt;

use serde_json::Value;

use crate::quantity::Quantity;

/// The format of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `1500m`, `12M`.
    #[default]
    DecimalSi,
    /// `12Mi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// A quantity with its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormattedQuantity {
    /// The amount.
    pub amount: Quantity,
    /// The format.
    pub format: QuantityFormat,
}

impl QuantityFormat {
    /// The format of a quantity's text.
    fn from_text(text: &str) -> Self {
        let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
        match suffix.as_bytes() {
            [_, b'i'] => Self::BinarySi,
            [b'e' | b'E', _, ..] => Self::DecimalExponent,
            _ => Self::DecimalSi,
        }
    }
}

impl FormattedQuantity {
    /// Parses a quantity; `None` if it is malformed.
    ///
    /// ```
    /// use federate_kubernetes::formatted_quantity::FormattedQuantity;
    /// let mut sum = FormattedQuantity::parse("64Gi").unwrap();
    /// sum.add(FormattedQuantity::parse("1048576").unwrap());
    /// assert_eq!(sum.to_string(), "65537Mi");
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { amount: Quantity::parse(text)?, format: QuantityFormat::from_text(text) })
    }

    /// Parses a JSON value: a quantity as a string, or a number.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// A whole number in `DecimalSI`.
    pub fn from_int(value: i64) -> Self {
        Self { amount: Quantity::from_int(value), format: QuantityFormat::DecimalSi }
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.take_format(other);
        self.amount = self.amount + other.amount;
    }

    /// Subtracts another.
    pub fn sub(&mut self, other: Self) {
        self.take_format(other);
        self.amount = self.amount - other.amount;
    }

    /// Multiplies the amount.
    #[must_use]
    pub fn multiply_by(self, times: i64) -> Self {
        Self { amount: self.amount.multiply_by(times), format: self.format }
    }

    fn take_format(&mut self, other: Self) {
        if self.amount.is_zero() {
            self.format = other.format;
        }
    }
}

impl fmt::Display for FormattedQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const NANO: i128 = 1_000_000_000;
        let nanos = self.amount.as_nanos();
        if nanos == 0 {
            return f.write_str("0");
        }
        let whole = nanos / NANO;
        if self.format == QuantityFormat::BinarySi && nanos % NANO == 0 && whole.abs() >= 1024 {
            let (digits, power) = divide_repeatedly(whole, 1024, BINARY.len() - 1);
            return write!(f, "{digits}{}", BINARY.get(power).unwrap_or(&""));
        }
        let (digits, power) = divide_repeatedly(nanos, 1000, DECIMAL.len() - 1);
        match (self.format, power) {
            (QuantityFormat::DecimalExponent, 3) => write!(f, "{digits}"),
            (QuantityFormat::DecimalExponent, _) => {
                write!(f, "{digits}e{}", i64::try_from(power).unwrap_or_default() * 3 - 9)
            }
            _ => write!(f, "{digits}{}", DECIMAL.get(power).unwrap_or(&"")),
        }
    }
}

/// An amount divided by `base` as often as possible, at most `most` times, and the number of divisions.
fn divide_repeatedly(mut amount: i128, base: i128, most: usize) -> (i128, usize) {
    let mut power = 0;
    while power < most && amount % base == 0 {
        amount /= base;
        power += 1;
    }
    (amount, power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed_in_their_canonical_form() {
        for (text, printed) in [
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("2000m", "2"),
            ("33554432k", "33554432k"),
            ("65536Mi", "64Gi"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1536Mi"),
            ("12e6", "12e6"),
            ("1e0", "1"),
            ("1u", "1u"),
            ("0Mi", "0"),
            ("-2Mi", "-2Mi"),
        ] {
            assert_eq!(FormattedQuantity::parse(text).map(|q| q.to_string()).as_deref(), Some(printed));
        }
    }

    #[test]
    fn a_sum_has_the_format_of_its_first_term() {
        let of = |text: &str| FormattedQuantity::parse(text).unwrap();
        let mut sum = FormattedQuantity::default();
        sum.add(of("1Gi"));
        sum.add(of("1M"));
        assert_eq!(sum.to_string(), "1074741824");
        sum.sub(of("1M"));
        assert_eq!(sum.to_string(), "1Gi");
        sum.sub(of("1Gi"));
        sum.add(of("1M"));
        assert_eq!(sum.to_string(), "1M");
    }
}
