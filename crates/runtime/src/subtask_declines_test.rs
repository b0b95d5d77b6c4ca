//! What a subtask declines, and what it measures of the checkpoints that it takes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater_checkpoint::CheckpointMetrics;
use highwater_state_api::BoxedError;
use highwater_stream_api::{Collector, PollContext, Polled, SourceReader};

use super::subtask_test::{Fixture, Log};
use super::*;
use crate::batch::{AnyBatch, Batch};
use crate::operator::Operator;
use crate::operators::SourceOperator;

const MODES: [CheckpointingMode; 2] = [CheckpointingMode::ExactlyOnce, CheckpointingMode::AtLeastOnce];

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn trigger(checkpoint: u64) -> Control {
    Control::Trigger { checkpoint: CheckpointId(checkpoint), triggered_at_ms: 42 }
}

struct Measuring(Arc<Mutex<Vec<CheckpointMetrics>>>);

impl SnapshotExecutor for Measuring {
    fn submit(&self, snapshot: AsyncSnapshot) {
        self.0.lock().unwrap().push(snapshot.metrics);
    }
}

/// Contract: G134, G136.
#[test]
fn a_snapshot_says_how_long_its_alignment_took_and_how_much_was_processed_meanwhile() {
    for mode in MODES {
        let mut fixture = Fixture::with_mode(mode, 3, 1 << 20);
        let measured = Arc::default();
        fixture.subtask.parts.executor = Arc::new(Measuring(Arc::clone(&measured)));
        let size = Batch::new(vec![4u64, 5], vec![Timestamp::NONE; 2]).estimated_bytes() as u64;
        fixture.records(0, &[1, 2, 3]); // before the first barrier nothing counts
        fixture.run_at(at(1));
        fixture.barrier(1, 1);
        fixture.run_at(at(10));
        fixture.records(0, &[4, 5]).records(2, &[4, 5]).records(0, &[4, 5]);
        fixture.run_at(at(20));
        fixture.barrier(0, 1).barrier(2, 1);
        fixture.run_at(at(40));
        // Nothing is left of the alignment.
        fixture.records(0, &[6]);
        fixture.run_at(at(45));
        fixture.barrier(0, 2).barrier(1, 2).barrier(2, 2);
        fixture.run_at(at(50));
        let expected = CheckpointMetrics {
            bytes_processed_during_alignment: 3 * size,
            alignment_duration: at(30),
            ..CheckpointMetrics::default()
        };
        assert_eq!(*measured.lock().unwrap(), [expected, CheckpointMetrics::default()], "{mode:?}");

        let mut single = Fixture::with_mode(mode, 1, 1 << 20);
        let measured = Arc::default();
        single.subtask.parts.executor = Arc::new(Measuring(Arc::clone(&measured)));
        single.records(0, &[1]).barrier(0, 1).records(0, &[2]).barrier(0, 2);
        single.run_at(at(9));
        assert_eq!(*measured.lock().unwrap(), [CheckpointMetrics::default(); 2], "{mode:?}");
    }
}

#[test]
fn barriers_that_do_not_come_in_time_free_the_channels_that_wait_for_them() {
    for mode in MODES {
        let mut fixture = Fixture::with_mode(mode, 2, 1 << 20);
        fixture.subtask = fixture.subtask.with_alignment_timeout(at(600));
        fixture.run_at(at(0));
        fixture.barrier(0, 1);
        fixture.run_at(at(100));
        assert_eq!(fixture.subtask.step(at(699), 2).unwrap(), Step::Waits(Some(at(700))), "{mode:?}");
        let timed_out = (vec!["declined 1 DeclinedTimeOut".to_owned()], vec!["cancel 1".to_owned()]);
        assert_eq!(fixture.run_at(at(700)), timed_out, "{mode:?}");
        assert_eq!(fixture.subtask.step(at(701), 2).unwrap(), Step::Waits(None), "{mode:?}");
        // The channel is free, the late barrier means nothing, and the next checkpoint is taken.
        fixture.records(0, &[1]).barrier(1, 1).barrier(0, 2).barrier(1, 2);
        let (done, sent) = fixture.run_at(at(800));
        assert_eq!(done, ["record 1", "snapshot 2"], "{mode:?}");
        assert_eq!(sent, ["1", "barrier 2 of 42"], "{mode:?}");
    }
}

#[test]
fn a_subtask_that_still_settles_what_it_was_restored_with_is_not_ready() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.run();
    fixture.subtask.stage = Stage::Opened;
    fixture.barrier(0, 1);
    assert_eq!(
        fixture.run(),
        (vec!["declined 1 DeclinedTaskNotReady".to_owned()], vec!["cancel 1".to_owned()]),
        "nobody downstream waits for its barrier"
    );
}

/// Contract: L237.
#[test]
fn a_subtask_that_was_told_to_stop_declines_what_it_is_still_asked_for() {
    let mut fixture = Fixture::new(0, 1 << 20);
    for message in [Control::Cancel, trigger(1), Control::Complete(CheckpointId(1)), trigger(2)] {
        fixture.control.send(message);
    }
    let (done, sent) = fixture.run();
    assert_eq!(done, ["running", "declined 1 DeclinedTaskClosing", "declined 2 DeclinedTaskClosing", "stopped"]);
    assert_eq!(sent, [""; 0]);
}

/// Has nothing to read.
struct Empty;

impl SourceReader for Empty {
    type Out = u64;
    type Split = u64;

    fn add_split(&mut self, _: u64) -> Result<(), BoxedError> {
        Ok(())
    }

    fn poll(&mut self, _: &PollContext<'_>, _: &mut Collector<u64>) -> Result<Polled, BoxedError> {
        Ok(Polled::NeedSplit)
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<u64>, BoxedError> {
        Ok(Vec::new())
    }
}

/// Contract: U358.
#[test]
fn a_source_that_pauses_until_the_first_checkpoint_does_not_even_ask_for_a_split_before_it_was_snapshotted() {
    for pauses in [false, true] {
        let log = Log::default();
        let source: Box<dyn Operator> = Box::new(SourceOperator::new(Empty));
        let mut fixture =
            Fixture::with_chain(CheckpointingMode::ExactlyOnce, 0, 1 << 20, log, vec![("source", source)]);
        fixture.subtask = fixture.subtask.with_paused_source(pauses);
        assert_eq!(fixture.run().0, if pauses { vec!["running"] } else { vec!["running", "needs a split"] });
        fixture.control.send(trigger(1));
        assert_eq!(fixture.run().0, if pauses { vec!["snapshot 1", "needs a split"] } else { vec!["snapshot 1"] });
    }
}
