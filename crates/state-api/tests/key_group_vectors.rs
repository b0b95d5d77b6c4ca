//! Key groups are those of Apache Flink: values that Flink 2.3.0 computed (the files in `data/`, and single ones here), and
//! checksums over long series of keys.
//!
//! The project's own hash of a key is another than Java's, so these tests begin with the hash.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use highwater_state_api::{KeyGroup, KeyGroupRange, KeyHash, MaxParallelism, murmur};
use proptest::prelude::*;

/// `Integer.hashCode`.
fn hash_of_int(value: i32) -> u32 {
    value as u32
}

/// `Long.hashCode`.
fn hash_of_long(value: i64) -> u32 {
    (value ^ ((value as u64) >> 32) as i64) as u32
}

/// `String.hashCode`: a polynomial over the UTF-16 units.
fn hash_of_units(units: impl IntoIterator<Item = u16>) -> u32 {
    units.into_iter().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

fn hash_of_text(text: &str) -> u32 {
    hash_of_units(text.encode_utf16())
}

fn groups(count: u32) -> MaxParallelism {
    MaxParallelism::new(count).unwrap()
}

/// The rows of a file with comma-separated values, without the names of the columns.
fn rows(file: &str) -> impl Iterator<Item = &str> {
    file.lines().skip(1)
}

/// The UTF-16 units of a quoted text with `\uXXXX` for some of them.
fn units_of(quoted: &str) -> Vec<u16> {
    let mut rest = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap();
    let mut units = Vec::new();
    while let Some(next) = rest.chars().next() {
        if let Some(escaped) = rest.strip_prefix("\\u") {
            units.push(u16::from_str_radix(&escaped[..4], 16).unwrap());
            rest = &escaped[4..];
        } else {
            units.extend(next.encode_utf16(&mut [0; 2]).iter());
            rest = &rest[next.len_utf8()..];
        }
    }
    units
}

/// Contract: F117, F120.
#[test]
fn every_value_that_flink_computed_is_computed_here() {
    let file = include_str!("data/keygroup_vectors.csv");
    let header = "key_type,key,java_hash_code,murmur_hash,kg_mp1,kg_mp2,kg_mp10,kg_mp128,kg_mp256,kg_mp1000,kg_mp4096,\
                  kg_mp32768,subtask_mp128_p1,subtask_mp128_p3,subtask_mp128_p4,subtask_mp32768_p7";
    assert_eq!(file.lines().next(), Some(header));
    let mut count = 0;
    for row in rows(file) {
        // A key may hold commas; the fourteen columns behind it are numbers.
        let mut columns: Vec<&str> = row.rsplitn(15, ',').collect();
        columns.reverse();
        let (key_type, key) = columns[0].split_once(',').unwrap();
        let numbers: Vec<i64> = columns[1..].iter().map(|number| number.parse().unwrap()).collect();
        let hash = numbers[0] as i32 as u32;
        let computed = match key_type {
            "int" => Some(hash_of_int(key.parse().unwrap())),
            "long" => Some(hash_of_long(key.parse().unwrap())),
            "string" => Some(hash_of_units(units_of(key))),
            _ => None,
        };
        assert!(computed.is_none_or(|computed| computed == hash), "{row}");

        assert_eq!(i64::from(murmur(hash)), numbers[1], "{row}");
        let group_of = |count: u32| groups(count).group_of(KeyHash(hash));
        for (column, count) in [1, 2, 10, 128, 256, 1000, 4096, 32768].into_iter().enumerate() {
            assert_eq!(i64::from(group_of(count).0), numbers[2 + column], "{count} groups: {row}");
        }
        for (column, (count, parallelism)) in [(128, 1), (128, 3), (128, 4), (32768, 7)].into_iter().enumerate() {
            let subtask = groups(count).subtask_of(group_of(count), parallelism);
            assert_eq!(i64::from(subtask), numbers[10 + column], "{count} groups, {parallelism} subtasks: {row}");
        }
        count += 1;
    }
    assert_eq!(count, 171);
}

/// Contract: F123.
#[test]
fn ranges_are_those_of_flink_and_every_group_has_one_owner() {
    let mut count = 0;
    for row in rows(include_str!("data/keygroup_ranges.csv")) {
        let numbers: Vec<u32> = row.split(',').map(|number| number.parse().unwrap()).collect();
        let [max_parallelism, parallelism, subtask, start, end] = numbers[..] else { panic!("{row}") };
        let range = groups(max_parallelism).range_of(subtask, parallelism);
        assert_eq!((u32::from(range.start().0), u32::from(range.end().0)), (start, end), "{row}");
        for group in range.iter() {
            assert_eq!(groups(max_parallelism).subtask_of(group, parallelism), subtask, "{row}");
        }
        count += 1;
    }
    assert_eq!(count, 294);
}

#[test]
fn ranges_cover_all_groups_without_overlap() {
    for (count, parallelism) in [(1, 1), (128, 3), (128, 127), (1000, 7), (32768, 32768), (32768, 9999)] {
        let mut next = 0u32;
        for subtask in 0..parallelism {
            let range = groups(count).range_of(subtask, parallelism);
            assert_eq!(u32::from(range.start().0), next);
            next = u32::from(range.end().0) + 1;
            assert!(range.count().abs_diff(count / parallelism) <= 1);
        }
        assert_eq!(next, count);
        assert_eq!(groups(count).subtask_of(KeyGroup((count - 1) as u16), parallelism), parallelism - 1);
    }
}

fn checksum(hashes: impl Iterator<Item = u32>, count: u32) -> i64 {
    let groups = hashes.map(|hash| i64::from(groups(count).group_of(KeyHash(hash)).0));
    groups.fold(0i64, |sum, group| sum.wrapping_mul(31).wrapping_add(group))
}

/// Contract: F117, F121.
#[test]
fn long_series_of_keys_fall_into_the_groups_of_flink() {
    let ints = || (0..100_000).map(hash_of_int);
    assert_eq!(checksum(ints(), 128), 3_456_961_091_564_299_822);
    assert_eq!(checksum(ints(), 32_768), -1_291_267_774_488_078_546);
    let longs = || (0..100_000i64).map(|number| hash_of_long(number * 1_000_003));
    assert_eq!(checksum(longs(), 128), 277_338_001_353_272_335);
    assert_eq!(checksum(longs(), 32_768), 3_582_353_163_192_107_023);
    let texts = || (0..100_000).map(|number| hash_of_text(&format!("key-{number}")));
    assert_eq!(checksum(texts(), 128), -2_568_574_124_263_691_941);
    assert_eq!(checksum(texts(), 32_768), -1_218_034_073_902_343_973);
}

#[test]
fn the_spread_has_known_values() {
    for (hash, spread) in [
        (0, 593_689_054),
        (1, 68_075_478),
        (-1, 1_982_413_648),
        (42, 1_134_849_565),
        (i32::MAX, 1_653_689_534),
        (i32::MIN, 1_718_298_732),
    ] {
        assert_eq!(murmur(hash as u32), spread, "{hash}");
    }
}

/// Contract: F126.
#[test]
fn the_default_number_of_groups_is_that_of_flink() {
    let defaults = [
        (1, 128),
        (85, 128),
        (86, 256),
        (171, 256),
        (172, 512),
        (200, 512),
        (1000, 2048),
        (5461, 8192),
        (21_845, 32_768),
        (30_000, 32_768),
        (32_768, 32_768),
        (u32::MAX, 32_768),
    ];
    for (parallelism, expected) in defaults {
        assert_eq!(MaxParallelism::default_for(parallelism).get(), expected, "parallelism {parallelism}");
    }
}

/// The key groups of a hash among 128 and among 32768.
fn of_128_and_32768(hash: u32) -> (u16, u16) {
    (groups(128).group_of(KeyHash(hash)).0, groups(32_768).group_of(KeyHash(hash)).0)
}

/// Contract: F117.
#[test]
fn a_small_number_is_where_flink_has_it() {
    assert_eq!(of_128_and_32768(hash_of_int(42)), (29, 28_189));
    for parallelism in [3, 4] {
        assert_eq!(groups(128).subtask_of(KeyGroup(29), parallelism), 0);
    }
}

/// Contract: F118.
#[test]
fn hashes_at_the_ends_of_their_range_are_where_flink_has_them() {
    assert_eq!(of_128_and_32768(hash_of_int(0)), (94, 31_198));
    assert_eq!(of_128_and_32768(hash_of_int(-1)), (80, 15_184));
    assert_eq!(of_128_and_32768(hash_of_int(i32::MAX)), (62, 19_646));
    assert_eq!(of_128_and_32768(hash_of_int(i32::MIN)), (108, 10_348));
}

/// Contract: F119.
#[test]
fn long_numbers_are_where_flink_has_them() {
    let number = hash_of_long(1_700_000_000_000);
    assert_eq!((number as i32, of_128_and_32768(number)), (-807_048_821, (64, 12_736)));
    for of_hash_0 in [-1, (1 << 32) + 1] {
        assert_eq!(hash_of_long(of_hash_0), 0);
        assert_eq!(of_128_and_32768(hash_of_long(of_hash_0)), (94, 31_198));
    }
}

/// Contract: F120.
#[test]
fn texts_are_where_flink_has_them() {
    for (text, group) in [("", 94), ("hello", 35), ("flink", 98), ("key-1", 54), ("AaAa", 39), ("BBBB", 39)] {
        assert_eq!(of_128_and_32768(hash_of_text(text)).0, group, "{text:?}");
    }
    assert_eq!(hash_of_text("AaAa"), hash_of_text("BBBB"));
}

/// Contract: F123.
#[test]
fn ten_groups_are_shared_as_evenly_as_can_be() {
    let ranges = |parallelism| {
        let ranges = (0..parallelism).map(|subtask| groups(10).range_of(subtask, parallelism).to_string());
        ranges.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ranges(4), "[0, 2] [3, 4] [5, 7] [8, 9]");
    assert_eq!(ranges(3), "[0, 3] [4, 6] [7, 9]");
}

/// Contract: F125.
#[test]
fn numbers_that_cannot_be_are_refused_and_named() {
    for parallelism in [0, 129, 32_769] {
        let error = groups(128).check(parallelism).unwrap_err().to_string();
        assert_eq!(error, format!("parallelism {parallelism} is outside 1..=128, the job's max parallelism"));
    }
    for count in [0, 32_769, u32::MAX] {
        let error = MaxParallelism::new(count).unwrap_err().to_string();
        assert_eq!(error, format!("max parallelism {count} is outside 1..=32768"));
    }
    assert!([1, 128].into_iter().all(|parallelism| groups(128).check(parallelism).is_ok()));
    assert!(groups(32_768).check(32_768).is_ok());
}

/// Contract: F127.
#[test]
fn a_range_has_at_least_one_group() {
    let range = |start, end| KeyGroupRange::new(KeyGroup(start), KeyGroup(end));
    assert_eq!(range(5, 3), None);
    assert_eq!(range(5, 5).unwrap().count(), 1);
    let first = range(0, 42).unwrap();
    assert_eq!(first.intersection(range(43, 85).unwrap()), None);
    assert_eq!(first.intersection(range(40, 50).unwrap()), range(40, 42));
    assert_eq!(first.intersection(first), Some(first));
}

proptest! {
    /// Contract: F124.
    #[test]
    fn ranges_are_disjoint_complete_and_even(
        (count, parallelism) in (1..=32_768u32).prop_flat_map(|count| (Just(count), 1..=count)),
    ) {
        let (mut next, mut least, mut most) = (0, u32::MAX, 0);
        for subtask in 0..parallelism {
            let range = groups(count).range_of(subtask, parallelism);
            prop_assert_eq!(u32::from(range.start().0), next);
            next = u32::from(range.end().0) + 1;
            (least, most) = (least.min(range.count()), most.max(range.count()));
            for group in [range.start(), range.end()] {
                prop_assert_eq!(groups(count).subtask_of(group, parallelism), subtask);
            }
        }
        prop_assert_eq!(next, count);
        prop_assert!(most - least <= 1, "from {} to {} groups", least, most);
    }
}
