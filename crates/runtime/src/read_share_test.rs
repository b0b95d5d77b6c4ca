//! Shares of operator state: which reads they cost, and what is found out about bytes that are not what was written.

use std::sync::Arc;

use highwater_checkpoint::{
    CheckpointMetadata, OperatorSnapshot, OperatorState, OperatorTarget, RestoredOperator as Assigned, redistribute,
};
use highwater_conformance::{Operation, Recording, RecordingStorage};
use highwater_state_api::{
    Attempt, BroadcastState, CheckpointStreamFactory, FrozenOperatorState, JobName, KEY_HASH_ID, ListStateDescriptor,
    MapStateDescriptor, MaxParallelism, OperatorState as LiveState, OperatorStateHandle, OperatorStateMeta,
    OperatorStateStore, OperatorUid, Redistribution,
};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;

fn uid() -> OperatorUid {
    OperatorUid::new("operator").unwrap()
}

fn meta(name: &str, redistribution: Redistribution) -> OperatorStateMeta {
    let element = Schema::Opaque { name: "text".to_owned(), version: 1 };
    OperatorStateMeta { name: name.to_owned(), redistribution, map_key: None, element }
}

/// A subtask's snapshot with these lists, in an object, or inline.
fn written(
    storage: &dyn CheckpointStorage,
    subtask: usize,
    inline_bytes_max: u64,
    lists: &[(OperatorStateMeta, &[&'static str])],
) -> OperatorSnapshot {
    written_frozen(storage, subtask, inline_bytes_max, frozen_lists(lists))
}

fn frozen_lists(lists: &[(OperatorStateMeta, &[&'static str])]) -> FrozenOperatorState {
    let mut frozen = FrozenOperatorState::default();
    for (meta, elements) in lists {
        frozen.push_serialized(
            meta.clone(),
            elements.iter().map(|element| Bytes::from_static(element.as_bytes())).collect(),
        );
    }
    frozen
}

fn written_frozen(
    storage: &dyn CheckpointStorage,
    subtask: usize,
    inline_bytes_max: u64,
    frozen: FrozenOperatorState,
) -> OperatorSnapshot {
    let streams = CheckpointStreamFactory::new(storage, ObjectPath::new(["job"]), inline_bytes_max).unwrap();
    let mut stream = streams.create_checkpoint_state_output_stream(&format!("state-{subtask}"));
    let (parts, state) = block_on(async {
        let parts = frozen.write(&mut stream).await.unwrap();
        (parts, stream.close_and_get_handle().await.unwrap())
    });
    let state = state.unwrap_or_else(|| StateHandle::Inline(Bytes::new()));
    OperatorSnapshot { operator: Some(OperatorStateHandle { parts, state }), ..OperatorSnapshot::default() }
}

fn assigned(subtasks: Vec<OperatorSnapshot>, parallelism: u32) -> Assigned {
    let max_parallelism = MaxParallelism::new(128).unwrap();
    let metadata = CheckpointMetadata {
        job: JobName::new("job").unwrap(),
        attempt: Attempt(1),
        checkpoint: CheckpointId(1),
        triggered_at_ms: 0,
        key_hash: KEY_HASH_ID.to_owned(),
        operators: vec![OperatorState { uid: uid(), max_parallelism, finished: false, subtasks, enumerator: None }],
    };
    let target = OperatorTarget { uid: uid(), is_stable: true, is_source: false, parallelism, max_parallelism: None };
    redistribute(&metadata, &[target]).unwrap().operators.remove(&uid()).unwrap()
}

/// `name: elements` of each state of each subtask.
fn read(storage: &dyn CheckpointStorage, assigned: &Assigned) -> Result<Vec<Vec<String>>, StorageError> {
    let mut reader = ShareReader::new(storage);
    let text = |state: &RestoredOperatorState| {
        let elements: Vec<&str> =
            state.serialized_elements().map(|element| std::str::from_utf8(element.unwrap()).unwrap()).collect();
        format!("{}: {}", state.meta.name, elements.join(" "))
    };
    assigned
        .subtasks
        .iter()
        .map(|subtask| {
            let share = block_on(reader.read_subtask(CheckpointId(1), subtask, false))?;
            Ok(share.operator.iter().map(text).collect())
        })
        .collect()
}

#[test]
fn a_part_that_several_subtasks_need_is_read_once() {
    let (union, split) = (meta("all", Redistribution::Union), meta("each", Redistribution::Split));
    for inline_bytes_max in [0, 1_000] {
        let recording = Recording::default();
        let storage = RecordingStorage::new(Arc::new(MemoryCheckpointStorage::new()), recording.clone());
        let old = vec![
            written(&storage, 0, inline_bytes_max, &[(union.clone(), &["a", "b"]), (split.clone(), &["1", "2", "3"])]),
            written(&storage, 1, inline_bytes_max, &[(union.clone(), &["c"]), (split.clone(), &["4"])]),
        ];
        recording.take();
        let shares = read(&storage, &assigned(old, 4)).unwrap();
        let expected = ["1", "2", "3", "4"].map(|own| vec!["all: a b c".to_owned(), format!("each: {own}")]);
        assert_eq!(shares, expected);
        let calls = recording.calls();
        assert!(calls.iter().all(|call| call.operation == Operation::ReadRange), "{:?}", recording.lines());
        assert_eq!(calls.len(), if inline_bytes_max == 0 { 4 } else { 0 }, "one for each part");
    }
}

/// A broadcast state and its entries.
type Rules = (&'static str, &'static [(u32, u32)]);

fn rules(state: &mut LiveState, name: &str) -> BroadcastState<u32, u32> {
    let store: &mut dyn OperatorStateStore = state;
    store.get_broadcast_state(&MapStateDescriptor::new(name)).unwrap()
}

/// A state without elements has no bytes: it begins where the next one does.
#[test]
fn a_state_without_elements_is_restored_beside_others() {
    let one: &[(u32, u32)] = &[(1, 2)];
    let other: &[(u32, u32)] = &[(3, 4), (5, 6)];
    let cases: [&[Rules]; 4] = [
        &[("a", &[]), ("b", one)],
        &[("a", one), ("b", &[]), ("c", other)],
        &[("a", &[]), ("b", &[]), ("c", one)],
        &[("a", &[]), ("b", &[])],
    ];
    for (case, (inline_bytes_max, parallelism)) in
        cases.iter().flat_map(|case| [(0, 1), (0, 3), (1_000, 3)].map(|how| (case, how)))
    {
        let storage = MemoryCheckpointStorage::new();
        let mut old = LiveState::new(1);
        for (name, entries) in *case {
            rules(&mut old, name).put_all(&mut old, entries.iter().copied()).unwrap();
        }
        // An empty list lies before them all.
        let store: &mut dyn OperatorStateStore = &mut old;
        store.get_union_list_state(&ListStateDescriptor::<u64>::new("list")).unwrap();
        let old = written_frozen(&storage, 0, inline_bytes_max, old.freeze().unwrap());
        let assigned = assigned(vec![old], parallelism);
        let mut reader = ShareReader::new(&storage);
        for subtask in &assigned.subtasks {
            let read = block_on(reader.read_subtask(CheckpointId(1), subtask, false)).unwrap();
            let mut restored = LiveState::new(2);
            for state in read.operator {
                restored.restore(state.meta, state.elements).unwrap();
            }
            for (name, entries) in *case {
                let mut found = rules(&mut restored, name).entries(&mut restored).unwrap();
                found.sort_unstable();
                assert_eq!(found, *entries, "{name} of {case:?} at parallelism {parallelism}");
            }
        }
    }
}

#[test]
fn a_part_that_is_not_what_was_written_is_an_error() {
    let storage = MemoryCheckpointStorage::new();
    for inline_bytes_max in [0, 1_000] {
        let list = [(meta("list", Redistribution::Union), &["one", "two"][..])];
        let subtask = inline_bytes_max as usize;
        let good = written(&storage, subtask, inline_bytes_max, &list);
        assert!(read(&storage, &assigned(vec![good.clone()], 2)).is_ok());
        let error = |change: &dyn Fn(&mut OperatorStateHandle)| {
            let mut bad = good.clone();
            change(bad.operator.as_mut().unwrap());
            let error = read(&storage, &assigned(vec![bad], 2)).unwrap_err();
            let StorageError::Corrupt { expected, found, .. } = &error else { panic!("{error}") };
            format!("{expected} | {found}")
        };
        let text = error(&|operator| operator.parts[0].checksum.0 ^= 1);
        assert!(text.starts_with("checksum"), "{text}");
        for (elements, found) in [(1, "2 elements"), (3, "2 elements")] {
            let text = error(&|operator| operator.parts[0].elements = elements);
            assert_eq!(text, format!("{elements} elements of operator state at byte 0 | {found}"));
        }
        let text = error(&|operator| {
            // The first length now reaches beyond the part.
            operator.parts[0].length -= 1;
            operator.parts[0].checksum = highwater_state_api::Checksum::of(b"\x03one\x03tw");
        });
        assert!(text.contains("longer than"), "{text}");
    }
}
