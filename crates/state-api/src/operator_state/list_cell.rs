//! The elements of a list state.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cell::{Cell, FrozenElements};
use super::snapshot::{elements, write_element};
use crate::rows::round_trip::check_round_trip;
use crate::shared_list::SharedList;
use crate::{Serializer, State, StateError};

/// The elements, in order.
pub(super) struct ListCell<T> {
    list: SharedList<T>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> ListCell<T> {
    pub(super) fn new(name: String, serializer: Arc<dyn Serializer<T>>) -> Self {
        Self { list: SharedList::default(), name, serializer }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.list.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Appends one element, or changes nothing.
    pub(super) fn add(&mut self, element: T) -> Result<(), StateError> {
        check_round_trip(&self.name, &*self.serializer, &element)?;
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
        self.list = SharedList::default();
        self.list.extend(elements);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.list = SharedList::default();
    }

    fn check_all(&self, elements: &[T]) -> Result<(), StateError> {
        for element in elements {
            check_round_trip(&self.name, &*self.serializer, element)?;
        }
        Ok(())
    }
}

impl<T: State> Cell for ListCell<T> {
    fn handle() -> String {
        crate::error::handle_of::<super::OperatorListState<T>>()
    }

    fn load(&mut self, content: &[u8]) -> Result<u64, StateError> {
        let read = |element: Result<&[u8], StateError>| {
            let element = self.serializer.deserialize(element?);
            element.map_err(|source| StateError::Serializer { state: self.name.clone(), source })
        };
        let elements: Vec<T> = elements(content).map(read).collect::<Result<_, _>>()?;
        let count = elements.len() as u64;
        self.list.extend(elements);
        Ok(count)
    }

    fn freeze(&mut self) -> (u64, Box<dyn FrozenElements>) {
        let frozen = FrozenListElements {
            list: Some(self.list.clone()),
            unwritten: VecDeque::new(),
            written: 0,
            buffer: Vec::new(),
            name: self.name.clone(),
            serializer: self.serializer.clone(),
        };
        (self.list.len() as u64, Box::new(frozen))
    }

    fn fold(&mut self) {}
}

struct FrozenListElements<T> {
    /// The list, until the first write takes it apart: a freeze is cheap however long the list is.
    list: Option<SharedList<T>>,
    /// The pieces that are not written yet.
    unwritten: VecDeque<Arc<Vec<T>>>,
    /// Elements of the first piece that have been written.
    written: usize,
    buffer: Vec<u8>,
    name: String,
    serializer: Arc<dyn Serializer<T>>,
}

impl<T: State> FrozenElements for FrozenListElements<T> {
    fn write_some(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, StateError> {
        if let Some(list) = self.list.take() {
            self.unwritten = list.chunks().into();
        }
        let start = out.len();
        while let Some(chunk) = self.unwritten.front() {
            for element in &chunk[self.written..] {
                if out.len() - start >= bytes_max {
                    return Ok(false);
                }
                self.buffer.clear();
                let written = self.serializer.serialize(element, &mut self.buffer);
                written.map_err(|source| StateError::Serializer { state: self.name.clone(), source })?;
                write_element(&self.buffer, out);
                self.written += 1;
            }
            self.unwritten.pop_front();
            self.written = 0;
        }
        Ok(true)
    }
}
