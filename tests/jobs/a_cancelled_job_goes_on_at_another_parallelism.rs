//! A job that was stopped goes on from its last checkpoint, whatever its parallelism is then; a finished one does nothing.

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::Pace;
use crate::support::{
    NEVER, assert_counted, assert_counted_by, count, count_by, environment, storage, take_checkpoints, text,
    wait_for_checkpoints, wait_until,
};

const NUMBERS: u64 = 4_000;
/// So many that every key group has some.
const KEYS: u64 = 1_000;

/// Contract: F128, O273.
#[test]
fn up_and_down() {
    let storage = storage();
    let records = CollectedRecords::default();
    let mut last = None;
    for (round, parallelism) in [1, 4, 2, 3].into_iter().enumerate() {
        let env = environment("rescaled", storage.clone());
        env.enable_checkpointing(NEVER).set_parallelism(parallelism);
        count_by(&env, KEYS, NUMBERS, Some(Pace::up_to(NUMBERS / 5)), &records, |_| Ok(()));
        let handle = env.execute_async().unwrap();
        wait_until("the numbers of this round are read", || handle.status().records_read == NUMBERS / 5);
        take_checkpoints(&handle, 3);
        let counted = NUMBERS / 5 * (round as u64 + 1);
        wait_until("the numbers of this round are counted", || records.len() as u64 == counted);
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
    count_by(&env, KEYS, NUMBERS, None, &records, |_| Ok(()));
    let result = env.execute().unwrap();
    assert_eq!(result.status.restored_from, last);
    assert_counted_by(KEYS, &records, NUMBERS);

    let env = environment("rescaled", storage);
    count_by(&env, KEYS, NUMBERS, None, &records, |_| panic!("a finished job reads nothing"));
    assert_eq!(env.execute().unwrap().outcome, JobOutcome::AlreadyFinished);
    assert_counted_by(KEYS, &records, NUMBERS);
}

/// Contract: F130, F131.
#[test]
fn the_number_of_key_groups_of_the_first_start_stays() {
    let storage = storage();
    let records = CollectedRecords::default();
    let env = environment("key-groups", storage.clone());
    env.set_max_parallelism(8);
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
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
    count(&env, NUMBERS, Some(Pace::up_to(NUMBERS / 2)), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    // Only then is it certain that the counter has state in a checkpoint.
    wait_until("something that was counted is committed", || !records.is_empty());
    handle.cancel();
    assert!(handle.wait().is_err());

    let env = environment("renamed", storage);
    env.from_source(SequenceSource::new(0..NUMBERS)).sink_to(CollectSink::<u64>::default());
    let error = text(&env.execute().unwrap_err());
    assert!(error.contains("state of operators that are not in the job: counter"), "{error}");
}
