//! Numbers that follow from a seed: `SplitMix64`, the same on every machine.

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(super) struct SeededNumbers(u64);

impl SeededNumbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0 if that is 0.
    pub(super) fn draw_below(&mut self, end: u64) -> u64 {
        self.next_number().checked_rem(end).unwrap_or(0)
    }

    /// One of some items; `None` if there are none.
    pub(super) fn pick<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        let at = self.draw_below(items.len() as u64);
        items.get(usize::try_from(at).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_everywhere() {
        let mut numbers = SeededNumbers::new(1_234_567);
        assert_eq!(numbers.next_number(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.next_number(), 3_203_168_211_198_807_973);
        assert_eq!(numbers.draw_below(0), 0);
        assert_eq!(numbers.pick::<u8>(&[]), None);
    }
}
