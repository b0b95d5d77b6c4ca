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

use bytes::Bytes;
use highwater_state_api::{
    BincodeSerializer, FrozenOperatorState, OperatorStateMeta, Redistribution, Schema, Serializer, State, StateError,
};

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
