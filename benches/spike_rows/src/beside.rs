//! A variant of (R): the value of the first state beside the key, in one cell, so that a record touches two lines, not three.

use std::sync::Arc;

use crate::index::{Index, NO_ROW, RowIndex};
use crate::pages::{Column, Layer};
use crate::workload::{BATCH, Contender, Frozen, Key, Value};

/// Rows whose cells are pairs of key and value.
pub(crate) struct Beside<K, V> {
    index: Index,
    cells: Column<Option<(K, V)>, 64>,
    row_count: u32,
    hashes: Vec<u32>,
    rows: Vec<u32>,
}

impl<K: Key, V: Value> Beside<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            index: Index::new(75),
            cells: Column::new(),
            row_count: 0,
            hashes: Vec::with_capacity(BATCH),
            rows: Vec::with_capacity(BATCH),
        }
    }

    #[inline]
    fn holds(&self, row: u32, key: &K) -> bool {
        self.cells.get(row as usize).as_ref().is_some_and(|cell| cell.0 == *key)
    }

    #[inline]
    fn find_or_insert(&mut self, hash: u32, key: &K) -> u32 {
        let row = self.index.find(hash, |row| self.holds(row, key));
        if row == NO_ROW { self.insert(hash, key) } else { row }
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, hash: u32, key: &K) -> u32 {
        let row = self.row_count;
        self.cells.reserve(row as usize);
        *self.cells.get_mut(row as usize) = Some((key.clone(), V::first(0)));
        self.row_count += 1;
        self.index.insert(hash, row);
        row
    }

    #[inline]
    fn bump(&mut self, row: u32) {
        if let Some(cell) = self.cells.get_mut(row as usize) {
            cell.1.bump();
        }
    }
}

impl<K: Key, V: Value> Contender<K, V> for Beside<K, V> {
    fn fill(&mut self, keys: &[K], first: u64) {
        for (j, key) in (first..).zip(keys) {
            let row = self.find_or_insert(key.hash32(), key);
            *self.cells.get_mut(row as usize) = Some((key.clone(), V::first(j)));
        }
    }

    fn each(&mut self, keys: &[K]) {
        self.cells.settle();
        for key in keys {
            let row = self.find_or_insert(key.hash32(), key);
            self.bump(row);
        }
    }

    fn batch(&mut self, keys: &[K]) {
        self.cells.settle();
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(Key::hash32));
        let touched = self.hashes.iter().fold(0, |all, hash| all ^ self.index.touch(*hash));
        std::hint::black_box(touched);
        self.rows.clear();
        self.rows.extend(self.hashes.iter().map(|hash| self.index.find(*hash, |_| true)));
        for (at, key) in keys.iter().enumerate() {
            if self.rows[at] == NO_ROW || !self.holds(self.rows[at], key) {
                self.rows[at] = self.find_or_insert(self.hashes[at], key);
            }
        }
        for at in 0..self.rows.len() {
            self.bump(self.rows[at]);
        }
    }

    fn freeze(&mut self) -> Option<Box<dyn Frozen>> {
        self.cells.settle();
        Some(Box::new(FrozenCells { cells: self.cells.freeze(), row_count: self.row_count as usize }))
    }

    fn sum(&self) -> u64 {
        let cells = (0..self.row_count as usize).filter_map(|row| self.cells.get(row).as_ref());
        cells.fold(0, |sum, cell| sum.wrapping_add(cell.1.number()))
    }

    fn describe(&self) -> String {
        let bytes = self.index.capacity() * 8 + self.row_count as usize * size_of::<Option<(K, V)>>();
        format!("{bytes} bytes in index and pages")
    }
}

/// The cells as they were at the freeze.
struct FrozenCells<K, V> {
    cells: Arc<Layer<Option<(K, V)>, 64>>,
    row_count: usize,
}

impl<K: Key, V: Value> Frozen for FrozenCells<K, V> {
    fn sum(&self) -> u64 {
        let cells = (0..self.row_count).filter_map(|row| self.cells.get(row).and_then(Option::as_ref));
        cells.fold(0, |sum, cell| sum.wrapping_add(cell.1.number()))
    }
}
