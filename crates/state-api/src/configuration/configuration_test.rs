//! Tests of how options are found and read.

use std::time::Duration;

use super::*;

const SIZE: ConfigOption<MemorySize> =
    ConfigOption::new("size", "How much.").with_default("20 kb").with_deprecated_keys(&["old.size", "older.size"]);

fn texts(notices: &ConfigNotices) -> Vec<String> {
    notices.iter().map(ToString::to_string).collect()
}

#[test]
fn sizes_are_read_in_the_notation_of_flink() {
    for (text, bytes) in [
        ("20kb", 20_480),
        ("20 kb", 20_480),
        (" 20  KB ", 20_480),
        ("1 k", 1_024),
        ("5 MiB", 5 << 20),
        ("5m", 5 << 20),
        ("2 gb", 2 << 30),
        ("1tebibytes", 1 << 40),
        ("4096", 4_096),
        ("0", 0),
        ("7 bytes", 7),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(MemorySize::parse(text), Some(MemorySize::from_bytes(bytes)), "{text:?}");
    }
    for text in ["", "kb", "-1", "+1", "1.5 kb", "1 kilo", "18446744073709551616", "18014398509481984 kb", "1 k b"] {
        assert_eq!(MemorySize::parse(text), None, "{text:?}");
    }
}

#[test]
fn durations_are_read_in_the_notation_of_flink() {
    for (text, duration) in [
        ("500", Duration::from_millis(500)),
        ("10 min", Duration::from_secs(600)),
        ("10m", Duration::from_secs(600)),
        ("30s", Duration::from_secs(30)),
        ("1 h", Duration::from_secs(3_600)),
        ("2 days", Duration::from_secs(172_800)),
        ("1500 ms", Duration::from_millis(1_500)),
        ("3µs", Duration::from_micros(3)),
        ("1000000001 ns", Duration::new(1, 1)),
    ] {
        assert_eq!(Duration::parse(text), Some(duration), "{text:?}");
    }
    for text in ["", "ten", "-5", "1 week", "18446744073709551615 d"] {
        assert_eq!(Duration::parse(text), None, "{text:?}");
    }
}

#[test]
fn truth_values_and_numbers_are_read() {
    assert_eq!([bool::parse("TRUE"), bool::parse(" false "), bool::parse("yes")], [Some(true), Some(false), None]);
    assert_eq!([u32::parse("3"), u32::parse("-3"), u32::parse("4294967296")], [Some(3), None, None]);
    assert_eq!([i64::parse("-3"), i64::parse("x")], [Some(-3), None]);
    assert_eq!(u64::parse("18446744073709551615"), Some(u64::MAX));
    assert_eq!([f64::parse(" 1.5 "), f64::parse("-2"), f64::parse("1e3")], [Some(1.5), Some(-2.0), Some(1_000.0)]);
    assert_eq!(["NaN", "inf", "1e999", "1,5", ""].map(f64::parse), [None; 5]);
}

/// Contract: U348.
#[test]
fn the_current_key_wins_over_a_deprecated_one() {
    let mut notices = ConfigNotices::default();
    let both = Configuration::from([("old.size", "1"), ("size", "2"), ("older.size", "3")]);
    assert_eq!(both.get(&SIZE, &mut notices).unwrap(), Some(MemorySize::from_bytes(2)));
    assert_eq!(
        texts(&notices),
        [
            "`old.size` is ignored, because `size` is set: remove it",
            "`older.size` is ignored, because `size` is set: remove it"
        ]
    );
}

/// Contract: U348.
#[test]
fn a_deprecated_key_is_read_and_its_replacement_is_named_once() {
    let mut notices = ConfigNotices::default();
    let old = Configuration::from([("older.size", " 3 kb ")]);
    for _ in 0..2 {
        assert_eq!(old.get(&SIZE, &mut notices).unwrap(), Some(MemorySize::from_bytes(3_072)));
    }
    assert_eq!(texts(&notices), ["`older.size` is deprecated: write `size: 3 kb`"]);
}

#[test]
fn what_is_not_set_has_the_default() {
    let mut notices = ConfigNotices::default();
    let empty = Configuration::new();
    assert_eq!(empty.get(&SIZE, &mut notices).unwrap(), Some(MemorySize::from_bytes(20_480)));
    assert_eq!(empty.get_optional(&SIZE, &mut notices).unwrap(), None);
    assert!(notices.is_empty() && empty.is_empty());
}

#[test]
fn a_value_that_cannot_be_read_is_named_with_its_key_as_it_was_written() {
    let error = Configuration::from([("old.size", "much")]).get(&SIZE, &mut ConfigNotices::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"old.size: "much" is not valid; expected a size such as 20 kb, 5 MiB or 4096 (bytes)"#
    );
}

#[test]
fn the_upper_configuration_hides_the_lower_one_in_every_spelling() {
    let mut notices = ConfigNotices::default();
    let cluster = Configuration::from([("size", "1"), ("other", "x")]);
    let job = Configuration::from([("old.size", "2")]).with_fallback(cluster.clone());
    assert_eq!(job.get(&SIZE, &mut notices).unwrap(), Some(MemorySize::from_bytes(2)));
    assert_eq!(texts(&notices), ["`old.size` is deprecated: write `size: 2`"]);

    let mut notices = ConfigNotices::default();
    let below_both = Configuration::from([("size", "9"), ("third", "z")]);
    let three = Configuration::new().with_fallback(cluster).with_fallback(below_both);
    assert_eq!(three.get(&SIZE, &mut notices).unwrap(), Some(MemorySize::from_bytes(1)));
    const THIRD: ConfigOption<String> = ConfigOption::new("third", "");
    assert_eq!(three.get(&THIRD, &mut notices).unwrap().as_deref(), Some("z"));
    assert!(notices.is_empty() && !three.is_empty());
}
