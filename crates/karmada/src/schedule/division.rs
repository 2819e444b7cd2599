//! Division by weights, by the rules of a release.

use super::{remainder, webster};
use crate::version::DivisionMethod;

/// The shares of each party, in the order of `weights`, whose parties must be in ascending name order. `last`
/// is what a party had before; `descending` makes the later name win ties, where names decide.
pub(crate) fn compute_shares(
    division: DivisionMethod,
    total: i64,
    weights: &[i64],
    last: impl Fn(usize) -> i64,
    descending: bool,
) -> Vec<i64> {
    match division {
        DivisionMethod::Webster => webster::divide_seats(total, weights, descending),
        DivisionMethod::LargestRemainder => {
            remainder::divide_total(total, &remainder::build_parties(weights, last))
        }
    }
}

/// The parties among which the release decides by chance; fewer than two where it does not.
pub(crate) fn random_parties(
    division: DivisionMethod,
    total: i64,
    weights: &[i64],
    last: impl Fn(usize) -> i64,
) -> Vec<usize> {
    match division {
        DivisionMethod::Webster => Vec::new(),
        DivisionMethod::LargestRemainder => {
            remainder::find_tied(total, &remainder::build_parties(weights, last))
        }
    }
}

/// Its name.
pub(super) fn method_name(division: DivisionMethod) -> &'static str {
    match division {
        DivisionMethod::Webster => "Webster's method",
        DivisionMethod::LargestRemainder => "largest weights take the remainder",
    }
}
