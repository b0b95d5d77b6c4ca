//! Tests of the throttle, on a clock that is turned by hand.

use highwater_state_api::CheckpointId;
use std::num::NonZeroU64;
use std::time::Duration;

use highwater_stream_api::{Polled, Source, SourceReader, SplitAssignment, SplitEnumerator};

use crate::support_test::{poll_at, read_all};
use crate::{SequenceReader, SequenceSource, SplitQueue, Throttled, ThrottledReader};

type Reader = ThrottledReader<SequenceReader>;

fn rate(records_per_second: u64) -> NonZeroU64 {
    NonZeroU64::new(records_per_second).unwrap()
}

/// Readers with a split each, or without one where the source has fewer splits.
fn readers(source: &Throttled<SequenceSource>, count: u32) -> Vec<Reader> {
    let mut splits: SplitQueue<_> = source.create_enumerator().unwrap();
    (0..count)
        .map(|subtask| {
            let mut reader = source.create_reader(subtask).unwrap();
            if let SplitAssignment::Split(split) = splits.next_split(subtask).unwrap() {
                reader.add_split(split).unwrap();
            }
            reader
        })
        .collect()
}

/// Lets every reader run at every millisecond until it is told to wait, and counts the records of each.
fn run(readers: &mut [Reader], from_ms: u64, to_ms: u64) -> Vec<usize> {
    let mut counts = vec![0; readers.len()];
    for now in (from_ms..to_ms).map(Duration::from_millis) {
        for (reader, count) in readers.iter_mut().zip(&mut counts) {
            let mut out = Vec::new();
            let mut polls = 0;
            while poll_at(reader, now, 1000, &mut out).unwrap() == Polled::More {
                polls += 1;
                assert!(polls < 10_000, "the reader does not wait");
            }
            *count += out.len();
        }
    }
    counts
}

#[test]
fn the_rate_holds_for_all_readers_together_and_they_take_turns() {
    for per_second in [1, 7, 300, 1000, 12_345, 1_000_000] {
        for count in [1, 2, 5] {
            let source = Throttled::new(SequenceSource::new(..).with_splits(count), rate(per_second));
            let counts = run(&mut readers(&source, count), 0, 10_000);
            let total: usize = counts.iter().sum();
            let beat = (per_second as usize / 100).max(1);
            let expected = per_second as usize * 10;
            assert!(
                total.abs_diff(expected) <= beat * count as usize,
                "{per_second} a second and {count} readers: {counts:?}"
            );
            let share = expected / count as usize;
            assert!(
                counts.iter().all(|found| found.abs_diff(share) <= beat * count as usize + 1),
                "{per_second} a second: {counts:?}"
            );
        }
    }
}

#[test]
fn a_reader_without_splits_leaves_its_share_to_the_others() {
    let source = Throttled::new(SequenceSource::new(..), rate(1000));
    let counts = run(&mut readers(&source, 4), 0, 10_000);
    assert!(counts[0].abs_diff(10_000) <= 50, "{counts:?}");
    assert_eq!(counts[1..], [0, 0, 0]);
}

#[test]
fn what_was_missed_is_made_good_but_not_without_bound() {
    let source = Throttled::new(SequenceSource::new(..), rate(1000));
    let mut readers = readers(&source, 1);
    run(&mut readers, 0, 1000);
    assert!(run(&mut readers, 1050, 1051)[0].abs_diff(50) <= 20);
    assert!(run(&mut readers, 60_000, 60_001)[0] <= 120);
}

#[test]
fn a_waiting_reader_says_until_when_and_emits_nothing_before() {
    let source = Throttled::new(SequenceSource::new(..), rate(10));
    let reader = &mut readers(&source, 1)[0];
    let mut out = Vec::new();
    assert_eq!(poll_at(reader, Duration::from_secs(5), 100, &mut out).unwrap(), Polled::More);
    assert_eq!(out.len(), 1, "nothing is owed at the start");
    let until = Duration::from_millis(5100);
    assert_eq!(poll_at(reader, Duration::from_secs(5), 100, &mut out).unwrap(), Polled::Idle(Some(until)));
    let just_before = until - Duration::from_nanos(1);
    assert_eq!(poll_at(reader, just_before, 100, &mut out).unwrap(), Polled::Idle(Some(until)));
    assert_eq!(out.len(), 1);
    assert_eq!(poll_at(reader, until, 100, &mut out).unwrap(), Polled::More);
    assert_eq!(out.len(), 2);
}

#[test]
fn a_new_attempt_has_a_clock_of_its_own() {
    let source = Throttled::new(SequenceSource::new(..), rate(10));
    run(&mut readers(&source, 1), 1_000_000, 1_001_000);
    assert!(run(&mut readers(&source, 1), 0, 1000)[0].abs_diff(10) <= 1);
}

#[test]
fn no_rate_is_no_limit() {
    let source = Throttled::new(SequenceSource::new(0..500).with_splits(3), None);
    assert_eq!(read_all(&source).unwrap(), (0..500).collect::<Vec<_>>());
}

#[test]
fn positions_are_those_of_the_source() {
    let source = Throttled::new(SequenceSource::new(0..100), rate(100));
    let mut readers = readers(&source, 1);
    let emitted = run(&mut readers, 0, 500)[0] as u64;
    let plain = source.create_enumerator().unwrap();
    assert_eq!(plain.waiting().count(), 1);
    let position = format!("{:?}", readers[0].snapshot(CheckpointId(1)).unwrap());
    assert_eq!(position, format!("[SequenceSplit {{ next: {emitted}, last: 99 }}]"));
    assert!(source.restore_enumerator(&plain.snapshot().unwrap()).is_ok());
}
