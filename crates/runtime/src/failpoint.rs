//! Failpoints: named places where a test can stop the process, to kill it exactly there.
//!
//! They do nothing, and cost nothing, unless the feature `failpoints` is on; then the environment variable
//! `FAILPOINTS` says what happens, in the syntax of the crate `fail`: `before-log-append=3*off->sleep(60000)` stops
//! for a minute the fourth time.

use crate::JobError;

/// A checkpoint's metadata is written, the log record that makes it count is not.
pub(crate) const BEFORE_LOG_APPEND: &str = "before-log-append";
/// An attempt has claimed the job and read its checkpoint; no task runs yet.
pub(crate) const DURING_RECOVERY: &str = "during-recovery";
/// A checkpoint is complete, and a transaction that belongs to it is about to be committed.
pub(crate) const DURING_COMMIT: &str = "during-commit";

/// Not a place but a defect, for tests of those who look for it: set to `return`, an attempt believes that nobody has
/// claimed the job, whatever the log says.
pub(crate) const IGNORE_FENCE: &str = "ignore-fence";

/// Sets the failpoints of this process as the environment variable says. Its first call does, later ones have no effect:
/// failpoints belong to the process, not to one of its jobs.
#[cfg(feature = "failpoints")]
pub(crate) fn set_up() -> Result<(), JobError> {
    static DONE: std::sync::OnceLock<Result<(), String>> = std::sync::OnceLock::new();
    // Not `fail::FailScenario`, which would have to be kept somewhere, and panics when the text cannot be read.
    let done = DONE.get_or_init(|| {
        let text = std::env::var("FAILPOINTS").unwrap_or_default();
        for setting in text.split(';').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, actions) = setting.split_once('=').ok_or_else(|| format!("{setting:?} has no `=`"))?;
            if ![BEFORE_LOG_APPEND, DURING_RECOVERY, DURING_COMMIT, IGNORE_FENCE].contains(&name) {
                return Err(format!("there is no failpoint {name:?}"));
            }
            fail::cfg(name, actions).map_err(|error| format!("{setting:?}: {error}"))?;
        }
        Ok(())
    });
    done.clone().map_err(|error| JobError::Invalid(format!("FAILPOINTS: {error}")))
}

/// Nothing can be set.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn set_up() -> Result<(), JobError> {
    Ok(())
}

/// Does what was set for this failpoint.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &'static str) {
    fail::fail_point!(name);
}

/// Whether this failpoint is set to `return`.
#[cfg(feature = "failpoints")]
pub(crate) fn is_on(name: &'static str) -> bool {
    fail::fail_point!(name, |_| true);
    false
}

/// Nothing is set.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn is_on(_: &'static str) -> bool {
    false
}

/// Does nothing.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn hit(_: &'static str) {}
