//! A job needs nothing around it: it can be started from asynchronous code, without checkpoints, from several sources.

use std::time::Duration;

use highwater::MemoryStateBackend;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::{Grants, Pace, Paced};
use crate::support::{assert_counted, count, environment, storage, wait_for_checkpoints, wait_until};

#[tokio::test]
async fn inside_a_tokio_runtime() {
    let env = environment("awaited", storage());
    let records = CollectedRecords::default();
    count(&env, 1_000, None, &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    assert_eq!(handle.await.unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, 1_000);
}

/// Contract: P293.
#[test]
fn without_periodic_checkpoints_the_last_rows_are_committed() {
    let env = StreamExecutionEnvironment::new("bounded");
    env.set_state_backend(MemoryStateBackend::new());
    let records = CollectedRecords::default();
    count(&env, 10, None, &records, |_| Ok(()));
    let result = env.execute().unwrap();
    assert_eq!(result.status.checkpoints_completed, 1);
    assert_counted(&records, 10);
}

/// Contract: P289.
#[test]
fn with_a_source_that_ends_long_before_the_other() {
    let env = environment("uneven", storage());
    let short = CollectedRecords::default();
    let long = CollectedRecords::default();
    env.from_source(SequenceSource::new(0..10)).uid("short").sink_to(CollectSink::new(short.clone())).uid("short-sink");
    let grants = Grants::new(400);
    let endures = Paced::new(SequenceSource::new(0..500), Some(Pace::Granted(grants.clone())));
    env.from_source(endures).uid("long").sink_to(CollectSink::new(long.clone())).uid("long-sink");
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 10);
    wait_until("the records of the source that has ended are visible", || short.len() == 10);
    assert!(long.len() < 500);
    grants.add_all();
    handle.wait().unwrap();
    assert_eq!((short.len(), long.len()), (10, 500));
}

#[test]
fn with_steps_of_different_parallelism() {
    let env = environment("shapes", storage());
    let records = CollectedRecords::default();
    env.set_parallelism(3);
    env.from_source(SequenceSource::new(0..1_000).with_splits(5))
        .filter(|number| number % 2 == 0)
        .rebalance()
        .map(|number| number / 2)
        .set_parallelism(2)
        .sink_to(CollectSink::new(records.clone()))
        .set_parallelism(4);
    env.execute().unwrap();
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, (0..500).collect::<Vec<u64>>());
}

#[test]
fn and_a_checkpoint_can_be_asked_for() {
    let env = environment("asked", storage());
    env.enable_checkpointing(Duration::from_secs(3_600));
    let records = CollectedRecords::default();
    let grants = Grants::new(500);
    count(&env, 1_000, Some(Pace::Granted(grants.clone())), &records, |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_until("a record is read", || handle.status().records_read > 0);
    handle.trigger_checkpoint();
    wait_for_checkpoints(&handle, 1);
    wait_until("what the checkpoint covers is visible", || !records.is_empty());
    assert!(records.len() < 1_000);
    grants.add_all();
    handle.wait().unwrap();
    assert_counted(&records, 1_000);
}
