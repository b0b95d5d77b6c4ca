//! A subtask that is restored reads the state of its own key groups and nothing else.

use std::sync::Arc;

use highwater::checkpoint::{CheckpointMetadata, decode_metadata};
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::{CheckpointId, CheckpointStorage, KeyGroupRange, ObjectPath, StateHandle};
use highwater_conformance::{Operation, RecordedCall, Recording, RecordingStorage};
use pollster::block_on;

use crate::pace::{Pace, Paced};
use crate::support::{NEVER, environment, storage, take_checkpoints, wait_until};

const NUMBERS: u64 = 4_000;

/// Keeps a text with each number, so large that the state of a subtask is an object of its own; puts the number out when
/// the text was not there before.
#[derive(Default)]
struct Remember {
    text: ValueState<String>,
}

impl KeyedProcessFunction<u64, u64> for Remember {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.text = cx.keyed_state_store()?.get_state(&ValueStateDescriptor::new("text"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        if self.text.value(cx)?.is_none() {
            self.text.update(cx, format!("{number:0100}"))?;
            out.collect(number);
        }
        Ok(())
    }
}

/// Sees every key twice.
fn describe(env: &StreamExecutionEnvironment, pace: Option<Pace>, records: &CollectedRecords<u64>) {
    env.from_source(Paced::new(SequenceSource::new(0..NUMBERS * 2), pace))
        .uid("numbers")
        .key_by_value(|number| number % NUMBERS)
        .process(Remember::default)
        .uid("remember")
        .sink_to(CollectSink::new(records.clone()))
        .uid("records");
}

/// The metadata of a complete checkpoint.
fn metadata_of(storage: &dyn CheckpointStorage, job: &str, checkpoint: CheckpointId) -> CheckpointMetadata {
    let objects = block_on(storage.list(&ObjectPath::new([job]))).unwrap();
    let read = |path: &ObjectPath| decode_metadata(&block_on(storage.read(path)).unwrap()).unwrap();
    let mut all = objects.iter().filter(|path| path.name() == "_metadata").map(read);
    all.find(|metadata| metadata.checkpoint == checkpoint).expect("a complete checkpoint has metadata")
}

/// How many bytes each of the objects has in a range of key groups.
fn bytes_in(range: KeyGroupRange, metadata: &CheckpointMetadata) -> Vec<(ObjectPath, u64)> {
    let operator = metadata.operators.iter().find(|operator| operator.uid.as_str() == "remember").unwrap();
    let mut bytes = Vec::new();
    for keyed in operator.subtasks.iter().filter_map(|subtask| subtask.keyed.as_ref()) {
        let StateHandle::Object { path, .. } = &keyed.state else { panic!("the state is too small: {keyed:?}") };
        let parts = keyed.parts.iter().filter(|part| range.contains(part.group));
        let length: u64 = parts.map(|part| part.length).sum();
        if length > 0 {
            bytes.push((path.clone(), length));
        }
    }
    bytes
}

/// Contract: B52.
#[test]
fn the_parts_of_its_own_key_groups_and_no_others() {
    let storage = storage();
    let records = CollectedRecords::default();
    let env = environment("partial-reads", storage.clone());
    env.enable_checkpointing(NEVER).set_parallelism(2);
    describe(&env, Some(Pace::up_to(NUMBERS / 2)), &records);
    let handle = env.execute_async().unwrap();
    let monitor = handle.monitor();
    wait_until("half of the keys are read", || handle.status().records_read == NUMBERS / 2);
    take_checkpoints(&handle, 1);
    handle.cancel();
    assert!(handle.wait().is_err());

    let last = monitor.status().last_checkpoint;
    let metadata = metadata_of(&*storage, "partial-reads", last.expect("there are checkpoints"));
    let operator = metadata.operators.iter().find(|operator| operator.uid.as_str() == "remember").unwrap();
    let ranges = (0..3).map(|subtask| operator.max_parallelism.range_of(subtask, 3));
    let mut expected: Vec<_> = ranges.flat_map(|range| bytes_in(range, &metadata)).collect();
    // The middle one of the three has groups of both.
    assert_eq!(expected.len(), 4);

    let recording = Recording::default();
    let env = environment("partial-reads", Arc::new(RecordingStorage::new(storage, recording.clone())));
    env.set_parallelism(3);
    describe(&env, None, &records);
    let result = env.execute().unwrap();
    assert_eq!(result.status.restored_from, last);

    let of_state = |call: &RecordedCall| expected.iter().any(|(path, _)| *path == call.path);
    let calls: Vec<RecordedCall> = recording.calls().into_iter().filter(of_state).collect();
    let reads = calls.iter().filter(|call| call.operation == Operation::ReadRange);
    let mut found: Vec<_> = reads.map(|call| (call.path.clone(), call.size.unwrap())).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(calls.iter().all(|call| call.operation != Operation::Read), "an object was read as a whole");

    let mut found = records.to_vec();
    found.sort_unstable();
    assert_eq!(found, Vec::from_iter(0..NUMBERS));
}
