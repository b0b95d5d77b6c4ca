//! Failure rate: how many failures lie within an interval.

use std::collections::VecDeque;

/// The times of the failures that still count.
#[derive(Debug, Clone)]
pub(super) struct FailureWindow {
    failures_max: u32,
    interval_ms: u64,
    /// Oldest first; never more than `failures_max + 1`, since one above the limit says as much as any number.
    failures_ms: VecDeque<u64>,
}

impl FailureWindow {
    pub(super) fn new(failures_max: u32, interval_ms: u64) -> Self {
        Self { failures_max, interval_ms, failures_ms: VecDeque::new() }
    }

    /// Takes a failure. Whether there are no more than allowed in the interval that ends with it. A failure that is exactly
    /// one interval old still counts.
    pub(super) fn admits(&mut self, now_ms: u64) -> bool {
        self.failures_ms.push_back(now_ms);
        let counts = |failure_ms: u64| now_ms.saturating_sub(failure_ms) <= self.interval_ms;
        while self.failures_ms.front().is_some_and(|oldest| !counts(*oldest)) {
            self.failures_ms.pop_front();
        }
        let is_admitted = self.failures_ms.len() <= self.failures_max as usize;
        if self.failures_ms.len() > self.failures_max as usize + 1 {
            self.failures_ms.pop_front();
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{RestartDecision, RestartStrategy, Restarter};
    use super::*;
    use crate::Now;

    fn answers(failures_max: u32, interval_ms: u64, times_ms: &[u64]) -> Vec<bool> {
        let mut window = FailureWindow::new(failures_max, interval_ms);
        times_ms.iter().map(|time_ms| window.admits(*time_ms)).collect()
    }

    /// Contract: O277.
    #[test]
    fn a_failure_too_many_within_the_interval_ends_the_job() {
        let strategy = RestartStrategy::FailureRate { max_failures_per_interval: 2, interval_ms: 1_000, delay_ms: 30 };
        let mut restarter = Restarter::new(strategy);
        let decisions =
            [0, 100, 200].map(|monotonic_ms| restarter.on_failure(Now { monotonic_ms, wall_clock_ms: 0 }, 0));
        assert_eq!(
            decisions,
            [RestartDecision::Restart { at_ms: 30 }, RestartDecision::Restart { at_ms: 130 }, RestartDecision::GiveUp]
        );
        assert_eq!(restarter.restarts(), 2);
    }

    /// Contract: O277.
    #[test]
    fn failures_that_are_further_apart_never_do() {
        let times_ms: Vec<u64> = (0..1_000).map(|n| n * 1_001).collect();
        assert!(answers(1, 1_000, &times_ms).iter().all(|is_admitted| *is_admitted));
        let in_pairs: Vec<u64> = (0..1_000).flat_map(|n| [n * 1_001, n * 1_001]).collect();
        assert!(answers(2, 1_000, &in_pairs).iter().all(|is_admitted| *is_admitted));
    }

    /// Contract: O277.
    #[test]
    fn the_interval_includes_its_end() {
        assert_eq!(answers(2, 1_000, &[0, 500, 1_000]), [true, true, false]);
        assert_eq!(answers(2, 1_000, &[0, 500, 1_001]), [true, true, true]);
    }

    /// Contract: O277.
    #[test]
    fn a_refused_failure_counts_too() {
        assert_eq!(answers(1, 1_000, &[0, 600, 1_200, 2_201]), [true, false, false, true]);
    }

    #[test]
    fn the_window_keeps_no_more_than_it_needs() {
        let mut window = FailureWindow::new(3, 1_000_000);
        for now_ms in 0..100 {
            window.admits(now_ms);
            assert!(window.failures_ms.len() <= 4);
        }
        assert!(window.admits(2_000_000));
        assert_eq!(window.failures_ms, [2_000_000]);
    }

    proptest! {
        /// Contract: O277.
        #[test]
        fn a_failure_is_admitted_if_and_only_if_the_interval_before_it_holds_no_more_than_the_limit(
            failures_max in 1u32..6,
            interval_ms in 1u64..500,
            gaps_ms in proptest::collection::vec(0u64..300, 1..60),
        ) {
            let mut now_ms = 0;
            let times_ms: Vec<u64> = gaps_ms.iter().map(|gap_ms| { now_ms += gap_ms; now_ms }).collect();
            let expected: Vec<bool> = (0..times_ms.len())
                .map(|last| {
                    let within = times_ms[..=last].iter().filter(|time_ms| times_ms[last] - *time_ms <= interval_ms);
                    within.count() <= failures_max as usize
                })
                .collect();
            prop_assert_eq!(answers(failures_max, interval_ms, &times_ms), expected);
        }
    }
}
