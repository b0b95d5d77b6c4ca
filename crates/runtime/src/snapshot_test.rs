//! Which state becomes an object of its own, and which travels in the metadata.

use std::sync::Arc;
use std::time::Duration;

use highwater_conformance::{Recording, RecordingStorage};
use highwater_state_api::{
    At, BoxedError, Entry, EntryVisitor, FrozenState, FunctionInitializationContext, INLINE_BYTES_MAX, KeyGroup,
    ListStateDescriptor, MaxParallelism, ObjectPath, RowSettings, StateError, TableId,
};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use highwater_state_kit::HeapStateBackend;
use highwater_stream_api::{Collector, ProcessContext, ProcessFunction};
use pollster::block_on;

use super::*;
use crate::Chain;
use crate::channel::Barrier;
use crate::operator::OperatorContext;
use crate::operators::ProcessOperator;

/// A snapshot with one value in each of some key groups.
struct Values(Vec<(KeyGroup, usize)>);

impl FrozenState for Values {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        for (of_value, bytes) in &self.0 {
            if *of_value == group {
                let at = At { table: TableId(0), group, key: b"key", namespace: &[], map_key: &[] };
                visit(Entry { at, value: &vec![7; *bytes] })?;
            }
        }
        Ok(())
    }
}

/// What is written of values of these sizes, one in each key group.
fn written(sizes: &[usize]) -> (KeyedStateHandle, Vec<ObjectPath>) {
    let storage = MemoryCheckpointStorage::new();
    let folder = ObjectPath::new(["job", "chk-1-1"]);
    let streams = CheckpointStreamFactory::new(&storage, folder, storage.inline_bytes_max()).unwrap();
    let stream = streams.create_checkpoint_state_output_stream("sum-0");
    let groups = MaxParallelism::new(8).unwrap().all();
    let content = Box::new(Values(groups.iter().zip(sizes.iter().copied()).collect()));
    let frozen = FrozenKeyedState { tables: Vec::new(), content };
    let handle = block_on(write_keyed(frozen, groups, stream)).unwrap();
    let objects = block_on(storage.list(&ObjectPath::new(["job"]))).unwrap();
    (handle, objects)
}

/// Bytes that the canonical stream has beside a value of about this size: its section, lengths and key.
fn overhead(bytes: usize) -> usize {
    let (handle, _) = written(&[bytes]);
    handle.state.length() as usize - bytes
}

/// Contract: T338.
#[test]
fn state_of_exactly_the_threshold_is_inline_and_of_one_byte_more_an_object() {
    let threshold = INLINE_BYTES_MAX as usize;
    let one_value = threshold - overhead(20_000);
    let two_values = [threshold / 2 - overhead(10_000); 2];
    for sizes in [&[one_value][..], &two_values] {
        let (handle, objects) = written(sizes);
        assert_eq!(handle.state.length(), INLINE_BYTES_MAX);
        assert!(matches!(handle.state, StateHandle::Inline(_)) && objects.is_empty(), "{objects:?}");

        let mut larger = sizes.to_vec();
        *larger.last_mut().unwrap() += 1;
        let (handle, objects) = written(&larger);
        assert_eq!(handle.state.length(), INLINE_BYTES_MAX + 1);
        assert!(matches!(handle.state, StateHandle::Object { .. }));
        assert_eq!(objects, [ObjectPath::new(["job", "chk-1-1", "sum-0"])]);
    }
}

/// A snapshot that panics when it is written: what any backend may do.
struct Panics;

impl FrozenState for Panics {
    fn visit_key_group(&mut self, _: KeyGroup, _: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        panic!("boom")
    }
}

/// Contract: L234.
#[test]
fn a_backend_that_panics_while_a_snapshot_is_written_declines_it_with_the_operator() {
    let keyed = FrozenKeyedState { tables: Vec::new(), content: Box::new(Panics) };
    let groups = MaxParallelism::new(8).unwrap().all();
    let operator = FrozenOperator { keyed: Some((groups, keyed)), ..FrozenOperator::default() };
    let snapshot = AsyncSnapshot {
        job: JobName::new("job").unwrap(),
        attempt: Attempt(1),
        checkpoint: CheckpointId(1),
        subtask: SubtaskId { task: 0, subtask: 0 },
        frozen: FrozenChain { operators: vec![(OperatorUid::new("sum").unwrap(), operator)] },
        metrics: CheckpointMetrics::default(),
        began: Duration::ZERO,
    };
    let Report::Declined(decline) = block_on(snapshot.write(&MemoryCheckpointStorage::new())) else {
        panic!("the snapshot is not declined");
    };
    let message = decline.failure.message;
    assert!(message.starts_with("the state of operator sum could not be written: "), "{message}");
    assert!(message.ends_with("panicked: boom"), "{message}");
}

/// Contract: T338.
#[test]
fn without_state_there_is_no_object() {
    let (handle, objects) = written(&[]);
    assert!(handle.parts.is_empty() && handle.state.length() == 0 && objects.is_empty());
}

/// Registers a list, or has no state at all.
struct Listing {
    has_list: bool,
}

impl ProcessFunction<u64> for Listing {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<(), BoxedError> {
        if self.has_list {
            cx.operator_state_store().get_list_state(&ListStateDescriptor::<u64>::new("list"))?;
        }
        Ok(())
    }

    fn process(&mut self, _: u64, _: &mut ProcessContext<'_>, _: &mut Collector<u64>) -> Result<(), BoxedError> {
        Ok(())
    }
}

/// Contract: E101.
#[test]
fn of_an_operator_without_states_nothing_is_written() {
    let recording = Recording::default();
    let storage = RecordingStorage::new(Arc::new(MemoryCheckpointStorage::new()), recording.clone());
    for has_list in [false, true] {
        let uid = OperatorUid::new("operator").unwrap();
        let job = JobName::new("job").unwrap();
        let context = OperatorContext {
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
        let mut chain = Chain::new(vec![(uid, Box::new(ProcessOperator::new(Listing { has_list })))]);
        chain.open(|_| context.clone()).unwrap();
        let checkpoint = CheckpointId(1);
        let frozen = chain.freeze(Barrier { checkpoint, triggered_at_ms: 0 }).unwrap();
        let subtask = SubtaskId { task: 0, subtask: 0 };
        let report = block_on(
            AsyncSnapshot {
                job,
                attempt: Attempt(1),
                checkpoint,
                subtask,
                frozen,
                metrics: CheckpointMetrics::default(),
                began: Duration::ZERO,
            }
            .write(&storage),
        );
        let Report::Acknowledged(acknowledgement) = report else { panic!("{report:?}") };
        let (_, snapshot) = &acknowledgement.snapshot.operators[0];
        assert_eq!(snapshot.has_state(), has_list, "{snapshot:?}");
        assert!(recording.calls().is_empty(), "{:?}", recording.lines());
    }
}
