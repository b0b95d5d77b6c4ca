//! The operators of the runtime: each one a file.

mod flat_map;
mod input;
mod keyed_process;
mod progress;
mod sink;
mod source;
mod timers;
mod timestamps;

pub use flat_map::FlatMapOperator;
pub use keyed_process::KeyedProcessOperator;
pub use sink::SinkOperator;
pub use source::SourceOperator;
pub use timestamps::TimestampsOperator;

use highwater_state_api::{Schema, State, StateError};

/// The schema of the elements of a connector's list.
///
/// A connector whose type cannot be traced vouches for its bytes itself: the default serializer refuses what it cannot
/// read, and a connector has no descriptor in which a user could name a version.
pub(crate) fn element_schema<T: State>() -> Schema {
    Schema::trace::<T>().unwrap_or_else(|_| Schema::Opaque { name: "untraced".to_owned(), version: 1 })
}

/// A connector's list was written with another schema.
pub(crate) fn other_schema(list: &str, existing: &Schema, requested: Schema) -> StateError {
    StateError::OtherSchema {
        state: list.to_owned(),
        part: "element",
        existing: Box::new(existing.clone()),
        requested: Box::new(requested),
    }
}
