//! Bricks for backend authors: heap state, operator state and timers.
//!
//! * [`HeapStateBackend`] keeps working state on the heap; the memory and the file system backend share it.

mod heap;

pub use heap::HeapStateBackend;
