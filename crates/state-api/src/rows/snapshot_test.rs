//! Snapshots: isolated from what happens after them, whole, and carried on when nobody asks for their states.

use bytes::Bytes;

use super::fixture_test::{EVERY_WAY, Held, Written, all, groups, hash, open, request, store};
use crate::{
    Key, KeyGroup, KeyedState, MapState, MapStateDescriptor, State, StateError, ValueState, ValueStateDescriptor,
    canonical,
};

fn value<T: State>(state: &mut KeyedState, name: &str) -> ValueState<T> {
    store(state).get_state(&ValueStateDescriptor::new(name)).unwrap()
}

fn map<UK: Key, UV: State>(state: &mut KeyedState, name: &str) -> MapState<UK, UV> {
    store(state).get_map_state(&MapStateDescriptor::new(name)).unwrap()
}

fn set_all(state: &mut KeyedState, keys: std::ops::Range<u32>, number: u32) {
    let (one, many) = (value::<u32>(state, "one"), map::<u32, u32>(state, "many"));
    let keys: Vec<u32> = keys.collect();
    for batch in keys.chunks(500) {
        state.resolve_batch(batch.iter().map(|key| (key, hash(key)))).unwrap();
        for index in 0..batch.len() {
            state.select(index).unwrap();
            one.update(state, number).unwrap();
            many.put(state, number % 3, number).unwrap();
        }
        state.end_batch().unwrap();
    }
}

fn clear_all(state: &mut KeyedState, keys: std::ops::Range<u32>) {
    let (one, many) = (value::<u32>(state, "one"), map::<u32, u32>(state, "many"));
    for key in keys {
        state.set_current_key(&key, hash(&key)).unwrap();
        one.clear(state).unwrap();
        many.clear(state).unwrap();
    }
    state.end_batch().unwrap();
}

/// Small for the byte backend, which copies all it has.
fn key_count(held: Held) -> u32 {
    if held == Held::Heap { 10_000 } else { 300 }
}

/// Contract: B43.
#[test]
fn what_happens_after_a_freeze_does_not_show_in_it() {
    for held in EVERY_WAY {
        let keys = key_count(held);
        let mut state = open::<u32>(held, all());
        set_all(&mut state, 0..keys, 1);
        let expected = Written::of(state.freeze(&request()).unwrap());
        let frozen = state.freeze(&request()).unwrap();
        set_all(&mut state, 0..keys, 2);
        clear_all(&mut state, 0..keys / 2);
        let late = value::<String>(&mut state, "late");
        set_all(&mut state, keys..keys * 2, 3);
        state.set_current_key(&1u32, hash(&1u32)).unwrap();
        late.update(&mut state, "late".into()).unwrap();
        state.end_batch().unwrap();
        // Read by another thread, as the asynchronous part is.
        let written = std::thread::spawn(move || Written::of(frozen)).join().unwrap();
        assert_eq!(written.entries(), expected.entries(), "{held:?}");
        assert_eq!(written.tables, expected.tables);
        assert_eq!(written.entries().len() as u32, keys * 2);
        assert!(written.entries().values().all(|value| value[..] == 1u32.to_le_bytes()));
        let live = Written::of(state.freeze(&request()).unwrap());
        assert_eq!(live.entries().len() as u32, keys / 2 * 3 + keys * 2 + 1);
    }
}

/// Contract: V364.
#[test]
fn a_snapshot_is_written_while_the_task_goes_on() {
    let mut state = open::<u32>(Held::Heap, all());
    set_all(&mut state, 0..5_000, 1);
    let expected = Written::of(state.freeze(&request()).unwrap());
    for round in 2..6 {
        let frozen = state.freeze(&request()).unwrap();
        let writer = std::thread::spawn(move || Written::of(frozen));
        set_all(&mut state, 0..5_000, round);
        let written = writer.join().unwrap();
        if round == 2 {
            assert_eq!(written.entries(), expected.entries());
        }
        let newest = (round - 1).to_le_bytes();
        assert!(written.entries().iter().all(|((name, _), value)| name != "one" || value[..] == newest));
    }
}

/// Contract: B46.
#[test]
fn several_snapshots_are_open_at_once_and_end_in_any_order() {
    for held in EVERY_WAY {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut state = open::<u32>(held, all());
            let mut open = Vec::new();
            for time in 1..=3 {
                set_all(&mut state, 0..100 * time, time);
                clear_all(&mut state, 0..time);
                open.push(Some(state.freeze(&request()).unwrap()));
            }
            set_all(&mut state, 0..50, 9);
            for time in order {
                let written = Written::of(open[time].take().unwrap());
                let time = time as u32 + 1;
                let values = written.entries().into_iter().filter(|((name, _), _)| name == "one");
                let values: Vec<Vec<u8>> = values.map(|(_, value)| value).collect();
                assert_eq!(values.len() as u32, 100 * time - time);
                assert!(values.iter().all(|value| value[..] == time.to_le_bytes()));
                state.end_batch().unwrap();
            }
            set_all(&mut state, 0..300, 10);
            let written = Written::of(state.freeze(&request()).unwrap());
            assert_eq!(written.entries().keys().filter(|(name, _)| name == "one").count(), 300);
        }
    }
}

#[test]
fn a_group_may_be_asked_for_twice_and_a_foreign_one_is_empty() {
    let mut state = open::<u32>(Held::Heap, groups().range_of(0, 2));
    let one = value::<u32>(&mut state, "one");
    let own = |key: &u32| groups().range_of(0, 2).contains(groups().group_of(hash(key)));
    for key in (0..100u32).filter(own) {
        state.set_current_key(&key, hash(&key)).unwrap();
        one.update(&mut state, key).unwrap();
    }
    let mut frozen = state.freeze(&request()).unwrap();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for group in all().iter().collect::<Vec<_>>().into_iter().rev() {
        first.clear();
        second.clear();
        canonical::write_key_group(&mut *frozen.content, group, &mut first).unwrap();
        canonical::write_key_group(&mut *frozen.content, group, &mut second).unwrap();
        assert_eq!((first == second, first.is_empty()), (true, group.0 >= 8), "group {group}");
    }
}

/// Contract: B57, B58.
#[test]
fn states_that_are_never_registered_go_on_unchanged() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        set_all(&mut state, 0..50, 5);
        value::<String>(&mut state, "without entries");
        let first = Written::of(state.freeze(&request()).unwrap());

        // Nothing is registered.
        let mut state = first.reopen::<u32>(held);
        assert_eq!(Written::of(state.freeze(&request()).unwrap()), first, "{held:?}");

        // One is, and changed; and a new one is there.
        let mut state = first.reopen::<u32>(held);
        let (fresh, one) = (value::<u8>(&mut state, "fresh"), value::<u32>(&mut state, "one"));
        state.set_current_key(&7u32, hash(&7u32)).unwrap();
        assert_eq!(one.value(&mut state).unwrap(), Some(5));
        one.update(&mut state, 6).unwrap();
        fresh.update(&mut state, 0).unwrap();
        let second = Written::of(state.freeze(&request()).unwrap());
        assert_eq!(second.tables[..3], first.tables);
        assert_eq!(second.tables[3].name, "fresh");
        let many = |written: &Written| {
            let entries = written.entries().into_iter().filter(|((name, _), _)| name == "many");
            entries.collect::<Vec<_>>()
        };
        assert_eq!((many(&second), many(&second).len()), (many(&first), 50));

        // And then asked for after all.
        let mut state = second.reopen::<u32>(held);
        let many = map::<u32, u32>(&mut state, "many");
        state.set_current_key(&7u32, hash(&7u32)).unwrap();
        assert_eq!(many.entries(&mut state).unwrap(), [(2, 5)]);
        assert_eq!(value::<String>(&mut state, "without entries").value(&mut state).unwrap(), None);
    }
}

/// Contract: F128.
#[test]
fn a_snapshot_may_change_its_number_of_subtasks_and_its_backend() {
    let mut state = open::<u32>(Held::Heap, all());
    set_all(&mut state, 0..200, 5);
    let written = Written::of(state.freeze(&request()).unwrap());
    for held in EVERY_WAY {
        let mut found = 0;
        for subtask in 0..3 {
            let range = groups().range_of(subtask, 3);
            let mut state = open::<u32>(held, range);
            written.restore_into(&mut state, range).unwrap();
            let one = value::<u32>(&mut state, "one");
            for key in (0..200u32).filter(|key| range.contains(groups().group_of(hash(key)))) {
                state.set_current_key(&key, hash(&key)).unwrap();
                assert_eq!(one.value(&mut state).unwrap(), Some(5));
                found += 1;
            }
        }
        assert_eq!(found, 200);
    }
}

/// Contract: B57, D86, D97.
#[test]
fn tables_of_one_name_must_agree() {
    for held in EVERY_WAY {
        let mut state = open::<u32>(held, all());
        value::<u32>(&mut state, "a");
        let first = Written::of(state.freeze(&request()).unwrap()).tables;
        let mut state = open::<u32>(held, all());
        value::<u8>(&mut state, "new");
        value::<u64>(&mut state, "a");
        let second = Written::of(state.freeze(&request()).unwrap()).tables;

        let mut state = open::<u32>(held, all());
        state.restore_tables(&first).unwrap();
        let error = state.restore_tables(&second).unwrap_err();
        assert!(matches!(error, StateError::OtherSchema { part: "value", .. }));
        assert_eq!(state.freeze(&request()).unwrap().tables, first, "nothing has changed");
        let error = store(&mut state).get_state(&ValueStateDescriptor::<u64>::new("a")).unwrap_err();
        assert!(matches!(error, StateError::OtherSchema { part: "value", .. }));
        let error = store(&mut state).get_map_state(&MapStateDescriptor::<u8, u32>::new("a")).unwrap_err();
        assert!(matches!(error, StateError::OtherKind { .. }));
        let twice = [first[0].clone(), first[0].clone()];
        assert!(matches!(open::<u32>(held, all()).restore_tables(&twice), Err(StateError::Damaged(_))));
    }
}

/// One stream of the values of `name`, with all `from` replaced by `to`.
fn damaged_stream(from: &[u8], to: &[u8]) -> (Written, KeyGroup) {
    let mut state = open::<String>(Held::Heap, all());
    let text = value::<String>(&mut state, "text");
    state.set_current_key(&"key".to_owned(), hash(&"key".to_owned())).unwrap();
    text.update(&mut state, "value".into()).unwrap();
    let mut written = Written::of(state.freeze(&request()).unwrap());
    let (group, stream) = written.groups.pop_first().unwrap();
    let at = stream.windows(from.len()).position(|window| window == from).unwrap();
    let damaged = [&stream[..at], to, &stream[at + from.len()..]].concat();
    assert_eq!(damaged.len(), stream.len());
    written.groups.insert(group, Bytes::from(damaged));
    (written, KeyGroup(group))
}

#[test]
fn damaged_bytes_are_an_error_that_names_the_state_and_changes_nothing() {
    // A text of a wrong length, no text at all, and a key of another group.
    let damages: [(&[u8], &[u8]); 3] = [
        (b"\x05\0\0\0\0\0\0\0value", b"\x06\0\0\0\0\0\0\0value"),
        (b"value", b"\xff\xff\xff\xff\xff"),
        (b"key", b"kex"),
    ];
    for (from, to) in damages {
        let (written, group) = damaged_stream(from, to);
        let mut state = written.reopen::<String>(Held::Heap);
        let before = value::<u8>(&mut state, "before");
        for _ in 0..2 {
            let error = store(&mut state).get_state(&ValueStateDescriptor::<String>::new("text")).unwrap_err();
            match error {
                StateError::Serializer { state, .. } => assert_eq!(state, "text"),
                StateError::Damaged(what) => assert!(what.contains("\"text\"") && what.contains(&group.to_string())),
                other => panic!("{other}"),
            }
            assert_eq!(state.rows.keys.column.len(), 0);
        }
        state.set_current_key(&"key".to_owned(), hash(&"key".to_owned())).unwrap();
        before.update(&mut state, 1).unwrap();
        before.clear(&mut state).unwrap();
        state.end_batch().unwrap();
        assert_eq!(Written::of(state.freeze(&request()).unwrap()).groups, written.groups, "still carried on");
    }
    for held in EVERY_WAY {
        // The length of the section, in all ways of holding the state.
        let mut stream = damaged_stream(b"key", b"key").0;
        let (group, bytes) = stream.groups.pop_first().unwrap();
        let cut = bytes.slice(..bytes.len() - 1);
        let mut state = open::<String>(held, all());
        let error = state.restore_key_group(&stream.tables, KeyGroup(group), cut).unwrap_err();
        assert!(matches!(error, StateError::Damaged(_)));
        let error = open::<String>(held, all()).restore_key_group(&[], KeyGroup(group), bytes).unwrap_err();
        assert!(matches!(error, StateError::Damaged(_)));
    }
    // In byte tables the value is only read when it is asked for.
    let (written, _) = damaged_stream(b"value", b"\xff\xff\xff\xff\xff");
    let mut state = written.reopen::<String>(Held::Bytes { cached_rows_max: 3 });
    let text = value::<String>(&mut state, "text");
    state.set_current_key(&"key".to_owned(), hash(&"key".to_owned())).unwrap();
    assert!(matches!(text.value(&mut state), Err(StateError::Serializer { state, .. }) if state == "text"));
}

#[test]
fn a_key_group_is_restored_once() {
    let mut state = open::<u32>(Held::Heap, all());
    set_all(&mut state, 0..20, 1);
    let written = Written::of(state.freeze(&request()).unwrap());
    let mut state = written.reopen::<u32>(Held::Heap);
    assert!(matches!(written.restore_into(&mut state, all()), Err(StateError::Damaged(_))));
}
