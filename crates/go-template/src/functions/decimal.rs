//! Decimal numbers of any length.
//!
//! Facts: a float counts as the shortest decimal number that identifies it; a quotient has 16 places, rounded half away
//! from zero.

use std::cmp::Ordering;

use crate::error::TemplateFailure;

/// How many digits a number may have, which limits the work of a multiplication.
const MAX_DIGITS: usize = 2_000;

/// The places of a quotient.
const PLACES: i64 = 16;

/// A number: its digits times a power of ten.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    /// From the last to the first, without zeros before the first.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    pub(super) fn from_float(number: f64) -> Result<Self, TemplateFailure> {
        if !number.is_finite() {
            return Err(TemplateFailure::function("a number that is not finite has no decimal digits"));
        }
        let text = format!("{:e}", number.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: Vec<u8> =
            mantissa.bytes().filter(u8::is_ascii_digit).map(|byte| byte - b'0').rev().collect();
        let places = i64::try_from(digits.len()).unwrap_or(0) - 1;
        let exponent = exponent.parse::<i64>().unwrap_or(0) - places;
        Self { negative: number < 0.0, digits, exponent }.trim()
    }

    /// The steps that an operation with another number takes.
    pub(super) fn cost_with(&self, other: &Self) -> usize {
        let shift = usize::try_from(self.exponent.abs_diff(other.exponent)).unwrap_or(usize::MAX);
        shift.saturating_add(self.digits.len() + other.digits.len()).saturating_mul(10)
    }

    pub(super) fn to_float(&self) -> f64 {
        let digits: String = self.digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        if digits.is_empty() {
            // Zero has no sign.
            return 0.0;
        }
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{digits}e{}", self.exponent).parse().unwrap_or(0.0)
    }

    /// The number without zeros before its first digit, if it is not too long.
    fn trim(mut self) -> Result<Self, TemplateFailure> {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.len() > MAX_DIGITS {
            return Err(TemplateFailure::function("a decimal number has too many digits"));
        }
        Ok(self)
    }

    /// The digits for a smaller exponent.
    fn digits_at(&self, exponent: i64) -> Result<Vec<u8>, TemplateFailure> {
        let zeros = usize::try_from(self.exponent - exponent).unwrap_or(0);
        if self.digits.is_empty() {
            return Ok(Vec::new());
        }
        if zeros > MAX_DIGITS {
            return Err(TemplateFailure::function("a decimal number has too many digits"));
        }
        Ok([vec![0; zeros], self.digits.clone()].concat())
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self, TemplateFailure> {
        let exponent = self.exponent.min(other.exponent);
        let (left, right) = (self.digits_at(exponent)?, other.digits_at(exponent)?);
        if self.negative == other.negative {
            return Self { negative: self.negative, digits: add_digits(&left, &right), exponent }.trim();
        }
        let (negative, larger, smaller) = match compare_digits(&left, &right) {
            Ordering::Less => (other.negative, right, left),
            _ => (self.negative, left, right),
        };
        Self { negative, digits: subtract_digits(&larger, &smaller), exponent }.trim()
    }

    pub(super) fn subtract(&self, other: &Self) -> Result<Self, TemplateFailure> {
        self.add(&Self { negative: !other.negative, ..other.clone() })
    }

    pub(super) fn multiply(&self, other: &Self) -> Result<Self, TemplateFailure> {
        let mut sums = vec![0_u32; self.digits.len() + other.digits.len()];
        for (at, digit) in self.digits.iter().enumerate() {
            for (slot, other) in sums.iter_mut().skip(at).zip(&other.digits) {
                *slot += u32::from(*digit) * u32::from(*other);
            }
        }
        let mut carry = 0;
        let digits = sums.into_iter().map(|sum| {
            let total = sum + carry;
            carry = total / 10;
            u8::try_from(total % 10).unwrap_or(0)
        });
        let digits = digits.collect();
        let negative = self.negative != other.negative;
        Self { negative, digits, exponent: self.exponent + other.exponent }.trim()
    }

    pub(super) fn divide(&self, other: &Self) -> Result<Self, TemplateFailure> {
        if other.digits.is_empty() {
            return Err(TemplateFailure::function("decimal division by 0"));
        }
        // Both in units of the last place that counts, so that the quotient is whole.
        let exponent = (self.exponent + PLACES).min(other.exponent);
        let dividend = Self { exponent: self.exponent + PLACES, ..self.clone() }.digits_at(exponent)?;
        let divisor = other.digits_at(exponent)?;
        let mut quotient = Vec::new();
        let mut left: Vec<u8> = Vec::new();
        for digit in dividend.iter().rev() {
            left.insert(0, *digit);
            while left.last() == Some(&0) {
                left.pop();
            }
            let mut count = 0;
            while compare_digits(&left, &divisor) != Ordering::Less {
                left = subtract_digits(&left, &divisor);
                while left.last() == Some(&0) {
                    left.pop();
                }
                count += 1;
            }
            quotient.insert(0, count);
        }
        if compare_digits(&add_digits(&left, &left), &divisor) != Ordering::Less {
            quotient = add_digits(&quotient, &[1]);
        }
        Self { negative: self.negative != other.negative, digits: quotient, exponent: -PLACES }.trim()
    }
}

fn compare_digits(left: &[u8], right: &[u8]) -> Ordering {
    let significant =
        |digits: &[u8]| digits.len() - digits.iter().rev().take_while(|digit| **digit == 0).count();
    let (left_length, right_length) = (significant(left), significant(right));
    left_length.cmp(&right_length).then_with(|| {
        let left = left.iter().take(left_length).rev();
        left.cmp(right.iter().take(right_length).rev())
    })
}

fn add_digits(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let length = left.len().max(right.len()) + 1;
    let digit_at = |digits: &[u8], at: usize| digits.get(at).copied().unwrap_or(0);
    (0..length)
        .map(|at| {
            let sum = digit_at(left, at) + digit_at(right, at) + carry;
            carry = sum / 10;
            sum % 10
        })
        .collect()
}

/// The difference, where `left` is not smaller.
fn subtract_digits(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let digits = left.iter().enumerate().map(|(at, digit)| {
        let taken = right.get(at).copied().unwrap_or(0) + borrow;
        borrow = u8::from(*digit < taken);
        digit + borrow * 10 - taken
    });
    digits.collect()
}
