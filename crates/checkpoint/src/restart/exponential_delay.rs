//! Exponential delay: each restart waits longer than the one before, until the job has run well for long enough.

use std::fmt;

use super::RestartDecision;

/// The parameters of [`RestartStrategy::ExponentialDelay`](super::RestartStrategy::ExponentialDelay). The defaults are
/// those of Flink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialDelay {
    /// The first delay in milliseconds. From 1 to `max_backoff_ms`.
    pub initial_backoff_ms: u64,
    /// The longest delay in milliseconds.
    pub max_backoff_ms: u64,
    /// How many times as long as the one before each delay is. Above 1.
    pub backoff_multiplier: f64,
    /// How long the job has to run after a restart without a failure for delays and restarts to be counted anew, in
    /// milliseconds. At least 1.
    pub reset_backoff_threshold_ms: u64,
    /// How far a delay may be from what was calculated, as a part of it, so that jobs that fail together are not restarted
    /// together. From 0 to 1.
    pub jitter_factor: f64,
    /// How many restarts there are until they are counted anew. At least 1; `u32::MAX` means without end.
    pub attempts_before_reset_backoff: u32,
}

impl Default for ExponentialDelay {
    fn default() -> Self {
        Self {
            initial_backoff_ms: 1_000,
            max_backoff_ms: 60_000,
            backoff_multiplier: 1.5,
            reset_backoff_threshold_ms: 3_600_000,
            jitter_factor: 0.1,
            attempts_before_reset_backoff: u32::MAX,
        }
    }
}

impl fmt::Display for ExponentialDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { initial_backoff_ms, max_backoff_ms, reset_backoff_threshold_ms, .. } = self;
        match self.attempts_before_reset_backoff {
            u32::MAX => f.write_str("always, ")?,
            attempts => write!(f, "{attempts} restarts until it runs for {reset_backoff_threshold_ms} ms, each ")?,
        }
        write!(f, "after {initial_backoff_ms} to {max_backoff_ms} ms")
    }
}

/// Which delay is next.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    parameters: ExponentialDelay,
    /// The last planned restart, if there is one.
    last: Option<Planned>,
}

/// A restart that was decided.
#[derive(Debug, Clone, Copy)]
struct Planned {
    at_ms: u64,
    /// The delay before jitter. Not rounded, or else the error would grow with every multiplication.
    backoff_ms: f64,
    /// How many there have been since they were counted anew, with this one.
    attempts: u32,
}

impl Backoff {
    pub(super) fn new(parameters: ExponentialDelay) -> Self {
        Self { parameters, last: None }
    }

    pub(super) fn on_failure(&mut self, now_ms: u64, draw: u64) -> RestartDecision {
        let parameters = self.parameters;
        let first = Planned { at_ms: 0, backoff_ms: parameters.initial_backoff_ms as f64, attempts: 1 };
        let next = match self.last {
            None => first,
            Some(last) if now_ms < last.at_ms => return RestartDecision::AlreadyPlanned { at_ms: last.at_ms },
            Some(last) if now_ms - last.at_ms >= parameters.reset_backoff_threshold_ms => first,
            Some(last) => Planned {
                at_ms: 0,
                // No more than the longest, so that it cannot become infinite.
                backoff_ms: (last.backoff_ms * parameters.backoff_multiplier).min(parameters.max_backoff_ms as f64),
                attempts: last.attempts.saturating_add(1),
            },
        };
        let attempts_max = parameters.attempts_before_reset_backoff;
        if attempts_max != u32::MAX && next.attempts > attempts_max {
            return RestartDecision::GiveUp;
        }
        let at_ms = now_ms.saturating_add(with_jitter(&parameters, next.backoff_ms as u64, draw));
        self.last = Some(Planned { at_ms, ..next });
        RestartDecision::Restart { at_ms }
    }
}

/// The delay that `draw` picks from those that are near enough to `backoff_ms` and within the bounds. All of them are
/// equally likely: were those outside moved to the bound instead, half of all first delays would be the same.
fn with_jitter(parameters: &ExponentialDelay, backoff_ms: u64, draw: u64) -> u64 {
    let offset_ms = (backoff_ms as f64 * parameters.jitter_factor) as u64;
    let lowest_ms = backoff_ms.saturating_sub(offset_ms).max(parameters.initial_backoff_ms);
    let highest_ms = backoff_ms.saturating_add(offset_ms).min(parameters.max_backoff_ms).max(lowest_ms);
    let choices = u128::from(highest_ms - lowest_ms) + 1;
    // The upper half of the product is below `choices`.
    lowest_ms + ((u128::from(draw) * choices) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WITHOUT_JITTER: [u64; 13] =
        [1_000, 1_500, 2_250, 3_375, 5_062, 7_593, 11_390, 17_085, 25_628, 38_443, 57_665, 60_000, 60_000];
    const HOUR_MS: u64 = 3_600_000;

    fn without_jitter() -> Backoff {
        Backoff::new(ExponentialDelay { jitter_factor: 0.0, ..ExponentialDelay::default() })
    }

    /// Fails at this time. The delay until the restart that it called for.
    fn delay(backoff: &mut Backoff, now_ms: u64, draw: u64) -> u64 {
        match backoff.on_failure(now_ms, draw) {
            RestartDecision::Restart { at_ms } => at_ms - now_ms,
            other => panic!("{other:?}"),
        }
    }

    /// The delays of attempts that fail as soon as they have been started, and when the last of them began.
    fn delays(backoff: &mut Backoff, mut now_ms: u64, draws: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
        let mut delays = Vec::new();
        for draw in draws {
            let delay_ms = delay(backoff, now_ms, draw);
            delays.push(delay_ms);
            now_ms += delay_ms;
        }
        (delays, now_ms)
    }

    /// Contract: O278.
    #[test]
    fn the_delays_grow_up_to_the_longest() {
        assert_eq!(delays(&mut without_jitter(), 77, [u64::MAX; 13]).0, WITHOUT_JITTER);
    }

    /// Contract: O278.
    #[test]
    fn the_delays_begin_anew_after_an_hour_without_a_failure() {
        let mut backoff = without_jitter();
        let (_, started_ms) = delays(&mut backoff, 0, [0; 5]);
        let mut within_the_hour = backoff.clone();
        assert_eq!(delay(&mut within_the_hour, started_ms + HOUR_MS - 1, 0), 7_593);
        assert_eq!(delays(&mut backoff, started_ms + HOUR_MS, [0; 13]).0, WITHOUT_JITTER);
    }

    /// Contract: O279.
    #[test]
    fn a_failure_during_the_delay_changes_nothing() {
        let mut backoff = without_jitter();
        assert_eq!(backoff.on_failure(0, 0), RestartDecision::Restart { at_ms: 1_000 });
        for now_ms in [0, 1, 500, 999] {
            assert_eq!(backoff.on_failure(now_ms, 0), RestartDecision::AlreadyPlanned { at_ms: 1_000 });
        }
        // The attempt that was planned has begun, and fails.
        assert_eq!(backoff.on_failure(1_000, 0), RestartDecision::Restart { at_ms: 2_500 });
    }

    #[test]
    fn the_restarts_are_limited_until_they_are_counted_anew() {
        let limited = ExponentialDelay { attempts_before_reset_backoff: 2, ..without_jitter().parameters };
        let mut backoff = Backoff::new(limited);
        let (_, started_ms) = delays(&mut backoff, 0, [0; 2]);
        let mut given_up = backoff.clone();
        assert_eq!(given_up.on_failure(started_ms, 0), RestartDecision::GiveUp);
        assert_eq!(given_up.on_failure(started_ms + 1, 0), RestartDecision::GiveUp);
        assert_eq!(delays(&mut backoff, started_ms + HOUR_MS, [0; 2]).0, [1_000, 1_500]);
    }

    #[test]
    fn without_a_limit_there_is_always_another_restart() {
        let mut backoff = without_jitter();
        backoff.last = Some(Planned { at_ms: 0, backoff_ms: 60_000.0, attempts: u32::MAX });
        assert_eq!(delay(&mut backoff, 1, 0), 60_000);
    }

    #[test]
    fn no_parameters_make_it_panic() {
        for number in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            let parameters = ExponentialDelay {
                initial_backoff_ms: u64::MAX,
                max_backoff_ms: 1,
                backoff_multiplier: number,
                jitter_factor: number,
                ..ExponentialDelay::default()
            };
            let mut backoff = Backoff::new(parameters);
            for now_ms in [0, 1, u64::MAX, u64::MAX] {
                backoff.on_failure(now_ms, u64::MAX);
            }
        }
    }

    fn parameters() -> impl Strategy<Value = ExponentialDelay> {
        (1u64..10_000, 0u64..1_000_000, 1.001f64..10.0, 0.0f64..=1.0).prop_map(
            |(initial_backoff_ms, more_ms, backoff_multiplier, jitter_factor)| ExponentialDelay {
                initial_backoff_ms,
                max_backoff_ms: initial_backoff_ms + more_ms,
                backoff_multiplier,
                jitter_factor,
                ..ExponentialDelay::default()
            },
        )
    }

    proptest! {
        /// Contract: O280.
        #[test]
        fn with_a_jitter_of_a_tenth_no_delay_is_more_than_a_tenth_off(
            draws in proptest::collection::vec(any::<u64>(), 13),
        ) {
            let mut backoff = Backoff::new(ExponentialDelay::default());
            let (delays, _) = delays(&mut backoff, 0, draws);
            for (delay_ms, exact_ms) in delays.into_iter().zip(WITHOUT_JITTER) {
                prop_assert!(delay_ms.abs_diff(exact_ms) * 10 <= exact_ms, "{delay_ms} instead of {exact_ms}");
                prop_assert!((1_000..=60_000).contains(&delay_ms), "{delay_ms}");
            }
        }

        /// Contract: O280.
        #[test]
        fn whatever_the_parameters_no_delay_leaves_its_bounds(
            parameters in parameters(),
            draws in proptest::collection::vec(any::<u64>(), 1..40),
        ) {
            let exact = ExponentialDelay { jitter_factor: 0.0, ..parameters };
            let (exact, _) = delays(&mut Backoff::new(exact), 0, draws.iter().copied());
            let (delays, _) = delays(&mut Backoff::new(parameters), 0, draws);
            let bounds = parameters.initial_backoff_ms..=parameters.max_backoff_ms;
            for (delay_ms, exact_ms) in delays.into_iter().zip(exact) {
                prop_assert!(bounds.contains(&delay_ms), "{delay_ms}");
                let allowed_ms = exact_ms as f64 * parameters.jitter_factor;
                prop_assert!(delay_ms.abs_diff(exact_ms) as f64 <= allowed_ms, "{delay_ms} instead of {exact_ms}");
            }
        }
    }

    /// Contract: O280.
    #[test]
    fn jitter_uses_all_the_room_that_it_has() {
        let after_two = |draw| {
            let mut backoff = Backoff::new(ExponentialDelay::default());
            delays(&mut backoff, 0, [0, draw]).0[1]
        };
        assert_eq!([after_two(0), after_two(1 << 63), after_two(u64::MAX)], [1_350, 1_500, 1_650]);
        let first = |draw| delay(&mut Backoff::new(ExponentialDelay::default()), 0, draw);
        assert_eq!([first(0), first(1 << 63), first(u64::MAX)], [1_000, 1_050, 1_100]);
    }
}
