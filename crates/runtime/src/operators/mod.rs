//! The operators of the runtime: each one a file.

mod flat_map;
mod function_state;
pub(crate) mod input;
mod keyed_process;
mod process;
mod progress;
mod sink;
mod sorted_keys;
mod source;
mod timers;
mod timestamps;

pub use flat_map::FlatMapOperator;
pub use keyed_process::KeyedProcessOperator;
pub use process::ProcessOperator;
pub use sink::SinkOperator;
pub(crate) use sorted_keys::SortedKeysOperator;
pub use source::SourceOperator;
pub use timestamps::TimestampsOperator;

use std::collections::BTreeSet;

use bytes::Bytes;
use highwater_state_api::{
    BincodeSerializer, FrozenOperatorState, OperatorStateMeta, READER_SPLITS, Redistribution, SINK_TRANSACTIONS,
    Schema, Serializer, State, StateError,
};

use crate::operator::{RestoredOperator, RestoredOperatorState};

/// What `open` has set.
pub(crate) fn opened<T>(opened: &mut Option<T>) -> &mut T {
    opened.as_mut().expect("an operator is opened before anything else is asked of it")
}

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

/// A connector's list with these elements, to be written. Fails when one of them could not be read again: a complete
/// checkpoint with such a split or transaction could never be restored.
pub(crate) fn frozen_list<T: State>(
    name: &str,
    elements: impl Iterator<Item = T>,
) -> Result<FrozenOperatorState, StateError> {
    let serializer = BincodeSerializer::default();
    let serialize = |element: T| -> Result<Bytes, StateError> {
        let mut bytes = Vec::new();
        let written = serializer.serialize(&element, &mut bytes);
        written.map_err(|source| StateError::Serializer { state: name.to_owned(), source })?;
        let read: Result<T, _> = serializer.deserialize(&bytes);
        read.map_err(|cause| StateError::NotRoundTrip {
            state: name.to_owned(),
            reason: format!("what was written cannot be read: {cause}; is there a `skip_serializing_if` in it?"),
        })?;
        Ok(Bytes::from(bytes))
    };
    let mut frozen = FrozenOperatorState::default();
    frozen.push_serialized(connector_list::<T>(name), elements.map(serialize).collect::<Result<_, _>>()?);
    Ok(frozen)
}

/// Which restored state an operator can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None.
    Nothing,
    /// A list that it keeps by itself.
    List(&'static str),
    /// What a function without a key may ask for.
    FunctionState,
    /// What a function with a key may ask for.
    KeyedFunctionState,
}

/// The lists that connectors keep by themselves. No function can ask for them, and what is in them is no state of a
/// function: a transaction that nobody commits is lost.
const CONNECTOR_LISTS: [&str; 2] = [READER_SPLITS, SINK_TRANSACTIONS];

/// Whether a state is a list that a connector keeps by itself.
fn is_of_connector(meta: &OperatorStateMeta) -> bool {
    !meta.is_broadcast() && CONNECTOR_LISTS.contains(&meta.name.as_str())
}

impl Takes {
    fn takes(self, state: &RestoredOperatorState) -> bool {
        match self {
            Self::Nothing => false,
            Self::List(own) => !state.meta.is_broadcast() && state.meta.name == own,
            Self::FunctionState | Self::KeyedFunctionState => !is_of_connector(&state.meta),
        }
    }
}

/// Refuses restored state that an operator has no use for: it would go out of the next checkpoint without a word, or be
/// carried on and never used.
pub(crate) fn refuse_other_state(restored: Option<&RestoredOperator>, takes: Takes) -> Result<(), StateError> {
    let Some(restored) = restored else { return Ok(()) };
    let has_elements = |state: &&RestoredOperatorState| state.elements.iter().any(|elements| elements.elements > 0);
    let operator = restored.operator.iter().filter(has_elements).filter(|state| !takes.takes(state));
    let operator = operator.map(|state| state.meta.name.clone());
    // An operator on a keyed stream has tables, be they empty: those of its timers at least.
    let keyed = restored.keyed.iter().filter(|keyed| !keyed.groups.is_empty());
    let keyed = keyed.flat_map(|keyed| &keyed.tables).map(|table| table.name.clone());
    let raw_keyed = (!restored.raw_keyed.is_empty()).then(|| function_state::RAW_KEYED.to_owned());
    let keyed = keyed.chain(raw_keyed).filter(|_| takes != Takes::KeyedFunctionState);
    let states: BTreeSet<String> = operator.chain(keyed).collect();
    if states.is_empty() { Ok(()) } else { Err(StateError::NotTaken { states: states.into_iter().collect() }) }
}
