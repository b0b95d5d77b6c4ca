//! One subtask between hand-made channels: what it processes, sends and snapshots around a barrier.

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use highwater_state_api::{BoxedError, FunctionSnapshotContext, MaxParallelism, RowSettings};
use highwater_state_kit::HeapStateBackend;
use highwater_stream_api::{Collector, ProcessContext, ProcessFunction};

use super::*;
use crate::batch::{AnyBatch, Batch, downcast};
use crate::channel::{ChannelReceiver, ChannelSender, channel};
use crate::control::{ControlSender, control_lane};
use crate::operator::Operator;
use crate::operators::ProcessOperator;
use crate::output::RoundRobinOutput;

/// What the subtask has done, in order.
pub(super) type Log = Arc<Mutex<Vec<String>>>;

struct LoggingReports(Log);

impl Reports for LoggingReports {
    fn report(&self, report: Report) {
        let text = match report {
            Report::Running(_) => "running".to_owned(),
            Report::Ended(_) => "ended".to_owned(),
            Report::Settled(_, checkpoint) => format!("settled {checkpoint}"),
            Report::Declined(decline) => format!("declined {} {:?}", decline.checkpoint, decline.failure.reason),
            Report::Adopted(_) => "adopted".to_owned(),
            Report::Stopped(_) => "stopped".to_owned(),
            Report::SplitRequested(_) => "needs a split".to_owned(),
            other => panic!("{other:?}"),
        };
        self.0.lock().unwrap().push(text);
    }
}

struct LoggingExecutor(Log);

impl SnapshotExecutor for LoggingExecutor {
    fn submit(&self, snapshot: AsyncSnapshot) {
        let attempt =
            if snapshot.attempt > Attempt(1) { format!(" of attempt {}", snapshot.attempt) } else { String::new() };
        self.0.lock().unwrap().push(format!("snapshot {}{attempt}", snapshot.checkpoint));
    }
}

/// Passes numbers on and logs them, and what it hears of checkpoints.
struct LoggingFunction(Log);

impl LoggingFunction {
    fn log(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

impl ProcessFunction<u64> for LoggingFunction {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<(), BoxedError> {
        self.log(format!("record {number}"));
        out.collect(number);
        Ok(())
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.log(format!("complete {checkpoint}"));
        Ok(())
    }

    fn notify_checkpoint_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.log(format!("aborted {checkpoint}"));
        Ok(())
    }
}

pub(super) struct Fixture {
    pub(super) subtask: Subtask,
    inputs: Vec<ChannelSender>,
    output: ChannelReceiver,
    pub(super) control: ControlSender,
    log: Log,
}

impl Fixture {
    /// A subtask that passes numbers on from `inputs` channels and logs each.
    pub(super) fn new(inputs: usize, output_bytes_max: usize) -> Self {
        Self::with_mode(CheckpointingMode::ExactlyOnce, inputs, output_bytes_max)
    }

    pub(super) fn with_mode(mode: CheckpointingMode, inputs: usize, output_bytes_max: usize) -> Self {
        let log = Log::default();
        let operator = ProcessOperator::new(LoggingFunction(log.clone()));
        Self::with_chain(mode, inputs, output_bytes_max, log, vec![("operator", Box::new(operator))])
    }

    /// A subtask with these operators.
    pub(super) fn with_chain(
        mode: CheckpointingMode,
        inputs: usize,
        output_bytes_max: usize,
        log: Log,
        operators: Vec<(&str, Box<dyn Operator>)>,
    ) -> Self {
        let waker = || Waker::noop().clone();
        let (inputs, receivers): (Vec<_>, Vec<_>) = (0..inputs).map(|_| channel(1 << 20, waker(), waker())).unzip();
        let (send, output) = channel(output_bytes_max, waker(), waker());
        let (control, control_receiver) = control_lane(waker());
        let job = JobName::new("job").unwrap();
        let id = SubtaskId { task: 1, subtask: 0 };
        let operators = operators.into_iter().map(|(uid, operator)| (OperatorUid::new(uid).unwrap(), operator));
        let mut subtask = Subtask::new(SubtaskParts {
            job: job.clone(),
            attempt: Attempt(1),
            id,
            restored: None,
            mode,
            checkpoints_after_tasks_finish: true,
            gate: Gate::new(receivers),
            chain: Chain::new(operators.collect()),
            outputs: Outputs::new(vec![Box::new(RoundRobinOutput::new(vec![send]))]),
            control: control_receiver,
            reports: Box::new(LoggingReports(log.clone())),
            executor: Arc::new(LoggingExecutor(log.clone())),
            waker: waker(),
            metrics: Arc::default(),
        });
        let context = |uid: &OperatorUid| OperatorContext {
            job: job.clone(),
            attempt: Attempt(1),
            uid: uid.clone(),
            subtask: 0,
            parallelism: 1,
            max_parallelism: MaxParallelism::new(8).unwrap(),
            state_backend: Arc::new(HeapStateBackend::new()),
            row_settings: RowSettings { cached_rows_max: 0, hash_seed: 1 },
            now: Duration::ZERO,
            fence: Default::default(),
            restored_checkpoint: None,
            restored: None,
        };
        subtask.open(context).unwrap();
        Self { subtask, inputs, output, control, log }
    }

    pub(super) fn records(&self, channel: usize, records: &[u64]) -> &Self {
        let timestamps = vec![Timestamp::NONE; records.len()];
        self.inputs[channel].send(Element::Batch(Box::new(Batch::new(records.to_vec(), timestamps))));
        self
    }

    pub(super) fn barrier(&self, channel: usize, checkpoint: u64) -> &Self {
        let barrier = Barrier { checkpoint: CheckpointId(checkpoint), triggered_at_ms: 42 };
        self.inputs[channel].send(Element::Barrier(barrier));
        self
    }

    pub(super) fn end(&self, channel: usize) -> &Self {
        self.inputs[channel].send(Element::End);
        self
    }

    /// Steps until there is nothing more to do. Returns what was done, and then what was sent.
    pub(super) fn run(&mut self) -> (Vec<String>, Vec<String>) {
        self.run_at(Duration::ZERO)
    }

    pub(super) fn run_at(&mut self, now: Duration) -> (Vec<String>, Vec<String>) {
        for _ in 0..1_000_000 {
            if self.subtask.step(now, 2).unwrap() != Step::Progress {
                let done = std::mem::take(&mut *self.log.lock().unwrap());
                return (done, self.sent());
            }
        }
        panic!("the subtask never comes to rest");
    }

    fn sent(&self) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some(element) = self.output.receive() {
            match element {
                Element::Batch(batch) => {
                    sent.extend(downcast::<u64>(batch).unwrap().into_content().records.iter().map(u64::to_string));
                }
                Element::Watermark(watermark) => sent.push(format!("watermark {watermark}")),
                Element::Barrier(barrier) => {
                    sent.push(format!("barrier {} of {}", barrier.checkpoint, barrier.triggered_at_ms));
                }
                Element::CancelMarker(checkpoint) => sent.push(format!("cancel {checkpoint}")),
                Element::End => sent.push("end".to_owned()),
            }
        }
        sent
    }
}

/// Contract: G135.
#[test]
fn a_channel_waits_behind_its_barrier_until_all_barriers_have_come() {
    let mut fixture = Fixture::new(2, 1 << 20);
    fixture.records(0, &[1, 2, 3]).barrier(0, 7).records(0, &[4]);
    fixture.records(1, &[10]);
    let (done, sent) = fixture.run();
    assert_eq!(done, ["running", "record 1", "record 2", "record 3", "record 10"]);
    assert_eq!(sent, ["1", "2", "3", "10"]);

    fixture.records(1, &[11]).barrier(1, 7).records(1, &[12]);
    let (done, sent) = fixture.run();
    assert_eq!(done[..2], ["record 11", "snapshot 7"]);
    assert_eq!(sent[..2], ["11", "barrier 7 of 42"]);
    assert_eq!(done.len(), 4, "{done:?}");
}

/// Contract: G135.
/// Field case: R03.
#[test]
fn what_waits_behind_a_barrier_is_bounded_by_its_channel() {
    const RECORDS: u64 = 3_000;
    let record = |number| Batch::new(vec![number; 128], vec![Timestamp::NONE; 128]); // of 1 KiB
    let record_bytes = record(0).estimated_bytes();
    assert!(record_bytes >= 1_024);
    let mut fixture = Fixture::new(2, 64 << 20);
    fixture.barrier(0, 7);
    let mut sent = 0;
    let mut send_some = |fixture: &Fixture| {
        let before = sent;
        while sent < RECORDS && !fixture.inputs[0].is_full() {
            fixture.inputs[0].send(Element::Batch(Box::new(record(sent))));
            sent += 1;
        }
        (sent - before) as usize
    };
    let mut held = 0;
    for _ in 0..10 {
        held += send_some(&fixture);
        let (done, _) = fixture.run();
        assert!(done.iter().all(|done| done == "running"), "the channel is not blocked: {done:?}");
    }
    assert!(held * record_bytes >= 1 << 20 && (held - 1) * record_bytes < 1 << 20, "{held} records are held");

    fixture.barrier(1, 7);
    let mut seen = Vec::new();
    loop {
        let (done, _) = fixture.run();
        let is_over = done.is_empty() && send_some(&fixture) == 0;
        seen.extend(done);
        if is_over {
            break;
        }
    }
    assert_eq!(seen.remove(0), "snapshot 7");
    let expected = (0..RECORDS).flat_map(|number| std::iter::repeat_n(format!("record {number}"), 128));
    assert!(seen.into_iter().eq(expected), "records are missing or out of order");
    fixture.barrier(1, 8).barrier(0, 8);
    assert_eq!(fixture.run().0, ["snapshot 8"]);
}

/// Contract: G137.
#[test]
fn the_barrier_of_a_newer_checkpoint_abandons_the_older_one() {
    let mut fixture = Fixture::new(2, 1 << 20);
    fixture.barrier(0, 1).records(0, &[1]);
    fixture.records(1, &[2]).barrier(1, 2).records(1, &[3]);
    let (done, sent) = fixture.run();
    assert_eq!(done[1..], ["record 2", "declined 1 DeclinedSubsumed", "record 1"], "{done:?}");
    assert_eq!(sent, ["2", "cancel 1", "1"]);
    fixture.barrier(0, 2);
    let (done, sent) = fixture.run();
    assert_eq!(done, ["snapshot 2", "record 3"]);
    assert_eq!(sent, ["barrier 2 of 42", "3"]);
}

/// Contract: H152, H153.
#[test]
fn at_least_once_no_channel_waits_and_the_snapshot_is_taken_with_the_last_barrier() {
    let mut fixture = Fixture::with_mode(CheckpointingMode::AtLeastOnce, 2, 1 << 20);
    fixture.barrier(0, 1).records(0, &[1]).barrier(0, 2).records(0, &[2]);
    let (done, sent) = fixture.run();
    assert_eq!(done, ["running", "record 1", "record 2"]);
    assert_eq!(sent, ["1", "2"]);
    fixture.records(1, &[10]).barrier(1, 2).records(1, &[11]);
    let (done, sent) = fixture.run();
    assert_eq!(done, ["record 10", "declined 1 DeclinedSubsumed", "snapshot 2", "record 11"]);
    assert_eq!(sent, ["10", "cancel 1", "barrier 2 of 42", "11"]);
}

/// Contract: G148.
#[test]
fn a_marker_from_upstream_is_passed_on_and_declined_once() {
    for mode in [CheckpointingMode::ExactlyOnce, CheckpointingMode::AtLeastOnce] {
        let mut fixture = Fixture::with_mode(mode, 2, 1 << 20);
        fixture.barrier(0, 1).records(0, &[1]);
        fixture.run();
        fixture.inputs[1].send(Element::CancelMarker(CheckpointId(1)));
        fixture.inputs[1].send(Element::CancelMarker(CheckpointId(1)));
        let (mut done, mut sent) = fixture.run();
        done.retain(|done| done != "record 1");
        sent.retain(|sent| sent != "1");
        assert_eq!(done, ["declined 1 DeclinedOnCancellationBarrier"], "{mode:?}");
        assert_eq!(sent, ["cancel 1"], "{mode:?}");
        fixture.barrier(1, 1).barrier(0, 2).barrier(1, 2);
        assert_eq!(fixture.run(), (vec!["snapshot 2".to_owned()], vec!["barrier 2 of 42".to_owned()]), "{mode:?}");
    }
}

/// Contract: G149.
#[test]
fn a_checkpoint_that_was_aborted_before_its_barrier_only_gets_a_marker() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.control.send(Control::Aborted { checkpoint: CheckpointId(1), latest_complete: None });
    fixture.run();
    fixture.records(0, &[1]).barrier(0, 1).records(0, &[2]);
    assert_eq!(
        fixture.run(),
        (vec!["record 1".to_owned(), "record 2".to_owned()], ["1", "cancel 1", "2"].map(str::to_owned).to_vec())
    );
}

#[test]
fn an_aborted_checkpoint_lets_the_channels_go() {
    let mut fixture = Fixture::new(2, 1 << 20);
    fixture.barrier(0, 1).records(0, &[1]);
    fixture.run();
    fixture.control.send(Control::Aborted { checkpoint: CheckpointId(1), latest_complete: None });
    let (done, sent) = fixture.run();
    assert_eq!(done, ["record 1"]);
    assert_eq!(sent, ["cancel 1", "1"]);
}

/// Contract: O285, O286.
#[test]
fn whoever_hears_of_an_abort_hears_of_the_newest_complete_checkpoint_first() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.barrier(0, 1).barrier(0, 2);
    fixture.run();
    let aborted = |checkpoint, latest| Control::Aborted {
        checkpoint: CheckpointId(checkpoint),
        latest_complete: Some(CheckpointId(latest)),
    };
    fixture.control.send(aborted(2, 1));
    assert_eq!(fixture.run().0, ["complete 1", "aborted 2"]);
    fixture.control.send(aborted(3, 1));
    assert_eq!(fixture.run().0, [""; 0], "what was heard is not repeated");
}

/// Notes its snapshots and what it hears of them, and declines checkpoint 1 if it is to.
struct Noting {
    name: &'static str,
    declines: bool,
    log: Log,
}

impl Noting {
    fn note(&self, what: &str, checkpoint: CheckpointId) {
        self.log.lock().unwrap().push(format!("{} {what} {checkpoint}", self.name));
    }
}

impl ProcessFunction<u64> for Noting {
    type Out = u64;

    fn process(&mut self, _: u64, _: &mut ProcessContext<'_>, _: &mut Collector<u64>) -> Result<(), BoxedError> {
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        if self.declines && cx.checkpoint() == CheckpointId(1) {
            return Err("not now".into());
        }
        self.note("snapshots", cx.checkpoint());
        Ok(())
    }

    fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.note("hears of the end of", checkpoint);
        Ok(())
    }

    fn notify_checkpoint_aborted(&mut self, checkpoint: CheckpointId) -> Result<(), BoxedError> {
        self.note("hears of the abort of", checkpoint);
        Ok(())
    }
}

/// Those before it have taken their snapshots, and keep what goes with them until they hear of it.
///
/// Contract: L235.
#[test]
fn a_chain_hears_of_the_abort_of_a_checkpoint_that_one_of_its_operators_has_declined() {
    let heard = |end: &[Control]| {
        let log = Log::default();
        let noting = |name, declines| -> (&str, Box<dyn Operator>) {
            (name, Box::new(ProcessOperator::new(Noting { name, declines, log: log.clone() })))
        };
        let operators = vec![noting("first", false), noting("second", true)];
        let mut fixture = Fixture::with_chain(CheckpointingMode::ExactlyOnce, 1, 1 << 20, log.clone(), operators);
        fixture.barrier(0, 1);
        assert_eq!(fixture.run().0, ["running", "first snapshots 1", "declined 1 Declined"]);
        fixture.barrier(0, 2);
        assert_eq!(fixture.run().0, ["first snapshots 2", "second snapshots 2", "snapshot 2"]);
        end.iter().for_each(|message| fixture.control.send(message.clone()));
        fixture.run().0
    };
    let aborted = ["first hears of the abort of 1", "second hears of the abort of 1"];
    let abort = || Control::Aborted { checkpoint: CheckpointId(1), latest_complete: None };
    assert_eq!(heard(&[abort(), abort()]), aborted);
    // The notification may be lost: the end of a later one stands for it.
    let completed = ["first hears of the end of 2", "second hears of the end of 2"];
    assert_eq!(heard(&[Control::Complete(CheckpointId(2))]), [aborted, completed].concat());
}

#[test]
fn nothing_is_begun_while_the_output_is_full() {
    let mut fixture = Fixture::new(1, 1);
    fixture.records(0, &[1, 2, 3, 4]);
    let (done, _) = fixture.run();
    assert_eq!(done, ["running", "record 1", "record 2"], "a step goes to the end of its budget, and no further");
    let (done, _) = fixture.run();
    assert_eq!(done, ["record 3", "record 4"]);
}

#[test]
fn an_ended_subtask_still_takes_checkpoints_and_says_when_it_has_settled_them() {
    let mut fixture = Fixture::new(2, 1 << 20);
    fixture.records(0, &[1]);
    fixture.inputs[0].send(Element::End);
    fixture.inputs[1].send(Element::Watermark(Timestamp::from_millis(5)));
    let (done, sent) = fixture.run();
    assert_eq!(done, ["running", "record 1"]);
    assert_eq!(sent, ["1", "watermark 5"], "a channel that has ended holds no watermark back");
    fixture.inputs[1].send(Element::End);
    assert_eq!(fixture.run(), (vec!["ended".to_owned()], vec!["watermark max".to_owned(), "end".to_owned()]));
    fixture.barrier(0, 3).barrier(1, 3);
    assert_eq!(fixture.run(), (vec!["snapshot 3".to_owned()], vec!["barrier 3 of 42".to_owned()]));
    for _ in 0..2 {
        fixture.control.send(Control::Complete(CheckpointId(3)));
        let (mut done, _) = fixture.run();
        done.retain(|done| done != "complete 3");
        assert_eq!(done, ["settled 3"], "a notification may be repeated because its answer was lost");
    }
    fixture.control.send(Control::Cancel);
    assert_eq!(fixture.run().0, ["stopped"]);
}

/// Adds up what comes, and logs the sum in each snapshot.
struct Summing {
    sum: u64,
    log: Log,
}

impl ProcessFunction<u64> for Summing {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, _: &mut Collector<u64>) -> Result<(), BoxedError> {
        self.sum += number;
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<(), BoxedError> {
        self.log.lock().unwrap().push(format!("sum {} in {}", self.sum, cx.checkpoint()));
        Ok(())
    }
}

/// Contract: G138, G139.
/// Field case: R01.
#[test]
fn the_end_of_one_input_lets_the_other_one_go_whether_it_counts_as_a_barrier_or_not() {
    for (enabled, of_the_fifth) in
        [(true, ["sum 22 in 5", "snapshot 5"].as_slice()), (false, ["declined 5 DeclinedInputEndOfStream"].as_slice())]
    {
        let log = Log::default();
        let summing = ProcessOperator::new(Summing { sum: 0, log: log.clone() });
        let operators: Vec<(&str, Box<dyn Operator>)> = vec![("operator", Box::new(summing))];
        let mut fixture = Fixture::with_chain(CheckpointingMode::ExactlyOnce, 2, 1 << 20, log, operators);
        fixture.subtask.barriers =
            BarrierHandler::new(CheckpointingMode::ExactlyOnce, 2).with_checkpoints_after_tasks_finish(enabled);
        fixture.records(0, &[1]).barrier(0, 5).records(0, &[2]);
        fixture.records(1, &[10, 11]);
        assert_eq!(fixture.run().0, ["running"]);
        fixture.inputs[1].send(Element::End);
        assert_eq!(fixture.run().0, of_the_fifth, "{enabled}");
        fixture.barrier(0, 6);
        assert_eq!(fixture.run().0, ["sum 24 in 6", "snapshot 6"], "{enabled}");
    }
}

fn trigger(checkpoint: u64) -> Control {
    Control::Trigger { checkpoint: CheckpointId(checkpoint), triggered_at_ms: 42 }
}

/// Contract: G151.
#[test]
fn whoever_has_only_finished_inputs_takes_a_checkpoint_when_told_and_sends_its_barrier() {
    for mode in [CheckpointingMode::ExactlyOnce, CheckpointingMode::AtLeastOnce] {
        let mut fixture = Fixture::with_mode(mode, 2, 1 << 20);
        fixture.inputs[0].send(Element::End);
        fixture.run();
        // What is behind in the other channel is taken in its turn: the trigger blocks nothing.
        fixture.records(1, &[1]);
        fixture.control.send(trigger(3));
        let (done, sent) = fixture.run();
        assert_eq!(done, ["snapshot 3", "record 1"], "{mode:?}");
        assert_eq!(sent, ["barrier 3 of 42", "1"], "{mode:?}");
        fixture.inputs[1].send(Element::End);
        fixture.run();
        fixture.control.send(trigger(4));
        assert_eq!(fixture.run(), (vec!["snapshot 4".to_owned()], vec!["barrier 4 of 42".to_owned()]), "{mode:?}");
    }
}

/// It is like a barrier: a batch is not cut by it.
#[test]
fn a_trigger_waits_for_the_batch_that_is_in_work() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.records(0, &[1, 2, 3]);
    assert_eq!(fixture.subtask.step(Duration::ZERO, 2).unwrap(), Step::Progress);
    fixture.control.send(trigger(3));
    let (done, sent) = fixture.run();
    assert_eq!(done, ["running", "record 1", "record 2", "record 3", "snapshot 3"]);
    assert_eq!(sent, ["1", "2", "3", "barrier 3 of 42"]);
}

/// Contract: L237.
#[test]
fn whoever_is_about_to_go_declines_what_it_is_told_to_take() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.inputs[0].send(Element::End);
    fixture.run();
    fixture.control.send(Control::Finish);
    fixture.control.send(trigger(3));
    let (done, sent) = fixture.run();
    assert_eq!(done, ["declined 3 DeclinedTaskClosing", "stopped"]);
    assert_eq!(sent, [""; 0]);
}
