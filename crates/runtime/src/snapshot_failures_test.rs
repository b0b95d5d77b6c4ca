//! A snapshot that cannot be written to its end leaves no object behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use highwater_state_api::{
    At, Entry, EntryVisitor, FrozenState, KeyGroup, ListStateDescriptor, MaxParallelism, ObjectPath, OperatorState,
    OperatorStateStore, TableId,
};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;
use serde::{Deserialize, Serialize};

use super::*;

/// A snapshot with a value in each key group, so large that it is written as soon as it is read. One may be unwritable.
struct LargeValues {
    unwritable: Option<KeyGroup>,
}

impl FrozenState for LargeValues {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        if self.unwritable == Some(group) {
            return Err(StateError::Backend("this value is not written".into()));
        }
        let at = At { table: TableId(0), group, key: b"key", namespace: &[], map_key: &[] };
        visit(Entry { at, value: &[7; 100_000] })
    }
}

/// Writes the state of an operator, first in ways that fail in the middle, and then as it is. `freeze` is told whether the
/// state is to have a value that cannot be written, behind others that can. Returns what the last snapshot has.
fn failures_leave_no_object(name: &str, mut freeze: impl FnMut(bool) -> FrozenOperator) -> OperatorSnapshot {
    let faults = Faults::default();
    let storage = FaultyStorage::new(Arc::new(MemoryCheckpointStorage::new()), faults.clone());
    let folder = ObjectPath::new(["job", "chk-1-1"]);
    let streams = CheckpointStreamFactory::new(&storage, folder.clone(), 0).unwrap();
    let mut write =
        |is_bad| block_on(write_operator(freeze(is_bad), |_| streams.create_checkpoint_state_output_stream(name)));
    let objects = || block_on(storage.list(&folder)).unwrap();

    faults.arm(When::nth(Operation::Write, 2), Fault::FailBefore);
    let error = write(false).unwrap_err();
    assert!(matches!(error, StateError::Storage(_)), "{error:?}");
    assert_eq!(faults.remaining(), 0, "the storage has taken a piece before");
    assert_eq!(objects(), [], "what the storage refused a piece of is an object");

    // The storage has nothing against this one.
    faults.arm(When::nth(Operation::Write, 1), Fault::Delay(Arc::new(|| ())));
    let error = write(true).unwrap_err();
    assert!(!matches!(error, StateError::Storage(_)), "{error:?}");
    assert_eq!(faults.remaining(), 0, "the storage has taken a piece before");
    assert_eq!(objects(), [], "what has a value that cannot be written is an object");

    // Its name is free again.
    let snapshot = write(false).unwrap();
    assert_eq!(objects(), [folder.join(name)]);
    snapshot
}

/// Contract: B44, B45.
#[test]
fn keyed_state_that_could_not_be_written_leaves_no_object() {
    let groups = MaxParallelism::new(8).unwrap().all();
    let snapshot = failures_leave_no_object("sum-0", |is_bad| {
        let content = Box::new(LargeValues { unwritable: is_bad.then_some(groups.end()) });
        FrozenOperator {
            keyed: Some((groups, FrozenKeyedState { tables: Vec::new(), content })),
            ..FrozenOperator::default()
        }
    });
    assert_eq!(snapshot.keyed.unwrap().parts.len(), 8);
}

/// A number that can be written, until it is said that the last one cannot.
#[derive(Clone, Deserialize)]
struct Picky(u64);

const NUMBERS: u64 = 50_000;
static IS_PICKY: AtomicBool = AtomicBool::new(false);

impl Serialize for Picky {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == NUMBERS - 1 && IS_PICKY.load(Ordering::Relaxed) {
            return Err(serde::ser::Error::custom("this number is not written"));
        }
        serializer.serialize_newtype_struct("Picky", &self.0)
    }
}

/// Contract: E104.
#[test]
fn operator_state_that_could_not_be_written_leaves_no_object() {
    let mut state = OperatorState::new(7);
    let store: &mut dyn OperatorStateStore = &mut state;
    let numbers = store.get_list_state(&ListStateDescriptor::<Picky>::new("numbers")).unwrap();
    numbers.add_all(&mut state, (0..NUMBERS).map(Picky)).unwrap();
    let snapshot = failures_leave_no_object("sum-0.operator", |is_bad| {
        IS_PICKY.store(is_bad, Ordering::Relaxed);
        FrozenOperator { operator: state.freeze(), ..FrozenOperator::default() }
    });
    assert_eq!(snapshot.operator.unwrap().parts[0].elements, NUMBERS);
}
