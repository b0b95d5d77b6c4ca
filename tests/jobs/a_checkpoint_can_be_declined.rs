//! A snapshot that fails, in a function or because a value cannot be written, declines the checkpoint: the job goes on, as
//! long as failures are tolerated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use highwater::checkpoint::{AttemptFailure, CheckpointFailureReason};
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use serde::{Deserialize, Serialize, Serializer};

use crate::pace::{Pace, Paced};
use crate::support::{environment, storage};

/// Passes numbers on and refuses the first `refusals` snapshots.
struct Refusing {
    refusals: Arc<AtomicU32>,
}

impl KeyedProcessFunction<u64, u64> for Refusing {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, _: &mut dyn FunctionSnapshotContext) -> Result<()> {
        let left = self.refusals.load(Ordering::SeqCst);
        if left > 0 {
            self.refusals.store(left - 1, Ordering::SeqCst);
            return Err("not now".into());
        }
        Ok(())
    }
}

fn run(refusals: u32, tolerated: u32, records: &CollectedRecords<u64>) -> Result<JobResult, JobError> {
    let env = environment("declining", storage());
    env.set_restart_strategy(RestartStrategy::None).set_tolerable_checkpoint_failures(tolerated);
    let refusals = Arc::new(AtomicU32::new(refusals));
    env.from_source(SequenceSource::new(0..1_000))
        .key_by(|number| number)
        .process(move || Refusing { refusals: refusals.clone() })
        .uid("refusing")
        .sink_to(CollectSink::new(records.clone()));
    env.execute()
}

#[test]
fn and_the_job_goes_on() {
    let records = CollectedRecords::default();
    let result = run(2, 2, &records).unwrap();
    assert_eq!((result.status.checkpoints_failed, result.status.restarts), (2, 0));
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, (0..1_000).collect::<Vec<u64>>());
}

/// Contract: L226.
#[test]
fn and_too_many_refusals_end_the_attempt() {
    let records = CollectedRecords::default();
    let error = run(2, 1, &records).unwrap_err();
    let JobError::Coordinator(AttemptFailure::TooManyFailedCheckpoints { failed, tolerated, failure, .. }) =
        error.cause()
    else {
        panic!("{error:?}");
    };
    assert_eq!((*failed, *tolerated), (2, 1));
    assert_eq!(failure.reason, CheckpointFailureReason::Declined);
    let message = &failure.message;
    assert!(message.ends_with("not now"), "{message}");
    assert!(records.is_empty());
}

/// A number that can be written unless it is `u64::MAX`.
#[derive(Clone, Deserialize)]
struct Picky(u64);

impl Serialize for Picky {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        if self.0 == u64::MAX {
            return Err(serde::ser::Error::custom("this number is not written"));
        }
        serializer.serialize_newtype_struct("Picky", &self.0)
    }
}

const KEYS: u64 = 7;

/// Keeps the latest number of each key, or from `bad_from` on one that cannot be written.
struct Latest {
    latest: ValueState<Picky>,
    bad_from: u64,
}

impl KeyedProcessFunction<u64, u64> for Latest {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.latest = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("latest"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        // The first 1,024 values of a state are checked when they are stored: let them be over with the first record of a key.
        for _ in 0..if number < KEYS { 1_024 } else { 1 } {
            self.latest.update(cx, Picky(if number < self.bad_from { number } else { u64::MAX }))?;
        }
        out.collect(number);
        Ok(())
    }
}

/// Only the first values of a state, and then one in thousands, are checked when they are stored.
#[test]
fn because_a_value_cannot_be_written_and_nothing_is_lost() {
    let storage = storage();
    let records = CollectedRecords::default();
    let start = |bad_from: u64| {
        let env = environment("unwritable", storage.clone());
        env.set_restart_strategy(RestartStrategy::None).set_tolerable_checkpoint_failures(1);
        env.from_source(Paced::new(SequenceSource::new(0..2_000), Some(Pace::PerCheckpoint(100))))
            .key_by_value(|number| number % KEYS)
            .process(move || Latest { latest: ValueState::default(), bad_from })
            .uid("latest-number")
            .sink_to(CollectSink::new(records.clone()));
        env.execute()
    };
    let error = start(1_000).unwrap_err();
    let JobError::Coordinator(AttemptFailure::TooManyFailedCheckpoints { failure, .. }) = error.cause() else {
        panic!("{error:?}");
    };
    assert_eq!(failure.reason, CheckpointFailureReason::AsyncException);
    let message = &failure.message;
    assert!(message.contains(r#"operator latest-number"#) && message.contains(r#"state "latest""#), "{message}");
    assert!(message.ends_with("this number is not written"), "{message}");
    assert!(records.len() <= 1_000, "a record was committed with a value that cannot be restored");

    let result = start(u64::MAX).unwrap();
    assert!(result.status.restored_from.is_some());
    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, Vec::from_iter(0..2_000));
}
