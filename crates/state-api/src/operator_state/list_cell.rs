//! The elements of a list state.

use std::mem;
use std::sync::Arc;

use super::cell::{Cell, FrozenElements};
use super::checks::Checks;
use super::shared_list::{FrozenList, SharedList};
use super::snapshot::{elements, write_element};
use crate::{Serializer, State, StateError};

/// The elements, in order.
pub(super) struct ListCell<T> {
    list: SharedList<T>,
    checks: Checks,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> ListCell<T> {
    pub(super) fn new(name: String, serializer: Arc<dyn Serializer<T>>) -> Self {
        Self { list: SharedList::new(), checks: Checks::default(), name, serializer }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.list.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Appends one element, or changes nothing.
    pub(super) fn add(&mut self, element: T) -> Result<(), StateError> {
        self.checks.check(&self.name, &*self.serializer, &element)?;
        self.list.push(element);
        Ok(())
    }

    /// Appends all elements, or changes nothing.
    pub(super) fn add_all(&mut self, elements: Vec<T>) -> Result<(), StateError> {
        self.check_all(&elements)?;
        self.list.extend(elements);
        Ok(())
    }

    /// Has these elements instead of those it had, or changes nothing.
    pub(super) fn update(&mut self, elements: Vec<T>) -> Result<(), StateError> {
        self.check_all(&elements)?;
        self.list = SharedList::new();
        self.list.extend(elements);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.list = SharedList::new();
    }

    fn check_all(&mut self, elements: &[T]) -> Result<(), StateError> {
        let mut checks = self.checks;
        for element in elements {
            checks.check(&self.name, &*self.serializer, element)?;
        }
        self.checks = checks;
        Ok(())
    }
}

impl<T: State> Cell for ListCell<T> {
    fn load(&mut self, content: &[u8]) -> Result<(), StateError> {
        let read = |element: Result<&[u8], StateError>| {
            let element = self.serializer.deserialize(element?);
            element.map_err(|source| StateError::Serializer { state: self.name.clone(), source })
        };
        let elements: Vec<T> = elements(content).map(read).collect::<Result<_, _>>()?;
        self.list.extend(elements);
        Ok(())
    }

    fn freeze(&mut self) -> (u64, Box<dyn FrozenElements>) {
        let list = self.list.freeze();
        let frozen = FrozenListElements {
            name: self.name.clone(),
            serializer: self.serializer.clone(),
            written: 0,
            list,
            buffer: Vec::new(),
        };
        (frozen.list.len() as u64, Box::new(frozen))
    }

    fn fold(&mut self) {}
}

struct FrozenListElements<T> {
    list: FrozenList<T>,
    /// Elements that have been written.
    written: usize,
    buffer: Vec<u8>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> FrozenElements for FrozenListElements<T> {
    fn write_some(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, StateError> {
        let start = out.len();
        let mut skip = self.written;
        let mut buffer = mem::take(&mut self.buffer);
        for slice in self.list.slices() {
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            for element in &slice[mem::take(&mut skip)..] {
                if out.len() - start >= bytes_max {
                    self.buffer = buffer;
                    return Ok(false);
                }
                buffer.clear();
                let written = self.serializer.serialize(element, &mut buffer);
                written.map_err(|source| StateError::Serializer { state: self.name.clone(), source })?;
                write_element(&buffer, out);
                self.written += 1;
            }
        }
        Ok(true)
    }
}
