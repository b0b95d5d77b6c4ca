//! Two runs of one job at the same time: the later one wins, the earlier one can publish nothing more.

use std::sync::Arc;

use highwater::checkpoint::AttemptFailure;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};

use crate::pace::Pace;
use crate::support::{assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

const NUMBERS: u64 = 6_000;

/// Contract: O288.
#[test]
fn and_goes_on_where_it_was() {
    let storage = storage();
    let records = CollectedRecords::default();
    let first = environment("contended", storage.clone());
    count(&first, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let first = first.execute_async().unwrap();
    wait_for_checkpoints(&first, 3);

    let second = environment("contended", storage);
    second.set_parallelism(2);
    count(&second, NUMBERS, Some(Pace::PerCheckpoint(200)), &records, |_| Ok(()));
    let second = second.execute_async().unwrap();

    let error = first.wait().unwrap_err();
    assert!(matches!(error, JobError::Coordinator(AttemptFailure::Fenced { .. })), "{error:?}");
    let result = second.wait().unwrap();
    assert_eq!(result.outcome, JobOutcome::Finished);
    assert!(result.status.restored_from.is_some());
    assert_counted(&records, NUMBERS);
}

#[test]
fn also_when_its_list_of_the_log_is_long_out_of_date() {
    let storage = storage();
    let records = CollectedRecords::default();
    let first = environment("overtaken", storage.clone());
    count(&first, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let first = first.execute_async().unwrap();
    wait_for_checkpoints(&first, 3);

    // The second run reads the log and then stands still, until the first one has completed and deleted so much that the
    // number it is about to claim is free again.
    let monitor = first.monitor();
    let stand_still = move || {
        let completed = monitor.status().checkpoints_completed;
        wait_until("the log has gone on", || monitor.status().checkpoints_completed >= completed + 150);
    };
    let faults = Faults::default();
    faults.arm(When::next(Operation::CreateIfAbsent), Fault::Delay(Arc::new(stand_still)));
    let second = environment("overtaken", Arc::new(FaultyStorage::new(storage, faults)));
    count(&second, NUMBERS, None, &records, |_| Ok(()));
    let second = second.execute_async().unwrap();

    let error = first.wait().unwrap_err();
    assert!(matches!(error, JobError::Coordinator(AttemptFailure::Fenced { .. })), "{error:?}");
    let result = second.wait().unwrap();
    assert!(result.status.restored_from > Some(highwater::state::CheckpointId(100)), "{:?}", result.status);
    assert_counted(&records, NUMBERS);
}

#[test]
fn but_another_job_never_meets_it() {
    let storage = storage();
    let jobs: Vec<_> = ["job", "job2", "job-2"]
        .into_iter()
        .map(|name| {
            let records = CollectedRecords::default();
            let env = environment(name, storage.clone());
            count(&env, 2_000, Some(Pace::PerCheckpoint(100)), &records, |_| Ok(()));
            (env.execute_async().unwrap(), records)
        })
        .collect();
    for (handle, records) in jobs {
        assert_eq!(handle.wait().unwrap().status.restarts, 0);
        assert_counted(&records, 2_000);
    }
}
