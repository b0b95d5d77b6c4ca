//! Restart strategies: whether and when a job whose attempt failed is started again.

mod exponential_delay;
mod failure_rate;
mod poison_record;

use std::fmt;

pub use exponential_delay::ExponentialDelay;
pub use poison_record::{PoisonRecord, PoisonRecordDetector, TaskFailure};

use crate::Now;
use exponential_delay::Backoff;
use failure_rate::FailureWindow;

/// How often and how soon a job is started again after a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// As long as failures are rare, each time after the same delay.
    FailureRate {
        /// How many failures within an interval are followed by a restart; one more ends the job. At least 1.
        max_failures_per_interval: u32,
        /// The interval in milliseconds, which ends with the failure that is decided about. At least 1.
        interval_ms: u64,
        /// How long to wait before each restart, in milliseconds.
        delay_ms: u64,
    },
    /// After delays that grow while failures follow one another, and begin anew when the job has run for long enough.
    ExponentialDelay(ExponentialDelay),
}

impl RestartStrategy {
    /// Its name in a configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FixedDelay { .. } => "fixed-delay",
            Self::FailureRate { .. } => "failure-rate",
            Self::ExponentialDelay(_) => "exponential-delay",
        }
    }

    /// The longest delay that there can be before a restart, in milliseconds; 0 where there is none.
    pub fn delay_ms_max(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::FixedDelay { delay_ms, .. } | Self::FailureRate { delay_ms, .. } => *delay_ms,
            // Jitter stays within the bounds.
            Self::ExponentialDelay(parameters) => parameters.max_backoff_ms.max(parameters.initial_backoff_ms),
        }
    }
}

impl From<ExponentialDelay> for RestartStrategy {
    fn from(parameters: ExponentialDelay) -> Self {
        Self::ExponentialDelay(parameters)
    }
}

/// The name, and how much the strategy allows.
impl fmt::Display for RestartStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::None => Ok(()),
            Self::FixedDelay { attempts: u32::MAX, delay_ms } => write!(f, " (always, after {delay_ms} ms)"),
            Self::FixedDelay { attempts, delay_ms } => write!(f, " (restarts: {attempts}, each after {delay_ms} ms)"),
            Self::FailureRate { max_failures_per_interval, interval_ms, .. } => {
                write!(f, " (at most {max_failures_per_interval} failures in {interval_ms} ms)")
            }
            Self::ExponentialDelay(parameters) => write!(f, " ({parameters})"),
        }
    }
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start a new attempt when the monotonic clock has reached this time.
    Restart {
        /// The time.
        at_ms: u64,
    },
    /// Nothing: the attempt that an earlier failure has called for will begin at this time, not later.
    AlreadyPlanned {
        /// The time.
        at_ms: u64,
    },
    /// End the job with this failure.
    GiveUp,
}

/// Decides about each failure of a job.
///
/// It expects the parameters of the strategy to be within the bounds that they name; with others it decides something,
/// and does not panic.
#[derive(Debug, Clone)]
pub struct Restarter {
    strategy: RestartStrategy,
    state: State,
    restarts: u32,
}

/// What a strategy remembers.
#[derive(Debug, Clone)]
enum State {
    None,
    FixedDelay { attempts: u32, delay_ms: u64 },
    FailureRate { window: FailureWindow, delay_ms: u64 },
    ExponentialDelay(Backoff),
}

impl Restarter {
    /// No failure yet.
    pub fn new(strategy: RestartStrategy) -> Self {
        let state = match strategy {
            RestartStrategy::None => State::None,
            RestartStrategy::FixedDelay { attempts, delay_ms } => State::FixedDelay { attempts, delay_ms },
            RestartStrategy::FailureRate { max_failures_per_interval, interval_ms, delay_ms } => {
                State::FailureRate { window: FailureWindow::new(max_failures_per_interval, interval_ms), delay_ms }
            }
            RestartStrategy::ExponentialDelay(parameters) => State::ExponentialDelay(Backoff::new(parameters)),
        };
        Self { strategy, state, restarts: 0 }
    }

    /// The strategy.
    pub fn strategy(&self) -> RestartStrategy {
        self.strategy
    }

    /// How often it has decided to restart.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Something has failed. Not to be asked when the attempt was fenced: whoever fenced it is running the job.
    ///
    /// `draw` is drawn evenly from all numbers: the only chance in it is what the caller brings along. A failure before the
    /// time of a planned restart is [`RestartDecision::AlreadyPlanned`] with exponential delay; the other strategies
    /// count every failure, as Flink's do. The caller never starts an attempt before its time.
    pub fn on_failure(&mut self, now: Now, draw: u64) -> RestartDecision {
        let now_ms = now.monotonic_ms;
        let after = |delay_ms: u64| RestartDecision::Restart { at_ms: now_ms.saturating_add(delay_ms) };
        let decision = match &mut self.state {
            State::None => RestartDecision::GiveUp,
            State::FixedDelay { attempts, delay_ms } if *attempts == u32::MAX || self.restarts < *attempts => {
                after(*delay_ms)
            }
            State::FixedDelay { .. } => RestartDecision::GiveUp,
            State::FailureRate { window, delay_ms } => {
                if window.admits(now_ms) {
                    after(*delay_ms)
                } else {
                    RestartDecision::GiveUp
                }
            }
            State::ExponentialDelay(backoff) => backoff.on_failure(now_ms, draw),
        };
        if matches!(decision, RestartDecision::Restart { .. }) {
            self.restarts = self.restarts.saturating_add(1);
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(restarter: &mut Restarter, monotonic_ms: u64) -> RestartDecision {
        restarter.on_failure(Now { monotonic_ms, wall_clock_ms: 0 }, 0)
    }

    /// Contract: O276.
    #[test]
    fn fixed_delay_restarts_as_often_as_it_was_told() {
        let mut restarter = Restarter::new(RestartStrategy::FixedDelay { attempts: 2, delay_ms: 1_000 });
        assert_eq!(decide(&mut restarter, 5), RestartDecision::Restart { at_ms: 1_005 });
        assert_eq!(decide(&mut restarter, 7_000), RestartDecision::Restart { at_ms: 8_000 });
        assert_eq!(decide(&mut restarter, 9_000), RestartDecision::GiveUp);
        assert_eq!(decide(&mut restarter, 9_001), RestartDecision::GiveUp);
        assert_eq!(restarter.restarts(), 2);
    }

    #[test]
    fn without_a_strategy_the_first_failure_ends_the_job() {
        assert_eq!(decide(&mut Restarter::new(RestartStrategy::None), 0), RestartDecision::GiveUp);
    }

    #[test]
    fn the_largest_number_of_restarts_has_no_end() {
        let mut restarter = Restarter::new(RestartStrategy::FixedDelay { attempts: u32::MAX, delay_ms: u64::MAX });
        restarter.restarts = u32::MAX;
        assert_eq!(decide(&mut restarter, 1), RestartDecision::Restart { at_ms: u64::MAX });
    }

    #[test]
    fn no_delay_is_longer_than_the_longest() {
        let exponential = ExponentialDelay { jitter_factor: 1.0, ..ExponentialDelay::default() };
        for strategy in [RestartStrategy::FixedDelay { attempts: 90, delay_ms: 70 }, exponential.into()] {
            let mut restarter = Restarter::new(strategy);
            let (mut now_ms, mut longest_ms) = (0, 0);
            for _ in 0..50 {
                let now = Now { monotonic_ms: now_ms, wall_clock_ms: 0 };
                let RestartDecision::Restart { at_ms } = restarter.on_failure(now, u64::MAX) else { panic!() };
                longest_ms = longest_ms.max(at_ms - now_ms);
                now_ms = at_ms;
            }
            assert_eq!(longest_ms, strategy.delay_ms_max());
        }
        assert_eq!(RestartStrategy::None.delay_ms_max(), 0);
    }

    #[test]
    fn every_strategy_says_its_name_and_how_much_it_allows() {
        let limited = ExponentialDelay { attempts_before_reset_backoff: 4, ..ExponentialDelay::default() };
        let texts = [
            RestartStrategy::None,
            RestartStrategy::FixedDelay { attempts: 2, delay_ms: 10 },
            RestartStrategy::FixedDelay { attempts: u32::MAX, delay_ms: 10 },
            RestartStrategy::FailureRate { max_failures_per_interval: 3, interval_ms: 500, delay_ms: 10 },
            ExponentialDelay::default().into(),
            limited.into(),
        ]
        .map(|strategy| strategy.to_string());
        assert_eq!(
            texts,
            [
                "none",
                "fixed-delay (restarts: 2, each after 10 ms)",
                "fixed-delay (always, after 10 ms)",
                "failure-rate (at most 3 failures in 500 ms)",
                "exponential-delay (always, after 1000 to 60000 ms)",
                "exponential-delay (4 restarts until it runs for 3600000 ms, each after 1000 to 60000 ms)",
            ]
        );
    }
}
