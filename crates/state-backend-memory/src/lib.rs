//! Heap state whose checkpoints are kept in memory.
