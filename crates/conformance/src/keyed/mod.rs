//! The contract of a state backend, one function a behaviour.
