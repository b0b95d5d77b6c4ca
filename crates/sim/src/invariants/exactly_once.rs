//! The oracle: in the end the visible output is that of a run in which nothing ever failed.
//!
//! From: the promise of the whole system. Every record of the input once; for each key the counts 1 to n, each once; and
//! records of one split and key in their order, since no record overtakes another in a channel.

use std::collections::BTreeMap;

use super::Violation;
use crate::job::Pipeline;
use crate::record::Counted;

const NAME: &str = "exactly once";

/// The output of a pipeline is complete, and exact.
pub(crate) fn check(Pipeline { input, outside, .. }: &Pipeline) -> Result<(), Violation> {
    let mut output: Vec<Counted> = outside.committed().into_values().flatten().collect();
    output.sort_unstable_by_key(|counted| counted.record.id());
    let expected: Vec<_> = input.records().collect();
    let found: Vec<_> = output.iter().map(|counted| counted.record).collect();
    if found != expected {
        let (expected, found) = (expected.len(), found.len());
        return Err(Violation::new(NAME, format!("{found} records in the output, not the {expected} of the input")));
    }

    let mut last: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut counts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for Counted { record, count } in output {
        let last = last.entry((record.split, record.key)).or_default();
        if *last >= count {
            return Err(Violation::new(NAME, format!("{record:?} was counted as {count}, one before it as {last}")));
        }
        *last = count;
        counts.entry(record.key).or_default().push(count);
    }
    for (key, mut counts) in counts {
        counts.sort_unstable();
        if !counts.iter().copied().eq(1..=counts.len() as u64) {
            return Err(Violation::new(NAME, format!("key {key} was counted as {counts:?}")));
        }
    }
    Ok(())
}
