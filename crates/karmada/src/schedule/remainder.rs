//! Division by largest remainder, before Webster's method: shares are rounded down, and the remainder goes to the
//! largest weights.
//!
//! Facts: parties are in descending order of weight, then of what they had before; equals are in random
//! order in the real scheduler, and in name order here. Each of them, from the first, gets one more until
//! nothing remains; where more than everything was given away, which takes negative weights, all do.

use std::cmp::Reverse;

/// A party: its weight, and what it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightedParty {
    weight: i64,
    last: i64,
}

/// The parties of these weights.
pub(super) fn build_parties(weights: &[i64], last: impl Fn(usize) -> i64) -> Vec<WeightedParty> {
    let weights = weights.iter().enumerate();
    weights.map(|(at, weight)| WeightedParty { weight: *weight, last: last(at) }).collect()
}

/// The share of each party, in their order, which must be that of their names.
pub(super) fn divide_total(total: i64, parties: &[WeightedParty]) -> Vec<i64> {
    let Some((mut shares, mut left)) = round_down_shares(total, parties) else {
        return vec![0; parties.len()];
    };
    for at in remainder_order(parties) {
        if left == 0 {
            break;
        }
        shares[at] += 1;
        left = left.wrapping_sub(1);
    }
    shares.into_iter().map(|share| share.max(0)).collect()
}

/// The equal parties of which only some get one of the remainder.
pub(super) fn find_tied(total: i64, parties: &[WeightedParty]) -> Vec<usize> {
    let Some((_, left)) = round_down_shares(total, parties) else { return Vec::new() };
    let order = remainder_order(parties);
    let boundary = usize::try_from(left).ok().filter(|left| (1..order.len()).contains(left));
    let Some(boundary) = boundary else { return Vec::new() };
    let (inside, outside) = (parties[order[boundary - 1]], parties[order[boundary]]);
    if inside != outside {
        return Vec::new();
    }
    order.into_iter().filter(|at| parties[*at] == inside).collect()
}

/// Shares rounded toward zero, and the remainder; `None` when all weights are zero.
fn round_down_shares(total: i64, parties: &[WeightedParty]) -> Option<(Vec<i64>, i64)> {
    let sum = parties.iter().fold(0i64, |sum, party| sum.wrapping_add(party.weight));
    if sum == 0 {
        return None;
    }
    let exact = parties.iter().map(|party| party.weight.wrapping_mul(total).wrapping_div(sum));
    let shares: Vec<i64> = exact.collect();
    let left = shares.iter().fold(total, |left, share| left.wrapping_sub(*share));
    Some((shares, left))
}

fn remainder_order(parties: &[WeightedParty]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parties.len()).collect();
    order.sort_by_key(|at| (Reverse(parties[*at].weight), Reverse(parties[*at].last)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(weights: &[i64]) -> Vec<WeightedParty> {
        build_parties(weights, |_| 0)
    }

    #[test]
    fn worked_examples() {
        assert_eq!(divide_total(13, &of(&[3, 2, 1])), [7, 4, 2]);
        assert_eq!(divide_total(14, &of(&[3, 2, 1])), [8, 4, 2]);
        assert_eq!(divide_total(4, &of(&[1200, 900, 400])), [2, 2, 0]);
        assert_eq!(divide_total(5, &of(&[1, 1])), [3, 2]);
        assert_eq!(divide_total(5, &of(&[0, 0])), [0, 0]);
        assert_eq!(divide_total(5, &[]), Vec::<i64>::new());
    }

    #[test]
    fn what_was_there_before_decides_between_equal_weights() {
        assert_eq!(divide_total(5, &build_parties(&[1, 1], |at| [2, 3][at])), [2, 3]);
    }

    #[test]
    fn chance_decides_where_equals_share_the_remainder() {
        assert_eq!(find_tied(5, &of(&[1, 1])), [0, 1]);
        assert_eq!(find_tied(4, &of(&[1, 1])), [0usize; 0]);
        assert_eq!(find_tied(10, &of(&[3, 1, 1, 1])), [1, 2, 3]);
        assert_eq!(find_tied(5, &build_parties(&[1, 1], |at| [2, 3][at])), [0usize; 0]);
    }

    proptest! {
        #[test]
        fn gives_every_seat(total in 0i64..2_147_483_648, weights in prop::collection::vec(1i64..2_147_483_648, 1..20)) {
            prop_assert_eq!(divide_total(total, &of(&weights)).iter().sum::<i64>(), total);
        }

        #[test]
        fn ends_whatever_it_is_given(total: i64, weights in prop::collection::vec(any::<i64>(), 0..5)) {
            let parties = of(&weights);
            prop_assert_eq!(divide_total(total, &parties).len(), weights.len());
            prop_assert!(find_tied(total, &parties).len() <= weights.len());
        }
    }
}
