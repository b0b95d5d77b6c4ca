//! Bricks for backend authors: the heap backend.
//!
//! * [`HeapStateBackend`] keeps working state on the heap; the memory and the file system backend share it.
//! * [`HeapStateBackendFactory`] makes it from a configuration, under the name `hashmap`.

mod heap;
mod serialized;

pub use heap::{HeapStateBackend, HeapStateBackendFactory};
