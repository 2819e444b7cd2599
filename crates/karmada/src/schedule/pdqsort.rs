//! The order in which Go's `sort.Sort` leaves equal elements.
//!
//! Karmada sorts clusters by available replicas with it, and which of two equal clusters comes first
//! decides where aggregated replicas go. Up to 12 elements it is an insertion sort, hence stable;
//! above, a pattern-defeating quicksort whose every step is fixed: pivots by medians, a seeded
//! shuffle after a bad partition, heap sort once too many were bad.

/// Longest range that is sorted by insertion.
const MAX_INSERTION_LENGTH: usize = 12;
/// Shortest range for which the pivot is a median of medians, and short repairs are tried.
const MIN_LONG_LENGTH: usize = 50;
/// Misplaced elements that a repair will move before giving up.
const MAX_REPAIRS: usize = 5;
/// Exchanges made by a median of medians when everything was in descending order.
const MAX_SWAPS: usize = 12;

/// Sorts `items`, `less` telling whether the first must come before the second.
pub(super) fn sort_by_less<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let limit = usize::BITS - items.len().leading_zeros();
    let end = items.len();
    Sorter { items, less }.sort_range(0, end, limit);
}

struct Sorter<'s, T, F> {
    items: &'s mut [T],
    less: F,
}

#[derive(PartialEq)]
enum Hint {
    Ascending,
    Descending,
    Unknown,
}

impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn is_less(&self, i: usize, j: usize) -> bool {
        (self.less)(&self.items[i], &self.items[j])
    }

    fn sort_range(&mut self, mut a: usize, mut b: usize, mut limit: u32) {
        let (mut balanced, mut partitioned) = (true, true);
        while b - a > MAX_INSERTION_LENGTH {
            if limit == 0 {
                return self.heap_sort(a, b);
            }
            if !balanced {
                self.break_patterns(a, b);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(a, b);
            if hint == Hint::Descending {
                self.items[a..b].reverse();
                pivot = b - 1 - (pivot - a);
                hint = Hint::Ascending;
            }
            if balanced && partitioned && hint == Hint::Ascending && self.partial_insertion_sort(a, b) {
                return;
            }
            if a > 0 && !self.is_less(a - 1, pivot) {
                a = self.skip_equal(a, b, pivot);
                continue;
            }
            let length = b - a;
            let (middle, untouched) = self.partition_range(a, b, pivot);
            partitioned = untouched;
            let (left, right) = (middle - a, b - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.sort_range(a, middle, limit);
                a = middle + 1;
            } else {
                self.sort_range(middle + 1, b, limit);
                b = middle;
            }
        }
        self.insertion_sort(a, b);
    }

    fn insertion_sort(&mut self, a: usize, b: usize) {
        for i in a + 1..b {
            self.sink_left(a, i);
        }
    }

    /// Moves the element at `i` left, down to `floor`, past every larger one.
    fn sink_left(&mut self, floor: usize, i: usize) {
        let mut j = i;
        while j > floor && self.is_less(j, j - 1) {
            self.items.swap(j, j - 1);
            j -= 1;
        }
    }

    fn heap_sort(&mut self, a: usize, b: usize) {
        let length = b - a;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(a, root, length);
        }
        for end in (0..length).rev() {
            self.items.swap(a, a + end);
            self.sift_down(a, 0, end);
        }
    }

    fn sift_down(&mut self, a: usize, mut root: usize, end: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.is_less(a + child, a + child + 1) {
                child += 1;
            }
            if !self.is_less(a + root, a + child) {
                return;
            }
            self.items.swap(a + root, a + child);
            root = child;
        }
    }

    /// Exchanges three elements around the middle with seeded ones.
    fn break_patterns(&mut self, a: usize, b: usize) {
        let length = b - a;
        let mut random = length as u64;
        let mask = (1u64 << (u64::BITS - random.leading_zeros())) - 1;
        let middle = a + length / 4 * 2;
        for i in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let drawn = usize::try_from(random & mask).unwrap_or(0);
            let other = if drawn >= length { drawn - length } else { drawn };
            self.items.swap(middle - 1 + i, a + other);
        }
    }

    fn choose_pivot(&self, a: usize, b: usize) -> (usize, Hint) {
        let quarter = (b - a) / 4;
        let mut swaps = 0;
        let mut picks = [a + quarter, a + quarter * 2, a + quarter * 3];
        if b - a >= MIN_LONG_LENGTH {
            picks = picks.map(|at| self.median_of_three([at - 1, at, at + 1], &mut swaps));
        }
        let pivot = self.median_of_three(picks, &mut swaps);
        let hint = match swaps {
            0 => Hint::Ascending,
            MAX_SWAPS => Hint::Descending,
            _ => Hint::Unknown,
        };
        (pivot, hint)
    }

    fn median_of_three(&self, [mut x, mut y, mut z]: [usize; 3], swaps: &mut usize) -> usize {
        self.order_pair(&mut x, &mut y, swaps);
        self.order_pair(&mut y, &mut z, swaps);
        self.order_pair(&mut x, &mut y, swaps);
        y
    }

    fn order_pair(&self, low: &mut usize, high: &mut usize, swaps: &mut usize) {
        if self.is_less(*high, *low) {
            std::mem::swap(low, high);
            *swaps += 1;
        }
    }

    /// Sorts a nearly sorted range by moving a few elements; false when more would be needed.
    fn partial_insertion_sort(&mut self, a: usize, b: usize) -> bool {
        let mut i = a + 1;
        for _ in 0..MAX_REPAIRS {
            while i < b && !self.is_less(i, i - 1) {
                i += 1;
            }
            if i == b {
                return true;
            }
            if b - a < MIN_LONG_LENGTH {
                return false;
            }
            self.items.swap(i, i - 1);
            if i - a >= 2 {
                self.sink_left(0, i - 1);
            }
            let mut j = i + 1;
            while b - i >= 2 && j < b && self.is_less(j, j - 1) {
                self.items.swap(j, j - 1);
                j += 1;
            }
        }
        false
    }

    /// With nothing smaller than the pivot in the range: moves all equal to it to the front, and
    /// returns where the larger ones begin.
    fn skip_equal(&mut self, a: usize, b: usize, pivot: usize) -> usize {
        self.items.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        loop {
            while i <= j && !self.is_less(a, i) {
                i += 1;
            }
            while i <= j && self.is_less(a, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.items.swap(i, j);
            i += 1;
            j -= 1;
        }
    }

    /// Puts smaller elements left of the pivot and the others right of it; returns where it ended,
    /// and whether nothing had to move.
    fn partition_range(&mut self, a: usize, b: usize, pivot: usize) -> (usize, bool) {
        self.items.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        let mut untouched = true;
        loop {
            while i <= j && self.is_less(i, a) {
                i += 1;
            }
            while i <= j && !self.is_less(j, a) {
                j -= 1;
            }
            if i > j {
                self.items.swap(j, a);
                return (j, untouched);
            }
            self.items.swap(i, j);
            untouched = false;
            i += 1;
            j -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts(mut items in prop::collection::vec(0u16..40, 0..400)) {
            let mut want = items.clone();
            want.sort_unstable();
            sort_by_less(&mut items, |a, b| a < b);
            prop_assert_eq!(items, want);
        }

        #[test]
        fn is_stable_up_to_twelve(items in prop::collection::vec(0u8..4, 0..=12)) {
            let mut items: Vec<(u8, usize)> = items.into_iter().zip(0..).collect();
            let mut want = items.clone();
            want.sort_unstable();
            sort_by_less(&mut items, |a, b| a.0 < b.0);
            prop_assert_eq!(items, want);
        }
    }

    /// Orders that Go 1.27 recorded: keys, and the indices of the input as `sort.Sort` leaves them.
    #[test]
    fn equal_keys_end_in_the_order_that_go_leaves_them_in() {
        let mut text = String::new();
        let recorded = include_bytes!("pdqsort/go-sort.txt.gz").as_slice();
        flate2::read::GzDecoder::new(recorded).read_to_string(&mut text).unwrap();
        let numbers =
            |line: &str| line.split_whitespace().map(|n| n.parse().unwrap()).collect::<Vec<usize>>();
        let orders: Vec<_> = text.lines().filter_map(|line| line.split_once('|')).skip(1).collect();
        assert_eq!(orders.len(), 400);
        for (keys, order) in orders {
            let mut items: Vec<(usize, usize)> = numbers(keys).into_iter().zip(0..).collect();
            sort_by_less(&mut items, |a, b| a.0 > b.0);
            assert_eq!(
                items.into_iter().map(|(_, index)| index).collect::<Vec<_>>(),
                numbers(order),
                "{keys}"
            );
        }
    }

    #[test]
    fn patterns_that_defeat_quicksort_are_sorted() {
        for n in [13usize, 50, 51, 1000] {
            for pattern in [
                (0..n).collect::<Vec<_>>(),
                (0..n).rev().collect(),
                vec![7; n],
                (0..n / 2).chain((0..n.div_ceil(2)).rev()).collect(),
                (0..n).map(|i| i % 2).collect(),
            ] {
                let (mut items, mut want) = (pattern.clone(), pattern);
                want.sort_unstable();
                sort_by_less(&mut items, |a, b| a < b);
                assert_eq!(items, want);
            }
        }
    }
}
