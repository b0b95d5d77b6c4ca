//! Heap state whose checkpoints are files, and the file system checkpoint storage.
//!
//! * [`FsStateBackend`] is the preset that a job takes.
//! * [`FileSystemCheckpointStorage`] keeps the objects of a checkpoint as files, for any state backend.

mod atomic_write;
mod backend;
mod file_system;
mod layout;
mod storage;
mod uri;

pub use backend::FsStateBackend;
pub use storage::FileSystemCheckpointStorage;
pub use uri::LocationError;
