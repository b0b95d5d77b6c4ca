//! How long to wait before storage or an external system is asked again.

/// Wait before the second try, in milliseconds; doubled for each further one.
const RETRY_MS_MIN: u64 = 100;
/// Longest wait between two tries, in milliseconds.
const RETRY_MS_MAX: u64 = 10_000;

/// The wait in milliseconds after `tries` tries have failed: none after no try, then later and later.
pub fn wait_ms(tries: u32) -> u64 {
    match tries {
        0 => 0,
        tries => RETRY_MS_MIN.saturating_mul(1 << (tries - 1).min(32)).min(RETRY_MS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_the_longest() {
        let waits: Vec<u64> = (0..10).map(wait_ms).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(wait_ms(u32::MAX), 10_000);
    }
}
