//! The one place where the runtime draws random numbers.

use std::hash::{BuildHasher, RandomState};

/// A number that nobody else draws, but for bad luck: for telling one's own records from others', for seeding hash
/// tables, and for the jitter of restarts. The operating system's randomness, by way of the standard library's hash seeds.
pub(crate) fn nonce() -> u64 {
    RandomState::new().hash_one(0u8)
}
