//! Commits that fail.

use highwater_stream_api::CommitError;

use super::Factory;
use super::job::{End, Job};
use crate::trial;

/// Runs a case with a prepared transaction of one record, on a target that can be made to fail.
fn with_outage(factory: Factory<'_>, case: impl FnOnce(&mut Job, super::job::Run, &dyn Fn(bool))) {
    let mut job = Job::new(factory);
    let Some(set_outage) = job.target.set_outage.take() else { return trial::pass_by() };
    let mut run = job.start(1);
    run.write(0, &["a"]);
    run.snapshot(&mut job, 1);
    case(&mut job, run, &*set_outage);
}

/// The other cases say nothing if an outage does nothing.
pub fn an_outage_of_the_target_is_felt(factory: Factory<'_>) {
    with_outage(factory, |job, mut run, set_outage| {
        set_outage(true);
        let committed = run.try_commit(0, 1);
        set_outage(false);
        match committed {
            Err(CommitError::Retryable(_) | CommitError::Unknown(_)) => {}
            other => panic!("a target that fails is neither written to nor has it lost anything: {other:?}"),
        }
        assert!(job.visible().len() <= 1);
    });
}

/// Contract: R314, R318.
pub fn a_commit_that_failed_can_be_made_good(factory: Factory<'_>) {
    with_outage(factory, |job, mut run, set_outage| {
        run.write(0, &["b"]);
        run.snapshot(job, 2);
        set_outage(true);
        let committed: Vec<_> = (0..3).map(|_| run.try_commit(0, 2)).collect();
        set_outage(false);
        assert!(committed.iter().all(Result::is_err), "{committed:?}");
        run.complete(2);
        job.assert_visible(&["a", "b"], "when the outage is over");
    });
}

/// Contract: R314, R319.
pub fn a_commit_that_failed_can_be_made_good_by_a_later_attempt(factory: Factory<'_>) {
    with_outage(factory, |job, mut run, set_outage| {
        set_outage(true);
        let committed = run.try_commit(0, 1);
        set_outage(false);
        assert!(committed.is_err());
        run.end(End::Stopped);
        let mut run = job.restore(1, 2);
        job.assert_visible(&["a"], "restored");
        run.write(1, &["b"]);
        run.checkpoint(job, 2);
        job.assert_visible(&["a", "b"], "after the next checkpoint");
    });
}
