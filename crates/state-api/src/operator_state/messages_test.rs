//! What errors of operator state say: which state it is, and what is wrong with it.

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};

use super::*;
use crate::{ListStateDescriptor, MapStateDescriptor, Schema};

fn state() -> OperatorState {
    OperatorState::new(7)
}

fn store(state: &mut OperatorState) -> &mut dyn OperatorStateStore {
    state
}

fn meta(name: &str, redistribution: Redistribution) -> OperatorStateMeta {
    let number = Schema::trace::<u64>().unwrap();
    let map_key = (redistribution == Redistribution::Broadcast).then(|| number.clone());
    OperatorStateMeta { name: name.to_owned(), redistribution, map_key, element: number }
}

fn restored(
    redistribution: Redistribution,
    elements: u64,
    content: &'static [u8],
) -> Result<OperatorState, StateError> {
    let mut state = state();
    let elements = RestoredElements { elements, content: Bytes::from_static(content), is_carried: true };
    state.restore(meta("numbers", redistribution), vec![elements]).map(|()| state)
}

/// Contract: E105.
#[test]
fn bytes_that_are_cut_are_damaged_operator_state_of_the_state_with_its_name() {
    let expected =
        "restored state is damaged: state \"numbers\": operator state: a byte string is longer than what is left";
    let mut list = restored(Redistribution::Split, 1, &[8, 1, 2]).unwrap();
    let error = store(&mut list).get_list_state(&ListStateDescriptor::<u64>::new("numbers")).unwrap_err();
    assert_eq!(error.to_string(), expected);
    let mut broadcast = restored(Redistribution::Broadcast, 1, &[8, 1, 2]).unwrap();
    let error = store(&mut broadcast).get_broadcast_state(&MapStateDescriptor::<u64, u64>::new("numbers")).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn more_elements_than_their_bytes_can_hold_are_refused() {
    for redistribution in [Redistribution::Split, Redistribution::Union, Redistribution::Broadcast] {
        let error = |elements, content| match restored(redistribution, elements, content) {
            Ok(_) => panic!("{elements} elements in {content:?} are restored"),
            Err(error) => error.to_string(),
        };
        assert_eq!(error(7, &[]), "restored state is damaged: state \"numbers\": 7 elements in 0 bytes are restored");
        assert_eq!(error(0, &[0]), "restored state is damaged: state \"numbers\": 0 elements in 1 bytes are restored");
    }
}

/// A number that panics when it is written in a snapshot, and not when it is checked before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct Panics(u64);

thread_local! {
    static WRITES_SNAPSHOT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Serialize for Panics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(!WRITES_SNAPSHOT.get(), "boom");
        self.0.serialize(serializer)
    }
}

#[test]
fn a_serializer_that_panics_in_a_snapshot_is_an_error_that_names_the_state() {
    let list = ListStateDescriptor::<Panics>::new("grumpy").opaque_schema("panics", 1);
    let mut state = state();
    store(&mut state).get_list_state(&ListStateDescriptor::<u64>::new("a")).unwrap().add(&mut state, 1).unwrap();
    let grumpy = store(&mut state).get_list_state(&list).unwrap();
    grumpy.add(&mut state, Panics(1)).unwrap();
    let frozen = state.freeze().unwrap();
    WRITES_SNAPSHOT.set(true);
    let error = frozen.write_to(&mut Vec::new());
    WRITES_SNAPSHOT.set(false);
    assert_eq!(
        error.unwrap_err().to_string(),
        "a snapshot could not be written: a serializer of state \"grumpy\" panicked: boom"
    );
}
