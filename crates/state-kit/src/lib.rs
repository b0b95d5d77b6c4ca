//! Bricks for backend authors: the heap backend.
//!
//! * [`HeapStateBackend`] keeps working state on the heap; the memory and the file system backend share it.

mod heap;

pub use heap::HeapStateBackend;
