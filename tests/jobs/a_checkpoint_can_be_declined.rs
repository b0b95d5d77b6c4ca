//! A function whose snapshot fails declines the checkpoint: the job goes on, as long as failures are tolerated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use highwater::checkpoint::{AttemptFailure, CheckpointFailure, DeclineReason};
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

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
    let JobError::Coordinator(AttemptFailure::TooManyFailedCheckpoints { failed, tolerated, failure, .. }) = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((*failed, *tolerated), (2, 1));
    let CheckpointFailure::Declined { reason: DeclineReason::SnapshotFailed, message } = failure else {
        panic!("{failure:?}");
    };
    assert!(message.ends_with("not now"), "{message}");
    assert!(records.is_empty());
}
