//! The door: how a function gets its state handles.

use crate::rows::RowSpace;
use crate::{
    AggregateFunction, AggregatingState, AggregatingStateDescriptor, AnyDescriptor, FoldingState,
    FoldingStateDescriptor, Key, ListState, ListStateDescriptor, MapState, MapStateDescriptor, OperatorUid,
    ReducingState, ReducingStateDescriptor, State, StateError, ValueState, ValueStateDescriptor,
};

/// Identifies a registered state: which store made it, and its column there. What every handle is made of.
///
/// The default is bound to no store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot {
    /// Number of the store within the process, from 1; 0 is no store.
    pub(crate) instance: u32,
    pub(crate) column: u16,
    pub(crate) space: RowSpace,
}

/// A store of keyed state. The typed methods are on `dyn KeyedStateStore`, so that they work through any store.
pub trait KeyedStateStore {
    /// Makes a state known under its descriptor's name, and returns its slot. The same name and type give the same slot
    /// again; the same name with another kind or type is an error that names both, and nothing is changed.
    fn register(&mut self, descriptor: &dyn AnyDescriptor) -> Result<Slot, StateError>;

    /// A short name of the backend, such as `hashmap`.
    fn backend_type(&self) -> &str;
}

/// The store of an operator that is not on a keyed stream: it refuses every state, by its name, with
/// [`StateError::NotKeyed`]. Having no store at all could not name it.
#[derive(Debug)]
pub struct UnkeyedStateStore {
    operator: OperatorUid,
}

impl UnkeyedStateStore {
    /// The store of this operator.
    pub fn new(operator: OperatorUid) -> Self {
        Self { operator }
    }
}

impl KeyedStateStore for UnkeyedStateStore {
    fn register(&mut self, descriptor: &dyn AnyDescriptor) -> Result<Slot, StateError> {
        let asked_for = format!("state {:?}", descriptor.name());
        Err(StateError::NotKeyed { asked_for, operator: self.operator.to_string() })
    }

    fn backend_type(&self) -> &str {
        "none"
    }
}

impl dyn KeyedStateStore + '_ {
    /// A handle on a state that holds one value a key.
    pub fn get_state<T: State>(&mut self, descriptor: &ValueStateDescriptor<T>) -> Result<ValueState<T>, StateError> {
        self.register(descriptor).map(ValueState::bound_to)
    }

    /// A handle on a state that holds a list a key.
    pub fn get_list_state<T: State>(
        &mut self,
        descriptor: &ListStateDescriptor<T>,
    ) -> Result<ListState<T>, StateError> {
        self.register(descriptor).map(ListState::bound_to)
    }

    /// A handle on a state that holds a map a key.
    pub fn get_map_state<UK: Key, UV: State>(
        &mut self,
        descriptor: &MapStateDescriptor<UK, UV>,
    ) -> Result<MapState<UK, UV>, StateError> {
        self.register(descriptor).map(MapState::bound_to)
    }

    /// A handle on a state into which values are reduced.
    pub fn get_reducing_state<T: State>(
        &mut self,
        descriptor: &ReducingStateDescriptor<T>,
    ) -> Result<ReducingState<T>, StateError> {
        self.register(descriptor).map(ReducingState::bound_to)
    }

    /// A handle on a state into which values are aggregated.
    pub fn get_aggregating_state<F: AggregateFunction>(
        &mut self,
        descriptor: &AggregatingStateDescriptor<F>,
    ) -> Result<AggregatingState<F::In, F::Out>, StateError> {
        self.register(descriptor).map(AggregatingState::bound_to)
    }

    /// A handle on a state into which values are folded.
    pub fn get_folding_state<T: 'static, Acc: State>(
        &mut self,
        descriptor: &FoldingStateDescriptor<T, Acc>,
    ) -> Result<FoldingState<T, Acc>, StateError> {
        self.register(descriptor).map(FoldingState::bound_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case: R63.
    #[test]
    fn keyed_state_of_an_operator_without_a_key_is_refused_by_its_name() {
        let mut unkeyed = UnkeyedStateStore::new(OperatorUid::new("enrich").unwrap());
        let store: &mut dyn KeyedStateStore = &mut unkeyed;
        let errors = [
            store.get_state(&ValueStateDescriptor::<u64>::new("total")).unwrap_err(),
            store.get_map_state(&MapStateDescriptor::<u64, u64>::new("total")).unwrap_err(),
            store.get_list_state(&ListStateDescriptor::<u64>::new("total")).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                error.to_string(),
                r#"state "total" needs a key, and operator "enrich" is not on a keyed stream: put a `key_by` before it"#
            );
            assert!(matches!(error, StateError::NotKeyed { .. }), "{error:?}");
        }
    }
}
