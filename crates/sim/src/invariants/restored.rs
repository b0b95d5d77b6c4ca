//! A start goes on from the newest complete checkpoint that is not dropped, or from nothing if there is none. It goes back
//! behind one only if that is damaged, and only as far as it has to.
//!
//! From: the contract of restarts, and of `LogRecord::Dropped`.

use highwater_state_api::CheckpointId;

use super::Violation;
use super::durable::Completed;

const NAME: &str = "starts go on from the newest";

/// A start has claimed the job, and goes on from this.
pub(crate) fn check(completed: &Completed, restored: Option<CheckpointId>) -> Result<(), Violation> {
    let newest = completed.newest(1).first().map(|(_, checkpoint, _)| *checkpoint);
    if restored != newest {
        let found = format!("a start goes on from {restored:?}, the newest checkpoint is {newest:?}");
        return Err(Violation::new(NAME, found));
    }
    Ok(())
}

/// A start has passed over what is newer than this checkpoint.
pub(crate) fn check_passed_over(completed: &Completed, newest: CheckpointId) -> Result<(), Violation> {
    match completed.whole_after(newest) {
        Some(whole) => {
            Err(Violation::new(NAME, format!("a start goes back to checkpoint {newest}, and {whole} is whole")))
        }
        None => Ok(()),
    }
}
