//! The hash index: open addressing over cache lines of eight slots, from a 32-bit hash to a dense row.

/// A row number that no row has.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// Slots in a line.
const SLOTS: usize = 8;

/// One cache line, so that a search is one load for most keys, and its tags are compared without a branch for each.
///
/// Rows stand at the front, so the last one tells whether the line is full.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    /// The whole hashes, so that growing and removing need no key.
    tags: [u32; SLOTS],
    rows: [u32; SLOTS],
}

const EMPTY: Line = Line { tags: [0; SLOTS], rows: [NO_ROW; SLOTS] };
const LINES_MIN: usize = 2;

impl Line {
    /// One bit for each slot whose tag is `tag`; an empty slot may be among them.
    #[inline]
    fn matching(&self, tag: u32) -> u32 {
        let bits = self.tags.iter().enumerate();
        bits.fold(0, |bits, (slot, own)| bits | u32::from(*own == tag) << slot)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.rows[SLOTS - 1] != NO_ROW
    }

    fn len(&self) -> usize {
        self.rows.iter().position(|row| *row == NO_ROW).unwrap_or(SLOTS)
    }

    fn push(&mut self, tag: u32, row: u32) {
        let len = self.len();
        (self.tags[len], self.rows[len]) = (tag, row);
    }

    /// Takes a slot out; the last one fills its place.
    fn take(&mut self, slot: usize) {
        let last = self.len() - 1;
        (self.tags[slot], self.rows[slot]) = (self.tags[last], self.rows[last]);
        (self.tags[last], self.rows[last]) = (0, NO_ROW);
    }
}

/// Linear probing by lines, a power of two of them, removal without tombstones.
pub(crate) struct Index {
    lines: Vec<Line>,
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
        Self::with_lines(LINES_MIN, spread(seed) | 1)
    }

    fn with_lines(count: usize, multiplier: u64) -> Self {
        Self { lines: vec![EMPTY; count], multiplier, shift: 64 - count.trailing_zeros(), used: 0 }
    }

    /// The line where the search for a hash starts: the top bits of its product with the seed.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        (u64::from(tag).wrapping_mul(self.multiplier) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        (line + 1) & (self.lines.len() - 1)
    }

    /// How many lines beyond its home a hash stands in line `line`.
    fn way(&self, tag: u32, line: usize) -> usize {
        line.wrapping_sub(self.home(tag)) & (self.lines.len() - 1)
    }

    /// Loads the first line of a hash, and returns something of it so that the load is not dropped.
    #[inline]
    pub(crate) fn touch(&self, tag: u32) -> u32 {
        self.lines[self.home(tag)].tags[0]
    }

    /// The first row that has this hash and that `accept` takes for the right one, or [`NO_ROW`].
    #[inline]
    pub(crate) fn find(&self, tag: u32, mut accept: impl FnMut(u32) -> bool) -> u32 {
        let mut at = self.home(tag);
        loop {
            let line = &self.lines[at];
            let mut bits = line.matching(tag);
            while bits != 0 {
                let row = line.rows[bits.trailing_zeros() as usize % SLOTS];
                if row != NO_ROW && accept(row) {
                    return row;
                }
                bits &= bits - 1;
            }
            if !line.is_full() {
                return NO_ROW;
            }
            at = self.after(at);
        }
    }

    /// Adds a row that is not there yet.
    pub(crate) fn insert(&mut self, tag: u32, row: u32) {
        debug_assert!(row != NO_ROW);
        // At a load of seven eighths few lines are full, and a search ends in the first.
        if (self.used + 1) * 8 > self.lines.len() * SLOTS * 7 {
            self.grow();
        }
        self.used += 1;
        self.place(tag, row);
    }

    fn place(&mut self, tag: u32, row: u32) {
        let mut at = self.home(tag);
        while self.lines[at].is_full() {
            at = self.after(at);
        }
        self.lines[at].push(tag, row);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut larger = Self::with_lines(self.lines.len() * 2, self.multiplier);
        for line in &self.lines {
            for slot in 0..line.len() {
                larger.place(line.tags[slot], line.rows[slot]);
            }
        }
        larger.used = self.used;
        *self = larger;
    }

    /// Takes out a row, if it is there. A gap in a full line is filled from a later line by a slot that had passed it,
    /// so that every search still ends where it should.
    pub(crate) fn remove(&mut self, tag: u32, row: u32) {
        let mut gap = self.home(tag);
        let mut slot = loop {
            if let Some(slot) = self.lines[gap].rows.iter().position(|own| *own == row) {
                break slot;
            }
            if !self.lines[gap].is_full() {
                return;
            }
            gap = self.after(gap);
        };
        self.used -= 1;
        let mut at = gap;
        while self.lines[at].is_full() {
            at = self.after(at);
            let line = self.lines[at];
            let distance = at.wrapping_sub(gap) & (self.lines.len() - 1);
            if let Some(from) = (0..line.len()).find(|from| self.way(line.tags[*from], at) >= distance) {
                self.lines[gap].tags[slot] = line.tags[from];
                self.lines[gap].rows[slot] = line.rows[from];
                (gap, slot) = (at, from);
            }
        }
        self.lines[gap].take(slot);
    }

    /// Takes out all rows. Keeps the memory when it was in good use.
    pub(crate) fn clear(&mut self) {
        if self.lines.len() > LINES_MIN && self.used < self.lines.len() {
            *self = Self::with_lines(LINES_MIN, self.multiplier);
        } else {
            self.lines.fill(EMPTY);
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
