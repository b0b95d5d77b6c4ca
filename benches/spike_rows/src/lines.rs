//! The same index in lines of eight slots: the tags of a cache line are compared at once, without a branch each.

use crate::index::{NO_ROW, RowIndex};

/// Slots in a line.
const SLOTS: usize = 8;

/// One cache line. Rows are packed to the front, so the last one tells whether the line is full.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    tags: [u32; SLOTS],
    rows: [u32; SLOTS],
}

const EMPTY: Line = Line { tags: [0; SLOTS], rows: [NO_ROW; SLOTS] };

impl Line {
    /// One bit for each slot whose tag is `tag`; an empty slot may be among them.
    #[inline]
    fn matching(&self, tag: u32) -> u32 {
        let mut bits = 0;
        for (at, own) in self.tags.iter().enumerate() {
            bits |= u32::from(*own == tag) << at;
        }
        bits
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.rows[SLOTS - 1] != NO_ROW
    }

    fn len(&self) -> usize {
        self.rows.iter().position(|row| *row == NO_ROW).unwrap_or(SLOTS)
    }

    /// Takes a slot out; the last one fills its place.
    fn take(&mut self, at: usize) {
        let last = self.len() - 1;
        (self.tags[at], self.rows[at]) = (self.tags[last], self.rows[last]);
        (self.tags[last], self.rows[last]) = (0, NO_ROW);
    }
}

/// Linear probing by lines.
pub(crate) struct Lines {
    lines: Vec<Line>,
    mask: usize,
    shift: u32,
    used: usize,
    load_percent: usize,
}

impl Lines {
    fn with_lines(count: usize, load_percent: usize) -> Self {
        let shift = 32 - count.trailing_zeros();
        Self { lines: vec![EMPTY; count], mask: count - 1, shift, used: 0, load_percent }
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag.wrapping_mul(0x9E37_79B1) >> self.shift) as usize & self.mask
    }

    fn place(&mut self, tag: u32, row: u32) {
        let mut at = self.home(tag);
        while self.lines[at].is_full() {
            at = (at + 1) & self.mask;
        }
        let line = &mut self.lines[at];
        let len = line.len();
        (line.tags[len], line.rows[len]) = (tag, row);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut larger = Self::with_lines(self.lines.len() * 2, self.load_percent);
        for line in &self.lines {
            for at in 0..line.len() {
                larger.place(line.tags[at], line.rows[at]);
            }
        }
        larger.used = self.used;
        *self = larger;
    }

    /// How many lines beyond its home the tag stands when it is found in line `at`.
    fn way(&self, tag: u32, at: usize) -> usize {
        at.wrapping_sub(self.home(tag)) & self.mask
    }
}

impl RowIndex for Lines {
    fn new(load_percent: usize) -> Self {
        Self::with_lines(2, load_percent)
    }

    #[inline]
    fn touch(&self, tag: u32) -> u32 {
        self.lines[self.home(tag)].tags[0]
    }

    #[inline]
    fn find(&self, tag: u32, mut accept: impl FnMut(u32) -> bool) -> u32 {
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
            at = (at + 1) & self.mask;
        }
    }

    fn insert(&mut self, tag: u32, row: u32) {
        if (self.used + 1) * 100 > self.lines.len() * SLOTS * self.load_percent {
            self.grow();
        }
        self.used += 1;
        self.place(tag, row);
    }

    /// Backward shift, line by line: a gap in a full line is filled by a later slot that had passed the line.
    fn remove(&mut self, tag: u32, row: u32) {
        let mut gap = self.home(tag);
        let mut slot = loop {
            if let Some(slot) = self.lines[gap].rows.iter().position(|own| *own == row) {
                break slot;
            }
            if !self.lines[gap].is_full() {
                return;
            }
            gap = (gap + 1) & self.mask;
        };
        self.used -= 1;
        let mut at = gap;
        let mut open = self.lines[gap].is_full();
        while open {
            at = (at + 1) & self.mask;
            let line = self.lines[at];
            let distance = at.wrapping_sub(gap) & self.mask;
            let passed = (0..line.len()).find(|from| self.way(line.tags[*from], at) >= distance);
            if let Some(from) = passed {
                self.lines[gap].tags[slot] = line.tags[from];
                self.lines[gap].rows[slot] = line.rows[from];
                (gap, slot) = (at, from);
            }
            open = line.is_full();
        }
        self.lines[gap].take(slot);
    }

    fn capacity(&self) -> usize {
        self.lines.len() * SLOTS
    }

    fn mean_probes(&self) -> f64 {
        let mut probes = 0;
        for (at, line) in self.lines.iter().enumerate() {
            probes += (0..line.len()).map(|slot| 1 + self.way(line.tags[slot], at)).sum::<usize>();
        }
        probes as f64 / self.used.max(1) as f64
    }
}
