//! The door to operator state: how a function gets its handles.

use super::broadcast_cell::BroadcastCell;
use super::broadcast_state::BroadcastState;
use super::cell::Cell;
use super::list_cell::ListCell;
use super::list_state::OperatorListState;
use super::snapshot::{OperatorStateMeta, Redistribution};
use crate::{AnyDescriptor, Key, ListStateDescriptor, MapStateDescriptor, Slot, State, StateError};

/// What a store needs to know of an operator state, whatever its type. Implemented by this crate.
pub trait AnyOperatorStateDescriptor {
    /// The recorded form. Fails when no schema can be found.
    fn meta(&self) -> Result<OperatorStateMeta, StateError>;

    /// New, empty content of the state's type.
    #[doc(hidden)]
    fn cell(&self, hash_seed: u64) -> Box<dyn Cell>;
}

/// A store of operator state: state that belongs to a subtask and not to a key. The typed methods are on
/// `dyn OperatorStateStore`, so that they work through any store.
///
/// Lists have names of their own and broadcast states have names of their own: a list and a broadcast state may be called
/// alike.
pub trait OperatorStateStore {
    /// Makes a state known under its descriptor's name, and returns its slot. The same name, redistribution and type give
    /// the same slot again; the same name with another redistribution or type is an error that says what differs, and
    /// nothing is changed. Restored elements are decoded here; if one cannot be, nothing is changed either.
    fn register(&mut self, descriptor: &dyn AnyOperatorStateDescriptor) -> Result<Slot, StateError>;

    /// The names of the lists that are registered, or restored and not registered so far, in ascending order.
    fn registered_state_names(&self) -> Vec<&str>;

    /// The names of the broadcast states that are registered, or restored and not registered so far, in ascending order.
    fn registered_broadcast_state_names(&self) -> Vec<&str>;
}

impl dyn OperatorStateStore + '_ {
    /// A list whose elements are divided among the subtasks when the parallelism changes: each goes to exactly one.
    pub fn get_list_state<T: State>(
        &mut self,
        descriptor: &ListStateDescriptor<T>,
    ) -> Result<OperatorListState<T>, StateError> {
        self.register(&split_list(descriptor)).map(OperatorListState::bound_to)
    }

    /// A list of which every subtask gets all elements of all subtasks at every restore.
    ///
    /// A function that keeps what it got adds it to what the others keep, and the list grows with every restore: it has
    /// to [`update`](OperatorListState::update) the list to its own part.
    ///
    /// Every subtask has to register it, or none: a subtask that does not carries on the part that it wrote before, whatever
    /// the others make of the whole. So where only some subtasks register it, or some register it only after a checkpoint,
    /// elements are lost and others are there twice after the next restore. Register it in `initialize_state`.
    pub fn get_union_list_state<T: State>(
        &mut self,
        descriptor: &ListStateDescriptor<T>,
    ) -> Result<OperatorListState<T>, StateError> {
        let redistribution = Redistribution::Union;
        self.register(&ListOf { descriptor, redistribution }).map(OperatorListState::bound_to)
    }

    /// A map that is the same in every subtask, because every subtask changes it in the same way. Each gets one whole copy
    /// at a restore, at any parallelism.
    pub fn get_broadcast_state<K: Key, V: State>(
        &mut self,
        descriptor: &MapStateDescriptor<K, V>,
    ) -> Result<BroadcastState<K, V>, StateError> {
        self.register(descriptor).map(BroadcastState::bound_to)
    }
}

/// A list that is handed out element by element.
pub(super) fn split_list<T: State>(descriptor: &ListStateDescriptor<T>) -> impl AnyOperatorStateDescriptor {
    ListOf { descriptor, redistribution: Redistribution::Split }
}

/// A list as its descriptor describes it, with the way in which it is handed out.
struct ListOf<'a, T> {
    descriptor: &'a ListStateDescriptor<T>,
    redistribution: Redistribution,
}

impl<T: State> AnyOperatorStateDescriptor for ListOf<'_, T> {
    fn meta(&self) -> Result<OperatorStateMeta, StateError> {
        let (name, redistribution) = (self.descriptor.name().to_owned(), self.redistribution);
        Ok(OperatorStateMeta { name, redistribution, map_key: None, element: self.descriptor.element_schema()? })
    }

    fn cell(&self, _: u64) -> Box<dyn Cell> {
        Box::new(ListCell::new(self.descriptor.name().to_owned(), self.descriptor.serializer()))
    }
}

impl<K: Key, V: State> AnyOperatorStateDescriptor for MapStateDescriptor<K, V> {
    fn meta(&self) -> Result<OperatorStateMeta, StateError> {
        let (name, redistribution) = (self.name().to_owned(), Redistribution::Broadcast);
        let (map_key, element) = self.schemas()?;
        Ok(OperatorStateMeta { name, redistribution, map_key: Some(map_key), element })
    }

    fn cell(&self, hash_seed: u64) -> Box<dyn Cell> {
        let (keys, values) = self.serializers();
        Box::new(BroadcastCell::new(self.name().to_owned(), keys, values, hash_seed))
    }
}
