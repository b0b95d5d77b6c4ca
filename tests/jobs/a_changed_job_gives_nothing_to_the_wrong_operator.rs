//! A job whose steps were changed: what a step without a name had seen is not given to another one in its place.

use std::num::NonZeroU64;
use std::sync::Arc;

use highwater::MemoryCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::support::{
    Count, assert_counted, count, endless, environment, run_and_cancel, storage, wait_for_checkpoints,
};

/// Passes records on and counts those behind the watermark as late.
struct Late;

impl KeyedProcessFunction<u64, u64> for Late {
    type Out = u64;

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        if cx.timestamp() <= cx.current_watermark() {
            cx.count_late_record();
        }
        out.collect(number);
        Ok(())
    }
}

fn short(env: &StreamExecutionEnvironment, records: &CollectedRecords<u64>) {
    env.from_source(SequenceSource::new(0..10))
        .uid("short")
        .filter(|_| true)
        .sink_to(CollectSink::new(records.clone()))
        .uid("short-sink");
}

fn long(env: &StreamExecutionEnvironment, records: &CollectedRecords<u64>) {
    env.from_source(Throttled::new(SequenceSource::new(0..4_000), NonZeroU64::new(10_000)))
        .uid("long")
        .filter(|_| true)
        .assign_timestamps(|number| *number as i64)
        .key_by(|number| number)
        .process(|| Late)
        .uid("late")
        .sink_to(CollectSink::new(records.clone()))
        .uid("long-sink");
}

#[test]
fn when_steps_change_places() {
    let storage = storage();
    let (of_short, of_long) = (CollectedRecords::default(), CollectedRecords::default());
    let env = environment("swapped", storage.clone());
    short(&env, &of_short);
    long(&env, &of_long);
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 5);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));

    let env = environment("swapped", storage);
    long(&env, &of_long);
    short(&env, &of_short);
    let result = env.execute().unwrap();
    assert!(result.status.restored_from.is_some());
    assert_eq!(result.status.late_records, 0, "event time was taken from the source that has ended");
    assert_eq!((of_short.len(), of_long.len()), (10, 4_000));
}

/// One source of 10 numbers that has ended, beside one that has not; stopped after some checkpoints.
fn stopped_with_an_ended_source(storage: &Arc<MemoryCheckpointStorage>) {
    let env = environment("extended", storage.clone());
    short(&env, &CollectedRecords::default());
    long(&env, &CollectedRecords::default());
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 5);
    handle.cancel();
    assert!(handle.wait().is_err());
}

#[test]
fn when_an_operator_that_has_ended_gets_a_new_source() {
    let storage = storage();
    stopped_with_an_ended_source(&storage);
    let env = environment("extended", storage);
    env.from_source(SequenceSource::new(0..20)).uid("another").sink_to(CollectSink::<u64>::default()).uid("short-sink");
    env.from_source(SequenceSource::new(0..10)).uid("short").sink_to(CollectSink::<u64>::default()).uid("rest");
    long(&env, &CollectedRecords::default());
    let error = env.execute().unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, JobError::Restore { .. }), "{error:?}");
    assert!(source.contains("operator short-sink has seen the end of its input"), "{source}");
    assert!(source.contains("source another"), "{source}");
}

#[test]
fn and_a_start_that_cannot_go_on_leaves_the_running_job_alone() {
    let storage = storage();
    let records = CollectedRecords::<Count>::default();
    let env = environment("undisturbed", storage.clone());
    count(&env, 3_000, Some(10_000), &records, |_| Ok(()));
    let running = env.execute_async().unwrap();
    wait_for_checkpoints(&running, 3);

    let env = environment("undisturbed", storage);
    env.from_source(SequenceSource::new(0..10)).sink_to(CollectSink::<u64>::default());
    assert!(matches!(env.execute().unwrap_err(), JobError::Restore { .. }));

    assert_eq!(running.wait().unwrap().status.restarts, 0);
    assert_counted(&records, 3_000);
}

#[test]
fn when_a_source_or_a_sink_of_another_kind_takes_its_name() {
    let storage = storage();
    let records = CollectedRecords::<u64>::default();
    let env = environment("replaced", storage.clone());
    env.from_source(Throttled::new(SequenceSource::new(0..100_000), NonZeroU64::new(10_000)))
        .uid("numbers")
        .sink_to(CollectSink::new(records.clone()))
        .uid("records");
    let handle = env.execute_async().unwrap();
    wait_for_checkpoints(&handle, 3);
    handle.cancel();
    assert!(handle.wait().is_err());
    let committed = records.len();

    let file = tempfile::NamedTempFile::new().unwrap();
    let env = environment("replaced", storage.clone());
    env.from_source(FileSource::csv::<(u64,)>(file.path()))
        .uid("numbers")
        .map(|(number,)| number)
        .sink_to(CollectSink::new(records.clone()))
        .uid("records");
    let error = env.execute().unwrap_err();
    assert!(matches!(&error, JobError::Start { operator, .. } if operator == "numbers"), "{error:?}");
    assert!(format!("{error:?}").contains(r#"state "_reader_splits": the element has schema"#), "{error:?}");

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(".highwater-sink"), "replaced\nrecords\n").unwrap();
    let env = environment("replaced", storage);
    env.from_source(SequenceSource::new(0..100_000))
        .uid("numbers")
        .sink_to(FileSink::lines(directory.path()))
        .uid("records");
    let error = env.execute().unwrap_err();
    assert!(matches!(&error, JobError::Task { restarts: 0, .. }), "{error:?}");
    assert!(format!("{error:?}").contains(r#"state "_sink_transactions": the element has schema"#), "{error:?}");
    assert_eq!(records.len(), committed);
}

/// Keeps a list and a count by key.
#[derive(Default)]
struct Stateful {
    count: ValueState<u64>,
    list: OperatorListState<u64>,
}

impl KeyedProcessFunction<u64, u64> for Stateful {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.count = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("count"))?;
        self.list = cx.operator_state_store().get_list_state(&ListStateDescriptor::new("list"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        self.count.update(cx, number)?;
        self.list.add(cx, number)?;
        out.collect(number);
        Ok(())
    }
}

/// Has no state.
struct Passing;

impl ProcessFunction<u64> for Passing {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }
}

#[test]
fn when_an_operator_without_state_takes_its_name() {
    let storage = storage();
    let env = environment("without-state", storage.clone());
    env.from_source(endless(1))
        .key_by_value(|number| number % 10)
        .process(Stateful::default)
        .uid("it")
        .sink_to(CollectSink::default());
    run_and_cancel(&env, 3);

    let error = |step: &dyn Fn(DataStream<u64>) -> DataStream<u64>| {
        let env = environment("without-state", storage.clone());
        step(env.from_source(endless(1))).uid("it").sink_to(CollectSink::default());
        let error = env.execute().unwrap_err();
        assert!(matches!(&error, JobError::Task { restarts: 0, .. }), "{error:?}");
        format!("{error:?}")
    };
    let of_map = error(&|numbers| numbers.map(|number| number));
    assert!(of_map.contains("that the operator cannot take: _timer_state/event_user-timers, count, list;"), "{of_map}");
    // What is not keyed a function may still ask for.
    let of_process = error(&|numbers| numbers.process(|| Passing));
    assert!(of_process.contains("cannot take: _timer_state/event_user-timers, count;"), "{of_process}");
}
