//! When records become visible.

use super::Factory;
use super::job::Job;

/// Contract: R311.
pub fn nothing_is_visible_before_its_checkpoint_is_complete(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(2);
    run.write(0, &["a", "b"]);
    job.assert_visible(&[], "after the writes");
    run.prepare(0, 1);
    job.assert_visible(&[], "after the prepare");
    run.write(0, &["c"]);
    run.write(1, &["d"]);
    run.snapshot(job, 2);
    job.assert_visible(&[], "after the snapshots");
    run.write(0, &["e"]);
    run.complete(2);
    job.assert_visible(&["a", "b", "c", "d"], "after the completion");
}

/// Nothing to commit is nothing to remember.
pub fn a_checkpoint_without_records_has_no_transaction(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(1);
    assert!(run.prepare(0, 1).is_none(), "before the first record");
    run.write(0, &["a"]);
    assert!(run.prepare(0, 2).is_some(), "after a record");
    assert!(run.prepare(0, 3).is_none(), "without another record");
    run.complete(3);
    job.assert_visible(&["a"], "after the completion");
}

/// Contract: R315.
pub fn subtasks_and_attempts_never_meet(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut expected = Vec::new();
    // Attempts that are alive at the same time, as when one is believed dead and is not.
    let mut runs = vec![job.start(3)];
    runs[0].checkpoint(job, 1);
    runs.extend([job.restore(1, 3), job.restore(1, 3)]);
    let mut transactions = Vec::new();
    for checkpoint in 2..5 {
        for (attempt, run) in runs.iter_mut().enumerate() {
            for subtask in 0..3 {
                let record = format!("{attempt}-{subtask}-{checkpoint}");
                run.write(subtask, &[&record]);
                transactions.extend(run.prepare(subtask, checkpoint));
                expected.push(record);
            }
        }
    }
    transactions.iter().rev().for_each(|prepared| runs[2].sink.commit(&prepared.transaction).unwrap());
    expected.sort();
    assert_eq!(job.visible(), expected);
}

/// Field case: R97.
pub fn the_last_records_of_a_bounded_input_are_committed(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(2);
    // The only checkpoint is the last one.
    run.write(0, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    run.checkpoint(job, 1);
    job.assert_visible(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "when all input has ended");

    // One subtask has its last record an hour before the other.
    let job = &mut Job::new(factory);
    let mut run = job.start(2);
    run.write(0, &["a"]);
    run.write(1, &["z"]);
    run.checkpoint(job, 1);
    for checkpoint in 2..5 {
        run.write(0, &["b"]);
        run.checkpoint(job, checkpoint);
    }
    job.assert_visible(&["a", "b", "b", "b", "z"], "when the other input has ended");
}
