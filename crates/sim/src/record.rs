//! What the simulated job reads and writes, and what it must have written in the end.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;

/// Identity of a record: its split and its place in it. No two records share it.
pub(crate) type RecordId = (u32, u32);

/// A record of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The split.
    pub split: u32,
    /// The place in the split, from 0.
    pub index: u32,
    /// The key by which the record is counted.
    pub key: u32,
}

impl Record {
    /// The identity.
    pub(crate) fn id(&self) -> RecordId {
        (self.split, self.index)
    }
}

/// A record, and how many records of its key there were up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// The record.
    pub record: Record,
    /// How many records of its key, it included.
    pub count: u64,
}

/// The whole input: splits of any length, each record with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    splits: Vec<Vec<u32>>,
    /// How many of the splits, from the first on, are the first source's.
    of_first: u32,
}

impl Input {
    /// Splits that are never all of the same length.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let (splits, keys) = (dice.between(2, 5), dice.between(1, 8));
        let longest = dice.pick(&[10, 18, 30]);
        let mut split = |length| (0..length).map(|_| dice.below(keys) as u32).collect::<Vec<_>>();
        let mut splits: Vec<Vec<u32>> = (0..splits).map(|number| split(1 + (number * 7) % longest)).collect();
        splits.push(split(longest + 3));
        // The first source has the shorter splits, and few of them: as a rule, it ends long before the second one.
        let of_first = dice.between(1, 2) as u32;
        Self { splits, of_first }
    }

    /// The same, shorter: of a pipeline beside the one that most worlds have.
    pub(crate) fn draw_short(dice: &mut Dice) -> Self {
        let (splits, keys) = (dice.between(1, 3), dice.between(1, 5));
        let mut split = |length| (0..length).map(|_| dice.below(keys) as u32).collect::<Vec<_>>();
        Self { splits: (0..splits).map(|number| split(4 + number * 7)).collect(), of_first: 1 }
    }

    /// How many splits there are.
    pub(crate) fn splits(&self) -> u32 {
        self.splits.len() as u32
    }

    /// The splits of each of the two sources.
    pub(crate) fn sources(&self) -> [Range<u32>; 2] {
        [0..self.of_first, self.of_first..self.splits()]
    }

    /// How many records a split has.
    pub(crate) fn length(&self, split: u32) -> u32 {
        self.splits[split as usize].len() as u32
    }

    /// The record at a place.
    pub(crate) fn record(&self, split: u32, index: u32) -> Record {
        Record { split, index, key: self.splits[split as usize][index as usize] }
    }

    /// Every record, in order of split and index.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        (0..self.splits()).flat_map(move |split| (0..self.length(split)).map(move |index| self.record(split, index)))
    }

    /// How many records each key has among those for which `is_read` says so.
    pub(crate) fn counts(&self, is_read: impl Fn(&Record) -> bool) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        self.records().filter(is_read).for_each(|record| *counts.entry(record.key).or_default() += 1);
        counts
    }
}
