//! What the owner of a job can ask of its checkpoint coordinator.

use std::time::Duration;

use highwater::checkpoint::CheckpointFailureReason as Reason;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::{CheckpointRequest, SchedulerError};
use highwater::state::CheckpointId;

use crate::pace::{Grants, Pace};
use crate::support::{assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

const NUMBERS: u64 = 400;

/// A job that runs until all its input is granted, and takes no checkpoint by itself before it ends.
fn start(name: &str, grants: &Grants, records: &CollectedRecords<(u64, u64)>) -> JobHandle {
    let env = environment(name, storage());
    env.enable_checkpointing(Duration::from_secs(3_600));
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), records, |_| Ok(()));
    env.execute_async().unwrap()
}

/// Contract: K222, J213.
#[test]
fn whoever_asks_hears_of_their_own_checkpoint() {
    let records = CollectedRecords::default();
    let grants = Grants::new(NUMBERS / 2);
    let handle = start("asked", &grants, &records);
    let pending: Vec<_> = (0..3).map(|_| handle.trigger_checkpoint()).collect();
    let ids: Vec<_> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3].map(CheckpointId), "each call is a checkpoint of its own");
    assert_eq!(handle.status().last_checkpoint, Some(CheckpointId(3)));

    let coordinator = handle.checkpoint_coordinator();
    let monitor = handle.monitor();
    grants.add_all();
    assert_eq!(handle.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
    assert_eq!(coordinator.trigger_checkpoint().wait().unwrap_err().reason, Reason::CoordinatorShutdown);
    assert_eq!(coordinator.start_checkpoint_scheduler(), Err(SchedulerError::Ended));
    assert_eq!(monitor.status().last_checkpoint, Some(CheckpointId(4)), "the last one is taken unasked");
}

#[test]
fn what_waits_when_the_input_ends_is_the_last_checkpoint() {
    let records = CollectedRecords::default();
    let env = environment("asked-late", storage());
    env.enable_checkpointing(Duration::from_secs(3_600));
    count(&env, 10, None, &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    let pending: Vec<_> = (0..20).map(|_| handle.trigger_checkpoint()).collect();
    let answers: Vec<_> = pending.into_iter().map(|pending| pending.wait()).collect();
    let last = handle.wait().unwrap().status.last_checkpoint;
    for answer in answers {
        match answer {
            Ok(checkpoint) => assert!(Some(checkpoint) <= last),
            Err(failure) => assert_eq!(failure.reason, Reason::CoordinatorShutdown, "{failure}"),
        }
    }
    assert_counted(&records, 10);
}

/// Contract: J190, J214.
#[test]
fn periodic_checkpoints_stop_and_start_and_ids_go_on() {
    let records = CollectedRecords::default();
    let env = environment("stopped", storage());
    env.enable_checkpointing(Duration::from_millis(10));
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    let coordinator = handle.checkpoint_coordinator();
    wait_for_checkpoints(&handle, 2);
    coordinator.stop_checkpoint_scheduler().unwrap();
    // What is asked for afterwards is taken all the same, and nothing else is.
    let first = coordinator.trigger_checkpoint().wait().unwrap();
    let second = coordinator.trigger_checkpoint().wait().unwrap();
    assert_eq!(second, first.next());
    let periodic = CheckpointRequest { periodic: true, ..CheckpointRequest::default() };
    assert_eq!(coordinator.trigger(periodic).wait().unwrap_err().reason, Reason::PeriodicSchedulerShutdown);
    assert_eq!(handle.status().last_checkpoint, Some(second));

    coordinator.start_checkpoint_scheduler().unwrap();
    wait_until("a periodic checkpoint is complete", || handle.status().last_checkpoint > Some(second));
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
}

#[test]
fn several_checkpoints_may_be_pending_and_nothing_is_lost_or_repeated() {
    let records = CollectedRecords::default();
    let env = environment("concurrent", storage());
    env.enable_checkpointing(Duration::from_millis(10)).set_max_concurrent_checkpoints(3).set_parallelism(2);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    // More than may be pending, and each is answered.
    let pending: Vec<_> = (0..12).map(|_| handle.trigger_checkpoint()).collect();
    for answer in pending {
        match answer.wait() {
            Ok(_) => {}
            Err(failure) => assert!(!failure.counts(), "{failure}"),
        }
    }
    assert_eq!(handle.wait().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
}
