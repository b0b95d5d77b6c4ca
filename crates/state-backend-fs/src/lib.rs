//! Heap state whose checkpoints are files, and the file system checkpoint storage.
//!
//! * [`FsStateBackend`] is the preset that a job takes.
//! * [`FileSystemCheckpointStorage`] keeps the objects of a checkpoint as files, for any state backend;
//!   [`FileSystemCheckpointStorageFactory`] makes it by name.

mod atomic_write;
mod backend;
mod factory;
mod file_system;
mod layout;
mod storage;
mod uri;

pub use backend::FsStateBackend;
pub use factory::FileSystemCheckpointStorageFactory;
pub use storage::FileSystemCheckpointStorage;
pub use uri::LocationError;
