//! A crash at each step between a record and the end of its transaction.

use super::Factory;
use super::job::with_every_end;

/// The job starts from nothing again, in spite of what it finds.
pub fn a_crash_before_the_first_checkpoint_leaves_nothing_visible(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.write(1, &["b"]);
        run.prepare(0, 1);
        run.write(0, &["c"]);
        run.end(end);
        let mut run = job.start(2);
        job.assert_visible(&[], &format!("{end:?}, started again"));
        run.write(1, &["a", "b", "c"]);
        run.checkpoint(&mut job, 2);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next checkpoint"));
    });
}

/// Contract: R311, R315.
pub fn a_crash_before_the_prepare_leaves_nothing_visible(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.checkpoint(&mut job, 1);
        run.write(0, &["b"]);
        run.write(1, &["c"]);
        run.end(end);
        job.assert_visible(&["a"], &format!("{end:?}"));
        let mut run = job.restore(1, 2);
        job.assert_visible(&["a"], &format!("{end:?}, restored"));
        run.write(0, &["b", "c"]);
        run.checkpoint(&mut job, 2);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next checkpoint"));
    });
}

/// Contract: R311, R315.
pub fn a_crash_between_prepare_and_snapshot_leaves_nothing_visible(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.checkpoint(&mut job, 1);
        run.write(0, &["b"]);
        run.write(1, &["c"]);
        run.prepare(0, 2);
        run.end(end);
        let mut run = job.restore(1, 2);
        job.assert_visible(&["a"], &format!("{end:?}, restored"));
        run.write(0, &["b"]);
        run.write(1, &["c"]);
        run.checkpoint(&mut job, 3);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next checkpoint"));
    });
}

/// Contract: R311, R315.
pub fn a_crash_between_snapshot_and_completion_leaves_nothing_visible(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.checkpoint(&mut job, 1);
        run.write(0, &["b"]);
        run.write(1, &["c"]);
        // Every subtask has a snapshot, and the checkpoint does not become complete.
        run.snapshot(&mut job, 2);
        run.end(end);
        let mut run = job.restore(1, 2);
        job.assert_visible(&["a"], &format!("{end:?}, restored"));
        run.write(1, &["b", "c"]);
        run.checkpoint(&mut job, 3);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next checkpoint"));
    });
}

/// Contract: R314, R319.
pub fn a_crash_between_completion_and_commit_is_made_good_by_the_restore(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.write(1, &["b"]);
        run.snapshot(&mut job, 1);
        run.write(0, &["c"]);
        run.end(end);
        let mut run = job.restore(1, 2);
        job.assert_visible(&["a", "b"], &format!("{end:?}, restored"));
        run.write(0, &["c"]);
        run.checkpoint(&mut job, 2);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next checkpoint"));
    });
}

/// Contract: R314, R319.
pub fn a_crash_among_the_commits_is_made_good_by_the_restore(factory: Factory<'_>) {
    for committed in 0..3 {
        with_every_end(factory, |mut job, end| {
            let mut run = job.start(3);
            for (subtask, record) in ["a", "b", "c"].into_iter().enumerate() {
                run.write(subtask, &[record]);
            }
            run.snapshot(&mut job, 1);
            run.try_commit(committed, 1).unwrap();
            run.end(end);
            assert_eq!(job.visible().len(), 1, "{end:?}");
            // Dead again in the middle of making it good.
            let mut run = job.restore_without_commits(1, 3);
            run.try_commit((committed + 1) % 3, 1).unwrap();
            run.end(end);
            job.restore(1, 3);
            job.assert_visible(&["a", "b", "c"], &format!("{end:?}, restored"));
        });
    }
}

/// Contract: R314, R319.
pub fn a_crash_between_commit_and_forgetting_makes_nothing_visible_twice(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.write(1, &["b"]);
        // The snapshot has the transactions, and no later one says that they are committed.
        run.checkpoint(&mut job, 1);
        run.end(end);
        let mut run = job.restore(1, 2);
        job.assert_visible(&["a", "b"], &format!("{end:?}, restored"));
        run.write(1, &["c"]);
        run.checkpoint(&mut job, 2);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next checkpoint"));
    });
}
