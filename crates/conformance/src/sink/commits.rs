//! What a commit does and what it leaves alone.

use super::Factory;
use super::job::{End, Job};
use crate::threads::race;

/// Contract: R314.
pub fn a_transaction_committed_again_is_visible_once(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(1);
    run.write(0, &["a"]);
    let transaction = run.prepare(0, 1).unwrap().transaction;
    run.complete(1);
    for _ in 0..3 {
        run.sink.commit(&transaction).unwrap();
        (job.target.open)().commit(&transaction).unwrap();
        job.assert_visible(&["a"], "committed again");
    }
    run.write(0, &["b"]);
    run.checkpoint(job, 2);
    run.sink.commit(&transaction).unwrap();
    job.assert_visible(&["a", "b"], "committed again after another");
}

/// Contract: R311.
pub fn a_commit_makes_no_other_transaction_visible(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(2);
    for checkpoint in 1..4 {
        for subtask in 0..2 {
            run.write(subtask, &[&format!("{subtask}-{checkpoint}")]);
            run.prepare(subtask, checkpoint);
        }
    }
    run.write(0, &["open"]);
    run.try_commit(0, 1).unwrap();
    job.assert_visible(&["0-1"], "of six transactions one is committed");
    run.try_commit(1, 2).unwrap();
    job.assert_visible(&["0-1", "1-1", "1-2"], "of six transactions three are committed");
    run.complete(3);
    assert_eq!(job.visible().len(), 6);
}

/// Contract: R312, R314, R315.
/// Field case: R87.
pub fn committing_an_old_transaction_again_leaves_newer_ones_alone(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(1);
    run.write(0, &["42"]);
    let first = run.prepare(0, 1).unwrap().transaction;
    run.snapshot(job, 1);
    run.complete(1);
    run.write(0, &["43"]);
    run.snapshot(job, 2);
    run.write(0, &["44"]);
    // A late word about checkpoint 1, while 43 is prepared and 44 is open.
    run.sink.commit(&first).unwrap();
    job.assert_visible(&["42"], "committed again by the attempt");
    run.end(End::Killed);
    let mut run = job.restore(1, 1);
    job.assert_visible(&["42"], "committed again by the restore");
    run.write(0, &["43"]);
    run.sink.commit(&first).unwrap();
    job.assert_visible(&["42"], "committed again beside what is read again");
    run.write(0, &["44"]);
    run.checkpoint(job, 2);
    job.assert_visible(&["42", "43", "44"], "in the end");
}

/// Contract: R312.
pub fn transactions_of_subtasks_are_committed_in_any_order(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(3);
    for checkpoint in 1..3 {
        for (subtask, record) in ["a", "b", "c"].into_iter().enumerate() {
            run.write(subtask, &[record]);
        }
        run.snapshot(job, checkpoint);
    }
    for (subtask, checkpoint) in [(2, 2), (0, 1), (1, 2), (0, 2)] {
        run.try_commit(subtask, checkpoint).unwrap();
    }
    job.assert_visible(&["a", "a", "b", "b", "c", "c"], "in the end");
}

/// Contract: R312, R313.
pub fn transactions_of_an_aborted_checkpoint_are_committed_with_the_next(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(1);
    run.write(0, &["a"]);
    run.snapshot(job, 1);
    run.write(0, &["b"]);
    run.snapshot(job, 2);
    run.snapshot(job, 4);
    job.assert_visible(&[], "no checkpoint is complete");
    run.complete(4);
    job.assert_visible(&["a", "b"], "the last one is");
}

/// An attempt that is believed dead and the one that follows it commit the same.
pub fn concurrent_commits_of_one_transaction_make_it_visible_once(factory: Factory<'_>) {
    let job = &mut Job::new(factory);
    let mut run = job.start(1);
    for round in 1..20 {
        run.write(0, &["a"]);
        let transaction = run.prepare(0, round).unwrap().transaction;
        let sink = &*run.sink;
        for committed in race(4, |_| sink.commit(&transaction)) {
            committed.unwrap();
        }
        assert_eq!(job.visible().len() as u64, round);
    }
}
