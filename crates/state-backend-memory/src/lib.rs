//! Heap state whose checkpoints are kept in memory.
//!
//! * [`MemoryStateBackend`] is the preset that a job takes.
//! * [`MemoryCheckpointStorage`] keeps the objects of a checkpoint in a map, for any state backend;
//!   [`MemoryCheckpointStorageFactory`] makes it by name.

mod backend;
mod factory;
mod storage;

pub use backend::MemoryStateBackend;
pub use factory::MemoryCheckpointStorageFactory;
pub use storage::{MemoryCheckpointStorage, STATE_BYTES_MAX};
