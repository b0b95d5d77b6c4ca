//! Entries whose hashes collide are told apart by row and by map key.

use std::collections::BTreeMap;

use super::*;

/// Two rows for which this map key has the same 32-bit hash.
fn colliding_rows(hasher: FoldingHasher, map_key: u8) -> (u32, u32) {
    let mut seen = BTreeMap::new();
    let mut rows = 0..1_000_000u32;
    rows.find_map(|row| seen.insert(hasher.hash(row, &map_key), row).map(|other| (other, row))).unwrap()
}

#[test]
fn maps_whose_hashes_collide_stay_apart() {
    let mut entries = MapEntries::new(3);
    let (first, second) = colliding_rows(FoldingHasher::new(3), 5);
    let value =
        |entries: &MapEntries<u8, u32>, row| entries.find(row, &5).and_then(|entry| entries.value(entry)).copied();
    entries.insert(first, 5u8, Some(first));
    assert_eq!(value(&entries, second), None);
    entries.insert(second, 5, Some(second));
    assert_eq!((value(&entries, first), value(&entries, second)), (Some(first), Some(second)));
    let entry = entries.find(first, &5).unwrap();
    entries.remove(entry);
    assert_eq!((value(&entries, first), value(&entries, second)), (None, Some(second)));
    assert_eq!((entries.first(first), entries.len()), (None, 1));
}

#[test]
fn an_entry_leaves_its_chain_from_any_place() {
    for removed in 0..3u8 {
        let mut entries = MapEntries::new(1);
        for map_key in 0..3u8 {
            entries.insert(9, map_key, Some(map_key));
        }
        let entry = entries.find(9, &removed).unwrap();
        entries.remove(entry);
        entries.insert(9, 7, Some(7));
        let mut found: Vec<u8> = entries.freeze().of_row(9).map(|(_, map_key, _)| *map_key).collect();
        found.sort_unstable();
        let mut expected: Vec<u8> = (0..3).filter(|map_key| *map_key != removed).chain([7]).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
