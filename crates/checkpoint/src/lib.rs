//! The checkpoint protocol as pure machines.
