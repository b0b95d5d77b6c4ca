//! The index against a map from the standard library.

use std::collections::BTreeMap;

use super::*;

/// Few hashes, so that rows share them and their runs of slots collide.
fn tag(row: u32) -> u32 {
    (row / 3).wrapping_mul(0x0101_0101)
}

fn agree(index: &Index, model: &BTreeMap<u32, u32>, rows: u32) {
    assert_eq!(index.len(), model.len());
    for row in 0..rows {
        let found = index.find(tag(row), |candidate| candidate == row);
        assert_eq!(found, if model.contains_key(&row) { row } else { NO_ROW }, "row {row}");
    }
}

#[test]
fn removal_leaves_every_other_row_reachable() {
    let mut index = Index::new(7);
    let mut model = BTreeMap::new();
    for row in 0..3000 {
        index.insert(tag(row), row);
        model.insert(row, tag(row));
    }
    for row in (0..3000).filter(|row| row % 7 < 3) {
        index.remove(tag(row), row);
        model.remove(&row);
    }
    agree(&index, &model, 3000);
}

#[test]
fn random_insertions_and_removals_agree_with_a_map() {
    for seed in 0..20 {
        let mut index = Index::new(seed);
        let mut model = BTreeMap::new();
        for step in 0..2000u64 {
            let row = (spread(seed * 2000 + step) % 200) as u32;
            if model.remove(&row).is_some() {
                index.remove(tag(row), row);
            } else {
                index.insert(tag(row), row);
                model.insert(row, tag(row));
            }
            if step % 100 == 0 {
                agree(&index, &model, 200);
            }
        }
        agree(&index, &model, 200);
    }
}

#[test]
fn removing_what_is_not_there_changes_nothing() {
    let mut index = Index::new(1);
    index.insert(5, 0);
    index.remove(5, 1);
    index.remove(6, 0);
    assert_eq!((index.len(), index.find(5, |_| true)), (1, 0));
}

#[test]
fn a_cleared_index_is_empty_and_usable() {
    for rows in [3, 1000] {
        let mut index = Index::new(1);
        (0..rows).for_each(|row| index.insert(tag(row), row));
        (10..rows).for_each(|row| index.remove(tag(row), row));
        index.clear();
        assert_eq!((index.len(), index.find(0, |_| true)), (0, NO_ROW));
        (0..rows).for_each(|row| index.insert(tag(row), row));
        agree(&index, &(0..rows).map(|row| (row, tag(row))).collect(), rows + 5);
    }
}

#[test]
fn neighbouring_hashes_do_not_crowd_whatever_the_seed() {
    for seed in [0, 1, u64::MAX, 0x9E37_79B9_7F4A_7C15] {
        let mut index = Index::new(seed);
        (0..10_000).for_each(|row| index.insert(row, row));
        let lines = index.lines.iter().enumerate();
        let passed: usize = lines
            .flat_map(|(at, line)| line.tags[..line.len()].iter().map(move |tag| (at, *tag)))
            .map(|(at, tag)| index.way(tag, at))
            .sum();
        assert!(passed < 10_000, "{passed} lines are passed in all searches for seed {seed}");
    }
}
