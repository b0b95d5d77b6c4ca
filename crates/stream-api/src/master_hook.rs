//! Hooks of the application that take part in every checkpoint, once for the whole job and not in its tasks.

use highwater_state_api::{BoxedError, CheckpointId};

/// A hook in the coordinator of a job's checkpoints: for what belongs to the whole job and to none of its operators, such
/// as a session with an outside system. Flink's `MasterTriggerRestoreHook`.
///
/// One value serves a job through all its attempts in one process. It is called on a thread that may wait, one call at a
/// time; what takes longer than the timeout of a checkpoint fails that checkpoint, and so does what is still at work on an
/// earlier one. The start of an attempt of the whole job waits until such a call has come back, and says so in the
/// log. A panic counts as an error.
///
/// In a process that is known to have lost the job to another one, nothing but [`MasterTriggerRestoreHook::close`] is called
/// any more. Another process may still take the job over during a call: what is done outside then must do no harm.
pub trait MasterTriggerRestoreHook: Send + 'static {
    /// Says whose state it is in checkpoints. Not blank, and no other hook of the job has it. The same in every run.
    fn identifier(&self) -> &str;

    /// A checkpoint begins: the split enumerators have been snapshotted, and no task has been told yet. What is returned is
    /// stored in the checkpoint, and only what comes with a complete checkpoint counts: this one may still fail.
    ///
    /// `triggered_at_ms` is on the wall clock, in milliseconds since the epoch. An error aborts the checkpoint.
    fn trigger_checkpoint(
        &mut self,
        checkpoint: CheckpointId,
        triggered_at_ms: u64,
    ) -> Result<Option<Vec<u8>>, BoxedError>;

    /// An attempt goes on from a checkpoint; none of its tasks runs yet. `state` is what was returned for that checkpoint;
    /// `None` also if the hook was no part of the job then. An error fails the attempt.
    fn restore_checkpoint(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), BoxedError>;

    /// An attempt begins from nothing, which may be after others: what they left in the hook does not count. An error fails
    /// the attempt.
    fn reset(&mut self) -> Result<(), BoxedError> {
        Ok(())
    }

    /// The job has ended in this process. An error is logged. Not called if a call has not returned by then.
    fn close(&mut self) -> Result<(), BoxedError> {
        Ok(())
    }
}
