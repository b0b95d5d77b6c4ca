//! What every sink with two-phase commit must do, as plain functions over a target that any sink can be made for.

use std::fmt::Debug;

use highwater_state_api::{Attempt, CheckpointId, JobName, OperatorUid};
use highwater_stream_api::{CommitError, Sink, SinkContext, SinkStart, SinkWriter, Timestamp};
use tempfile::TempDir;

use crate::support_test::through_a_checkpoint;
use crate::{CollectSink, CollectedRecords, FileSink};

/// A place that sinks write to.
struct Target<'a, S> {
    /// A new sink for the same place, as a restarted process would make it.
    new_sink: &'a dyn Fn() -> S,
    /// What a reader of the place sees, sorted.
    visible: &'a dyn Fn() -> Vec<String>,
}

fn uid() -> OperatorUid {
    OperatorUid::new("sink").unwrap()
}

fn job() -> JobName {
    JobName::new("sink-cases").unwrap()
}

/// Starts an attempt of one subtask.
fn start<S: Sink>(sink: &S, attempt: u64, subtask: u32, restored: Option<u64>) -> S::Writer {
    let restored = restored.map(CheckpointId);
    sink.start(&SinkStart { job: &job(), operator: &uid(), attempt: Attempt(attempt), restored }).unwrap();
    writer(sink, attempt, subtask)
}

fn writer<S: Sink>(sink: &S, attempt: u64, subtask: u32) -> S::Writer {
    sink.create_writer(&SinkContext { job: job(), attempt: Attempt(attempt), subtask, parallelism: 2 }).unwrap()
}

fn write<W: SinkWriter<In = String>>(writer: &mut W, records: &[&str]) {
    for record in records {
        writer.write((*record).to_owned(), Timestamp::NONE).unwrap();
    }
}

fn prepare<W: SinkWriter>(writer: &mut W, checkpoint: u64) -> Option<W::Transaction> {
    writer.prepare_commit(CheckpointId(checkpoint)).unwrap()
}

fn nothing_is_visible_before_its_commit<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 1, 0, None);
    write(&mut writer, &["a", "b"]);
    assert!((target.visible)().is_empty(), "after the writes");
    let first = prepare(&mut writer, 1).unwrap();
    write(&mut writer, &["c"]);
    assert!((target.visible)().is_empty(), "after the prepare");
    sink.commit(&first).unwrap();
    assert_eq!((target.visible)(), ["a", "b"]);
}

fn an_empty_transaction_is_none<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 1, 0, None);
    assert!(prepare(&mut writer, 1).is_none());
    write(&mut writer, &["a"]);
    sink.commit(&prepare(&mut writer, 2).unwrap()).unwrap();
    assert!(prepare(&mut writer, 3).is_none());
    assert_eq!((target.visible)(), ["a"]);
}

fn a_commit_is_idempotent<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 1, 0, None);
    write(&mut writer, &["a"]);
    let transaction = prepare(&mut writer, 1).unwrap();
    for _ in 0..3 {
        sink.commit(&transaction).unwrap();
        (target.new_sink)().commit(&through_a_checkpoint(&transaction)).unwrap();
    }
    assert_eq!((target.visible)(), ["a"]);
}

fn a_transaction_outlives_its_writer<S: Sink<In = String>>(target: &Target<S>) {
    let transaction = {
        let sink = (target.new_sink)();
        let mut writer = start(&sink, 3, 0, None);
        write(&mut writer, &["kept"]);
        let transaction = prepare(&mut writer, 1).unwrap();
        write(&mut writer, &["lost"]);
        through_a_checkpoint(&transaction)
    };
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 5, 0, Some(1));
    sink.commit(&transaction).unwrap();
    sink.abort_earlier_attempts(Attempt(5)).unwrap();
    write(&mut writer, &["replayed"]);
    sink.commit(&prepare(&mut writer, 2).unwrap()).unwrap();
    assert_eq!((target.visible)(), ["kept", "replayed"]);
}

fn a_transaction_that_was_not_restored_is_never_seen<S: Sink<In = String>>(target: &Target<S>) {
    let first = {
        let sink = (target.new_sink)();
        let mut writer = start(&sink, 1, 0, None);
        write(&mut writer, &["42"]);
        let first = prepare(&mut writer, 1).unwrap();
        sink.commit(&first).unwrap();
        write(&mut writer, &["43"]);
        prepare(&mut writer, 2).unwrap(); // its checkpoint never completes
        write(&mut writer, &["44"]);
        first
    };
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 2, 0, Some(1));
    sink.commit(&first).unwrap();
    sink.abort_earlier_attempts(Attempt(2)).unwrap();
    assert_eq!((target.visible)(), ["42"]);
    write(&mut writer, &["43", "44"]);
    sink.commit(&prepare(&mut writer, 2).unwrap()).unwrap();
    assert_eq!((target.visible)(), ["42", "43", "44"]);
}

fn subtasks_and_attempts_never_meet<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    sink.start(&SinkStart { job: &job(), operator: &uid(), attempt: Attempt(1), restored: None }).unwrap();
    let mut transactions = Vec::new();
    for attempt in 1..4 {
        let mut writers: Vec<S::Writer> = (0..3).map(|subtask| writer(&sink, attempt, subtask)).collect();
        for checkpoint in 1..4 {
            for (subtask, writer) in writers.iter_mut().enumerate() {
                write(writer, &[&format!("{attempt}-{subtask}-{checkpoint}")]);
                transactions.push(prepare(writer, checkpoint).unwrap());
            }
        }
    }
    transactions.iter().rev().for_each(|transaction| sink.commit(transaction).unwrap());
    assert_eq!((target.visible)().len(), 27);
    assert_eq!((target.visible)()[26], "3-2-3");
}

fn transactions_of_an_aborted_checkpoint_are_committed_by_a_later_one<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 1, 0, None);
    write(&mut writer, &["a"]);
    let first = prepare(&mut writer, 1).unwrap();
    write(&mut writer, &["b"]);
    let second = prepare(&mut writer, 2).unwrap();
    sink.commit(&first).unwrap();
    sink.commit(&second).unwrap();
    assert_eq!((target.visible)(), ["a", "b"]);
}

fn a_fresh_start_refuses_what_another_run_has_committed<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 1, 0, None);
    write(&mut writer, &["a"]);
    sink.commit(&prepare(&mut writer, 1).unwrap()).unwrap();
    for attempt in [1, 2, 9] {
        let fresh = SinkStart { job: &job(), operator: &uid(), attempt: Attempt(attempt), restored: None };
        let error = (target.new_sink)().start(&fresh).unwrap_err();
        assert!(error.to_string().contains("starts from nothing"), "{error}");
    }
    start(&sink, 2, 0, Some(1));
}

fn an_attempt_that_fails_before_its_first_checkpoint_can_be_followed_by_another<S: Sink<In = String>>(
    target: &Target<S>,
) {
    let prepared = {
        let sink = (target.new_sink)();
        let mut writer = start(&sink, 1, 0, None);
        write(&mut writer, &["a"]);
        prepare(&mut writer, 1).unwrap()
    };
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 2, 0, None);
    sink.abort_earlier_attempts(Attempt(2)).unwrap();
    write(&mut writer, &["a"]);
    sink.commit(&prepare(&mut writer, 1).unwrap()).unwrap();
    assert_eq!((target.visible)(), ["a"]);
    drop(prepared);
}

fn concurrent_commits_of_one_transaction_make_it_visible_once<S: Sink<In = String>>(target: &Target<S>) {
    let sink = (target.new_sink)();
    let mut writer = start(&sink, 1, 0, None);
    for round in 1..20 {
        write(&mut writer, &[&format!("{round:02}")]);
        let transaction = prepare(&mut writer, round).unwrap();
        let results: Vec<Result<(), CommitError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| sink.commit(&transaction))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!((target.visible)().len(), round as usize);
    }
}

type Case<S> = (&'static str, fn(&Target<S>));

fn cases<S: Sink<In = String>>() -> Vec<Case<S>> {
    vec![
        ("nothing_is_visible_before_its_commit", nothing_is_visible_before_its_commit),
        ("an_empty_transaction_is_none", an_empty_transaction_is_none),
        ("a_commit_is_idempotent", a_commit_is_idempotent),
        ("a_transaction_outlives_its_writer", a_transaction_outlives_its_writer),
        ("a_transaction_that_was_not_restored_is_never_seen", a_transaction_that_was_not_restored_is_never_seen),
        ("subtasks_and_attempts_never_meet", subtasks_and_attempts_never_meet),
        (
            "transactions_of_an_aborted_checkpoint_are_committed_by_a_later_one",
            transactions_of_an_aborted_checkpoint_are_committed_by_a_later_one,
        ),
        ("a_fresh_start_refuses_what_another_run_has_committed", a_fresh_start_refuses_what_another_run_has_committed),
        (
            "an_attempt_that_fails_before_its_first_checkpoint_can_be_followed_by_another",
            an_attempt_that_fails_before_its_first_checkpoint_can_be_followed_by_another,
        ),
        (
            "concurrent_commits_of_one_transaction_make_it_visible_once",
            concurrent_commits_of_one_transaction_make_it_visible_once,
        ),
    ]
}

fn check<S: Sink<In = String>>(mut run: impl FnMut(&'static str, fn(&Target<S>)))
where
    S::Transaction: Debug,
{
    for (name, case) in cases::<S>() {
        println!("{name}");
        run(name, case);
    }
}

/// Contract: R311, R315.
#[test]
fn the_file_sink_of_lines_does_it_all() {
    check(|_, case| {
        let directory = TempDir::new().unwrap();
        let out = directory.path().join("out");
        case(&Target { new_sink: &|| FileSink::lines::<String>(&out), visible: &|| crate::file_sink::visible(&out) });
    });
}

/// Contract: R311, R315.
#[test]
fn the_file_sink_of_csv_rows_does_it_all() {
    check(|_, case| {
        let directory = TempDir::new().unwrap();
        let out = directory.path().join("a/b/c");
        case(&Target { new_sink: &|| FileSink::csv::<String>(&out), visible: &|| crate::file_sink::visible(&out) });
    });
}

/// Contract: R311, R315.
#[test]
fn the_collecting_sink_does_it_all() {
    check(|_, case| {
        let records = CollectedRecords::<String>::default();
        let visible = || {
            let mut records = records.to_vec();
            records.sort();
            records
        };
        case(&Target { new_sink: &|| CollectSink::new(records.clone()), visible: &visible });
    });
}
