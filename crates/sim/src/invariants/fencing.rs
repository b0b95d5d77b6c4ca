//! I9, an attempt that is fenced has no effect: what it begins after another one has claimed the job neither deletes anything
//! nor makes anything visible outside.
//!
//! From: publishing is fenced by one log. What it had begun before may still happen, and must do no harm: that is for the
//! other invariants. Records that it appends are for I4.

use highwater_state_api::Attempt;

use super::Violation;

/// Whoever acts in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Its attempt.
    pub(crate) attempt: Attempt,
    /// Whether another attempt had claimed the job when what it does was begun.
    pub(crate) begun_fenced: bool,
}

/// Something happened outside the attempt that acts, if one does.
pub(crate) fn check(actor: Option<Actor>, what: &str) -> Result<(), Violation> {
    match actor {
        Some(Actor { attempt, begun_fenced: true }) => {
            let found = format!("attempt {attempt} is fenced, and {what}");
            Err(Violation::new("I9 the fenced do nothing", found))
        }
        _ => Ok(()),
    }
}
