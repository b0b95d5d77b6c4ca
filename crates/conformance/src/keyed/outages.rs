//! Cases: what the backend could not do is an error, and never less than there is. Backends that nobody can make fail
//! pass them by.
//!
//! During an outage a backend may still succeed, with what it has in memory. What it answers then is right.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use highwater_state_api::{
    ByteTables, CheckpointId, FrozenState, KeyGroup, KeyedState, Prefix, SnapshotRequest, StateError, TableId,
};

use super::byte_tables::{Address, at, get, open, simple, tables};
use super::harness::{BackendFactory, Snapshot, all_groups, freeze, group_of, set_values};
use crate::trial::pass_by;

const ENTRIES: u8 = 20;

fn entries() -> BTreeMap<Address, Vec<u8>> {
    (0..ENTRIES).map(|number| (simple(b"key", &[number]), vec![number])).collect()
}

/// Runs a case on byte tables that have some entries and can be made to fail.
fn with_tables(factory: BackendFactory<'_>, case: impl Fn(&mut dyn ByteTables, &dyn Fn(bool))) {
    let test = factory();
    let Some(set_outage) = test.outage() else { return pass_by() };
    let mut backend = open(&test);
    let Some(tables) = tables(&mut *backend) else { return pass_by() };
    for (address, value) in entries() {
        tables.put(at(&address), &value).unwrap();
    }
    case(tables, set_outage);
}

/// Runs a case on a state that has some values and a backend that can be made to fail.
fn with_state(factory: BackendFactory<'_>, case: impl Fn(&mut KeyedState, &dyn Fn(bool))) {
    let test = factory();
    let Some(set_outage) = test.outage() else { return pass_by() };
    let mut state = test.open_state::<u64>(all_groups(), 0);
    set_values(&mut state, "count", 100, 1);
    case(&mut state, set_outage);
}

/// What the suite was given to make the backend fail makes it fail: otherwise the cases about it would prove nothing.
pub fn an_outage_of_the_backend_is_felt(factory: BackendFactory<'_>) {
    let test = factory();
    let Some(set_outage) = test.outage() else { return pass_by() };
    let mut state = test.open_state::<u64>(all_groups(), 0);
    set_values(&mut state, "count", 100, 1);
    let mut frozen = freeze(&mut state, 1);
    let mut backend = open(&test);
    set_outage(true);
    let mut outcomes = vec![
        frozen.content.visit_key_group(group_of(&0u64), &mut |_| Ok(())),
        state.freeze(&SnapshotRequest { checkpoint: CheckpointId(2) }).map(drop),
    ];
    if let Some(tables) = tables(&mut *backend) {
        let address = simple(b"key", b"");
        outcomes.push(tables.put(at(&address), b"value"));
        outcomes.push(tables.get(at(&address), &mut Vec::new()).map(drop));
        outcomes.push(tables.scan(Prefix::Table(TableId(0)), &mut |_| ControlFlow::Continue(())));
    }
    set_outage(false);
    assert!(outcomes.iter().any(Result::is_err), "an outage makes nothing fail");
}

/// An entry that cannot be read is not reported as absent, nor with another value.
pub fn a_failed_read_is_not_an_absent_entry(factory: BackendFactory<'_>) {
    with_tables(factory, |tables, set_outage| {
        set_outage(true);
        for (address, value) in entries() {
            let mut found = Vec::new();
            match tables.get(at(&address), &mut found) {
                Ok(is_there) => assert_eq!((is_there, found), (true, value), "{address:?}"),
                Err(_) => continue,
            }
        }
        set_outage(false);
    });
}

/// A scan that cannot go on, from the beginning or somewhere on its way, does not end as if it had come to the end.
pub fn a_failed_read_is_not_the_end_of_a_scan(factory: BackendFactory<'_>) {
    let namespace = Prefix::Namespace { table: TableId(0), group: KeyGroup(3), key: b"key", namespace: b"" };
    for prefix in [namespace, Prefix::Table(TableId(0))] {
        for before in [0, 1, 5, usize::from(ENTRIES) - 1] {
            with_tables(factory, |tables, set_outage| {
                let mut visited = 0;
                set_outage(before == 0);
                let scanned = tables.scan(prefix, &mut |_| {
                    visited += 1;
                    set_outage(visited >= before);
                    ControlFlow::Continue(())
                });
                set_outage(false);
                if scanned.is_ok() {
                    assert_eq!(visited, usize::from(ENTRIES), "a scan ended where it could not go on");
                }
            });
        }
    }
}

/// A snapshot that cannot be read, from the beginning or somewhere on its way, is not a smaller snapshot.
pub fn a_failed_read_is_not_the_end_of_a_snapshot(factory: BackendFactory<'_>) {
    fn count(frozen: &mut dyn FrozenState, group: KeyGroup, mut meanwhile: impl FnMut(u64)) -> Result<u64, StateError> {
        let mut visited = 0;
        frozen.visit_key_group(group, &mut |_| {
            visited += 1;
            meanwhile(visited);
            Ok(())
        })?;
        Ok(visited)
    }
    with_state(factory, |state, set_outage| {
        let whole = Snapshot::of(state);
        let mut frozen = freeze(state, 2);
        for group in all_groups().iter() {
            let there = count(&mut *frozen.content, group, |_| {}).unwrap();
            for before in 0..there {
                set_outage(before == 0);
                let counted = count(&mut *frozen.content, group, |visited| set_outage(visited >= before));
                set_outage(false);
                if let Ok(counted) = counted {
                    assert_eq!(counted, there, "a visit of key group {group} ended where it could not go on");
                }
            }
        }
        // A snapshot that was taken all the same is a whole one.
        set_outage(true);
        let taken = state.freeze(&SnapshotRequest { checkpoint: CheckpointId(3) });
        set_outage(false);
        if let Ok(mut frozen) = taken {
            assert_eq!(Snapshot::written(&mut frozen, all_groups()), whole);
        }
    });
}

/// A write or removal that is reported as done is done.
pub fn a_write_that_failed_is_reported(factory: BackendFactory<'_>) {
    let [old, new] = [simple(b"key", &[0]), simple(b"key", &[ENTRIES])];
    with_tables(factory, |tables, set_outage| {
        set_outage(true);
        let put = tables.put(at(&new), b"new");
        set_outage(false);
        if put.is_ok() {
            assert_eq!(get(tables, &new), Some(b"new".to_vec()), "a write was reported as done and is not there");
        }
    });
    with_tables(factory, |tables, set_outage| {
        set_outage(true);
        let removed = tables.remove(at(&old));
        set_outage(false);
        if removed.is_ok() {
            assert_eq!(get(tables, &old), None, "a removal was reported as done and is not");
        }
    });
}
