//! The operators of the runtime: each one a file.

mod flat_map;
mod function_state;
mod input;
mod keyed_process;
mod process;
mod progress;
mod sink;
mod source;
mod timers;
mod timestamps;

pub use flat_map::FlatMapOperator;
pub use keyed_process::KeyedProcessOperator;
pub use process::ProcessOperator;
pub use sink::SinkOperator;
pub use source::SourceOperator;
pub use timestamps::TimestampsOperator;

use std::collections::BTreeSet;

use bytes::Bytes;
use highwater_state_api::{
    BincodeSerializer, FrozenOperatorState, OperatorStateMeta, Redistribution, Schema, Serializer, State, StateError,
};

use crate::operator::{RestoredOperator, RestoredOperatorState};

/// What is recorded of a connector's list, which is a split list.
///
/// A connector whose type cannot be traced vouches for its bytes itself: the default serializer refuses what it cannot
/// read, and a connector has no descriptor in which a user could name a version.
pub(crate) fn connector_list<T: State>(name: &str) -> OperatorStateMeta {
    let untraced = |_| Schema::Opaque { name: "untraced".to_owned(), version: 1 };
    OperatorStateMeta {
        name: name.to_owned(),
        redistribution: Redistribution::Split,
        map_key: None,
        element: Schema::trace::<T>().unwrap_or_else(untraced),
    }
}

/// A connector's list with these elements, to be written.
pub(crate) fn frozen_list<T: State>(
    name: &str,
    elements: impl Iterator<Item = T>,
) -> Result<FrozenOperatorState, StateError> {
    let serializer = BincodeSerializer::default();
    let serialize = |element: T| {
        let mut bytes = Vec::new();
        let written = serializer.serialize(&element, &mut bytes);
        written.map(|()| Bytes::from(bytes)).map_err(|source| StateError::Serializer { state: name.to_owned(), source })
    };
    let mut frozen = FrozenOperatorState::default();
    frozen.push_serialized(connector_list::<T>(name), elements.map(serialize).collect::<Result<_, _>>()?);
    Ok(frozen)
}

/// Refuses restored state that an operator has no use for: it would go out of the next checkpoint without a word. The
/// operator takes the list `own`, if it keeps one, and everything that is not keyed if it `has_function`.
pub(crate) fn refuse_other_state(
    restored: Option<&RestoredOperator>,
    own: Option<&str>,
    has_function: bool,
) -> Result<(), StateError> {
    let Some(restored) = restored else { return Ok(()) };
    let keyed = restored.keyed.iter().flat_map(|keyed| &keyed.tables).map(|table| table.name.clone());
    let is_other = |state: &&RestoredOperatorState| {
        !state.elements.is_empty() && (state.meta.is_broadcast() || Some(state.meta.name.as_str()) != own)
    };
    let operator = restored.operator.iter().filter(is_other).map(|state| state.meta.name.clone());
    let raw = (!restored.raw_keyed.is_empty()).then(|| "raw keyed state".to_owned());
    let not_keyed = operator.chain(raw).filter(|_| !has_function);
    let states: BTreeSet<String> = keyed.chain(not_keyed).collect();
    if states.is_empty() { Ok(()) } else { Err(StateError::NotTaken { states: states.into_iter().collect() }) }
}
