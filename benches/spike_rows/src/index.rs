//! The index of design (R): open addressing over eight-byte slots, from a 32-bit hash to a dense row.

/// A row number that no row has.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// From a hash to the rows that have it.
pub(crate) trait RowIndex {
    /// An empty index that grows beyond this load.
    fn new(load_percent: usize) -> Self;
    /// Loads the first slot of a hash and returns something that depends on it.
    fn touch(&self, tag: u32) -> u32;
    /// The first row whose tag is `tag` and which `accept` takes for the right one.
    fn find(&self, tag: u32, accept: impl FnMut(u32) -> bool) -> u32;
    /// Adds a row that is known to be absent.
    fn insert(&mut self, tag: u32, row: u32);
    /// Takes out the slot of `row` and closes the gap, so that no tombstones are left.
    #[cfg_attr(not(test), expect(dead_code, reason = "the workload removes nothing; the tests do"))]
    fn remove(&mut self, tag: u32, row: u32);
    /// Slots, used or not.
    fn capacity(&self) -> usize;
    /// The mean number of places (slots, or lines) that a search for a present key looks at.
    fn mean_probes(&self) -> f64;
}

/// One slot; eight bytes and aligned to eight, so it is one load and never crosses a cache line.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Slot {
    tag: u32,
    row: u32,
}

const EMPTY: Slot = Slot { tag: 0, row: NO_ROW };

/// Linear probing, power-of-two capacity, backward-shift removal.
///
/// The tag is the whole hash, so growing and removing need no key.
pub(crate) struct Index {
    slots: Vec<Slot>,
    mask: usize,
    shift: u32,
    used: usize,
    load_percent: usize,
}

impl Index {
    fn with_slots(capacity: usize, load_percent: usize) -> Self {
        let shift = 32 - capacity.trailing_zeros();
        Self { slots: vec![EMPTY; capacity], mask: capacity - 1, shift, used: 0, load_percent }
    }

    /// Where the search for a hash starts: the top bits of a product with an odd (in production: injected) seed.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag.wrapping_mul(0x9E37_79B1) >> self.shift) as usize & self.mask
    }

    #[inline]
    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.tag);
        while self.slots[at].row != NO_ROW {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = slot;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut larger = Self::with_slots(self.slots.len() * 2, self.load_percent);
        for slot in &self.slots {
            if slot.row != NO_ROW {
                larger.place(*slot);
            }
        }
        larger.used = self.used;
        *self = larger;
    }
}

impl RowIndex for Index {
    fn new(load_percent: usize) -> Self {
        Self::with_slots(16, load_percent)
    }

    #[inline]
    fn touch(&self, tag: u32) -> u32 {
        self.slots[self.home(tag)].tag
    }

    #[inline]
    fn find(&self, tag: u32, mut accept: impl FnMut(u32) -> bool) -> u32 {
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot.row == NO_ROW || (slot.tag == tag && accept(slot.row)) {
                return slot.row;
            }
            at = (at + 1) & self.mask;
        }
    }

    fn insert(&mut self, tag: u32, row: u32) {
        if (self.used + 1) * 100 > self.slots.len() * self.load_percent {
            self.grow();
        }
        self.used += 1;
        self.place(Slot { tag, row });
    }

    fn remove(&mut self, tag: u32, row: u32) {
        let mut gap = self.home(tag);
        while self.slots[gap].row != row {
            if self.slots[gap].row == NO_ROW {
                return;
            }
            gap = (gap + 1) & self.mask;
        }
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots[at];
            if slot.row == NO_ROW {
                break;
            }
            let way = at.wrapping_sub(self.home(slot.tag)) & self.mask;
            if way >= at.wrapping_sub(gap) & self.mask {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = EMPTY;
        self.used -= 1;
    }

    fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn mean_probes(&self) -> f64 {
        let mut probes = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.row != NO_ROW {
                probes += 1 + (at.wrapping_sub(self.home(slot.tag)) & self.mask);
            }
        }
        probes as f64 / self.used.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_leaves_every_other_row_reachable() {
        removal_in::<Index>();
        removal_in::<crate::lines::Lines>();
    }

    fn removal_in<I: RowIndex>() {
        let mut index = I::new(75);
        let tag = |row: u32| (row / 3).wrapping_mul(0x0101_0101); // threes share a hash, runs collide
        for row in 0..3000 {
            index.insert(tag(row), row);
        }
        for row in (0..3000).filter(|row| row % 7 < 3) {
            index.remove(tag(row), row);
        }
        for row in 0..3000 {
            let expected = if row % 7 < 3 { NO_ROW } else { row };
            assert_eq!(index.find(tag(row), |found| found == row), expected, "row {row}");
        }
    }
}
