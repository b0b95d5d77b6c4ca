//! A job whose steps were changed: what a step without a name had seen is not given to another one in its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use highwater::MemoryCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::{CheckpointStorage, ObjectPath};
use pollster::block_on;

use crate::pace::{Grants, Pace, Paced};
use crate::support::{
    Count, assert_counted, count, endless, environment, run_and_cancel, storage, wait_for_checkpoints, wait_until,
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

fn long(env: &StreamExecutionEnvironment, pace: Option<Pace>, records: &CollectedRecords<u64>) {
    env.from_source(Paced::new(SequenceSource::new(0..4_000), pace))
        .uid("long")
        .filter(|_| true)
        .assign_timestamps(|number| *number as i64)
        .key_by(|number| number)
        .process(|| Late)
        .uid("late")
        .sink_to(CollectSink::new(records.clone()))
        .uid("long-sink");
}

/// Runs both until the source of 10 numbers has ended and checkpoints say so; the other one has not.
fn stop_when_the_short_has_ended(
    env: &StreamExecutionEnvironment,
    of_short: &CollectedRecords<u64>,
    of_long: &CollectedRecords<u64>,
) {
    short(env, of_short);
    long(env, Some(Pace::up_to(2_000)), of_long);
    let handle = env.execute_async().unwrap();
    wait_until("both have come to where they stop", || (of_short.len(), of_long.len()) == (10, 2_000));
    // What is committed may be of a checkpoint from just before the end of the short one.
    wait_for_checkpoints(&handle, handle.status().checkpoints_completed + 2);
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
}

#[test]
fn when_steps_change_places() {
    let storage = storage();
    let (of_short, of_long) = (CollectedRecords::default(), CollectedRecords::default());
    let env = environment("swapped", storage.clone());
    stop_when_the_short_has_ended(&env, &of_short, &of_long);

    let env = environment("swapped", storage);
    long(&env, None, &of_long);
    short(&env, &of_short);
    let result = env.execute().unwrap();
    assert!(result.status.restored_from.is_some());
    assert_eq!(result.status.late_records, 0, "event time was taken from the source that has ended");
    assert_eq!((of_short.len(), of_long.len()), (10, 4_000));
}

/// One source of 10 numbers that has ended, beside one that has not; stopped after some checkpoints.
fn stopped_with_an_ended_source(storage: &Arc<MemoryCheckpointStorage>) {
    let env = environment("extended", storage.clone());
    stop_when_the_short_has_ended(&env, &CollectedRecords::default(), &CollectedRecords::default());
}

#[test]
fn when_an_operator_that_has_ended_gets_a_new_source() {
    let storage = storage();
    stopped_with_an_ended_source(&storage);
    let env = environment("extended", storage);
    env.from_source(SequenceSource::new(0..20)).uid("another").sink_to(CollectSink::<u64>::default()).uid("short-sink");
    env.from_source(SequenceSource::new(0..10)).uid("short").sink_to(CollectSink::<u64>::default()).uid("rest");
    long(&env, None, &CollectedRecords::default());
    let error = env.execute().unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, JobError::Restore { .. }), "{error:?}");
    assert!(source.contains("operator short-sink has seen the end of its input"), "{source}");
    assert!(source.contains("operator another"), "{source}");
}

#[test]
fn and_a_start_that_cannot_go_on_leaves_the_running_job_alone() {
    let storage = storage();
    let records = CollectedRecords::<Count>::default();
    let env = environment("undisturbed", storage.clone());
    let grants = Grants::new(1_000);
    count(&env, 3_000, Some(Pace::Granted(grants.clone())), &records, |_| Ok(()));
    let running = env.execute_async().unwrap();
    wait_for_checkpoints(&running, 3);

    let env = environment("undisturbed", storage);
    env.from_source(SequenceSource::new(0..10)).sink_to(CollectSink::<u64>::default());
    assert!(matches!(env.execute().unwrap_err(), JobError::Restore { .. }));

    grants.add_all();
    assert_eq!(running.wait().unwrap().status.restarts, 0);
    assert_counted(&records, 3_000);
}

/// Contract: O282.
#[test]
fn when_a_source_or_a_sink_of_another_kind_takes_its_name() {
    let storage = storage();
    let records = CollectedRecords::<u64>::default();
    let env = environment("replaced", storage.clone());
    env.from_source(endless(1)).uid("numbers").sink_to(CollectSink::new(records.clone())).uid("records");
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

#[test]
fn when_an_operator_that_is_no_source_takes_the_name_of_one() {
    let storage = storage();
    let env = environment("no-source", storage.clone());
    env.from_source(endless(1)).uid("numbers").sink_to(CollectSink::<u64>::default());
    run_and_cancel(&env, 1);

    let env = environment("no-source", storage);
    let numbers = env.from_source(endless(1)).uid("others");
    numbers.map(|number| number).uid("numbers").sink_to(CollectSink::<u64>::default());
    let error = env.execute().unwrap_err();
    assert!(matches!(error, JobError::Restore { .. }), "{error:?}");
    let text = format!("{error:?}");
    assert!(
        text.contains("operator numbers was a source when the checkpoint was taken, and is none in the job"),
        "{text}"
    );
}

const SUMMED: u64 = 3_000;
const SUM_KEYS: u64 = 10;

/// What a sum was for its first record of a key, and what it was last.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    first: u64,
    last: u64,
}

/// By the name of the sum and the key.
type AllSeen = Arc<Mutex<BTreeMap<(&'static str, u64), Seen>>>;

/// Adds the same number for each record, another one than any other sum, and passes the record on. All sums have a state
/// of the same name and type.
struct Sum {
    name: &'static str,
    sum: ValueState<u64>,
    seen: AllSeen,
}

impl Sum {
    fn step(name: &str) -> u64 {
        match name {
            "sum-a" => 1,
            "sum-b" => 1_000,
            _ => 1_000_000,
        }
    }
}

impl KeyedProcessFunction<u64, u64> for Sum {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.sum = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("sum"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        let before = self.sum.value(cx)?.unwrap_or(0);
        let after = before + Self::step(self.name);
        self.sum.update(cx, after)?;
        let mut seen = self.seen.lock().unwrap();
        seen.entry((self.name, *cx.current_key())).or_insert(Seen { first: before, last: after }).last = after;
        out.collect(number);
        Ok(())
    }
}

const SUMS: [&str; 2] = ["sum-a", "sum-b"];
const WITH_ONE_INSERTED: [&str; 3] = ["inserted", "sum-a", "sum-b"];
const SWAPPED: [&str; 2] = ["sum-b", "sum-a"];

/// The sums one behind the other; `uid` names them, or not.
fn sums(
    env: &StreamExecutionEnvironment,
    sums: &[&'static str],
    uid: impl Fn(&str) -> Option<String>,
    pace: Option<Pace>,
) -> (CollectedRecords<u64>, AllSeen) {
    let (records, seen) = (CollectedRecords::default(), AllSeen::default());
    let source = Paced::new(SequenceSource::new(0..SUMMED), pace);
    let mut stream = env.from_source(source);
    for &name in sums {
        let seen = seen.clone();
        let sum = move || Sum { name, sum: ValueState::default(), seen: seen.clone() };
        stream = stream.key_by_value(|number| number % SUM_KEYS).process(sum);
        if let Some(uid) = uid(name) {
            stream = stream.uid(uid);
        }
    }
    stream.sink_to(CollectSink::new(records.clone()));
    (records, seen)
}

fn by_name(name: &str) -> Option<String> {
    Some(name.to_owned())
}

/// A run of the first version with names that was stopped on its way, after every key was seen.
fn stopped_with_sums(job: &str) -> Arc<MemoryCheckpointStorage> {
    let storage = storage();
    let env = environment(job, storage.clone());
    let (records, _) = sums(&env, &SUMS, by_name, Some(Pace::up_to(SUMMED / 2)));
    let handle = env.execute_async().unwrap();
    wait_until("all keys have been summed", || records.len() as u64 >= SUM_KEYS * 10);
    handle.cancel();
    assert!(handle.wait().is_err());
    storage
}

/// Field case: R65.
#[test]
fn when_an_operator_is_inserted_or_named_operators_change_places() {
    for changed in [&WITH_ONE_INSERTED[..], &SWAPPED] {
        let storage = stopped_with_sums("summed");
        let env = environment("summed", storage);
        let (_, seen) = sums(&env, changed, by_name, None);
        let result = env.execute().unwrap();
        assert!(result.status.restored_from.is_some());
        let seen = seen.lock().unwrap();
        for key in 0..SUM_KEYS {
            let [a, b] = SUMS.map(|name| seen[&(name, key)]);
            // Both have seen the same records before the checkpoint.
            assert!(a.first > 0 && b.first == a.first * Sum::step("sum-b"), "{changed:?}, key {key}: {a:?} and {b:?}");
            let records = SUMMED / SUM_KEYS;
            assert_eq!((a.last, b.last), (records, records * Sum::step("sum-b")), "{changed:?}, key {key}");
            if changed.contains(&"inserted") {
                assert_eq!(seen[&("inserted", key)].first, 0, "key {key}");
            }
        }
    }
}

/// Every object of a storage with its content.
fn objects(storage: &MemoryCheckpointStorage, job: &str) -> BTreeMap<ObjectPath, Vec<u8>> {
    let paths = block_on(storage.list(&ObjectPath::new([job]))).unwrap();
    let read = |path: ObjectPath| (path.clone(), block_on(storage.read(&path)).unwrap().to_vec());
    paths.into_iter().map(read).collect()
}

/// Field case: R65.
/// There are no names that the product makes up for state, and no way yet to leave state behind: without names, every
/// version is refused before it starts, and the state that there is stays as it is.
#[test]
fn because_an_operator_with_state_and_without_a_name_is_refused() {
    let storage = stopped_with_sums("nameless");
    let before = objects(&storage, "nameless");
    for version in [&SUMS[..], &WITH_ONE_INSERTED, &SWAPPED] {
        let env = environment("nameless", storage.clone());
        sums(&env, version, |_| None, None);
        match env.execute().unwrap_err() {
            JobError::Invalid(reason) => {
                assert!(reason.starts_with("there is state and no uid in step 1 (process)"), "{reason}");
            }
            other => panic!("{version:?}: {other:?}"),
        }
    }
    assert!(objects(&storage, "nameless") == before, "a start that was refused has changed the storage");
}

/// Field case: R65.
#[test]
fn and_operators_that_are_not_found_again_are_listed() {
    let storage = stopped_with_sums("renamed-sums");
    let before = objects(&storage, "renamed-sums");
    let env = environment("renamed-sums", storage.clone());
    sums(&env, &SUMS, |name| Some(format!("{name}-2")), None);
    let error = env.execute().unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, JobError::Restore { .. }), "{error:?}");
    let expected = "the checkpoint has state of operators that are not in the job: sum-a, sum-b; the job has";
    assert!(source.starts_with(expected), "{source}");
    assert!(objects(&storage, "renamed-sums") == before, "a start that was refused has changed the storage");
}

/// Contract: Q300.
#[test]
fn and_state_of_steps_that_are_gone_is_lost_only_if_somebody_says_so() {
    let storage = storage();
    let (of_short, of_long) = (CollectedRecords::default(), CollectedRecords::default());
    stop_when_the_short_has_ended(&environment("reduced", storage.clone()), &of_short, &of_long);
    let key = "execution.state-recovery.ignore-unclaimed-state";
    let without_the_long = |ignores_unclaimed: &str| {
        let env = environment("reduced", storage.clone());
        env.configure(Configuration::from([(key, ignores_unclaimed)]));
        short(&env, &of_short);
        env.execute_async().unwrap()
    };
    let error = without_the_long("false").wait().unwrap_err();
    assert!(matches!(error.cause(), JobError::Restore { .. }));
    let text = format!("{error:?}");
    assert!(text.contains("not in the job: long") && text.contains(&format!("`{key}: true`")), "{text}");

    // All that is left of the job has finished.
    let handle = without_the_long("true");
    let monitor = handle.monitor();
    wait_until("it has gone on", || monitor.status().checkpoints_completed > 0);
    let result = handle.wait().unwrap();
    assert!(result.status.restored_from.is_some());
    assert_eq!((of_short.len(), of_long.len()), (10, 2_000));
}
