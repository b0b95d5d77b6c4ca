//! A deterministic world for the production tasks and machines.
