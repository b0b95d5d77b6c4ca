//! Heap state whose checkpoints are files, and the file system checkpoint storage.
