//! Failpoints: named places where a test can stop the process, to kill it exactly there.
//!
//! They do nothing, and cost nothing, unless the feature `failpoints` is on; then the environment variable
//! `FAILPOINTS` says what happens, in the syntax of the crate `fail`.

/// A checkpoint's metadata is written, the log record that makes it count is not.
pub(crate) const BEFORE_LOG_APPEND: &str = "before-log-append";
/// An attempt has claimed the job and read its checkpoint; no task runs yet.
pub(crate) const DURING_RECOVERY: &str = "during-recovery";
/// A checkpoint is complete, and a transaction that belongs to it is about to be committed.
pub(crate) const DURING_COMMIT: &str = "during-commit";

/// Does what was set for this failpoint.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &'static str) {
    fail::fail_point!(name);
}

/// Does nothing.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn hit(_: &'static str) {}
