//! Cases: what cannot be right is a typed error, and changes nothing.

use highwater_state_api::{KeyHasher, MapState, StateError, StateKind, ValueState};

use super::harness::{
    BackendFactory, Snapshot, group_of, map, max_parallelism, select, try_map, try_value, value, with_every_cache,
};

#[track_caller]
fn assert_no_key<T: std::fmt::Debug>(name: &str, result: Result<T, StateError>) {
    match result {
        Err(StateError::NoCurrentKey { state }) => assert_eq!(state, name),
        other => panic!("expected that there is no current key, got {other:?}"),
    }
}

/// Field case: R63.
/// Before the first key, after a batch, and before the first record of a resolved batch; nothing is stored under any key.
pub fn without_a_current_key_there_is_no_state(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let seen = map::<u64, u64>(&mut state, "seen");
        let check = |state: &mut _| {
            assert_no_key("count", count.value(state));
            assert_no_key("count", count.update(state, 1));
            assert_no_key("count", count.modify(state, |count| *count = None));
            assert_no_key("count", count.clear(state));
            assert_no_key("seen", seen.get(state, &1));
            assert_no_key("seen", seen.put(state, 1, 1));
            assert_no_key("seen", seen.remove(state, &1));
            assert_no_key("seen", seen.entries(state));
            assert_no_key("seen", seen.is_empty(state));
            assert_no_key("seen", seen.clear(state));
        };
        check(&mut state);
        assert!(Snapshot::of(&mut state).entries().is_empty());
        select(&mut state, &1u64);
        count.update(&mut state, 1).unwrap();
        state.end_batch().unwrap();
        check(&mut state);
        let hash = KeyHasher::default().hash(&1u64).unwrap();
        state.resolve_batch([(&1u64, hash)].into_iter()).unwrap();
        check(&mut state);
        state.select(0).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
        assert_eq!(Snapshot::of(&mut state).entries().len(), 1);
    });
}

/// Contract: B56.
/// A handle works with the store that made it.
pub fn a_handle_of_no_store_or_another_store_is_refused(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let mut other = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let foreign = value::<u64>(&mut other, "count");
        let foreign_map = map::<u64, u64>(&mut other, "seen");
        select(&mut state, &1u64);
        count.update(&mut state, 1).unwrap();
        assert!(matches!(ValueState::<u64>::default().value(&mut state), Err(StateError::Unbound { .. })));
        assert!(matches!(MapState::<u64, u64>::default().is_empty(&mut state), Err(StateError::Unbound { .. })));
        assert!(matches!(foreign.value(&mut state), Err(StateError::ForeignHandle { .. })));
        assert!(matches!(foreign.update(&mut state, 2), Err(StateError::ForeignHandle { .. })));
        assert!(matches!(foreign_map.put(&mut state, 1, 1), Err(StateError::ForeignHandle { .. })));
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
    });
}

/// Contract: A35.
/// A key that another subtask owns is refused by name of its group, and no key is current then.
pub fn a_key_of_a_foreign_key_group_is_refused(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let range = max_parallelism().range_of(1, 3);
        let mut state = bench.open_range::<u64>(range);
        let count = value::<u64>(&mut state, "count");
        let mut hasher = KeyHasher::default();
        let (mut own, mut foreign) = (0, 0);
        for key in 0..100u64 {
            let hash = hasher.hash(&key).unwrap();
            let outcome = state.set_current_key(&key, hash);
            if range.contains(group_of(&key)) {
                outcome.unwrap();
                count.update(&mut state, key).unwrap();
                own += 1;
                continue;
            }
            foreign += 1;
            let expected = (group_of(&key), range);
            match outcome {
                Err(StateError::ForeignKeyGroup { group, range }) => assert_eq!((group, range), expected),
                other => panic!("key {key} of group {} was taken: {other:?}", expected.0),
            }
            assert_no_key("count", count.value(&mut state));
            let batch = [(&key, hash)].into_iter();
            assert!(matches!(state.resolve_batch(batch), Err(StateError::ForeignKeyGroup { .. })));
        }
        assert!(own > 0 && foreign > 0, "the keys of the case are all of one kind");
    });
}

/// Keys have one type for the life of the state.
pub fn a_key_of_another_type_is_refused(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        select(&mut state, &1u64);
        count.update(&mut state, 1).unwrap();
        let key = String::from("1");
        let hash = KeyHasher::default().hash(&key).unwrap();
        assert!(matches!(state.set_current_key(&key, hash), Err(StateError::OtherKeyType { .. })));
        assert_no_key("count", count.value(&mut state));
        select(&mut state, &1u64);
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
    });
}

/// Contract: A29.
/// A second registration is of the same kind and schema, or is refused by the state's name.
pub fn a_name_has_one_kind_and_one_schema(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let count = value::<u64>(&mut state, "count");
        let seen = map::<u64, u64>(&mut state, "seen");
        select(&mut state, &1u64);
        count.update(&mut state, 1).unwrap();
        seen.put(&mut state, 1, 1).unwrap();
        match try_map::<u64, u64>(&mut state, "count") {
            Err(StateError::OtherKind { state, existing: StateKind::Value, requested: StateKind::Map }) => {
                assert_eq!(state, "count");
            }
            other => panic!("a value state was taken for a map state: {other:?}"),
        }
        let others = [
            ("count", try_value::<i64>(&mut state, "count").err(), "value"),
            ("count", try_value::<(u64,)>(&mut state, "count").err(), "value"),
            ("seen", try_map::<u64, String>(&mut state, "seen").err(), "value"),
            ("seen", try_map::<String, u64>(&mut state, "seen").err(), "map key"),
        ];
        for (name, error, of) in others {
            match error {
                Some(StateError::OtherSchema { state, part, .. }) => assert_eq!((&*state, part), (name, of)),
                other => panic!("{name:?} was registered with another schema of its {of}: {other:?}"),
            }
        }
        assert_eq!(count.value(&mut state).unwrap(), Some(1));
        assert_eq!(value::<u64>(&mut state, "count").value(&mut state).unwrap(), Some(1));
        assert_eq!(seen.get(&mut state, &1).unwrap(), Some(1));
    });
}

/// A name is not blank.
pub fn a_blank_name_is_refused(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        for blank in ["", " ", "\t\n"] {
            match try_value::<u64>(&mut state, blank) {
                Err(StateError::BlankName { name }) => assert_eq!(name, blank),
                other => panic!("{blank:?} was taken for a name: {other:?}"),
            }
        }
    });
}
