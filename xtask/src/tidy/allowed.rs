//! Where a banned call is allowed, and why. One line a place; most rules have exactly one place, or none.

/// A place where a call is allowed.
pub(super) struct Allowed {
    pub(super) path: &'static str,
    /// The name of the rule in `banned.rs`.
    pub(super) call: &'static str,
    pub(super) reason: &'static str,
}

const fn allow(path: &'static str, call: &'static str, reason: &'static str) -> Allowed {
    Allowed { path, call, reason }
}

pub(super) const ALLOWED: &[Allowed] = &[
    allow("crates/conformance/src/threads.rs", "thread::spawn", "races have to be run to be tested"),
    allow("crates/runtime/src/clock.rs", "Instant::now", "the one place where the runtime reads the clock"),
    allow("crates/runtime/src/clock.rs", "SystemTime::now", "the one place where the runtime reads the wall clock"),
    allow("crates/connectors/src/file_sink/directory.rs", "RandomState", "the name of a draft that no other start has"),
    allow("crates/runtime/src/random.rs", "RandomState", "the one place where the runtime draws random numbers"),
    allow("crates/runtime/src/threads.rs", "thread::spawn", "the one place where the runtime starts threads"),
];
