//! What is removed, and what never is.

use super::Factory;
use super::job::{End, Job, with_every_end};
use crate::trial;

/// Contract: R315.
pub fn aborting_earlier_attempts_leaves_what_is_committed(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.checkpoint(&mut job, 1);
        run.write(1, &["b"]);
        run.snapshot(&mut job, 2);
        run.end(end);
        let mut run = job.restore(2, 2);
        run.write(0, &["c"]);
        run.checkpoint(&mut job, 3);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}"));
        run.end(end);
        job.restore(3, 1).checkpoint(&mut job, 4);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, twice"));
    });
}

/// Contract: R315.
pub fn aborting_earlier_attempts_leaves_what_this_attempt_has_prepared(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(2);
    run.write(0, &["a"]);
    run.checkpoint(job, 1);
    run.end(End::Killed);
    let mut run = job.restore_without_aborts(1, 2);
    run.write(0, &["b"]);
    run.snapshot(job, 2);
    run.write(0, &["c"]);
    run.snapshot(job, 3);
    run.write(1, &["d"]);
    // The transactions of checkpoint 3 are prepared and one of checkpoint 4 is open while earlier attempts are aborted.
    run.complete(2);
    job.assert_visible(&["a", "b"], "checkpoint 2");
    run.snapshot(job, 4);
    run.complete(4);
    job.assert_visible(&["a", "b", "c", "d"], "checkpoint 4");
}

/// Contract: R315, R320.
/// Field case: R89.
pub fn open_transactions_of_vanished_subtasks_are_aborted(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        if job.target.uncommitted.is_none() {
            return trial::pass_by();
        }
        let mut run = job.start(4);
        run.write(0, &["a"]);
        run.checkpoint(&mut job, 5);
        // Two checkpoints are aborted; then each subtask has an open transaction.
        for (checkpoint, record) in [(6, "b"), (8, "c")] {
            (0..4).for_each(|subtask| run.write(subtask, &[record]));
            run.snapshot(&mut job, checkpoint);
        }
        (0..4).for_each(|subtask| run.write(subtask, &["d"]));
        run.end(end);
        let uncommitted = |job: &Job| job.target.uncommitted.as_ref().map(|uncommitted| uncommitted());
        let mut run = job.restore(5, 2);
        assert_eq!(uncommitted(&job), Some(0), "transactions are left to block readers, {end:?}");
        run.write(1, &["b"]);
        run.checkpoint(&mut job, 9);
        job.assert_visible(&["a", "b"], &format!("{end:?}"));
        assert_eq!(uncommitted(&job), Some(0), "transactions are left behind, {end:?}");
    });
}

/// Contract: R315.
pub fn what_a_dead_attempt_prepares_is_never_visible(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut dead = job.start(2);
    dead.write(0, &["a"]);
    dead.checkpoint(job, 1);
    dead.write(0, &["b"]);
    let mut run = job.restore(1, 2);
    // It is believed dead and goes on, with the same checkpoint number as the attempt that follows it. The target may
    // refuse it.
    let _ = dead.try_write(1, &["b"]);
    let _ = dead.try_prepare(0, 2);
    let _ = dead.try_prepare(1, 2);
    run.write(0, &["b"]);
    run.checkpoint(job, 2);
    dead.end(End::Stopped);
    job.assert_visible(&["a", "b"], "after the next checkpoint");
    run.end(End::Killed);
    job.restore(2, 2).checkpoint(job, 3);
    job.assert_visible(&["a", "b"], "after another restore");
}
