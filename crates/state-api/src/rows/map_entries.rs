//! The entries of all maps of a map state: rows of their own, chained for each map.
//!
//! No map is a value of its own, so the first write to a map after a freeze copies a page and not the map.

use std::hint::black_box;

use super::hash::FoldingHasher;
use super::index::{Index, NO_ROW};
use super::paged::{FrozenPaged, Paged};
use crate::{Key, State};

/// Number of an entry, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link(u32);

impl Default for Link {
    fn default() -> Self {
        Self(NO_ROW)
    }
}

/// The neighbours of an entry within its map. Apart from the content, so that changing them copies little.
#[derive(Debug, Clone, Copy, Default)]
struct Links {
    previous: Link,
    next: Link,
}

/// One entry. `value` is `None` only in a cache: the byte tables have no such entry, or shall have none.
#[derive(Clone)]
struct Cell<UK, UV> {
    tag: u32,
    owner: u32,
    key: Option<UK>,
    value: Option<UV>,
}

impl<UK, UV> Default for Cell<UK, UV> {
    fn default() -> Self {
        Self { tag: 0, owner: NO_ROW, key: None, value: None }
    }
}

/// The entries.
pub(crate) struct MapEntries<UK, UV> {
    index: Index,
    hasher: FoldingHasher,
    heads: Paged<Link>,
    links: Paged<Links>,
    cells: Paged<Cell<UK, UV>>,
    /// Entries below `entry_count` that are not in use.
    free: Vec<u32>,
    entry_count: u32,
}

impl<UK: Key, UV: State> MapEntries<UK, UV> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            index: Index::new(seed),
            hasher: FoldingHasher::new(seed),
            heads: Paged::new(),
            links: Paged::new(),
            cells: Paged::new(),
            free: Vec::new(),
            entry_count: 0,
        }
    }

    fn cell(&self, entry: u32) -> &Cell<UK, UV> {
        self.cells.read(entry).expect("only entries in use are asked for")
    }

    /// The entry of a map key in the map of a row.
    #[inline]
    pub(crate) fn find(&self, row: u32, map_key: &UK) -> Option<u32> {
        let entry = self.index.find(self.hasher.hash(row, map_key), |entry| {
            let cell = self.cell(entry);
            cell.owner == row && cell.key.as_ref() == Some(map_key)
        });
        (entry != NO_ROW).then_some(entry)
    }

    /// Adds an entry that is not there yet.
    pub(crate) fn insert(&mut self, row: u32, map_key: UK, value: Option<UV>) -> u32 {
        let tag = self.hasher.hash(row, &map_key);
        let entry = self.free.pop().unwrap_or_else(|| {
            assert!(self.entry_count < NO_ROW, "a map state cannot have more than {NO_ROW} entries a subtask");
            self.entry_count += 1;
            self.entry_count - 1
        });
        *self.cells.write(entry) = Cell { tag, owner: row, key: Some(map_key), value };
        self.index.insert(tag, entry);
        let next = std::mem::replace(self.heads.write(row), Link(entry));
        *self.links.write(entry) = Links { previous: Link(NO_ROW), next };
        if next.0 != NO_ROW {
            self.links.write(next.0).previous = Link(entry);
        }
        entry
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, entry: u32) {
        let cell = std::mem::take(self.cells.write(entry));
        self.index.remove(cell.tag, entry);
        let Links { previous, next } = std::mem::take(self.links.write(entry));
        if previous.0 == NO_ROW {
            *self.heads.write(cell.owner) = next;
        } else {
            self.links.write(previous.0).next = next;
        }
        if next.0 != NO_ROW {
            self.links.write(next.0).previous = previous;
        }
        self.free.push(entry);
    }

    /// An entry of the map of a row, from which [`MapEntries::next`] leads to the others.
    #[inline]
    pub(crate) fn first(&self, row: u32) -> Option<u32> {
        self.heads.read(row).map(|head| head.0).filter(|entry| *entry != NO_ROW)
    }

    #[inline]
    pub(crate) fn next(&self, entry: u32) -> Option<u32> {
        self.links.read(entry).map(|links| links.next.0).filter(|entry| *entry != NO_ROW)
    }

    /// Whether a number is that of an entry.
    pub(crate) fn is_in_use(&self, entry: u32) -> bool {
        self.cells.read(entry).is_some_and(|cell| cell.key.is_some())
    }

    pub(crate) fn owner(&self, entry: u32) -> u32 {
        self.cell(entry).owner
    }

    pub(crate) fn key(&self, entry: u32) -> &UK {
        self.cell(entry).key.as_ref().expect("an entry in use has a key")
    }

    pub(crate) fn value(&self, entry: u32) -> Option<&UV> {
        self.cell(entry).value.as_ref()
    }

    pub(crate) fn set_value(&mut self, entry: u32, value: Option<UV>) {
        self.cells.write(entry).value = value;
    }

    pub(crate) fn freeze(&mut self) -> FrozenMapEntries<UK, UV> {
        FrozenMapEntries { heads: self.heads.freeze(), links: self.links.freeze(), cells: self.cells.freeze() }
    }

    pub(crate) fn fold(&mut self) -> bool {
        self.heads.fold() | self.links.fold() | self.cells.fold()
    }

    pub(crate) fn warm(&self, rows: &[u32]) {
        black_box(rows.iter().fold(0, |all, row| all ^ self.heads.read(*row).map_or(0, |head| head.0)));
    }

    pub(crate) fn forget(&mut self) {
        self.index.clear();
        self.heads = Paged::new();
        self.links = Paged::new();
        self.cells = Paged::new();
        self.free.clear();
        self.entry_count = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
}

/// The entries as they were at a freeze.
pub(crate) struct FrozenMapEntries<UK, UV> {
    heads: FrozenPaged<Link>,
    links: FrozenPaged<Links>,
    cells: FrozenPaged<Cell<UK, UV>>,
}

impl<UK: Key, UV: State> FrozenMapEntries<UK, UV> {
    /// The entries of the map that a row had, each with its number.
    pub(crate) fn of_row(&self, row: u32) -> impl Iterator<Item = (u32, &UK, &UV)> {
        let first = self.heads.read(row).copied().filter(|head| head.0 != NO_ROW);
        let entries = std::iter::successors(first, |entry| {
            self.links.read(entry.0).map(|links| links.next).filter(|next| next.0 != NO_ROW)
        });
        entries.filter_map(|entry| {
            let cell = self.cells.read(entry.0)?;
            cell.key.as_ref().zip(cell.value.as_ref()).map(|(map_key, value)| (entry.0, map_key, value))
        })
    }
}

#[cfg(test)]
#[path = "map_entries_test.rs"]
mod map_entries_test;
