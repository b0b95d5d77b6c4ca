//! The external sort against a plain stable sort.

use super::{ExternalSorter, SortSettings, SortedRecords};

type Record = (u32, Vec<u8>, Vec<u8>);

/// Numbers that look like chance.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn sorter(memory_bytes: usize) -> ExternalSorter {
    ExternalSorter::new(SortSettings { memory_bytes, directories: Vec::new() }, 3)
}

fn records(count: u64, keys: u64) -> Vec<Record> {
    let mut numbers = Numbers(count);
    let record = |number: u64| {
        let key = numbers.below(keys);
        // Different keys may have one hash.
        let payload = [&number.to_le_bytes()[..], &vec![7; numbers.below(40) as usize]].concat();
        ((key / 2) as u32, format!("key {key}").into_bytes(), payload)
    };
    (0..count).map(record).collect()
}

fn all(mut sorted: SortedRecords) -> Vec<Record> {
    let mut found = Vec::new();
    while let Some(record) = sorted.peek() {
        found.push((record.hash, record.key.clone(), record.payload.clone()));
        sorted.advance().unwrap();
    }
    found
}

fn check(memory_bytes: usize, records: Vec<Record>) -> usize {
    let mut sorter = sorter(memory_bytes);
    for (hash, key, payload) in &records {
        sorter.push(*hash, key, payload).unwrap();
    }
    let runs = sorter.spilled_runs();
    let found = all(sorter.finish().unwrap());
    let mut expected = records;
    expected.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    assert!(found == expected, "{} of {} records, {runs} runs", found.len(), expected.len());
    runs
}

#[test]
fn records_come_out_by_key_and_those_of_a_key_as_they_came() {
    assert_eq!(check(64 * 1024, Vec::new()), 0);
    assert_eq!(check(64 * 1024, records(1, 1)), 0);
    assert_eq!(check(1 << 20, records(2_000, 50)), 0, "what fits into memory stays there");
    assert!(check(64 * 1024, records(20_000, 300)) > 10);
    assert!(check(64 * 1024, records(20_000, 1)) > 10);
}

#[test]
fn no_run_is_larger_than_half_of_the_memory() {
    let records = records(20_000, 300);
    let mut sorter = sorter(64 * 1024);
    for (hash, key, payload) in &records {
        sorter.push(*hash, key, payload).unwrap();
        assert!(sorter.run.bytes_with(&[], &[]) <= 32 * 1024 + 64);
    }
}

#[test]
fn a_record_that_is_larger_than_the_memory_is_sorted_too() {
    let large = |number: u32| (3 - number, b"key".to_vec(), vec![number as u8; 300_000]);
    let mut records: Vec<Record> = (0..3).map(large).collect();
    records.extend(self::records(100, 10));
    records.push((7, Vec::new(), Vec::new()));
    check(64 * 1024, records);
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_only_once_it_is_needed() {
    let directories = vec!["/nonexistent/highwater".into()];
    let mut sorter = ExternalSorter::new(SortSettings { memory_bytes: 64 * 1024, directories }, 1);
    sorter.push(1, b"key", b"payload").unwrap();
    let pushed = (0..100_000).try_for_each(|_| sorter.push(1, b"key", b"payload"));
    let error = pushed.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("/nonexistent/highwater"), "{error}");
}

#[test]
fn keys_and_payloads_of_any_size_are_sorted() {
    for seed in 1..8 {
        let mut numbers = Numbers(seed);
        let size = |numbers: &mut Numbers| match numbers.below(12) {
            0 => 0,
            1 => 70_000 + numbers.below(40_000),
            2..=4 => numbers.below(5_000),
            _ => numbers.below(20),
        };
        let count = numbers.below(400);
        let record = |number: u64| {
            let (length, byte) = (size(&mut numbers), numbers.below(2) as u8);
            let payload = [&number.to_le_bytes()[..], &vec![7; size(&mut numbers) as usize]].concat();
            (numbers.below(3) as u32, vec![byte; length as usize], payload)
        };
        check(64 * 1024, (0..count).map(record).collect());
    }
}
