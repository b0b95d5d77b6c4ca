//! Going on from a checkpoint.

use super::Factory;
use super::job::with_every_end;

/// Contract: R319.
pub fn restored_transactions_are_visible_before_anything_new_is_written(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(2);
        run.write(0, &["a"]);
        run.snapshot(&mut job, 1);
        run.write(1, &["b"]);
        run.snapshot(&mut job, 2);
        run.end(end);
        // Another attempt dies before it can commit.
        job.restore_without_commits(2, 2).end(end);
        let mut run = job.restore(2, 2);
        job.assert_visible(&["a", "b"], &format!("{end:?}, before the first record"));
        run.write(0, &["c"]);
        run.snapshot(&mut job, 3);
        job.assert_visible(&["a", "b"], &format!("{end:?}, before the next completion"));
        run.complete(3);
        job.assert_visible(&["a", "b", "c"], &format!("{end:?}, after the next completion"));
    });
}

/// Contract: R320.
pub fn a_restore_at_another_parallelism_commits_every_transaction_once(factory: Factory<'_>) {
    for (before, after) in [(4, 2), (2, 3), (1, 4), (3, 1)] {
        with_every_end(factory, |mut job, end| {
            let mut run = job.start(before);
            let mut expected = Vec::new();
            for checkpoint in 1..3 {
                for subtask in 0..before {
                    let record = format!("{subtask}-{checkpoint}");
                    run.write(subtask as usize, &[&record]);
                    expected.push(record);
                }
                run.snapshot(&mut job, checkpoint);
            }
            run.end(end);
            expected.sort();
            let mut run = job.restore(2, after);
            assert_eq!(job.visible(), expected, "from {before} to {after} subtasks, {end:?}");
            run.write(0, &["new"]);
            run.checkpoint(&mut job, 3);
            expected.push("new".to_owned());
            assert_eq!(job.visible(), expected, "from {before} to {after} subtasks, {end:?}");
            run.end(end);
            job.restore(3, before).checkpoint(&mut job, 4);
            assert_eq!(job.visible(), expected, "back to {before} subtasks, {end:?}");
        });
    }
}

/// Contract: R315, R319.
/// Field case: R101.
pub fn the_same_checkpoint_can_be_restored_twice(factory: Factory<'_>) {
    with_every_end(factory, |mut job, end| {
        let mut run = job.start(1);
        for checkpoint in 1..7 {
            run.write(0, &[&checkpoint.to_string()]);
            // What was open in earlier checkpoints is older than the only one that is retained.
            run.snapshot(&mut job, checkpoint);
        }
        run.write(0, &["7"]);
        run.end(end);
        for _ in 0..2 {
            let mut run = job.restore(6, 1);
            job.assert_visible(&["1", "2", "3", "4", "5", "6"], &format!("{end:?}"));
            // Records that no checkpoint covers, prepared and not.
            run.write(0, &["7"]);
            run.prepare(0, 7);
            run.write(0, &["8"]);
            run.end(end);
        }
        let mut run = job.restore(6, 1);
        run.write(0, &["7", "8"]);
        run.checkpoint(&mut job, 8);
        job.assert_visible(&["1", "2", "3", "4", "5", "6", "7", "8"], &format!("{end:?}, in the end"));
    });
}
