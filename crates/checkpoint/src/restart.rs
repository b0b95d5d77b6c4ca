//! The restart strategy: whether and when a job whose attempt failed is started again.

use crate::Now;

/// How often and how soon a job is started again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartStrategy {
    /// Never: the first failure ends the job.
    None,
    /// A number of times, each time after the same delay.
    FixedDelay {
        /// How many restarts there are in the life of the process. `u32::MAX` means without end.
        attempts: u32,
        /// How long to wait before each, in milliseconds.
        delay_ms: u64,
    },
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start a new attempt when the monotonic clock has reached this time.
    Restart {
        /// The time.
        at_ms: u64,
    },
    /// End the job with this failure.
    GiveUp,
}

/// Counts failures and decides about each.
#[derive(Debug, Clone)]
pub struct Restarter {
    strategy: RestartStrategy,
    failures: u32,
}

impl Restarter {
    /// No failure yet.
    pub fn new(strategy: RestartStrategy) -> Self {
        Self { strategy, failures: 0 }
    }

    /// How many failures there were.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// An attempt has failed. Not to be asked when it was fenced: whoever fenced it is running the job.
    pub fn on_failure(&mut self, now: Now) -> RestartDecision {
        self.failures = self.failures.saturating_add(1);
        match self.strategy {
            RestartStrategy::FixedDelay { attempts, delay_ms } if attempts == u32::MAX || self.failures <= attempts => {
                RestartDecision::Restart { at_ms: now.monotonic_ms.saturating_add(delay_ms) }
            }
            RestartStrategy::FixedDelay { .. } | RestartStrategy::None => RestartDecision::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64) -> Now {
        Now { monotonic_ms, wall_clock_ms: 0 }
    }

    /// Contract: O276.
    #[test]
    fn fixed_delay_restarts_as_often_as_it_was_told() {
        let mut restarter = Restarter::new(RestartStrategy::FixedDelay { attempts: 2, delay_ms: 1_000 });
        assert_eq!(restarter.on_failure(at(5)), RestartDecision::Restart { at_ms: 1_005 });
        assert_eq!(restarter.on_failure(at(7_000)), RestartDecision::Restart { at_ms: 8_000 });
        assert_eq!(restarter.on_failure(at(9_000)), RestartDecision::GiveUp);
        assert_eq!(restarter.on_failure(at(9_001)), RestartDecision::GiveUp);
        assert_eq!(restarter.failures(), 4);
    }

    #[test]
    fn without_a_strategy_the_first_failure_ends_the_job() {
        assert_eq!(Restarter::new(RestartStrategy::None).on_failure(at(0)), RestartDecision::GiveUp);
    }

    #[test]
    fn the_largest_number_of_restarts_has_no_end() {
        let mut restarter = Restarter::new(RestartStrategy::FixedDelay { attempts: u32::MAX, delay_ms: u64::MAX });
        restarter.failures = u32::MAX;
        assert_eq!(restarter.on_failure(at(1)), RestartDecision::Restart { at_ms: u64::MAX });
    }
}
