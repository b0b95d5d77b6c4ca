//! What becomes of the checkpoints of a job that ends, for each way to end and each policy.

use std::sync::Arc;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::ExternalizedCheckpointRetention::{self, *};
use highwater::state::{CheckpointStorage, ObjectPath};
use highwater_conformance::{Faults, FaultyStorage};

use crate::pace::{Grants, Pace};
use crate::support::{Count, assert_counted, count, environment, storage, wait_for_checkpoints};

const NUMBERS: u64 = 1_000;
const POLICIES: [ExternalizedCheckpointRetention; 3] =
    [RetainOnCancellation, DeleteOnCancellation, NoExternalizedCheckpoints];
const KEY: &str = "execution.checkpointing.externalized-checkpoint-retention";

/// The folders of checkpoints that are there.
fn checkpoints(storage: &dyn CheckpointStorage) -> usize {
    let folders = pollster::block_on(storage.list_folders(&ObjectPath::new(["ending"]))).unwrap();
    folders.iter().filter(|folder| folder.name().starts_with("chk-")).count()
}

fn job(
    storage: &Arc<dyn CheckpointStorage>,
    policy: Option<ExternalizedCheckpointRetention>,
) -> StreamExecutionEnvironment {
    let env = environment("ending", storage.clone());
    env.set_restart_strategy(RestartStrategy::None);
    if let Some(policy) = policy {
        env.set_externalized_checkpoint_retention(policy);
    }
    env
}

/// Takes some checkpoints in the middle of the input.
fn half_way(env: &StreamExecutionEnvironment, records: &CollectedRecords<Count>) -> (JobHandle, Grants) {
    let grants = Grants::new(NUMBERS / 2);
    count(env, NUMBERS, Some(Pace::Granted(grants.clone())), records, |number| {
        if number == NUMBERS - 1 { Err("the last number is refused".into()) } else { Ok(()) }
    });
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 3);
    (handle, grants)
}

/// Starts the job again, and lets it finish. Returns what it went on from.
fn finish(storage: &Arc<dyn CheckpointStorage>, records: &CollectedRecords<Count>) -> JobStatus {
    let env = job(storage, None);
    count(&env, NUMBERS, None, records, |_| Ok(()));
    env.execute().unwrap().status
}

/// Checks what a job that has ended has left, and that the next start goes by it.
fn check(storage: &Arc<dyn CheckpointStorage>, first: &CollectedRecords<Count>, last: u64, stays: bool, what: &str) {
    assert_eq!(checkpoints(&**storage) > 0, stays, "{what}");
    let second = if stays { first.clone() } else { CollectedRecords::default() };
    let status = finish(storage, &second);
    assert_eq!(status.restored_from.is_some(), stays, "{what}");
    assert!(status.last_checkpoint.unwrap().0 > last, "{what}: ids never restart");
    assert_counted(&second, NUMBERS);
}

/// Contract: M244, M247, U353.
#[test]
fn a_job_that_is_cancelled() {
    for (policy, stays) in POLICIES.into_iter().zip([true, false, false]) {
        let (storage, records): (Arc<dyn CheckpointStorage>, _) = (storage(), CollectedRecords::default());
        let (handle, _grants) = half_way(&job(&storage, Some(policy)), &records);
        let monitor = handle.monitor();
        handle.cancel();
        assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
        check(&storage, &records, monitor.status().last_checkpoint.unwrap().0, stays, &format!("{policy}"));
    }
}

/// Contract: M244, M247, U353.
#[test]
fn a_job_that_fails() {
    for (policy, stays) in POLICIES.into_iter().zip([true, true, false]) {
        let (storage, records): (Arc<dyn CheckpointStorage>, _) = (storage(), CollectedRecords::default());
        let (handle, grants) = half_way(&job(&storage, Some(policy)), &records);
        let monitor = handle.monitor();
        grants.add_all();
        assert!(matches!(handle.wait().unwrap_err().cause(), JobError::Task { .. }));
        check(&storage, &records, monitor.status().last_checkpoint.unwrap().0, stays, &format!("{policy}"));
    }
}

/// Contract: M244, U353.
#[test]
fn a_job_that_finishes() {
    for policy in POLICIES {
        let (storage, records): (Arc<dyn CheckpointStorage>, _) = (storage(), CollectedRecords::default());
        let env = job(&storage, Some(policy));
        count(&env, NUMBERS, None, &records, |_| Ok(()));
        assert!(env.execute().unwrap().status.checkpoints_completed > 0);
        assert_eq!(checkpoints(&*storage), 0, "{policy}");
        let again = job(&storage, Some(policy));
        count(&again, NUMBERS, None, &records, |_| Ok(()));
        assert_eq!(again.execute().unwrap().outcome, JobOutcome::AlreadyFinished);
        assert_counted(&records, NUMBERS);
    }
}

/// Contract: M244.
#[test]
fn a_job_that_another_process_has_taken_over() {
    for policy in POLICIES {
        let (storage, records): (Arc<dyn CheckpointStorage>, _) = (storage(), CollectedRecords::default());
        let (first, _grants) = half_way(&job(&storage, Some(policy)), &records);
        // The second one restores and stands still, so that it has nothing but what the first one has left.
        let second = job(&storage, Some(RetainOnCancellation));
        second.enable_checkpointing(std::time::Duration::from_secs(3_600));
        count(&second, NUMBERS, Some(Pace::up_to(0)), &records, |_| Ok(()));
        let second = second.execute_async().unwrap();
        assert!(matches!(first.wait().unwrap_err().cause(), JobError::Coordinator(_)));
        second.cancel();
        second.wait().unwrap_err();
        check(&storage, &records, 0, true, &format!("{policy}"));
    }
}

/// Contract: M244.
#[test]
fn a_job_whose_start_fails() {
    let (inner, records): (Arc<dyn CheckpointStorage>, _) = (storage(), CollectedRecords::default());
    let (handle, _grants) = half_way(&job(&inner, None), &records);
    handle.cancel();
    handle.wait().unwrap_err();
    let faults = Faults::default();
    let storage: Arc<dyn CheckpointStorage> = Arc::new(FaultyStorage::new(inner.clone(), faults.clone()));
    faults.set_outage(true);
    let env = job(&storage, Some(NoExternalizedCheckpoints));
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    assert!(matches!(env.execute().unwrap_err().cause(), JobError::Storage(_)));
    check(&inner, &records, 0, true, "the storage failed");
}

/// Contract: U353.
#[test]
fn the_configuration_says_so_unless_code_does() {
    for (by_code, stays) in [(None, false), (Some(RetainOnCancellation), true)] {
        let (storage, records): (Arc<dyn CheckpointStorage>, _) = (storage(), CollectedRecords::default());
        let env = job(&storage, by_code);
        env.configure(Configuration::from([(KEY, "DELETE_ON_CANCELLATION")]));
        let (handle, _grants) = half_way(&env, &records);
        handle.cancel();
        handle.wait().unwrap_err();
        check(&storage, &records, 0, stays, &format!("{by_code:?}"));
    }
}
