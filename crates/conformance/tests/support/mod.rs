//! The simplest storage and the simplest byte backend that keep the contracts: what the suites are tried on.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "these are parts of tests, though no tests themselves")]

pub(crate) mod byte_backend;
pub(crate) mod simple_storage;
