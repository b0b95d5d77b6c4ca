//! The column of a map state: entries of all maps, and what of them is cached.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::access::{Access, Behind, prefix_of, serializer_error};
use super::column::{Buffers, Column, FrozenColumn, RowVisitor};
use super::map_entries::{FrozenMapEntries, MapEntries};
use super::marks::{Mark, Marks};
use super::round_trip::{RoundTrip, check_key, check_map_key, check_round_trip, check_written_key, map_key_error};
use crate::{At, Entry, Key, Prefix, Serializer, State, StateError, TableId};

/// The maps of one state.
pub(crate) struct MapColumn<UK, UV> {
    entries: MapEntries<UK, UV>,
    /// Of the values.
    round_trip: RoundTrip,
    /// Of the map keys that are new.
    map_key_round_trip: RoundTrip,
    used: bool,
    marks: Marks,
    buffers: Buffers,
    name: String,
    key_serializer: Arc<dyn Serializer<UK>>,
    value_serializer: Arc<dyn Serializer<UV>>,
}

impl<UK: Key, UV: State> MapColumn<UK, UV> {
    /// How many rows are noted as having something to be written.
    #[cfg(test)]
    pub(crate) fn listed_rows(&self) -> usize {
        self.marks.dirty().len()
    }

    pub(crate) fn new(name: String, key: Arc<dyn Serializer<UK>>, value: Arc<dyn Serializer<UV>>) -> Self {
        Self {
            entries: MapEntries::new(0),
            round_trip: RoundTrip::default(),
            map_key_round_trip: RoundTrip::default(),
            used: false,
            marks: Marks::default(),
            buffers: Buffers::default(),
            name,
            key_serializer: key,
            value_serializer: value,
        }
    }

    /// The value under a map key of the current row.
    #[inline]
    pub(crate) fn get(&mut self, access: &mut Access<'_>, map_key: &UK) -> Result<Option<&UV>, StateError> {
        self.used = true;
        let mut entry = self.entries.find(access.row, map_key);
        if access.is_cache && entry.is_none() {
            entry = Some(self.fetch(access, map_key)?);
        }
        Ok(entry.and_then(|entry| self.entries.value(entry)))
    }

    /// Sets the value under a map key of the current row.
    pub(crate) fn put(&mut self, access: &mut Access<'_>, map_key: UK, value: UV) -> Result<(), StateError> {
        self.used = true;
        let found = self.entries.find(access.row, &map_key);
        if found.is_none() {
            self.check_new_map_key(access, &map_key)?;
        }
        self.round_trip.check(|| check_round_trip(&self.name, &*self.value_serializer, &value))?;
        self.set(access, found, map_key, value);
        Ok(())
    }

    /// Sets the values under map keys of the current row: all of them, or none when a check fails.
    pub(crate) fn put_all(&mut self, access: &mut Access<'_>, entries: Vec<(UK, UV)>) -> Result<(), StateError> {
        self.used = true;
        let counted = (self.round_trip, self.map_key_round_trip);
        if let Err(error) = self.check_all(access, &entries) {
            // So that the same entries fail again.
            (self.round_trip, self.map_key_round_trip) = counted;
            return Err(error);
        }
        for (map_key, value) in entries {
            let found = self.entries.find(access.row, &map_key);
            self.set(access, found, map_key, value);
        }
        Ok(())
    }

    fn set(&mut self, access: &Access<'_>, found: Option<u32>, map_key: UK, value: UV) {
        let entry = match found {
            Some(entry) => {
                self.entries.set_value(entry, Some(value));
                entry
            }
            None => self.entries.insert(access.row, map_key, Some(value)),
        };
        if access.is_cache {
            self.marks.set(entry, Mark::Dirty);
        }
    }

    /// Removes the entries of the current row that are not to be kept.
    pub(crate) fn retain(
        &mut self,
        access: &mut Access<'_>,
        mut keep: impl FnMut(&UK, &UV) -> bool,
    ) -> Result<(), StateError> {
        let mut removed = Vec::new();
        self.for_each(access, |map_key, value| {
            if !keep(map_key, value) {
                removed.push(map_key.clone());
            }
        })?;
        removed.iter().try_for_each(|map_key| self.remove(access, map_key))
    }

    /// Changes the values of all entries of the current row.
    pub(crate) fn for_each_mut(
        &mut self,
        access: &mut Access<'_>,
        mut change: impl FnMut(&UK, &mut UV),
    ) -> Result<(), StateError> {
        let mut entries = Vec::new();
        self.for_each(access, |map_key, value| entries.push((map_key.clone(), value.clone())))?;
        entries.iter_mut().for_each(|(map_key, value)| change(map_key, value));
        self.put_all(access, entries)
    }

    /// Removes the value under a map key of the current row.
    pub(crate) fn remove(&mut self, access: &mut Access<'_>, map_key: &UK) -> Result<(), StateError> {
        self.used = true;
        let found = self.entries.find(access.row, map_key);
        if !access.is_cache {
            if let Some(entry) = found {
                self.entries.remove(entry);
                self.note_if_empty(access);
            }
            return Ok(());
        }
        // The byte tables are not asked: whether they have the entry or not, they shall not.
        let entry = match found {
            Some(entry) => {
                self.entries.set_value(entry, None);
                entry
            }
            None => {
                self.check_new_map_key(access, map_key)?;
                self.entries.insert(access.row, map_key.clone(), None)
            }
        };
        self.marks.set(entry, Mark::Dirty);
        Ok(())
    }

    /// Visits the entries of the current row.
    pub(crate) fn for_each(
        &mut self,
        access: &mut Access<'_>,
        mut visit: impl FnMut(&UK, &UV),
    ) -> Result<(), StateError> {
        self.used = true;
        if !access.is_cache {
            self.for_each_in_rows(access.row, visit);
            return Ok(());
        }
        self.write_back_row(access)?;
        let (mut tables, at) = access.behind.reach(&self.name, access.row)?;
        let mut outcome = Ok(());
        tables.scan(prefix_of(at), &mut |found| match self.read(&found) {
            Ok((map_key, value)) => {
                visit(&map_key, &value);
                ControlFlow::Continue(())
            }
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        })?;
        outcome
    }

    /// Visits the entries that the rows hold of one row; all of them when the rows are no cache.
    pub(crate) fn for_each_in_rows(&self, row: u32, mut visit: impl FnMut(&UK, &UV)) {
        let mut next = self.entries.first(row);
        while let Some(entry) = next {
            if let Some(value) = self.entries.value(entry) {
                visit(self.entries.key(entry), value);
            }
            next = self.entries.next(entry);
        }
    }

    /// Whether the map of the current row is empty.
    pub(crate) fn is_empty(&mut self, access: &mut Access<'_>) -> Result<bool, StateError> {
        self.used = true;
        let mut some = false;
        self.for_each_in_rows(access.row, |_, _| some = true);
        if some || !access.is_cache {
            return Ok(!some);
        }
        self.write_back_row(access)?;
        let (mut tables, at) = access.behind.reach(&self.name, access.row)?;
        tables.scan(prefix_of(at), &mut |_| {
            some = true;
            ControlFlow::Break(())
        })?;
        Ok(!some)
    }

    /// Removes the entries of the current row.
    pub(crate) fn clear(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        self.used = true;
        if access.is_cache {
            access.behind.remove_entries(&self.name, access.row)?;
        }
        while let Some(entry) = self.entries.first(access.row) {
            self.entries.remove(entry);
            if access.is_cache {
                self.marks.set(entry, Mark::Unknown);
            }
        }
        self.note_if_empty(access);
        Ok(())
    }

    /// Reads an entry of the byte tables.
    pub(crate) fn read(&self, found: &Entry<'_>) -> Result<(UK, UV), StateError> {
        let map_key = self.key_serializer.deserialize(found.at.map_key).map_err(serializer_error(&self.name))?;
        let value = self.value_serializer.deserialize(found.value).map_err(serializer_error(&self.name))?;
        Ok((map_key, value))
    }

    fn check_all(&mut self, access: &Access<'_>, entries: &[(UK, UV)]) -> Result<(), StateError> {
        for (map_key, value) in entries {
            // Those of rows count whether they are new or not, which would have to be looked up.
            if !access.is_cache || self.entries.find(access.row, map_key).is_none() {
                self.check_new_map_key(access, map_key)?;
            }
            self.round_trip.check(|| check_round_trip(&self.name, &*self.value_serializer, value))?;
        }
        Ok(())
    }

    /// Checks a map key that the rows do not have, if it is its turn. In byte tables a map key is its bytes, and one that is
    /// read as another would be taken for it: those that go there are all read again.
    fn check_new_map_key(&mut self, access: &Access<'_>, map_key: &UK) -> Result<(), StateError> {
        if access.is_cache && !self.map_key_round_trip.is_due() {
            check_key(&*self.key_serializer, map_key).map_err(map_key_error(&self.name))?;
        }
        self.map_key_round_trip.check(|| check_map_key(&self.name, &*self.key_serializer, map_key))
    }

    fn note_if_empty(&self, access: &mut Access<'_>) {
        if !access.is_cache && self.is_empty_at(access.row) {
            access.note_emptied();
        }
    }

    /// Reads an entry that is not cached from the byte tables, or learns that there is none.
    fn fetch(&mut self, access: &mut Access<'_>, map_key: &UK) -> Result<u32, StateError> {
        let Buffers { map_key: key_bytes, value: value_bytes } = &mut self.buffers;
        key_bytes.clear();
        value_bytes.clear();
        self.key_serializer.serialize(map_key, key_bytes).map_err(serializer_error(&self.name))?;
        check_written_key(&*self.key_serializer, map_key, key_bytes).map_err(map_key_error(&self.name))?;
        let (mut tables, at) = access.behind.reach(&self.name, access.row)?;
        let value = if tables.get(At { map_key: key_bytes, ..at }, value_bytes)? {
            Some(self.value_serializer.deserialize(value_bytes).map_err(serializer_error(&self.name))?)
        } else {
            None
        };
        let entry = self.entries.insert(access.row, map_key.clone(), value);
        self.marks.set(entry, Mark::Clean);
        Ok(entry)
    }

    fn write_back_row(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        let mut next = self.entries.first(access.row);
        while let Some(entry) = next {
            self.write_back_entry(entry, &mut access.behind)?;
            next = self.entries.next(entry);
        }
        Ok(())
    }

    fn write_back_entry(&mut self, entry: u32, behind: &mut Behind<'_>) -> Result<(), StateError> {
        if self.marks.get(entry) != Mark::Dirty {
            return Ok(());
        }
        let Buffers { map_key, value: value_bytes } = &mut self.buffers;
        map_key.clear();
        self.key_serializer.serialize(self.entries.key(entry), map_key).map_err(serializer_error(&self.name))?;
        let (mut tables, at) = behind.reach(&self.name, self.entries.owner(entry))?;
        let at = At { map_key, ..at };
        match self.entries.value(entry) {
            Some(value) => {
                value_bytes.clear();
                self.value_serializer.serialize(value, value_bytes).map_err(serializer_error(&self.name))?;
                tables.put(at, value_bytes)?;
            }
            None => tables.remove(at)?,
        }
        self.marks.set(entry, Mark::Clean);
        Ok(())
    }

    /// Visits all entries of the byte tables, after writing back what is newer.
    pub(crate) fn for_each_in_bytes(
        &mut self,
        behind: &mut Behind<'_>,
        mut visit: impl FnMut(&[u8], UK, UV) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        self.write_back(behind)?;
        let table: TableId = behind.table;
        let mut outcome = Ok(());
        behind.tables().scan(Prefix::Table(table), &mut |found| {
            let visited = self.read(&found).and_then(|(map_key, value)| visit(found.at.key, map_key, value));
            match visited {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        outcome
    }
}

impl<UK: Key, UV: State> Column for MapColumn<UK, UV> {
    fn set_hash_seed(&mut self, seed: u64) {
        self.entries = MapEntries::new(seed);
    }

    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError> {
        let map_key = self.key_serializer.deserialize(map_key).map_err(serializer_error(&self.name))?;
        let value = self.value_serializer.deserialize(value).map_err(serializer_error(&self.name))?;
        if self.entries.find(row, &map_key).is_some() {
            return Err(StateError::Damaged(format!("state {:?}: a map has two values under one key", self.name)));
        }
        self.entries.insert(row, map_key, Some(value));
        Ok(())
    }

    fn is_empty_at(&self, row: u32) -> bool {
        self.entries.first(row).is_none()
    }

    fn freeze(&mut self) -> Box<dyn FrozenColumn> {
        Box::new(FrozenMaps {
            entries: self.entries.freeze(),
            name: self.name.clone(),
            key_serializer: self.key_serializer.clone(),
            value_serializer: self.value_serializer.clone(),
        })
    }

    fn fold(&mut self) -> bool {
        self.entries.fold()
    }

    fn warm(&mut self, rows: &[u32]) {
        if std::mem::take(&mut self.used) {
            self.entries.warm(rows);
        }
    }

    fn own_rows(&self) -> usize {
        self.entries.len()
    }

    fn write_back(&mut self, behind: &mut Behind<'_>) -> Result<(), StateError> {
        for index in 0..self.marks.dirty().len() {
            self.write_back_entry(self.marks.dirty()[index], behind)?;
        }
        self.marks.all_written();
        Ok(())
    }

    fn forget(&mut self) {
        self.entries.forget();
        self.marks.forget();
    }
}

struct FrozenMaps<UK, UV> {
    entries: FrozenMapEntries<UK, UV>,
    name: String,
    key_serializer: Arc<dyn Serializer<UK>>,
    value_serializer: Arc<dyn Serializer<UV>>,
}

impl<UK: Key, UV: State> FrozenColumn for FrozenMaps<UK, UV> {
    fn visit(&self, row: u32, buffers: &mut Buffers, visit: &mut RowVisitor<'_>) -> Result<(), StateError> {
        for (_, map_key, value) in self.entries.of_row(row) {
            buffers.map_key.clear();
            buffers.value.clear();
            self.key_serializer.serialize(map_key, &mut buffers.map_key).map_err(serializer_error(&self.name))?;
            // Not every map key was checked when it was put, and two that are written as one could not be restored.
            check_written_key(&*self.key_serializer, map_key, &buffers.map_key).map_err(map_key_error(&self.name))?;
            self.value_serializer.serialize(value, &mut buffers.value).map_err(serializer_error(&self.name))?;
            visit(&buffers.map_key, &buffers.value)?;
        }
        Ok(())
    }
}
