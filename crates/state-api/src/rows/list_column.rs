//! The column of a list state: one list a row.
//!
//! In the byte tables a list is a number of chunks. The position of a chunk is its map key, and the list is its chunks in
//! order of position. So appending is one write that reads nothing, however long the list is.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::access::{Access, Behind, prefix_of, serializer_error};
use super::column::{Buffers, Column, FrozenColumn, RowVisitor};
use super::paged::{FrozenPaged, Paged};
use super::round_trip::{RoundTrip, check_round_trip};
use crate::canonical::{byte_string, write_byte_string};
use crate::shared_list::SharedList;
use crate::{At, Serializer, State, StateError};

/// Bytes from which on a chunk is full. One element can make it larger.
const CHUNK_BYTES: usize = 32 * 1024;

/// A list that was read in at least this many chunks is written anew, in fewer, if they are small.
const SMALL_CHUNKS_MAX: usize = 32;

/// The lists of one state.
pub(crate) struct ListColumn<T> {
    /// An empty list is `None`. As a cache: the elements that are known.
    lists: Paged<Option<SharedList<T>>>,
    /// What a cache knows of the lists; empty where the rows are no cache.
    cached: Vec<Cached>,
    /// As a cache: every row that has something to be written, once; also some that have nothing.
    dirty: Vec<u32>,
    /// As a cache: how many elements are here.
    held: usize,
    /// As a cache: of rows that are written anew, the positions that their chunks have in the byte tables.
    replaced: BTreeMap<u32, Vec<u64>>,
    /// As a cache: the position of the chunk that is written next.
    next_position: u64,
    /// The restored chunks by row and position, until all of them are there.
    loading: BTreeMap<(u32, u64), Vec<T>>,
    round_trip: RoundTrip,
    used: bool,
    element: Vec<u8>,
    chunk: Vec<u8>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

/// What a cache knows of one list.
#[derive(Debug, Clone, Copy, Default)]
struct Cached {
    /// All elements are here; if not, there may be others in the byte tables, which stand before those that are here.
    is_whole: bool,
    /// So many of the elements that are here, the last ones, are not in the byte tables.
    unwritten: usize,
    /// It is among those that may have something to be written.
    is_listed: bool,
}

impl<T: State> ListColumn<T> {
    /// How many rows are noted as having something to be written.
    #[cfg(test)]
    pub(crate) fn listed_rows(&self) -> usize {
        self.dirty.len()
    }

    pub(crate) fn new(name: String, serializer: Arc<dyn Serializer<T>>) -> Self {
        Self {
            lists: Paged::new(),
            cached: Vec::new(),
            dirty: Vec::new(),
            held: 0,
            replaced: BTreeMap::new(),
            next_position: 0,
            loading: BTreeMap::new(),
            round_trip: RoundTrip::default(),
            used: false,
            element: Vec::new(),
            chunk: Vec::new(),
            name,
            serializer,
        }
    }

    /// The list of the current row; `None` when it is empty.
    pub(crate) fn get(&mut self, access: &mut Access<'_>) -> Result<Option<&SharedList<T>>, StateError> {
        self.used = true;
        if access.is_cache {
            self.fetch(access)?;
        }
        Ok(self.lists.read(access.row).and_then(Option::as_ref))
    }

    /// Whether the list of the current row is empty.
    pub(crate) fn is_empty(&mut self, access: &mut Access<'_>) -> Result<bool, StateError> {
        self.used = true;
        if !self.is_empty_at(access.row) {
            return Ok(false);
        }
        if !access.is_cache || self.known(access.row).is_whole {
            return Ok(true);
        }
        let (mut tables, at) = access.behind.reach(&self.name, access.row)?;
        let mut is_empty = true;
        tables.scan(prefix_of(at), &mut |_| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        Ok(is_empty)
    }

    /// Appends an element to the list of the current row.
    pub(crate) fn add(&mut self, access: &mut Access<'_>, element: T) -> Result<(), StateError> {
        self.used = true;
        self.check(std::slice::from_ref(&element))?;
        self.append(access, [element]);
        Ok(())
    }

    /// Appends elements to the list of the current row.
    pub(crate) fn add_all(&mut self, access: &mut Access<'_>, elements: Vec<T>) -> Result<(), StateError> {
        self.used = true;
        if elements.is_empty() {
            return Ok(());
        }
        self.check(&elements)?;
        self.append(access, elements);
        Ok(())
    }

    /// Replaces the list of the current row.
    pub(crate) fn update(&mut self, access: &mut Access<'_>, elements: Vec<T>) -> Result<(), StateError> {
        self.check(&elements)?;
        self.clear(access)?;
        if !elements.is_empty() {
            self.append(access, elements);
        }
        Ok(())
    }

    /// Empties the list of the current row.
    pub(crate) fn clear(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        self.used = true;
        if access.is_cache {
            let row = access.row;
            let known = self.known(row);
            if !known.is_whole || self.held_of(row) > known.unwritten || self.replaced.contains_key(&row) {
                access.behind.remove_entries(&self.name, row)?;
            }
            self.replaced.remove(&row);
            self.held -= self.held_of(row);
            self.know(row, Cached { is_whole: true, unwritten: 0, ..known });
        }
        if !self.is_empty_at(access.row) {
            *self.lists.write(access.row) = None;
            if !access.is_cache {
                access.note_emptied();
            }
        }
        Ok(())
    }

    /// Checks those elements whose turn it is, before any of them is stored. If one fails, none is counted.
    fn check(&mut self, elements: &[T]) -> Result<(), StateError> {
        let mut round_trip = self.round_trip;
        for element in elements {
            round_trip.check(|| check_round_trip(&self.name, &*self.serializer, element))?;
        }
        self.round_trip = round_trip;
        Ok(())
    }

    fn append(&mut self, access: &Access<'_>, elements: impl IntoIterator<Item = T>) {
        let list = self.lists.write(access.row).get_or_insert_default();
        let before = list.len();
        list.extend(elements);
        if access.is_cache {
            let added = list.len() - before;
            self.held += added;
            let known = self.known(access.row);
            self.know(access.row, Cached { unwritten: known.unwritten + added, ..known });
            self.list_dirty(access.row);
        }
    }

    /// As a cache: a row has something to be written.
    fn list_dirty(&mut self, row: u32) {
        if !std::mem::replace(&mut self.cached[row as usize].is_listed, true) {
            self.dirty.push(row);
        }
    }

    fn known(&self, row: u32) -> Cached {
        self.cached.get(row as usize).copied().unwrap_or_default()
    }

    fn know(&mut self, row: u32, cached: Cached) {
        if self.cached.len() <= row as usize {
            self.cached.resize(row as usize + 1, Cached::default());
        }
        self.cached[row as usize] = cached;
    }

    /// How many elements of a row are here.
    fn held_of(&self, row: u32) -> usize {
        self.lists.read(row).and_then(Option::as_ref).map_or(0, SharedList::len)
    }

    /// Makes the whole list of the current row known.
    fn fetch(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        let row = access.row;
        let known = self.known(row);
        if known.is_whole {
            return Ok(());
        }
        let (mut tables, at) = access.behind.reach(&self.name, row)?;
        let mut chunks = BTreeMap::new();
        let mut bytes = 0;
        let mut outcome = Ok(());
        tables.scan(prefix_of(at), &mut |found| {
            bytes += found.value.len();
            let read = position(&self.name, found.at.map_key).and_then(|position| {
                chunks.insert(position, read_chunk(&self.name, &*self.serializer, found.value)?);
                Ok(())
            });
            match read {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        outcome?;
        let is_scattered = chunks.len() >= SMALL_CHUNKS_MAX && bytes / chunks.len() < CHUNK_BYTES / 4;
        if is_scattered {
            // They are removed when what replaces them is written.
            self.replaced.insert(row, chunks.keys().copied().collect());
        }
        let mut list: SharedList<T> = chunks.into_values().flatten().collect();
        self.held += list.len();
        let added = self.lists.read(row).and_then(Option::as_ref);
        list.extend(added.into_iter().flat_map(SharedList::iter).cloned());
        let unwritten = if is_scattered { list.len() } else { known.unwritten };
        if list.len() > 0 {
            *self.lists.write(row) = Some(list);
        }
        self.know(row, Cached { is_whole: true, unwritten, ..known });
        if unwritten > 0 {
            self.list_dirty(row);
        }
        Ok(())
    }

    fn write_back_row(&mut self, row: u32, behind: &mut Behind<'_>) -> Result<(), StateError> {
        let known = self.known(row);
        self.know(row, Cached { unwritten: 0, is_listed: false, ..known });
        if known.unwritten == 0 {
            return Ok(());
        }
        let (mut tables, at) = behind.reach(&self.name, row)?;
        let Self { lists, chunk, element, next_position, name, serializer, .. } = &mut *self;
        let list = lists.read(row).and_then(Option::as_ref).expect("a list with unwritten elements has elements");
        write_chunks(name, &**serializer, list.last(known.unwritten), chunk, element, &mut |chunk| {
            let position = next_position.to_be_bytes();
            *next_position += 1;
            tables.put(At { map_key: &position, ..at }, chunk)
        })?;
        for position in self.replaced.remove(&row).unwrap_or_default() {
            tables.remove(At { map_key: &position.to_be_bytes(), ..at })?;
        }
        if !known.is_whole {
            // What is here says nothing about the rest of the list.
            self.held -= self.held_of(row);
            *self.lists.write(row) = None;
        }
        Ok(())
    }
}

impl<T: State> Column for ListColumn<T> {
    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError> {
        let position = restored_position(&self.name, map_key)?;
        let chunk = read_chunk(&self.name, &*self.serializer, value)?;
        if self.loading.insert((row, position), chunk).is_some() {
            return Err(damaged(&self.name, "two chunks of a list have one position"));
        }
        Ok(())
    }

    fn finish_load(&mut self) -> Result<(), StateError> {
        for ((row, _), chunk) in std::mem::take(&mut self.loading) {
            self.lists.write(row).get_or_insert_default().extend(chunk);
        }
        Ok(())
    }

    fn set_next_position(&mut self, position: u64) {
        self.next_position = position;
    }

    fn is_empty_at(&self, row: u32) -> bool {
        self.lists.read(row).is_none_or(Option::is_none)
    }

    fn freeze(&mut self) -> Box<dyn FrozenColumn> {
        Box::new(FrozenLists {
            lists: self.lists.freeze(),
            name: self.name.clone(),
            serializer: self.serializer.clone(),
        })
    }

    fn fold(&mut self) -> bool {
        self.lists.fold()
    }

    fn warm(&mut self, rows: &[u32]) {
        if std::mem::take(&mut self.used) {
            black_box(rows.iter().fold(false, |all, row| all ^ self.is_empty_at(*row)));
        }
    }

    fn merge(&mut self, access: &mut Access<'_>, sources: &[u32]) -> Result<(), StateError> {
        let target = access.row;
        let mut merged = Vec::new();
        for source in sources {
            access.row = *source;
            merged.extend(self.get(access)?.into_iter().flat_map(SharedList::iter).cloned());
        }
        access.row = target;
        if !merged.is_empty() {
            self.append(access, merged);
        }
        for source in sources {
            access.row = *source;
            self.clear(access)?;
        }
        Ok(())
    }

    fn own_rows(&self) -> usize {
        self.held
    }

    fn write_back(&mut self, behind: &mut Behind<'_>) -> Result<(), StateError> {
        for row in std::mem::take(&mut self.dirty) {
            self.write_back_row(row, behind)?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.lists = Paged::new();
        self.cached.clear();
        self.dirty.clear();
        self.held = 0;
        self.replaced.clear();
    }
}

struct FrozenLists<T> {
    lists: FrozenPaged<Option<SharedList<T>>>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> FrozenColumn for FrozenLists<T> {
    fn visit(&self, row: u32, buffers: &mut Buffers, visit: &mut RowVisitor<'_>) -> Result<(), StateError> {
        let Some(Some(list)) = self.lists.read(row) else { return Ok(()) };
        let mut position = 0u64;
        let Buffers { map_key: element, value: chunk } = buffers;
        write_chunks(&self.name, &*self.serializer, list.iter(), chunk, element, &mut |chunk| {
            let map_key = position.to_be_bytes();
            position += 1;
            visit(&map_key, chunk)
        })
    }
}

/// Divides elements into chunks and gives each to `write`. `chunk` and `bytes` are memory to serialise into.
fn write_chunks<'t, T: State>(
    name: &str,
    serializer: &dyn Serializer<T>,
    elements: impl Iterator<Item = &'t T>,
    chunk: &mut Vec<u8>,
    bytes: &mut Vec<u8>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), StateError>,
) -> Result<(), StateError> {
    chunk.clear();
    for element in elements {
        bytes.clear();
        serializer.serialize(element, bytes).map_err(serializer_error(name))?;
        write_byte_string(bytes, chunk);
        if chunk.len() >= CHUNK_BYTES {
            write(chunk)?;
            chunk.clear();
        }
    }
    if chunk.is_empty() { Ok(()) } else { write(chunk) }
}

fn read_chunk<T>(name: &str, serializer: &dyn Serializer<T>, mut chunk: &[u8]) -> Result<Vec<T>, StateError> {
    let mut elements = Vec::new();
    while !chunk.is_empty() {
        let element = byte_string(&mut chunk).map_err(|what| damaged(name, what))?;
        elements.push(serializer.deserialize(element).map_err(serializer_error(name))?);
    }
    if elements.is_empty() {
        return Err(damaged(name, "a chunk of a list is empty"));
    }
    Ok(elements)
}

/// The position of a chunk from its map key.
fn position(name: &str, map_key: &[u8]) -> Result<u64, StateError> {
    let bytes = map_key.try_into().map_err(|_| damaged(name, "the position of a chunk does not have eight bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The position of a restored chunk: below 2⁶², so that there is always a next one.
pub(crate) fn restored_position(name: &str, map_key: &[u8]) -> Result<u64, StateError> {
    let position = position(name, map_key)?;
    if position < 1 << 62 { Ok(position) } else { Err(damaged(name, "the position of a chunk is out of range")) }
}

fn damaged(name: &str, what: &str) -> StateError {
    StateError::Damaged(format!("state {name:?}: {what}"))
}
