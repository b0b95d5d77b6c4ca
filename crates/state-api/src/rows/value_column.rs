//! The column of a value state: one cell a row.

use std::hint::black_box;
use std::sync::Arc;

use super::access::{Access, Behind, serializer_error};
use super::column::{Buffers, Column, FrozenColumn, RowVisitor};
use super::marks::{Mark, Marks};
use super::paged::{FrozenPaged, Paged};
use super::round_trip::{RoundTrip, check_round_trip};
use crate::{Serializer, State, StateError};

/// The values of one state.
pub(crate) struct ValueColumn<T> {
    cells: Paged<Option<T>>,
    round_trip: RoundTrip,
    used: bool,
    marks: Marks,
    buffer: Vec<u8>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
    /// What a row without a value is read as.
    default: Option<T>,
}

impl<T: State> ValueColumn<T> {
    pub(crate) fn new(name: String, serializer: Arc<dyn Serializer<T>>, default: Option<T>) -> Self {
        Self {
            cells: Paged::new(),
            round_trip: RoundTrip::default(),
            used: false,
            marks: Marks::default(),
            buffer: Vec::new(),
            name,
            serializer,
            default,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The value of the current row, or the default.
    #[inline]
    pub(crate) fn get(&mut self, access: &mut Access<'_>) -> Result<Option<&T>, StateError> {
        self.used = true;
        if access.is_cache {
            self.fetch(access)?;
        }
        Ok(match self.cells.read(access.row) {
            Some(Some(value)) => Some(value),
            _ => self.default.as_ref(),
        })
    }

    /// Sets the value of the current row.
    #[inline]
    pub(crate) fn set(&mut self, access: &mut Access<'_>, value: T) -> Result<(), StateError> {
        self.used = true;
        self.round_trip.check(|| check_round_trip(&self.name, &*self.serializer, &value))?;
        *self.cells.write(access.row) = Some(value);
        if access.is_cache {
            self.marks.set(access.row, Mark::Dirty);
        }
        Ok(())
    }

    /// Changes the value of the current row in place.
    #[inline]
    pub(crate) fn modify<R>(
        &mut self,
        access: &mut Access<'_>,
        change: impl FnOnce(&mut Option<T>) -> R,
    ) -> Result<R, StateError> {
        self.used = true;
        if access.is_cache {
            self.fetch(access)?;
            // Before the closure, which may panic when it has changed something.
            self.marks.set(access.row, Mark::Dirty);
        }
        let cell = self.cells.write(access.row);
        let result = if self.round_trip.is_due() {
            let before = cell.clone();
            let result = change(cell);
            if let Some(value) = cell
                && let Err(error) = self.round_trip.check(|| check_round_trip(&self.name, &*self.serializer, value))
            {
                *cell = before;
                return Err(error);
            }
            result
        } else {
            self.round_trip.pass();
            change(cell)
        };
        if !access.is_cache && cell.is_none() {
            access.note_emptied();
        }
        Ok(result)
    }

    /// Removes the value of the current row.
    pub(crate) fn clear(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        self.used = true;
        if access.is_cache {
            *self.cells.write(access.row) = None;
            self.marks.set(access.row, Mark::Dirty);
        } else if !self.is_empty_at(access.row) {
            *self.cells.write(access.row) = None;
            access.note_emptied();
        }
        Ok(())
    }

    /// Makes the cell of the current row known.
    fn fetch(&mut self, access: &mut Access<'_>) -> Result<(), StateError> {
        if self.marks.get(access.row) != Mark::Unknown {
            return Ok(());
        }
        let (mut tables, at) = access.behind.reach(&self.name, access.row)?;
        self.buffer.clear();
        if tables.get(at, &mut self.buffer)? {
            let value = self.serializer.deserialize(&self.buffer).map_err(serializer_error(&self.name))?;
            *self.cells.write(access.row) = Some(value);
        }
        self.marks.set(access.row, Mark::Clean);
        Ok(())
    }
}

impl<T: State> Column for ValueColumn<T> {
    fn load(&mut self, row: u32, map_key: &[u8], value: &[u8]) -> Result<(), StateError> {
        if !map_key.is_empty() || !self.is_empty_at(row) {
            let what = if map_key.is_empty() { "a key has two values" } else { "a value has a map key" };
            return Err(StateError::Damaged(format!("state {:?}: {what}", self.name)));
        }
        let value = self.serializer.deserialize(value).map_err(serializer_error(&self.name))?;
        *self.cells.write(row) = Some(value);
        Ok(())
    }

    fn is_empty_at(&self, row: u32) -> bool {
        self.cells.read(row).is_none_or(Option::is_none)
    }

    fn freeze(&mut self) -> Box<dyn FrozenColumn> {
        Box::new(FrozenValues {
            cells: self.cells.freeze(),
            name: self.name.clone(),
            serializer: self.serializer.clone(),
        })
    }

    fn fold(&mut self) -> bool {
        self.cells.fold()
    }

    fn warm(&mut self, rows: &[u32]) {
        if std::mem::take(&mut self.used) {
            black_box(rows.iter().fold(false, |all, row| all ^ self.is_empty_at(*row)));
        }
    }

    fn write_back(&mut self, behind: &mut Behind<'_>) -> Result<(), StateError> {
        for index in 0..self.marks.dirty().len() {
            let row = self.marks.dirty()[index];
            let (mut tables, at) = behind.reach(&self.name, row)?;
            match self.cells.read(row).and_then(Option::as_ref) {
                Some(value) => {
                    self.buffer.clear();
                    self.serializer.serialize(value, &mut self.buffer).map_err(serializer_error(&self.name))?;
                    tables.put(at, &self.buffer)?;
                }
                None => tables.remove(at)?,
            }
            self.marks.set(row, Mark::Clean);
        }
        self.marks.all_written();
        Ok(())
    }

    fn forget(&mut self) {
        self.cells = Paged::new();
        self.marks.forget();
    }
}

struct FrozenValues<T> {
    cells: FrozenPaged<Option<T>>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> FrozenColumn for FrozenValues<T> {
    fn visit(&self, row: u32, buffers: &mut Buffers, visit: &mut RowVisitor<'_>) -> Result<(), StateError> {
        let Some(Some(value)) = self.cells.read(row) else { return Ok(()) };
        buffers.value.clear();
        self.serializer.serialize(value, &mut buffers.value).map_err(serializer_error(&self.name))?;
        visit(&[], &buffers.value)
    }
}
