//! Dice: the one source of chance in a simulated world. One seed reproduces everything.

/// A seeded generator (SplitMix64). Written out here so that a seed means the same run for ever, whatever becomes of
/// the generators of other crates.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Dice for a part of the world of their own, so that what one part draws does not change what another draws.
    pub(crate) fn fork(&mut self) -> Self {
        Self { state: self.next() }
    }

    /// A number, all of which are equally likely.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below 0");
        self.next() % bound
    }

    /// A number from `low` to `high`, both possible.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `of_1000` of 1,000 cases.
    pub(crate) fn chance(&mut self, of_1000: u32) -> bool {
        of_1000 > 0 && self.below(1_000) < u64::from(of_1000)
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_falls_the_same_way_for_ever() {
        let mut dice = Dice::new(1);
        assert_eq!([dice.next(), dice.next()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
    }

    #[test]
    fn every_number_of_a_range_comes_up_and_no_other() {
        let mut dice = Dice::new(7);
        let mut seen = [0; 3];
        (0..1_000).for_each(|_| seen[dice.between(4, 6) as usize - 4] += 1);
        assert!(seen.iter().all(|times| *times > 200), "{seen:?}");
        assert!(!(0..1_000).any(|_| dice.chance(0)));
        assert!((0..1_000).all(|_| dice.chance(1_000)));
    }
}
