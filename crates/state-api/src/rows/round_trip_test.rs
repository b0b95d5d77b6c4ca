//! Which writes are checked.

use super::RoundTrip;
use crate::StateError;

/// The numbers of the writes that are checked, of so many that have so many bytes each.
fn checked(writes: u32, bytes: usize) -> Vec<u32> {
    let mut round_trip = RoundTrip::default();
    let mut checked = Vec::new();
    for write in 0..writes {
        let check = || {
            checked.push(write);
            Ok::<_, StateError>(bytes)
        };
        round_trip.check(check).unwrap();
    }
    checked
}

#[test]
fn the_first_1_024_writes_are_checked_and_then_one_in_4_096() {
    let later = [1_023 + 4_096, 1_023 + 2 * 4_096];
    assert_eq!(checked(10_000, 8), Vec::from_iter((0..1_024).chain(later)));
}

#[test]
fn of_large_values_fewer_are_checked_at_first() {
    assert_eq!(checked(5_000, 1 << 20), Vec::from_iter((0..16).chain([15 + 4_096])));
    assert_eq!(checked(5_000, 1 << 30), [0, 4_096]);
}

#[test]
fn a_write_that_fails_is_not_counted() {
    let mut round_trip = RoundTrip::default();
    for _ in 0..2_000 {
        round_trip.check(|| Err(StateError::NoKey)).unwrap_err();
    }
    assert!(round_trip.is_due());
    let mut checks = 0;
    for _ in 0..2_000 {
        round_trip
            .check(|| {
                checks += 1;
                Ok::<_, StateError>(0)
            })
            .unwrap();
    }
    assert_eq!(checks, 1_024);
}
