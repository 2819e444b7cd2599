//! The order of keys in the output of `kubectl`.
//!
//! Facts: at the first difference, two letters compare by code point. A letter comes after any other
//! character, but before it if both keys have a digit directly before. Otherwise, runs of digits compare by
//! number, then by length, then by code point.

use std::cmp::Ordering;

/// Compares two keys.
pub(super) fn compare_keys(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    let (x, y) = (a[at], b[at]);
    let after_digit = at > 0 && a[at - 1].is_numeric();
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => x.cmp(&y),
        (true, false) if after_digit => Ordering::Less,
        (false, true) if after_digit => Ordering::Greater,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare_digit_runs(&a, &b, at).then_with(|| x.cmp(&y)),
    }
}

/// Compares the runs of digits that start at `at`. A zero there is not a leading zero if the digits before it
/// are not all zero.
fn compare_digit_runs(a: &[char], b: &[char], at: usize) -> Ordering {
    let zero = a[at] == '0' || b[at] == '0';
    let before = a[..at].iter().rev().take_while(|c| c.is_numeric());
    let started = u128::from(zero && before.into_iter().any(|c| *c != '0'));
    let (x, x_end) = parse_digit_run(a, at, started);
    let (y, y_end) = parse_digit_run(b, at, started);
    x.cmp(&y).then(x_end.cmp(&y_end))
}

fn parse_digit_run(text: &[char], at: usize, started: u128) -> (u128, usize) {
    let mut value = started;
    let mut end = at;
    while let Some(digit) = text.get(end).and_then(|c| c.to_digit(10)) {
        value = value.saturating_mul(10).saturating_add(u128::from(digit));
        end += 1;
    }
    (value, end)
}

#[cfg(test)]
mod tests {
    use super::compare_keys;

    #[test]
    fn numbers_in_keys_count() {
        let mut keys = vec!["a10", "a2", "b", "a", "A", "a1b", "a1", "1", "10", "9", "a-b", "a.b", "ab"];
        keys.sort_by(|a, b| compare_keys(a, b));
        assert_eq!(keys, ["1", "9", "10", "A", "a", "a-b", "a.b", "a1", "a1b", "a2", "a10", "ab", "b"]);
    }
}
