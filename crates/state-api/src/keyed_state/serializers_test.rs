//! Types whose serialisation panics.

use serde::{Deserialize, Serialize};

use super::KeyedState;
use crate::rows::fixture_test::{Held, all, groups, hash, open, request, store};
use crate::{FrozenKeyedState, Key, StateError, ValueState, ValueStateDescriptor};

fn select<K: Key>(state: &mut KeyedState, key: &K) -> Result<(), StateError> {
    state.set_current_key(key, hash(key))
}

fn count(state: &mut KeyedState) -> ValueState<u32> {
    store(state).get_state(&ValueStateDescriptor::new("count")).unwrap()
}

fn written(mut frozen: FrozenKeyedState) -> Result<(), StateError> {
    all().iter().try_for_each(|group| frozen.content.visit_key_group(group, &mut |_| Ok(())))
}

/// Panics when it is written on another thread than that of the test, as a snapshot is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct PanicsInSnapshots(u32);

impl Serialize for PanicsInSnapshots {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(std::thread::current().name() != Some("snapshot"), "boom");
        self.0.serialize(serializer)
    }
}

fn written_elsewhere(frozen: FrozenKeyedState) -> Result<(), StateError> {
    let write = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || written(frozen)).unwrap();
    write.join().expect("the panic is an error")
}

#[test]
fn a_serializer_that_panics_in_a_snapshot_is_an_error_that_names_the_state() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = count(&mut state);
    let grumpy = ValueStateDescriptor::<PanicsInSnapshots>::new("grumpy").opaque_schema("panics", 1);
    let grumpy = store(&mut state).get_state(&grumpy).unwrap();
    select(&mut state, &1u32).unwrap();
    count.update(&mut state, 1).unwrap();
    grumpy.update(&mut state, PanicsInSnapshots(1)).unwrap();
    let error = written_elsewhere(state.freeze(&request()).unwrap()).unwrap_err();
    let expected = "a snapshot could not be written: a serializer of state \"grumpy\" panicked: boom";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_serializer_of_keys_that_panics_is_an_error_that_blames_no_state() {
    let mut state = open::<PanicsInSnapshots>(Held::Heap, all());
    let count = count(&mut state);
    select(&mut state, &PanicsInSnapshots(1)).unwrap();
    count.update(&mut state, 1).unwrap();
    let error = written_elsewhere(state.freeze(&request()).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "a snapshot could not be written: the serializer of the keys panicked: boom");
}

#[test]
fn a_visitor_that_panics_is_an_error_that_blames_no_serializer() {
    let mut state = open::<u32>(Held::Heap, all());
    let count = count(&mut state);
    select(&mut state, &1u32).unwrap();
    count.update(&mut state, 1).unwrap();
    let mut frozen = state.freeze(&request()).unwrap();
    let group = groups().group_of(hash(&1u32));
    let error = frozen.content.visit_key_group(group, &mut |_| panic!("no disk")).unwrap_err();
    let expected = "a snapshot could not be written: the visitor of state \"count\" panicked: no disk";
    assert_eq!(error.to_string(), expected);
}
