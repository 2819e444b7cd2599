//! Webster's method (Sainte-Laguë): divides seats among parties in proportion to their votes.
//!
//! Facts: seats are given one by one to the party with the largest `votes / (2·seats + 1)` in
//! float64; equal priorities go to fewer seats, then by name, ascending or descending.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

struct Party {
    priority: f64,
    seats: i64,
    /// Place in name order; the smaller wins a tie.
    rank: usize,
    index: usize,
}

impl Ord for Party {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority
            .total_cmp(&other.priority)
            .then_with(|| other.seats.cmp(&self.seats))
            .then_with(|| other.rank.cmp(&self.rank))
    }
}

impl PartialOrd for Party {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Party {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Party {}

#[expect(clippy::cast_precision_loss, reason = "the method is defined in float64")]
fn seat_priority(votes: i64, seats: i64) -> f64 {
    votes as f64 / (2.0 * seats as f64 + 1.0)
}

/// The seats of each party, in the order of `votes`, whose parties must be in ascending name order.
/// `descending` makes the later name win ties.
///
/// ```text
/// divide(13, [3, 2, 1]) = [7, 4, 2]
/// ```
pub(crate) fn divide_seats(seats: i64, votes: &[i64], descending: bool) -> Vec<i64> {
    if votes.iter().all(|v| *v <= 0) {
        return without_votes(seats, votes, descending);
    }
    let mut given = head_start(seats, votes);
    let mut left = given.iter().fold(seats, |left, given| left.saturating_sub(*given));
    let mut heap: BinaryHeap<Party> = votes
        .iter()
        .zip(&given)
        .enumerate()
        .filter(|(_, (votes, _))| **votes > 0)
        .map(|(index, (votes, seats))| Party {
            priority: seat_priority(*votes, *seats),
            seats: *seats,
            rank: if descending { usize::MAX - index } else { index },
            index,
        })
        .collect();
    while left > 0 {
        let Some(mut top) = heap.peek_mut() else { break };
        top.seats += 1;
        top.priority = seat_priority(votes[top.index], top.seats);
        given[top.index] = top.seats;
        left -= 1;
    }
    given
}

/// Without votes, no number of seats changes a priority of zero: the parties without votes take turns in the
/// order of ties. A priority below zero rises with every seat, so that the first party takes them all.
fn without_votes(seats: i64, votes: &[i64], descending: bool) -> Vec<i64> {
    let mut given = vec![0; votes.len()];
    let most = votes.iter().max().copied();
    let mut turns: Vec<usize> = (0..votes.len()).filter(|index| Some(votes[*index]) == most).collect();
    if descending {
        turns.reverse();
    }
    if most.is_some_and(|most| most < 0) {
        turns.truncate(1);
    }
    let parties = turns.len().try_into().unwrap_or(i64::MAX);
    for (turn, index) in (0..).zip(turns) {
        given[index] = seats.max(0) / parties + i64::from(turn < seats.max(0) % parties);
    }
    given
}

/// Seats that are certain, so that the heap only hands out the rest: with `V` votes and `m` parties,
/// every seat whose priority exceeds `V / (2·seats − m)` is given, and they are at most `seats`.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "bounded by `seats`")]
fn head_start(seats: i64, votes: &[i64]) -> Vec<i64> {
    let total: f64 = votes.iter().map(|v| (*v).max(0) as f64).sum();
    let spare = 2.0 * seats as f64 - votes.len() as f64;
    if spare <= 0.0 || total <= 0.0 {
        return vec![0; votes.len()];
    }
    // Slightly above the exact threshold, so that rounding can only make the head start smaller.
    let threshold = total / spare * (1.0 + 1e-12);
    votes.iter().map(|v| f64::midpoint((*v).max(0) as f64 / threshold, 1.0).floor() as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_examples() {
        assert_eq!(divide_seats(13, &[3, 2, 1], false), [7, 4, 2]);
        assert_eq!(divide_seats(14, &[3, 2, 1], false), [7, 5, 2]);
        assert_eq!(divide_seats(5, &[1, 1], false), [3, 2]);
        assert_eq!(divide_seats(5, &[1, 1], true), [2, 3]);
        assert_eq!(divide_seats(4, &[1200, 900, 400], false), [2, 1, 1]);
        assert_eq!(divide_seats(7, &[2, 1, 1, 1], false), [3, 2, 1, 1]);
        assert_eq!(divide_seats(12, &[18, 12, 6], false), [6, 4, 2]);
        assert_eq!(divide_seats(0, &[1, 2], false), [0, 0]);
        assert_eq!(divide_seats(3, &[], false), Vec::<i64>::new());
    }

    /// Seat by seat, with no head start and no heap.
    fn one_by_one(seats: i64, votes: &[i64], descending: bool) -> Vec<i64> {
        let mut given = vec![0; votes.len()];
        for _ in 0..seats {
            let better = |a: usize, b: usize| {
                let by_priority =
                    seat_priority(votes[a], given[a]).total_cmp(&seat_priority(votes[b], given[b]));
                let by_name = if descending { a.cmp(&b) } else { b.cmp(&a) };
                by_priority.then(given[b].cmp(&given[a])).then(by_name)
            };
            if let Some(winner) = (0..votes.len()).max_by(|a, b| better(*a, *b)) {
                given[winner] += 1;
            }
        }
        given
    }

    proptest! {
        #[test]
        fn equals_the_plain_method(seats in 0i64..300, votes in prop::collection::vec(1i64..60, 1..12), descending: bool) {
            prop_assert_eq!(divide_seats(seats, &votes, descending), one_by_one(seats, &votes, descending));
        }

        #[test]
        fn equals_the_plain_method_without_votes(seats in 0i64..300, votes in prop::collection::vec(-2i64..1, 1..5), descending: bool) {
            prop_assert_eq!(divide_seats(seats, &votes, descending), one_by_one(seats, &votes, descending));
        }

        /// Far more seats than there are replicas anywhere: they come from files, and must not hang.
        #[test]
        fn ends_whatever_it_is_given(seats: i64, votes in prop::collection::vec(any::<i64>(), 0..5)) {
            prop_assert_eq!(divide_seats(seats, &votes, false).len(), votes.len());
            prop_assert_eq!(divide_seats(seats, &vec![0; votes.len()], false).len(), votes.len());
        }

        #[test]
        fn gives_every_seat(seats in 0i64..3_000_000_000, votes in prop::collection::vec(0i64..2_147_483_648, 1..50)) {
            prop_assert_eq!(divide_seats(seats, &votes, false).iter().sum::<i64>(), seats);
        }
    }
}
