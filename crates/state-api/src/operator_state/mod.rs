//! Operator state: lists, and maps that are the same everywhere, which belong to a subtask and not to a key.
//!
//! Always on the heap, whatever backend keeps the keyed state, and always frozen by sharing: lists in chunks, broadcast
//! states in pages.

mod broadcast_cell;
mod broadcast_state;
mod cell;
mod frozen;
mod list_cell;
mod list_state;
mod snapshot;
mod store;

#[cfg(test)]
mod messages_test;
#[cfg(test)]
mod operator_state_test;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

pub use broadcast_state::{BroadcastState, ReadOnlyBroadcastState};
use cell::Cell;
pub use frozen::FrozenOperatorState;
use frozen::Unread;
pub use list_state::OperatorListState;
pub use snapshot::{
    OperatorStateHandle, OperatorStateMeta, OperatorStatePart, RawKeyedStateHandle, Redistribution, RestoredElements,
    elements, slice_elements, write_element,
};
pub use store::{AnyOperatorStateDescriptor, OperatorStateStore};

use crate::keyed_state::INSTANCES;
use crate::rows::RowSpace;
use crate::{LIST_CHECKPOINTED_STATE, ListStateDescriptor, RAW_OPERATOR_STATE, Slot, State, StateError};

/// Name of the list in which a source's readers snapshot their splits, one element a split.
///
/// A restore gives these back to the source's enumerator, which hands them out anew.
pub const READER_SPLITS: &str = "_reader_splits";

/// Name of the list in which a sink keeps the transactions that are not known to be committed.
pub const SINK_TRANSACTIONS: &str = "_sink_transactions";

/// A context in which there is operator state. Contexts of functions implement it.
pub trait OperatorCx {
    /// The operator state of the subtask that is running.
    fn operator_state(&mut self) -> &mut OperatorState;
}

impl OperatorCx for OperatorState {
    fn operator_state(&mut self) -> &mut OperatorState {
        self
    }
}

/// The operator state of one operator subtask. Owned by one task; a store, and the context of bare state.
///
/// ```
/// use highwater_state_api::{ListStateDescriptor, OperatorState, OperatorStateStore, StateError};
///
/// # fn main() -> Result<(), StateError> {
/// let mut state = OperatorState::new(7);
/// let store: &mut dyn OperatorStateStore = &mut state;
/// let seen = store.get_list_state(&ListStateDescriptor::<u64>::new("seen"))?;
/// seen.add_all(&mut state, [42, 4711])?;
/// let frozen = state.freeze();
/// seen.clear(&mut state)?;
///
/// let mut bytes = Vec::new();
/// let parts = frozen.expect("there is a state").write_to(&mut bytes)?;
/// assert_eq!((parts.len(), parts[0].elements), (1, 2));
/// # Ok(())
/// # }
/// ```
pub struct OperatorState {
    instance: u32,
    hash_seed: u64,
    /// A slot's column is an index into these.
    states: Vec<OneState>,
    /// Where the lists are among them, and where the broadcast states, by name.
    by_name: [BTreeMap<String, u16>; 2],
}

/// One state: registered, or only known from a snapshot.
struct OneState {
    meta: OperatorStateMeta,
    /// `None` until the state is registered.
    cell: Option<Box<dyn Cell>>,
    /// What was restored and is not decoded, as long as the state is not registered.
    unread: Vec<RestoredElements>,
}

impl OperatorState {
    /// No state. `hash_seed` is that of the hash tables of broadcast states, so that nobody can prepare keys that collide.
    pub fn new(hash_seed: u64) -> Self {
        Self {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            hash_seed,
            states: Vec::new(),
            by_name: Default::default(),
        }
    }

    /// Takes the elements of one state of a snapshot, in order. Every subtask is told of every state of the snapshot, also
    /// of those of which it gets no element.
    ///
    /// Before any state is registered. Elements are decoded when their state is registered; states that never are go into
    /// every later snapshot unchanged. Fails when the state is known already, when there is more than one copy of a broadcast
    /// state or more elements than their bytes can hold, and with [`StateError::ReservedName`] for the partitions of raw state, which are no state of this store.
    ///
    /// # Panics
    /// When a state is registered already.
    pub fn restore(&mut self, meta: OperatorStateMeta, elements: Vec<RestoredElements>) -> Result<(), StateError> {
        assert!(
            self.states.iter().all(|state| state.cell.is_none()),
            "state is restored before the first state is registered"
        );
        if is_raw(&meta) {
            return Err(StateError::ReservedName { name: meta.name });
        }
        if self.find(&meta).is_some() {
            return Err(StateError::Damaged(format!("{} {:?} is in a snapshot twice", meta.redistribution, meta.name)));
        }
        if meta.is_broadcast() && elements.len() > 1 {
            return Err(StateError::Damaged(format!("{} copies of broadcast state {:?}", elements.len(), meta.name)));
        }
        for RestoredElements { elements, content, .. } in &elements {
            // An element has one byte at least, its length. Whoever reads them counts them.
            let bytes = content.len() as u64;
            if *elements > bytes || (*elements == 0 && bytes > 0) {
                let what = format!("{elements} elements in {bytes} bytes are restored");
                return Err(named(&meta.name, StateError::Damaged(what)));
            }
        }
        self.add(OneState { meta, cell: None, unread: elements }).map(|_| ())
    }

    /// The names of lists that are the runtime's own: no function can register a list under one.
    pub const RESERVED_NAMES: [&str; 4] =
        [LIST_CHECKPOINTED_STATE, RAW_OPERATOR_STATE, READER_SPLITS, SINK_TRANSACTIONS];

    /// A split list under one of [`OperatorState::RESERVED_NAMES`]; raw operator state is none, it is never in this store. Not
    /// public: functions reach this store through their contexts, and what one of them kept under the name of a connector's
    /// list could not be restored.
    pub(crate) fn reserved_list_state<T: State>(
        &mut self,
        descriptor: &ListStateDescriptor<T>,
    ) -> Result<OperatorListState<T>, StateError> {
        self.register_any(&store::split_list(descriptor)).map(OperatorListState::bound_to)
    }

    /// The names of restored states that nobody has registered so far. They go into every snapshot unchanged.
    pub fn unregistered_states(&self) -> impl Iterator<Item = &str> {
        self.states.iter().filter(|state| state.cell.is_none()).map(|state| state.meta.name.as_str())
    }

    /// Takes a snapshot; `None` when no state is registered or restored. Nothing that happens to the live state afterwards
    /// shows in it, and taking it does not take longer for more elements.
    pub fn freeze(&mut self) -> Option<FrozenOperatorState> {
        if self.states.is_empty() {
            return None;
        }
        // A subtask without records does not fold, and takes snapshots all the same.
        self.fold();
        let mut frozen = FrozenOperatorState::default();
        for state in &mut self.states {
            let (elements, content) = match &mut state.cell {
                Some(cell) => cell.freeze(),
                None => Unread::carried(&state.unread),
            };
            frozen.push(state.meta.clone(), elements, content);
        }
        Some(frozen)
    }

    /// Does a bounded part of the work that finished snapshots have left behind. To be called now and then.
    pub fn fold(&mut self) {
        self.states.iter_mut().filter_map(|state| state.cell.as_mut()).for_each(|cell| cell.fold());
    }

    fn find(&self, meta: &OperatorStateMeta) -> Option<u16> {
        self.by_name[usize::from(meta.is_broadcast())].get(&meta.name).copied()
    }

    fn add(&mut self, state: OneState) -> Result<u16, StateError> {
        let column = u16::try_from(self.states.len()).map_err(|_| StateError::TooManyStates)?;
        self.by_name[usize::from(state.meta.is_broadcast())].insert(state.meta.name.clone(), column);
        self.states.push(state);
        Ok(column)
    }

    /// What is behind a slot.
    fn cell<C: Cell>(&mut self, slot: Slot) -> Result<&mut C, StateError> {
        if slot.instance != self.instance {
            let is_unbound = slot == Slot::default();
            let handle = C::handle();
            return Err(if is_unbound { StateError::Unbound { handle } } else { StateError::ForeignHandle { handle } });
        }
        let state = self.states.get_mut(usize::from(slot.column));
        let cell = state.and_then(|state| state.cell.as_mut()).and_then(|cell| cell.typed());
        cell.ok_or_else(|| StateError::ForeignHandle { handle: C::handle() })
    }

    fn names(&self, is_broadcast: bool) -> Vec<&str> {
        self.by_name[usize::from(is_broadcast)].keys().map(String::as_str).collect()
    }
}

/// Whether it is the list that stands for the raw operator stream in snapshots.
fn is_raw(meta: &OperatorStateMeta) -> bool {
    meta.name == RAW_OPERATOR_STATE && !meta.is_broadcast()
}

/// Decodes restored elements into a cell. As many as there are said to be: a snapshot of them as bytes would go by that.
fn load(cell: &mut dyn Cell, state: &str, restored: &RestoredElements) -> Result<(), StateError> {
    let loaded = cell.load(&restored.content);
    let (expected, found) = (restored.elements, loaded.map_err(|error| named(state, error))?);
    if expected == found {
        return Ok(());
    }
    Err(StateError::Damaged(format!("state {state:?}: {found} elements are restored where there should be {expected}")))
}

/// Says of which state restored bytes are damaged: those who read them do not know.
fn named(state: &str, error: StateError) -> StateError {
    match error {
        StateError::Damaged(what) => StateError::Damaged(format!("state {state:?}: {what}")),
        error => error,
    }
}

impl OperatorState {
    /// Registers a state whatever its name.
    fn register_any(&mut self, descriptor: &dyn AnyOperatorStateDescriptor) -> Result<Slot, StateError> {
        let meta = descriptor.meta()?;
        if meta.name.trim().is_empty() {
            return Err(StateError::BlankName { name: meta.name });
        }
        if is_raw(&meta) {
            return Err(StateError::ReservedName { name: meta.name });
        }
        let mut cell = descriptor.cell(self.hash_seed);
        let column = match self.find(&meta) {
            None => self.add(OneState { meta, cell: Some(cell), unread: Vec::new() })?,
            Some(index) => {
                let known = &mut self.states[usize::from(index)];
                known.meta.check_usable_as(&meta)?;
                match &known.cell {
                    Some(known) if (**known).type_id() != (*cell).type_id() => {
                        return Err(StateError::OtherType { state: meta.name });
                    }
                    Some(_) => {}
                    None => {
                        known.unread.iter().try_for_each(|elements| load(&mut *cell, &meta.name, elements))?;
                        known.cell = Some(cell);
                        known.unread = Vec::new();
                    }
                }
                index
            }
        };
        Ok(Slot { instance: self.instance, column, space: RowSpace::KEYS })
    }
}

impl OperatorStateStore for OperatorState {
    fn register(&mut self, descriptor: &dyn AnyOperatorStateDescriptor) -> Result<Slot, StateError> {
        let meta = descriptor.meta()?;
        if !meta.is_broadcast() && Self::RESERVED_NAMES.contains(&meta.name.as_str()) {
            return Err(StateError::ReservedName { name: meta.name });
        }
        self.register_any(descriptor)
    }

    fn registered_state_names(&self) -> Vec<&str> {
        self.names(false)
    }

    fn registered_broadcast_state_names(&self) -> Vec<&str> {
        self.names(true)
    }
}
