//! Cases: a state goes on from a snapshot, at any parallelism, or says why it cannot.

use highwater_state_api::{KeyGroup, KeyGroupRange, KeyedState, ListStateDescriptor, StateError, StateKind};

use super::harness::{
    BackendFactory, Snapshot, all_groups, expected_values, freeze, group_of, list, map, max_parallelism, select,
    set_values, store, try_map, try_value, value, values, with_every_cache,
};

const KEYS: u64 = 200;

/// Contract: B41.
/// Values and maps are there after a restore, can be changed, and are there after the next one.
pub fn a_restored_state_goes_on(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<String>();
        for round in 0..4u64 {
            let count = value::<u64>(&mut state, "count");
            let seen = map::<String, u64>(&mut state, "seen");
            for number in 0..50u64 {
                let key = format!("key {number}");
                select(&mut state, &key);
                assert_eq!(count.value(&mut state).unwrap(), (round > 0).then_some(round * 10), "{key}, round {round}");
                count.modify(&mut state, |count| *count = Some(count.unwrap_or(0) + 10)).unwrap();
                assert_eq!(seen.entries(&mut state).unwrap().len() as u64, round);
                seen.put(&mut state, format!("{round}"), number).unwrap();
                assert_eq!(seen.get(&mut state, &"0".to_owned()).unwrap(), Some(number));
            }
            let snapshot = Snapshot::of(&mut state);
            state = bench.restored::<String>(&snapshot);
        }
    });
}

/// Contract: B58.
/// A state that the new program does not register is in every later snapshot, and can be registered again.
pub fn a_state_that_nobody_registers_goes_on_unchanged(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "dormant", KEYS, 1);
        set_values(&mut state, "count", KEYS / 2, 1);
        let dormant = map::<String, u64>(&mut state, "dormant map");
        select(&mut state, &7u64);
        dormant.put(&mut state, "a".into(), 1).unwrap();
        let mut snapshot = Snapshot::of(&mut state);
        let of = |snapshot: &Snapshot, prefix: &str| {
            let entries = snapshot.entries().into_iter();
            entries.filter(|((name, ..), _)| name.starts_with(prefix)).collect::<Vec<_>>()
        };
        let original = of(&snapshot, "dormant");
        for round in 2..5u64 {
            let mut state = bench.restored::<u64>(&snapshot);
            set_values(&mut state, "count", KEYS, round);
            let count = value::<u64>(&mut state, "count");
            select(&mut state, &7u64);
            count.clear(&mut state).unwrap();
            snapshot = Snapshot::of(&mut state);
            assert_eq!(of(&snapshot, "dormant"), original);
            assert_eq!(of(&snapshot, "count").len() as u64, KEYS - 1);
        }
        // Even when no state at all is registered.
        let snapshot = Snapshot::of(&mut bench.restored::<u64>(&snapshot));
        let mut state = bench.restored::<u64>(&snapshot);
        assert_eq!(values(&mut state, "dormant", KEYS), expected_values(KEYS, 1));
        let dormant = map::<String, u64>(&mut state, "dormant map");
        select(&mut state, &7u64);
        assert_eq!(dormant.entries(&mut state).unwrap(), [("a".to_owned(), 1)]);
    });
}

/// States are found by their names, whatever numbers their tables had.
pub fn the_order_of_registration_does_not_matter(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        for (plus, name) in ["a", "b", "c"].into_iter().enumerate() {
            set_values(&mut state, name, KEYS, plus as u64);
        }
        let snapshot = Snapshot::of(&mut state);
        let mut state = bench.restored::<u64>(&snapshot);
        assert_eq!(values(&mut state, "c", KEYS), expected_values(KEYS, 2));
        set_values(&mut state, "new", KEYS, 3);
        assert_eq!(values(&mut state, "a", KEYS), expected_values(KEYS, 0));
        let snapshot = Snapshot::of(&mut state);
        let mut state = bench.restored::<u64>(&snapshot);
        for (plus, name) in [(3, "new"), (1, "b"), (0, "a"), (2, "c")] {
            assert_eq!(values(&mut state, name, KEYS), expected_values(KEYS, plus), "{name}");
        }
    });
}

/// Contract: B57.
/// A table goes on to exist, with its schema, in a subtask that restores no entry of it.
pub fn a_table_without_entries_goes_on(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        value::<u64>(&mut state, "count");
        let snapshot = Snapshot::of(&mut state);
        let mut state = bench.restored::<u64>(&snapshot);
        assert_eq!(Snapshot::of(&mut state).tables, snapshot.tables);
        assert!(matches!(try_value::<String>(&mut state, "count"), Err(StateError::OtherSchema { .. })));
        assert_eq!(values(&mut state, "count", 1), [None]);
    });
}

/// Contract: A29, D97.
/// A restored state is used as what it was written as, or the registration names it and says what differs.
pub fn a_restored_state_is_not_taken_for_another_kind_or_schema(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 20, 1);
        let seen = map::<u32, u64>(&mut state, "seen");
        seen.put(&mut state, 1, 1).unwrap();
        let snapshot = Snapshot::of(&mut state);
        let mut state = bench.restored::<u64>(&snapshot);
        match try_map::<u64, u64>(&mut state, "count") {
            Err(StateError::OtherKind { state, existing: StateKind::Value, requested: StateKind::Map }) => {
                assert_eq!(state, "count");
            }
            other => panic!("a value state was taken for a map state: {other:?}"),
        }
        for (name, part, result) in [
            ("count", "value", try_value::<f64>(&mut state, "count").map(drop)),
            ("count", "value", try_value::<Option<u64>>(&mut state, "count").map(drop)),
            ("seen", "map key", try_map::<u64, u64>(&mut state, "seen").map(drop)),
            ("seen", "value", try_map::<u32, i64>(&mut state, "seen").map(drop)),
        ] {
            match result {
                Err(StateError::OtherSchema { state, part: of, .. }) => assert_eq!((&*state, of), (name, part)),
                other => panic!("{name:?} was taken with another schema of its {part}: {other:?}"),
            }
        }
        // A refusal harms nothing.
        assert_eq!(values(&mut state, "count", 20), expected_values(20, 1));
        assert_eq!(snapshot.entries(), Snapshot::of(&mut state).entries());
    });
}

/// Keys are compared by their schema, not by their bytes.
pub fn a_restored_state_keeps_its_type_of_keys(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 20, 1);
        let snapshot = Snapshot::of(&mut state);
        let mut state = bench.restored::<i64>(&snapshot);
        match try_value::<u64>(&mut state, "count") {
            Err(StateError::OtherSchema { state, part: "key", .. }) => assert_eq!(state, "count"),
            other => panic!("keys of u64 were taken for keys of i64: {other:?}"),
        }
    });
}

/// Two subtasks of one operator had the same states, or there is no one state to restore.
pub fn snapshots_that_do_not_agree_are_refused(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let [first, second] = [(0, 2), (1, 2)].map(|(subtask, of)| max_parallelism().range_of(subtask, of));
        let snapshot = |range: KeyGroupRange, register: &dyn Fn(&mut KeyedState)| {
            let mut state = bench.open_range::<u64>(range);
            register(&mut state);
            Snapshot::written(&mut freeze(&mut state, 1), range)
        };
        let one = snapshot(first, &|state| {
            value::<u64>(state, "count");
        });
        let kind = snapshot(second, &|state| {
            map::<u64, u64>(state, "count");
        });
        let schema = snapshot(second, &|state| {
            value::<String>(state, "count");
        });
        for other in [kind, schema] {
            let mut state = bench.open::<u64>();
            one.restore(&mut state, all_groups()).unwrap();
            let error = other.restore(&mut state, all_groups()).unwrap_err();
            assert!(error.to_string().contains("\"count\""), "{error}");
        }
    });
}

/// A key group is restored by the subtask that owns it.
pub fn a_key_group_of_another_subtask_is_not_restored(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", KEYS, 1);
        let snapshot = Snapshot::of(&mut state);
        let range = max_parallelism().range_of(0, 2);
        let mut state = bench.open_range::<u64>(range);
        let foreign = KeyGroup(range.end().0 + 1);
        match state.restore_key_group(&snapshot.tables, foreign, snapshot.groups[&foreign].clone()) {
            Err(StateError::ForeignKeyGroup { group, range: of }) => assert_eq!((group, of), (foreign, range)),
            other => panic!("a foreign key group was restored: {other:?}"),
        }
    });
}

/// A stream cut at any byte, with bytes behind its end, or with a wrong table number is an error: at the restore, or
/// when the state is registered or read.
pub fn a_damaged_stream_is_an_error(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        set_values(&mut state, "count", 20, 1);
        let snapshot = Snapshot::of(&mut state);
        let (group, stream) = snapshot.groups.iter().next().unwrap();
        let mut damaged: Vec<(String, Vec<u8>)> =
            (1..stream.len()).map(|length| (format!("cut to {length} bytes"), stream[..length].to_vec())).collect();
        damaged.push(("one byte more".into(), [stream, &[0][..]].concat()));
        damaged.push(("twice".into(), [&stream[..], stream].concat()));
        damaged.push(("an unknown table".into(), [&[9, 0], &stream[2..]].concat()));
        damaged.push(("a length of everything".into(), [&stream[..2], &[0xff; 8], &stream[10..]].concat()));
        for (damage, stream) in damaged {
            let mut state = bench.open::<u64>();
            let restored = state.restore_key_group(&snapshot.tables, *group, stream.into());
            let outcome = restored.and_then(|()| try_value::<u64>(&mut state, "count").map(drop));
            assert!(outcome.is_err(), "{damage}: the stream was taken");
        }
    });
}

/// A value or key of which bytes are missing is an error that names the state: at the registration, or when it is read.
pub fn a_damaged_value_is_an_error(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let key = 7u64;
        let section = |key: &[u8], value: &[u8]| {
            let mut entry = vec![key.len() as u8];
            entry.extend(key);
            entry.extend([0, 0, value.len() as u8]);
            entry.extend(value);
            [&[0, 0], &(entry.len() as u64).to_le_bytes()[..], &entry].concat()
        };
        let mut state = bench.open::<u64>();
        value::<u64>(&mut state, "count");
        let tables = Snapshot::of(&mut state).tables;
        let read = |value: &[u8]| {
            let mut state = bench.open::<u64>();
            state.restore_key_group(&tables, group_of(&key), section(&key.to_le_bytes(), value).into())?;
            let count = try_value::<u64>(&mut state, "count")?;
            select(&mut state, &key);
            count.value(&mut state)
        };
        assert_eq!(read(&5u64.to_le_bytes()).unwrap(), Some(5));
        for value in [&[][..], &[1, 2, 3], &[0; 9]] {
            let error = read(value).expect_err("damaged bytes were taken for a value");
            assert!(error.to_string().contains("\"count\""), "{error}");
        }
    });
}

/// A chunk of a list whose position or elements are damaged is an error: at the restore, at the registration, or when the
/// list is read.
pub fn a_damaged_list_is_an_error(factory: BackendFactory<'_>) {
    with_every_cache(factory, |bench| {
        let mut state = bench.open::<u64>();
        let events = list::<u64>(&mut state, "events");
        select(&mut state, &1u64);
        events.add_all(&mut state, [1, 2]).unwrap();
        let snapshot = Snapshot::of(&mut state);
        let group = group_of(&1u64);
        let key = 1u64.to_le_bytes();
        let element = |number: u64| [&[8], &number.to_le_bytes()[..]].concat();
        let good = [element(1), element(2)].concat();
        let position = 0u64.to_be_bytes();
        for (map_key, chunk) in [
            (&position[..7], &good[..]),
            (&[], &good),
            (&position, &good[..17]),
            (&position, &[]),
            (&position, &[&good[..], &[9, 0]].concat()),
            (&position, &[7, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut stream = Vec::from(0u16.to_le_bytes());
            let entry = [&[8], &key[..], &[0, map_key.len() as u8], map_key, &[chunk.len() as u8], chunk].concat();
            stream.extend((entry.len() as u64).to_le_bytes());
            stream.extend(entry);
            let damaged = Snapshot { groups: [(group, stream.into())].into(), ..snapshot.clone() };
            let mut state = bench.open::<u64>();
            let read = damaged.restore(&mut state, all_groups()).and_then(|()| {
                let events = store(&mut state).get_list_state(&ListStateDescriptor::<u64>::new("events"))?;
                select(&mut state, &1u64);
                events.get(&mut state)
            });
            let is_named = matches!(read, Err(StateError::Damaged(_) | StateError::Serializer { .. }));
            assert!(is_named, "position {map_key:?}, chunk {chunk:?}: {read:?}");
        }
    });
}
