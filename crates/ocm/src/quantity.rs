//! Quantities as floating point numbers, made as the hub makes them.
//!
//! Facts: the hub multiplies the digits of the text by a power of ten, once; scores are truncated, so that the last bit of
//! the product counts.

use serde_json::Value;

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Cluster, Object};

/// The allocatable amount of a resource of a cluster that also reports its capacity.
pub(crate) fn read_allocatable(cluster: &Cluster, object: Option<&Object>, resource: &str) -> Option<f64> {
    let capacity = cluster.capacity.as_ref()?;
    let (amount, _) = (capacity.allocatable.get(resource)?, capacity.total.get(resource)?);
    let stated = object.and_then(|object| object.value_at(&["status", "allocatable", resource]));
    // A scenario may have changed the amount.
    let stated = stated.filter(|value| Quantity::from_json(value) == Some(*amount)).and_then(approximate);
    Some(stated.unwrap_or_else(|| amount.as_approximate_f64()))
}

/// A quantity as the product of its digits and a power of ten.
pub(crate) fn approximate(value: &Value) -> Option<f64> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(&text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, exponent) = read_suffix(suffix)?;
    let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let digits = digits.checked_mul(factor)?;
    #[expect(clippy::cast_precision_loss, reason = "it is an approximation")]
    let digits = digits as f64;
    let power: f64 = format!("1e{exponent}").parse().ok()?;
    Some(sign * if exponent == 0 { digits } else { digits * power })
}

/// The binary factor and the power of ten of a suffix.
fn read_suffix(suffix: &str) -> Option<(i128, i32)> {
    if let Some(at) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix) {
        return Some((1_i128 << (10 * (at + 1)), 0));
    }
    Some((
        1,
        match suffix {
            "" => 0,
            "n" => -9,
            "u" => -6,
            "m" => -3,
            "k" => 3,
            "M" => 6,
            "G" => 9,
            "T" => 12,
            "P" => 15,
            "E" => 18,
            _ => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the last bit counts")]
    fn digits_are_multiplied_once() {
        let of = |text: &str| approximate(&Value::from(text)).unwrap();
        assert_eq!(of("15200m"), 15200.0 * 1e-3);
        assert_eq!(of("2.5"), 25.0 * 1e-1);
        assert_eq!(of("1.5Ti"), 15.0 * 1_099_511_627_776.0 * 1e-1);
        assert_eq!(of("128e9"), 128.0 * 1e9);
        assert_eq!(of("-64"), -64.0);
        assert_eq!(approximate(&Value::from(8)), Some(8.0));
        assert_eq!(approximate(&Value::from("1x")), None);
    }
}
