//! Progress: once nothing fails any more the job finishes, and nothing ends an attempt but what was done to it.
//!
//! From: "first break it, then heal it and demand progress" (TigerBeetle's VOPR, openraft's simulation).

use std::fmt;

use super::Violation;

const NAME: &str = "progress";
/// Steps within which a healed job finishes. Generous: what is stuck takes for ever.
pub(crate) const HEALED_STEPS_MAX: u64 = 30_000;

/// The world has been healed for so many steps.
pub(crate) fn check_healed(steps: u64) -> Result<(), Violation> {
    if steps > HEALED_STEPS_MAX {
        return Err(Violation::new(NAME, format!("the job has not finished {steps} steps after the last fault")));
    }
    Ok(())
}

/// Nothing can happen any more, and the job is not finished.
pub(crate) fn stuck() -> Violation {
    Violation::new(NAME, "nothing is on its way, nobody can step, no deadline is left: the job is stuck")
}

/// Something ended that nothing was done to.
pub(crate) fn unexpected(what: impl fmt::Display) -> Violation {
    Violation::new(NAME, what)
}
