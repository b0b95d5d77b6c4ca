//! What an operator emits while a snapshot is prepared: where it goes, and what the snapshot holds.

use highwater_stream_api::Timestamp;

use super::subtask_test::{Fixture, Log};
use super::*;
use crate::batch::{AnyBatch, Batch};
use crate::channel::Barrier;
use crate::operator::{FrozenOperator, Operator, OperatorCounts};
use crate::operators::input::Input;

/// Adds numbers up, and emits the sum before a snapshot.
#[derive(Default)]
struct MiniBatch {
    input: Input<u64>,
    sum: u64,
    emitted: Vec<u64>,
    log: Log,
}

impl Operator for MiniBatch {
    fn open(&mut self, _: OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }

    fn accept(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        self.input.accept(batch)
    }

    fn run(&mut self, _: &Limits<'_>) -> Result<Ran, TaskError> {
        while let Some((number, _)) = self.input.next() {
            self.sum += number;
        }
        Ok(Ran::Done)
    }

    fn advance(&mut self, _: Timestamp, _: &Limits<'_>) -> Result<Ran, TaskError> {
        Ok(Ran::Done)
    }

    fn watermark(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn finish(&mut self) -> Result<(), TaskError> {
        Ok(())
    }

    fn take_output(&mut self) -> Option<Box<dyn AnyBatch>> {
        let emitted = std::mem::take(&mut self.emitted);
        let timestamps = vec![Timestamp::NONE; emitted.len()];
        (!emitted.is_empty()).then(|| Box::new(Batch::new(emitted, timestamps)) as Box<dyn AnyBatch>)
    }

    fn prepare_snapshot(&mut self, _: CheckpointId) -> Result<(), TaskError> {
        self.emitted.push(std::mem::take(&mut self.sum));
        Ok(())
    }

    fn freeze(&mut self, barrier: Barrier) -> Result<FrozenOperator, FreezeError> {
        self.log.lock().unwrap().push(format!("{} holds {}", barrier.checkpoint, self.sum));
        Ok(FrozenOperator::default())
    }

    fn counts(&self) -> OperatorCounts {
        OperatorCounts::default()
    }
}

/// Contract: G147.
#[test]
fn what_is_emitted_for_a_barrier_goes_before_it_and_is_not_in_the_snapshot() {
    for mode in [CheckpointingMode::ExactlyOnce, CheckpointingMode::AtLeastOnce] {
        let log = Log::default();
        let operator =
            |log: &Log| Box::new(MiniBatch { log: log.clone(), ..MiniBatch::default() }) as Box<dyn Operator>;
        // The second one gets the sums of the first one, also that of this barrier, before it is prepared itself.
        let operators = vec![("first", operator(&log)), ("second", operator(&log))];
        let mut fixture = Fixture::with_chain(mode, 1, 1 << 20, log.clone(), operators);
        fixture.records(0, &[1, 2, 3]).barrier(0, 1).records(0, &[4]).barrier(0, 2).records(0, &[5]);
        let (done, sent) = fixture.run();
        assert_eq!(
            done,
            ["running", "1 holds 0", "1 holds 0", "snapshot 1", "2 holds 0", "2 holds 0", "snapshot 2"],
            "{mode:?}"
        );
        assert_eq!(sent, ["6", "barrier 1 of 42", "4", "barrier 2 of 42"], "{mode:?}");
    }
}
