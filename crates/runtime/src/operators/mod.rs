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

use highwater_state_api::{Schema, State};

/// The schema of the elements of a connector's list.
///
/// A connector whose type cannot be traced vouches for its bytes itself: the default serializer refuses what it cannot
/// read, and a connector has no descriptor in which a user could name a version.
fn element_schema<T: State>() -> Schema {
    Schema::trace::<T>().unwrap_or_else(|_| Schema::Opaque { name: "untraced".to_owned(), version: 1 })
}
