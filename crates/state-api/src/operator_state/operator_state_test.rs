//! Operator state as a function sees it, and as it goes through a snapshot and back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{ListStateDescriptor, MapStateDescriptor};

fn state() -> OperatorState {
    OperatorState::new(7)
}

fn store(state: &mut OperatorState) -> &mut dyn OperatorStateStore {
    state
}

fn numbers(name: &str) -> ListStateDescriptor<u64> {
    ListStateDescriptor::new(name)
}

fn map(name: &str) -> MapStateDescriptor<u32, String> {
    MapStateDescriptor::new(name)
}

/// A snapshot that has been written.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    parts: Vec<OperatorStatePart>,
    content: Bytes,
}

impl Written {
    fn of(frozen: FrozenOperatorState) -> Self {
        let mut content = b"before".to_vec();
        let parts = frozen.write_to(&mut content).unwrap();
        Self { parts, content: Bytes::from(content).slice(6..) }
    }

    fn bytes(&self, part: &OperatorStatePart) -> Bytes {
        let bytes = self.content.slice(part.offset as usize..(part.offset + part.length) as usize);
        assert_eq!(crate::Checksum::of(&bytes), part.checksum);
        bytes
    }

    /// State that is restored from all of it.
    fn reopen(&self) -> OperatorState {
        let mut state = state();
        for part in &self.parts {
            let elements = RestoredElements { elements: part.elements, content: self.bytes(part), is_carried: true };
            state.restore(part.meta.clone(), vec![elements]).unwrap();
        }
        state
    }
}

fn write(state: &mut OperatorState) -> Written {
    Written::of(state.freeze().unwrap())
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

/// Contract: E98.
#[test]
fn lists_and_broadcast_states_have_names_of_their_own() {
    let mut state = state();
    store(&mut state).get_list_state(&numbers("test2")).unwrap();
    store(&mut state).get_list_state(&numbers("test1")).unwrap();
    store(&mut state).get_union_list_state(&numbers("test3")).unwrap();
    store(&mut state).get_broadcast_state(&map("test1")).unwrap();
    assert_eq!(state.registered_state_names(), ["test1", "test2", "test3"]);
    assert_eq!(state.registered_broadcast_state_names(), ["test1"]);

    // Restored names count too.
    let mut restored = write(&mut state).reopen();
    assert_eq!(restored.registered_state_names(), ["test1", "test2", "test3"]);
    assert_eq!(restored.registered_broadcast_state_names(), ["test1"]);
    store(&mut restored).get_list_state(&numbers("test0")).unwrap();
    assert_eq!(restored.registered_state_names(), ["test0", "test1", "test2", "test3"]);
    assert_eq!(sorted(restored.unregistered_states().collect()), ["test1", "test1", "test2", "test3"]);
}

/// Contract: E99.
#[test]
fn a_list_cannot_be_handed_out_in_two_ways() {
    let mut state = state();
    store(&mut state).get_list_state(&numbers("split")).unwrap();
    store(&mut state).get_union_list_state(&numbers("union")).unwrap();
    let mut restored = write(&mut state).reopen();
    for state in [&mut state, &mut restored] {
        let error = store(state).get_union_list_state(&numbers("split")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "state \"split\" is registered or restored as split list state and cannot be used as union list state"
        );
        let error = store(state).get_list_state(&numbers("union")).unwrap_err();
        let StateError::OtherRedistribution { existing, requested, .. } = error else { panic!("{error}") };
        assert_eq!((existing, requested), (Redistribution::Union, Redistribution::Split));
        // Nothing was changed.
        store(state).get_list_state(&numbers("split")).unwrap();
    }
}

/// Contract: E100.
#[test]
fn two_handles_of_one_name_are_the_same_list() {
    let mut state = state();
    let first = store(&mut state).get_list_state(&numbers("test1")).unwrap();
    first.add_all(&mut state, [42, 4711]).unwrap();
    let second = store(&mut state).get_list_state(&numbers("test1")).unwrap();
    second.add(&mut state, 123).unwrap();
    assert_eq!(first.get(&mut state).unwrap(), [42, 4711, 123]);
    assert_eq!(second.get(&mut state).unwrap(), [42, 4711, 123]);
}

/// Contract: E101.
#[test]
fn without_a_state_there_is_no_snapshot() {
    let mut state = state();
    assert!(state.freeze().is_none());
    // An empty state is one: that it was there is something to restore.
    store(&mut state).get_list_state(&numbers("empty")).unwrap();
    let written = write(&mut state);
    assert_eq!((written.parts.len(), written.parts[0].elements, written.content.len()), (1, 0, 0));
}

/// Contract: E102.
#[test]
fn broadcast_state_alone_goes_through_a_snapshot() {
    let mut state = state();
    let broadcast = store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    let text =
        |entries: &[(u32, u32)]| entries.iter().map(|(key, value)| (*key, value.to_string())).collect::<Vec<_>>();
    broadcast.put_all(&mut state, text(&[(1, 2), (3, 4), (5, 6)])).unwrap();

    let mut state = write(&mut state).reopen();
    let broadcast = store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    assert_eq!(sorted(broadcast.entries(&mut state).unwrap()), text(&[(1, 2), (3, 4), (5, 6)]));
    broadcast.remove(&mut state, &1).unwrap();

    let mut state = write(&mut state).reopen();
    let broadcast = store(&mut state).get_broadcast_state(&map("rules")).unwrap().read_only();
    assert_eq!(sorted(broadcast.entries(&mut state).unwrap()), text(&[(3, 4), (5, 6)]));
    assert_eq!(broadcast.get(&mut state, &3).unwrap(), Some("4".to_owned()));
    assert!(!broadcast.contains(&mut state, &1).unwrap());
    let mut visited = 0;
    broadcast.for_each(&mut state, |_, _| visited += 1).unwrap();
    assert_eq!((visited, broadcast.is_empty(&mut state).unwrap()), (2, false));
}

#[test]
fn only_the_entries_that_are_wanted_are_retained() {
    let mut state = state();
    let rules = store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    rules.put_all(&mut state, (0..1_000).map(|key| (key, key.to_string()))).unwrap();
    let frozen = state.freeze().unwrap();
    let mut asked = Vec::new();
    let keep = |key: &u32, value: &String| {
        asked.push(*key);
        key.is_multiple_of(3) && value.len() < 3
    };
    rules.retain(&mut state, keep).unwrap();
    assert_eq!(sorted(asked), (0..1_000).collect::<Vec<_>>(), "each once");
    let kept: Vec<u32> = rules.entries(&mut state).unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(sorted(kept), (0..100).step_by(3).collect::<Vec<_>>());
    rules.retain(&mut state, |_, _| false).unwrap();
    assert!(rules.read_only().is_empty(&mut state).unwrap());
    // A snapshot does not see it.
    assert_eq!(Written::of(frozen).parts[0].elements, 1_000);
}

/// Contract: E103.
/// Field case: R81.
/// Of it, the operator state.
#[test]
fn what_happens_after_a_freeze_does_not_show_in_it() {
    let mut state = state();
    let list = store(&mut state).get_list_state(&numbers("list")).unwrap();
    let rules = store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    list.add_all(&mut state, 0..10_000).unwrap();
    rules.put_all(&mut state, (0..1_000).map(|key| (key, "old".to_owned()))).unwrap();
    let expected = write(&mut state);

    let frozen = state.freeze().unwrap();
    list.add(&mut state, 10_000).unwrap();
    rules.put_all(&mut state, (0..1_000).map(|key| (key, "new".to_owned()))).unwrap();
    (0..500).for_each(|key| rules.remove(&mut state, &key).unwrap());
    rules.put(&mut state, 5_000, "new".to_owned()).unwrap();
    store(&mut state).get_list_state(&numbers("late")).unwrap().add(&mut state, 1).unwrap();
    let later = state.freeze().unwrap();
    list.clear(&mut state).unwrap();
    rules.clear(&mut state).unwrap();
    state.fold();
    assert_eq!(Written::of(frozen), expected);

    let mut restored = Written::of(later).reopen();
    let list = store(&mut restored).get_list_state(&numbers("list")).unwrap();
    assert!(list.get(&mut restored).unwrap().into_iter().eq(0..=10_000));
    let rules = store(&mut restored).get_broadcast_state(&map("rules")).unwrap();
    let entries: BTreeMap<u32, String> = rules.entries(&mut restored).unwrap().into_iter().collect();
    assert!(entries.keys().copied().eq((500..1_000).chain([5_000])) && entries.values().all(|value| value == "new"));
}

/// Contract: E105.
#[test]
fn a_state_that_cannot_be_read_is_an_error_that_names_it() {
    let mut state = state();
    let list = store(&mut state).get_list_state(&numbers("numbers")).unwrap();
    list.add(&mut state, 1).unwrap();
    store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    let written = write(&mut state);

    let mut restored = written.reopen();
    let error = store(&mut restored).get_list_state(&ListStateDescriptor::<String>::new("numbers")).unwrap_err();
    let expected = "state \"numbers\": the element has schema str, but a state of this name is registered or was written with u64; ";
    assert!(error.to_string().starts_with(expected), "{error}");
    for (part, error) in [
        ("map key", store(&mut restored).get_broadcast_state(&MapStateDescriptor::<u8, String>::new("rules")).err()),
        ("value", store(&mut restored).get_broadcast_state(&MapStateDescriptor::<u32, u8>::new("rules")).err()),
    ] {
        let Some(StateError::OtherSchema { state, part: found, .. }) = error else { panic!("{error:?}") };
        assert_eq!((state.as_str(), found), ("rules", part));
    }
    // It is still there for who asks for it rightly.
    let list = store(&mut restored).get_list_state(&numbers("numbers")).unwrap();
    assert_eq!(list.get(&mut restored).unwrap(), [1]);

    // Bytes that are not what the schema says.
    let mut damaged = super::OperatorState::new(1);
    let elements = RestoredElements { elements: 1, content: Bytes::from_static(&[3, 1, 2, 3]), is_carried: true };
    damaged.restore(written.parts[0].meta.clone(), vec![elements]).unwrap();
    let error = store(&mut damaged).get_list_state(&numbers("numbers")).unwrap_err();
    assert!(matches!(&error, StateError::Serializer { state, .. } if state == "numbers"), "{error}");
    assert_eq!(damaged.unregistered_states().collect::<Vec<_>>(), ["numbers"], "nothing was changed");
}

/// A type whose bytes are not always the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Forgetful {
    kept: u32,
    map: HashMap<u32, u32>,
}

fn good(kept: u32) -> Forgetful {
    Forgetful { kept, map: HashMap::new() }
}

/// Its hash map writes other bytes with nearly every instance.
fn bad() -> Forgetful {
    Forgetful { kept: 0, map: (0..1_000).map(|number| (number, number)).collect() }
}

/// Contract: E106.
#[test]
fn what_fails_changes_nothing() {
    let mut state = state();
    let descriptor = ListStateDescriptor::<Forgetful>::new("list");
    let list = store(&mut state).get_list_state(&descriptor).unwrap();
    list.add_all(&mut state, [good(1), good(2)]).unwrap();
    let errors = [
        list.add(&mut state, bad()),
        list.add_all(&mut state, [good(3), bad()]),
        list.update(&mut state, [good(3), bad(), good(4)]),
    ];
    for error in errors {
        assert!(matches!(error, Err(StateError::NotRoundTrip { .. })), "{error:?}");
    }
    assert_eq!(list.get(&mut state).unwrap(), [good(1), good(2)]);

    let descriptor = MapStateDescriptor::<u32, Forgetful>::new("map");
    let rules = store(&mut state).get_broadcast_state(&descriptor).unwrap();
    rules.put(&mut state, 1, good(1)).unwrap();
    let error = rules.put_all(&mut state, [(1, good(9)), (2, bad())]).unwrap_err();
    assert!(matches!(error, StateError::NotRoundTrip { .. }), "{error}");
    assert_eq!(rules.entries(&mut state).unwrap(), [(1, good(1))]);
}

/// A number that is read as zero, however it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ReadAsZero(u32);

impl Serialize for ReadAsZero {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("ReadAsZero", &0u32)
    }
}

impl<'de> Deserialize<'de> for ReadAsZero {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(Self)
    }
}

#[test]
fn a_broadcast_key_that_is_read_as_another_one_is_refused() {
    let mut state = state();
    let descriptor = MapStateDescriptor::<ReadAsZero, u32>::new("rules");
    let rules = store(&mut state).get_broadcast_state(&descriptor).unwrap();
    rules.put(&mut state, ReadAsZero(0), 1).unwrap();
    let errors =
        [rules.put(&mut state, ReadAsZero(1), 2), rules.put_all(&mut state, [(ReadAsZero(0), 3), (ReadAsZero(1), 4)])];
    for error in errors {
        assert!(matches!(&error, Err(StateError::NotRoundTrip { state, .. }) if state == "rules"), "{error:?}");
    }
    assert_eq!(rules.entries(&mut state).unwrap(), [(ReadAsZero(0), 1)]);
}

/// Restored keys are not tried: what gets through must not go into a snapshot that cannot be restored.
#[test]
fn broadcast_keys_that_write_the_same_bytes_make_no_snapshot() {
    let mut state = state();
    let rules = store(&mut state).get_broadcast_state(&MapStateDescriptor::<u32, u32>::new("rules")).unwrap();
    rules.put_all(&mut state, [(0, 1), (1, 2)]).unwrap();
    let mut state = write(&mut state).reopen();
    let descriptor = MapStateDescriptor::<ReadAsZero, u32>::new("rules");
    store(&mut state).get_broadcast_state(&descriptor).unwrap();
    let error = state.freeze().unwrap().write_to(&mut Vec::new()).unwrap_err();
    assert!(matches!(&error, StateError::NotRoundTrip { state, .. } if state == "rules"), "{error}");
    assert!(error.to_string().contains("two keys are written as the same bytes"), "{error}");
}

#[test]
fn every_element_is_checked() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static WRITES: AtomicU32 = AtomicU32::new(0);
    #[derive(Debug, Clone, Deserialize)]
    struct Counted(#[allow(dead_code, reason = "it is serialised")] u8);
    impl Serialize for Counted {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            WRITES.fetch_add(1, Ordering::Relaxed);
            serializer.serialize_newtype_struct("Counted", &self.0)
        }
    }
    let mut state = state();
    let list = store(&mut state).get_list_state(&ListStateDescriptor::<Counted>::new("list")).unwrap();
    list.add(&mut state, Counted(1)).unwrap();
    let writes_a_check = WRITES.swap(0, Ordering::Relaxed);
    list.add_all(&mut state, (0..6_000).map(|_| Counted(1))).unwrap();
    assert_eq!(WRITES.load(Ordering::Relaxed), 6_000 * writes_a_check);
}

#[test]
fn handles_are_bound_to_their_store_and_type() {
    let (mut one, mut other) = (state(), state());
    let list = store(&mut one).get_list_state(&numbers("list")).unwrap();
    store(&mut other).get_list_state(&numbers("list")).unwrap();
    assert!(matches!(OperatorListState::<u64>::default().get(&mut one), Err(StateError::Unbound { .. })));
    assert!(matches!(BroadcastState::<u32, u32>::default().get(&mut one, &1), Err(StateError::Unbound { .. })));
    assert!(matches!(list.add(&mut other, 1), Err(StateError::ForeignHandle { .. })));
    for blank in ["", "  "] {
        let error = store(&mut one).get_list_state(&numbers(blank)).unwrap_err();
        assert!(matches!(error, StateError::BlankName { .. }), "{error}");
    }
    for reserved in OperatorState::RESERVED_NAMES {
        let errors = [
            store(&mut one).get_list_state(&numbers(reserved)).err(),
            store(&mut one).get_union_list_state(&numbers(reserved)).err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Some(StateError::ReservedName { .. }))), "{errors:?}");
        // Broadcast states have names of their own.
        store(&mut one).get_broadcast_state(&map(reserved)).unwrap();
        // Raw state is a list only in snapshots.
        let of_the_house = one.reserved_list_state(&numbers(reserved));
        assert_eq!(of_the_house.is_ok(), reserved != RAW_OPERATOR_STATE, "{of_the_house:?}");
    }
    // The same bytes, another type.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Wrapped(u64);
    let error = store(&mut one).get_list_state(&ListStateDescriptor::<Wrapped>::new("list")).unwrap_err();
    assert!(matches!(error, StateError::OtherType { .. }), "{error}");
}

#[test]
fn a_handle_works_through_any_context() {
    fn add(cx: &mut dyn OperatorCx, list: OperatorListState<u64>) {
        list.add(cx, 7).unwrap();
    }
    let mut state = state();
    let list = store(&mut state).get_list_state(&numbers("list")).unwrap();
    assert!(list.is_empty(&mut state).unwrap());
    add(&mut state, list);
    let mut sum = 0;
    list.for_each(&mut state, |number| sum += number).unwrap();
    assert_eq!((sum, list.is_empty(&mut state).unwrap(), list.len(&mut state).unwrap()), (7, false, 1));
}

#[test]
fn what_nobody_registers_goes_on_unchanged() {
    let mut state = state();
    store(&mut state).get_list_state(&numbers("split")).unwrap().add_all(&mut state, 0..100).unwrap();
    store(&mut state).get_union_list_state(&numbers("union")).unwrap().add_all(&mut state, 0..3).unwrap();
    let rules = store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    rules.put_all(&mut state, (0..100).map(|key| (key, key.to_string()))).unwrap();
    let first = write(&mut state);
    let mut second = first.reopen();
    assert_eq!(write(&mut second), first);
    assert_eq!(write(&mut second), first, "again");
    // Also when some of it is registered.
    store(&mut second).get_list_state(&numbers("split")).unwrap();
    store(&mut second).get_broadcast_state(&map("rules")).unwrap();
    assert_eq!(write(&mut second), first);
}

/// Field case: R51.
/// What every subtask gets is carried on by one of them.
#[test]
fn a_union_list_that_nobody_registers_does_not_grow() {
    let mut state = state();
    store(&mut state).get_union_list_state(&numbers("union")).unwrap().add_all(&mut state, 0..3).unwrap();
    let written = write(&mut state);
    let part = &written.parts[0];
    let share = |is_carried| RestoredElements { elements: 3, content: written.bytes(part), is_carried };
    let mut reader = super::OperatorState::new(1);
    reader.restore(part.meta.clone(), vec![share(true), share(false)]).unwrap();
    assert_eq!(write(&mut reader), written);
    let list = store(&mut reader).get_union_list_state(&numbers("union")).unwrap();
    assert_eq!(list.get(&mut reader).unwrap(), [0, 1, 2, 0, 1, 2], "who asks sees everything");
}

#[test]
fn a_state_is_restored_once() {
    let mut state = state();
    store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    let written = write(&mut state);
    let meta = written.parts[0].meta.clone();
    let mut restored = written.reopen();
    assert!(matches!(restored.restore(meta.clone(), Vec::new()), Err(StateError::Damaged(_))));
    let copy = RestoredElements { elements: 0, content: Bytes::new(), is_carried: true };
    let error = super::OperatorState::new(1).restore(meta, vec![copy.clone(), copy]).unwrap_err();
    assert!(matches!(error, StateError::Damaged(_)), "{error}");
}

#[test]
fn as_many_elements_are_restored_as_there_are_said_to_be() {
    let mut state = state();
    store(&mut state).get_list_state(&numbers("list")).unwrap().add_all(&mut state, [1, 2]).unwrap();
    store(&mut state).get_broadcast_state(&map("rules")).unwrap().put(&mut state, 1, "x".to_owned()).unwrap();
    let mut written = write(&mut state);
    written.parts.iter_mut().for_each(|part| part.elements += 1);
    let mut restored = written.reopen();
    let errors = [
        store(&mut restored).get_list_state(&numbers("list")).unwrap_err(),
        store(&mut restored).get_broadcast_state(&map("rules")).unwrap_err(),
    ];
    let texts = errors.map(|error| error.to_string());
    assert!(texts[0].ends_with("state \"list\": 2 elements are restored where there should be 3"), "{}", texts[0]);
    assert!(texts[1].ends_with("state \"rules\": 1 elements are restored where there should be 2"), "{}", texts[1]);
    assert_eq!(sorted(restored.unregistered_states().collect()), ["list", "rules"], "nothing was changed");
}

#[test]
fn the_partitions_of_raw_state_are_not_restored_as_a_list() {
    let error = state().restore(crate::raw_operator_state_meta(), Vec::new()).unwrap_err();
    assert!(matches!(error, StateError::ReservedName { .. }), "{error}");
    // Broadcast states have names of their own.
    let rules = MapStateDescriptor::<u32, u32>::new(RAW_OPERATOR_STATE);
    let mut state = state();
    store(&mut state).get_broadcast_state(&rules).unwrap();
    assert_eq!(write(&mut state).reopen().registered_broadcast_state_names(), [RAW_OPERATOR_STATE]);
}

#[test]
#[should_panic(expected = "state is restored before the first state is registered")]
fn nothing_is_restored_once_a_state_is_registered() {
    let mut state = state();
    store(&mut state).get_list_state(&numbers("list")).unwrap();
    let written = write(&mut state);
    let other = OperatorStateMeta { name: "other".to_owned(), ..written.parts[0].meta.clone() };
    let _ = state.restore(other, Vec::new());
}

#[test]
fn more_states_than_there_are_numbers_are_a_mistake() {
    let mut state = state();
    for _ in 0..=u16::MAX {
        let meta = meta("same", Redistribution::Split);
        state.states.push(OneState { meta, cell: None, unread: Vec::new() });
    }
    assert!(matches!(state.restore(meta("other", Redistribution::Split), Vec::new()), Err(StateError::TooManyStates)));
}

fn meta(name: &str, redistribution: Redistribution) -> OperatorStateMeta {
    let map_key = (redistribution == Redistribution::Broadcast).then(crate::Schema::unit);
    OperatorStateMeta { name: name.to_owned(), redistribution, map_key, element: crate::Schema::unit() }
}

#[test]
#[should_panic(expected = "broadcast state \"rules\" is no list")]
fn a_broadcast_state_is_not_written_as_a_list() {
    FrozenOperatorState::default().push_serialized(meta("rules", Redistribution::Broadcast), Vec::new());
}

#[test]
#[should_panic(expected = "there are two lists with the name \"list\"")]
fn two_lists_of_one_name_are_not_written() {
    let mut frozen = FrozenOperatorState::default();
    frozen.push_serialized(meta("list", Redistribution::Split), Vec::new());
    frozen.push_serialized(meta("list", Redistribution::Union), Vec::new());
}

#[test]
fn map_keys_and_none_are_not_the_same() {
    let with = meta("rules", Redistribution::Broadcast);
    let without = OperatorStateMeta { map_key: None, ..with.clone() };
    assert!(with.check_usable_as(&with).is_ok() && without.check_usable_as(&without).is_ok());
    for (existing, requested) in [(&with, &without), (&without, &with)] {
        let error = existing.check_usable_as(requested).unwrap_err();
        assert!(matches!(error, StateError::OtherSchema { part: "map key", .. }), "{error}");
    }
}

/// A value that shows how many copies of it there are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Tracked {
    #[serde(skip)]
    copies: Arc<()>,
}

#[test]
fn what_only_a_finished_snapshot_needed_is_given_back() {
    // By folding after a batch, and, where there are no batches, by the snapshots themselves.
    let by_folding = |state: &mut OperatorState| state.fold();
    let by_freezing = |state: &mut OperatorState| drop(state.freeze());
    for give_back in [by_folding as fn(&mut OperatorState), by_freezing] {
        let mut state = state();
        let descriptor = MapStateDescriptor::<u32, Tracked>::new("map")
            .with_serializers(crate::BincodeSerializer::traced(), crate::BincodeSerializer::opaque("tracked", 1));
        let map = store(&mut state).get_broadcast_state(&descriptor).unwrap();
        let first = Tracked::default();
        map.put(&mut state, 1, first.clone()).unwrap();
        let frozen = state.freeze();
        map.put(&mut state, 1, Tracked::default()).unwrap();
        assert!(Arc::strong_count(&first.copies) > 1, "the snapshot has it");
        drop(frozen);
        (0..3).for_each(|_| give_back(&mut state));
        assert_eq!(Arc::strong_count(&first.copies), 1);
    }
}

/// As the text of the format says.
#[test]
fn equal_states_write_equal_bytes_whatever_came_first() {
    let mut one = state();
    let rules = store(&mut one).get_broadcast_state(&map("rules")).unwrap();
    store(&mut one).get_list_state(&numbers("list")).unwrap();
    (0..300).for_each(|key| rules.put(&mut one, key, "x".to_owned()).unwrap());
    let mut other = super::OperatorState::new(99);
    store(&mut other).get_list_state(&numbers("list")).unwrap();
    let rules = store(&mut other).get_broadcast_state(&map("rules")).unwrap();
    (0..400).rev().for_each(|key| rules.put(&mut other, key, "x".to_owned()).unwrap());
    (300..400).for_each(|key| rules.remove(&mut other, &key).unwrap());
    assert_eq!(write(&mut one), write(&mut other));
}

#[test]
fn the_example_of_the_format_text_is_true() {
    let text = include_str!("../../../../docs/format/operator-state.md");
    let example = text.lines().skip_while(|line| *line != "## Example").filter_map(|line| line.strip_prefix("    "));
    // Behind the bytes, two spaces away, is what they are.
    let bytes = example.flat_map(|line| line.split("  ").next().unwrap_or_default().split(' '));
    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let bytes: Vec<u8> = bytes.collect();

    let mut state = state();
    let rules = store(&mut state).get_broadcast_state(&map("rules")).unwrap();
    rules.put(&mut state, 1, "x".to_owned()).unwrap();
    let seen = store(&mut state).get_list_state(&numbers("seen")).unwrap();
    seen.add_all(&mut state, [7, 300]).unwrap();
    assert_eq!(write(&mut state).content, bytes);
}

#[test]
fn elements_are_cut_out_by_number() {
    let mut part = Vec::new();
    let long = "x".repeat(200);
    ["a", "", &long, "d"].iter().for_each(|element| write_element(element.as_bytes(), &mut part));
    let part = Bytes::from(part);
    let read = |numbers| {
        let slice = slice_elements(&part, numbers).unwrap();
        elements(&slice).map(|element| String::from_utf8(element.unwrap().to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(read(0..4), ["a", "", &long, "d"]);
    assert_eq!(read(1..3), ["", &long]);
    assert!(read(2..2).is_empty());
    assert!(slice_elements(&part, 2..5).is_err());
    assert!(elements(&part[..2]).all(|element| element.is_ok()));
    assert!(elements(&part[..50]).any(|element| element.is_err()), "cut in the middle");
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8),
    AddAll(Vec<u8>),
    Update(Vec<u8>),
    Clear,
    Put(u8, u8),
    Remove(u8),
    ClearMap,
    Freeze,
    WriteOldest,
    Fold,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Add),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Step::AddAll),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Step::Update),
        Just(Step::Clear),
        (0u8..20, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        (0u8..20).prop_map(Step::Remove),
        Just(Step::ClearMap),
        Just(Step::Freeze),
        Just(Step::WriteOldest),
        Just(Step::Fold),
        Just(Step::Restart),
    ]
}

type Model = (Vec<u8>, BTreeMap<u8, u8>);

struct Handles(OperatorListState<u8>, BroadcastState<u8, u8>);

fn open(state: &mut OperatorState) -> Handles {
    Handles(
        store(state).get_list_state(&ListStateDescriptor::new("list")).unwrap(),
        store(state).get_broadcast_state(&MapStateDescriptor::new("map")).unwrap(),
    )
}

fn content(state: &mut OperatorState) -> Model {
    let Handles(list, map) = open(state);
    (list.get(state).unwrap(), map.entries(state).unwrap().into_iter().collect())
}

proptest! {
    /// Contract: E100, E103.
    #[test]
    fn state_and_snapshots_are_those_of_a_simple_model(steps in prop::collection::vec(step(), 0..80)) {
        let mut live = state();
        let mut handles = open(&mut live);
        let mut model = Model::default();
        let mut frozen: Vec<(FrozenOperatorState, Model)> = Vec::new();
        for step in steps {
            let Handles(list, map) = &handles;
            match step {
                Step::Add(element) => { list.add(&mut live, element).unwrap(); model.0.push(element); }
                Step::AddAll(elements) => { list.add_all(&mut live, elements.clone()).unwrap(); model.0.extend(elements); }
                Step::Update(elements) => { list.update(&mut live, elements.clone()).unwrap(); model.0 = elements; }
                Step::Clear => { list.clear(&mut live).unwrap(); model.0.clear(); }
                Step::Put(key, value) => { map.put(&mut live, key, value).unwrap(); model.1.insert(key, value); }
                Step::Remove(key) => { map.remove(&mut live, &key).unwrap(); model.1.remove(&key); }
                Step::ClearMap => { map.clear(&mut live).unwrap(); model.1.clear(); }
                Step::Freeze => frozen.push((live.freeze().unwrap(), model.clone())),
                Step::WriteOldest => if !frozen.is_empty() {
                    let (frozen, expected) = frozen.remove(0);
                    prop_assert_eq!(content(&mut Written::of(frozen).reopen()), expected);
                },
                Step::Fold => live.fold(),
                Step::Restart => { live = write(&mut live).reopen(); handles = open(&mut live); }
            }
            prop_assert_eq!(&content(&mut live), &model);
        }
        for (frozen, expected) in frozen {
            prop_assert_eq!(content(&mut Written::of(frozen).reopen()), expected);
        }
    }
}
