//! The hash index: open addressing over eight-byte slots, from a 32-bit hash to a dense row.

/// A row number that no row has.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// One slot; eight bytes and aligned to eight, so it is one load and never lies across two cache lines.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Slot {
    /// The whole hash, so that growing and removing need no key.
    tag: u32,
    row: u32,
}

const EMPTY: Slot = Slot { tag: 0, row: NO_ROW };
const SLOTS_MIN: usize = 16;

/// Linear probing, power-of-two capacity, removal without tombstones.
pub(crate) struct Index {
    slots: Vec<Slot>,
    multiplier: u64,
    shift: u32,
    used: usize,
}

/// Spreads a seed over 64 bits (the finaliser of SplitMix64).
pub(crate) fn spread(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Index {
    /// An empty index; the seed decides where a hash has its place.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_slots(SLOTS_MIN, spread(seed) | 1)
    }

    fn with_slots(capacity: usize, multiplier: u64) -> Self {
        Self { slots: vec![EMPTY; capacity], multiplier, shift: 64 - capacity.trailing_zeros(), used: 0 }
    }

    /// Where the search for a hash starts: the top bits of its product with the seed.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        (u64::from(tag).wrapping_mul(self.multiplier) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Loads the first slot of a hash, and returns something of it so that the load is not dropped.
    #[inline]
    pub(crate) fn touch(&self, tag: u32) -> u32 {
        self.slots[self.home(tag)].tag
    }

    /// The first row that has this hash and that `accept` takes for the right one, or [`NO_ROW`].
    #[inline]
    pub(crate) fn find(&self, tag: u32, mut accept: impl FnMut(u32) -> bool) -> u32 {
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot.row == NO_ROW || (slot.tag == tag && accept(slot.row)) {
                return slot.row;
            }
            at = self.after(at);
        }
    }

    /// Adds a row that is not there yet.
    pub(crate) fn insert(&mut self, tag: u32, row: u32) {
        debug_assert!(row != NO_ROW);
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.used += 1;
        self.place(Slot { tag, row });
    }

    #[inline]
    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.tag);
        while self.slots[at].row != NO_ROW {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut larger = Self::with_slots(self.slots.len() * 2, self.multiplier);
        for slot in self.slots.iter().filter(|slot| slot.row != NO_ROW) {
            larger.place(*slot);
        }
        larger.used = self.used;
        *self = larger;
    }

    /// Takes out a row, if it is there, and closes the gap.
    pub(crate) fn remove(&mut self, tag: u32, row: u32) {
        let mut gap = self.home(tag);
        while self.slots[gap].row != row {
            if self.slots[gap].row == NO_ROW {
                return;
            }
            gap = self.after(gap);
        }
        let mask = self.slots.len() - 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot.row == NO_ROW {
                break;
            }
            // A slot may move back into the gap unless its home lies behind the gap.
            let from_home = at.wrapping_sub(self.home(slot.tag)) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = EMPTY;
        self.used -= 1;
    }

    /// Takes out all rows. Keeps the memory when it was in good use.
    pub(crate) fn clear(&mut self) {
        if self.slots.len() > SLOTS_MIN && self.used * 8 < self.slots.len() {
            *self = Self::with_slots(SLOTS_MIN, self.multiplier);
        } else {
            self.slots.fill(EMPTY);
            self.used = 0;
        }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
#[path = "index_test.rs"]
mod index_test;
