//! Division by weights, by the rules of a release.

use super::{remainder, webster};
use crate::version::Division;

/// The shares of each party, in the order of `weights`, whose parties must be in ascending name order. `last`
/// is what a party had before; `descending` makes the later name win ties, where names decide.
pub(crate) fn shares(
    division: Division,
    total: i64,
    weights: &[i64],
    last: impl Fn(usize) -> i64,
    descending: bool,
) -> Vec<i64> {
    match division {
        Division::Webster => webster::divide(total, weights, descending),
        Division::LargestRemainder => remainder::divide(total, &remainder::parties(weights, last)),
    }
}

/// The parties among which the release decides by chance; fewer than two where it does not.
pub(crate) fn random_parties(
    division: Division,
    total: i64,
    weights: &[i64],
    last: impl Fn(usize) -> i64,
) -> Vec<usize> {
    match division {
        Division::Webster => Vec::new(),
        Division::LargestRemainder => remainder::tied(total, &remainder::parties(weights, last)),
    }
}

/// Its name.
pub(super) fn name(division: Division) -> &'static str {
    match division {
        Division::Webster => "Webster's method",
        Division::LargestRemainder => "largest weights take the remainder",
    }
}
