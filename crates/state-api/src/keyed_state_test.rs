//! Behaviour of keyed state that does not depend on where it is held.

use crate::rows::fixture_test::{EVERY_WAY, Written, all, hash, open, request, store};
use crate::{MapStateDescriptor, ValueStateDescriptor};

#[test]
fn values_and_map_entries_survive_a_restore() {
    for held in EVERY_WAY {
        let mut state = open::<String>(held, all());
        let count = store(&mut state).get_state(&ValueStateDescriptor::<u64>::new("count")).unwrap();
        let seen = store(&mut state).get_map_state(&MapStateDescriptor::<String, u8>::new("seen")).unwrap();
        for key in ["a", "b", "c", "d", "e"].map(String::from) {
            state.set_current_key(&key, hash(&key)).unwrap();
            count.update(&mut state, 0).unwrap();
            seen.put(&mut state, key.clone(), 1).unwrap();
            count.modify(&mut state, |count| *count.as_mut().unwrap() += 1).unwrap();
        }
        state.end_batch().unwrap();
        let written = Written::of(state.freeze(&request()).unwrap());
        assert_eq!(written.entries().len(), 10, "{held:?}");
        let mut state = written.reopen::<String>(held);
        let count = store(&mut state).get_state(&ValueStateDescriptor::<u64>::new("count")).unwrap();
        let seen = store(&mut state).get_map_state(&MapStateDescriptor::<String, u8>::new("seen")).unwrap();
        let key = String::from("c");
        state.set_current_key(&key, hash(&key)).unwrap();
        assert_eq!(count.value(&mut state).unwrap(), Some(1), "{held:?}");
        assert_eq!(seen.entries(&mut state).unwrap(), [(key, 1)], "{held:?}");
    }
}
