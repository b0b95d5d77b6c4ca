//! Lists behind a cache: what is read and written of the byte tables.

use std::sync::atomic::Ordering;

use super::KeyedState;
use crate::rows::fixture_test::{Held, TreeBackend, Written, all, hash, open_on, request, store};
use crate::{ListState, ListStateDescriptor};

fn list(state: &mut KeyedState) -> ListState<u32> {
    store(state).get_list_state(&ListStateDescriptor::new("list")).unwrap()
}

fn select(state: &mut KeyedState, key: u32) {
    state.set_current_key(&key, hash(&key)).unwrap();
}

fn chunks(state: &mut KeyedState) -> usize {
    Written::of(state.freeze(&request()).unwrap()).entries().len()
}

/// Every cache, from none to one that is never full.
const CACHED_ROWS: [usize; 3] = [0, 3, 1_000_000];

#[test]
fn adding_reads_nothing_however_long_the_list_is() {
    for cached_rows_max in CACHED_ROWS {
        let backend = TreeBackend::default();
        let reads = backend.reads.clone();
        let mut state = open_on::<u32>(Box::new(backend), cached_rows_max, all());
        let list = list(&mut state);
        for number in 0..500u32 {
            select(&mut state, number % 7);
            list.add(&mut state, number).unwrap();
            if number % 20 == 0 {
                list.add_all(&mut state, 0..100).unwrap();
                state.end_batch().unwrap();
            }
        }
        state.freeze(&request()).unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 0, "with {cached_rows_max} rows");
    }
}

#[test]
fn elements_of_a_list_that_is_whole_in_the_cache_are_written_once() {
    for cached_rows_max in CACHED_ROWS {
        let mut state = open_on::<u32>(Box::<TreeBackend>::default(), cached_rows_max, all());
        let numbers = list(&mut state);
        select(&mut state, 1);
        numbers.update(&mut state, [0]).unwrap();
        for number in 1..4 {
            state.freeze(&request()).unwrap();
            select(&mut state, 1);
            numbers.add(&mut state, number).unwrap();
        }
        let written = Written::of(state.freeze(&request()).unwrap());
        let mut restored = written.reopen::<u32>(Held::Heap);
        let numbers = list(&mut restored);
        select(&mut restored, 1);
        assert_eq!(numbers.get(&mut restored).unwrap(), [0, 1, 2, 3], "with {cached_rows_max} rows");
    }
}

#[test]
fn a_list_in_many_small_chunks_is_written_in_few_once_it_was_read() {
    for cached_rows_max in CACHED_ROWS {
        let mut state = open_on::<u32>(Box::<TreeBackend>::default(), cached_rows_max, all());
        let list = list(&mut state);
        for number in 0..100u32 {
            select(&mut state, 1);
            list.add(&mut state, number).unwrap();
            state.freeze(&request()).unwrap();
            state.end_batch().unwrap();
        }
        assert_eq!(chunks(&mut state), 100);
        // A list that was replaced in the cache is whole there, and is not read again.
        let mut restored =
            Written::of(state.freeze(&request()).unwrap()).reopen::<u32>(Held::Bytes { cached_rows_max });
        let again = super::lists_test::list(&mut restored);
        select(&mut restored, 1);
        assert_eq!(again.get(&mut restored).unwrap(), Vec::from_iter(0..100));
        assert_eq!(chunks(&mut restored), 1);
        select(&mut restored, 1);
        again.add(&mut restored, 100).unwrap();
        assert_eq!(again.get(&mut restored).unwrap(), Vec::from_iter(0..=100));
        assert_eq!(chunks(&mut restored), 2);
    }
}

#[test]
fn a_long_list_is_divided_into_chunks_of_bounded_size() {
    for held in [Held::Heap, Held::Bytes { cached_rows_max: 3 }] {
        let mut state = crate::rows::fixture_test::open::<u32>(held, all());
        let list = list(&mut state);
        select(&mut state, 1);
        list.add_all(&mut state, 0..100_000).unwrap();
        let written = Written::of(state.freeze(&request()).unwrap());
        let sizes = Vec::from_iter(written.entries().values().map(Vec::len));
        // Five bytes an element.
        assert_eq!(sizes.iter().sum::<usize>(), 500_000);
        assert!(sizes.iter().all(|size| *size < 33 * 1024), "{sizes:?}");
        assert!(sizes.len() < 20, "{sizes:?}");
    }
}

#[test]
fn clearing_a_list_that_was_never_written_does_not_touch_the_byte_tables() {
    let backend = TreeBackend::default();
    let reads = backend.reads.clone();
    let mut state = open_on::<u32>(Box::new(backend), 100, all());
    let list = list(&mut state);
    select(&mut state, 1);
    list.update(&mut state, [1, 2]).unwrap();
    let once = reads.load(Ordering::Relaxed);
    list.clear(&mut state).unwrap();
    list.update(&mut state, [3]).unwrap();
    list.clear(&mut state).unwrap();
    assert!(list.get(&mut state).unwrap().is_empty());
    assert_eq!(reads.load(Ordering::Relaxed), once);
    assert_eq!(chunks(&mut state), 0);
}
