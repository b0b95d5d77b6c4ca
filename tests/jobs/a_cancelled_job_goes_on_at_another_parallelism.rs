//! A job that was stopped goes on from its last checkpoint, whatever its parallelism is then; a finished one does nothing.

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::support::{assert_counted, count, environment, storage, wait_for_checkpoints};

const NUMBERS: u64 = 4_000;

/// Contract: F128, O273.
#[test]
fn up_and_down() {
    let storage = storage();
    let records = CollectedRecords::default();
    let mut last = None;
    for (round, parallelism) in [1, 4, 2, 3].into_iter().enumerate() {
        let env = environment("rescaled", storage.clone());
        env.set_parallelism(parallelism);
        count(&env, NUMBERS, Some(20_000), &records, |_| Ok(()));
        let handle = env.execute_async().unwrap();
        wait_for_checkpoints(&handle, 3);
        let status = handle.status();
        assert_eq!(status.restored_from, last, "round {round}");
        handle.cancel();
        let monitor = handle.monitor();
        assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
        last = monitor.status().last_checkpoint;
        assert!(last > status.restored_from, "ids go on");
    }
    let env = environment("rescaled", storage.clone());
    env.set_parallelism(5);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    let result = env.execute().unwrap();
    assert_eq!(result.status.restored_from, last);
    assert_counted(&records, NUMBERS);

    let env = environment("rescaled", storage);
    count(&env, NUMBERS, None, &records, |_| panic!("a finished job reads nothing"));
    assert_eq!(env.execute().unwrap().outcome, JobOutcome::AlreadyFinished);
    assert_counted(&records, NUMBERS);
}

/// Contract: F130, F131.
#[test]
fn the_number_of_key_groups_of_the_first_start_stays() {
    let storage = storage();
    let records = CollectedRecords::default();
    let env = environment("key-groups", storage.clone());
    env.set_max_parallelism(8);
    count(&env, NUMBERS, Some(20_000), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 1);
    handle.cancel();
    assert!(handle.wait().is_err());

    let start = |max_parallelism: Option<u32>, parallelism| {
        let env = environment("key-groups", storage.clone());
        env.set_parallelism(parallelism);
        if let Some(max_parallelism) = max_parallelism {
            env.set_max_parallelism(max_parallelism);
        }
        count(&env, NUMBERS, None, &records, |_| Ok(()));
        env.execute()
    };
    let error = text(&start(Some(16), 1).unwrap_err());
    assert!(error.contains("max parallelism is set to 16, its state was taken with 8"), "{error}");
    let error = text(&start(None, 9).unwrap_err());
    assert!(error.contains("parallelism 9 is outside 1..=8"), "{error}");
    start(None, 8).unwrap();
    assert_counted(&records, NUMBERS);
}

#[test]
fn state_of_an_operator_that_is_gone_is_not_dropped() {
    let storage = storage();
    let records = CollectedRecords::default();
    let env = environment("renamed", storage.clone());
    count(&env, NUMBERS, Some(20_000), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 1);
    handle.cancel();
    assert!(handle.wait().is_err());

    let env = environment("renamed", storage);
    env.from_source(SequenceSource::new(0..NUMBERS)).sink_to(CollectSink::<u64>::default());
    let error = text(&env.execute().unwrap_err());
    assert!(error.contains("state of operators that are not in the job: counter"), "{error}");
}

/// An error with its causes.
fn text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", text(source)),
        None => error.to_string(),
    }
}
