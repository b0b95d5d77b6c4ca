//! I1, consistency: a complete checkpoint holds, for every operator, the effect of exactly the records before it.
//!
//! From: Flink's aligned barriers (Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows").
//! Looked at in each checkpoint when it completes: positions of the source against counts against transactions.

use std::collections::BTreeMap;

use super::Violation;
use crate::job::Pipeline;
use crate::record::{Record, RecordId};
use crate::view::{CheckpointView, CountersView};

const NAME: &str = "I1 consistency";

/// The counts are those of the records before the positions, in keyed and in operator state, and the sink has exactly these
/// records.
pub(crate) fn check(pipeline: &Pipeline, checkpoint: &CheckpointView) -> Result<(), Violation> {
    let Pipeline { input, outside, .. } = pipeline;
    let is_read = |record: &Record| checkpoint.positions.get(&record.split).is_none_or(|next| record.index < *next);
    let expected = input.counts(is_read);
    match &checkpoint.counters {
        Some(CountersView { counts, .. }) if *counts != expected => {
            let positions = &checkpoint.positions;
            let found = format!(
                "the positions {positions:?} stand for the counts {expected:?}, but the counters have {counts:?}"
            );
            return Err(Violation::new(NAME, found));
        }
        Some(CountersView { counts, keys }) if keys != counts => {
            let found = format!("the counters' keyed state has the counts {counts:?}, their operator state {keys:?}");
            return Err(Violation::new(NAME, found));
        }
        None if !checkpoint.positions.is_empty() => {
            let found = format!("the counters have finished, and {:?} is still to be read", checkpoint.positions);
            return Err(Violation::new(NAME, found));
        }
        _ => {}
    }

    let mut transactions = outside.committed();
    for transaction in &checkpoint.transactions {
        let Some(records) = outside.records(transaction) else {
            return Err(Violation::new(NAME, format!("{transaction:?} is in the checkpoint and nowhere outside")));
        };
        transactions.insert(*transaction, records);
    }
    let mut written: BTreeMap<RecordId, u32> = BTreeMap::new();
    for counted in transactions.values().flatten() {
        *written.entry(counted.record.id()).or_default() += 1;
    }
    let expected: BTreeMap<RecordId, u32> = input.records().filter(is_read).map(|record| (record.id(), 1)).collect();
    if written != expected {
        let wrong = |id: &&RecordId| written.get(*id) != expected.get(*id);
        let wrong: Vec<_> = written.keys().chain(expected.keys()).filter(wrong).collect();
        let found = format!("the sink has other records than those before {:?}: {wrong:?}", checkpoint.positions);
        return Err(Violation::new(NAME, found));
    }
    Ok(())
}
