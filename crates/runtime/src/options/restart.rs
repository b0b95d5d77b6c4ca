//! The options that concern what follows a failure: what is restarted and when, and records that fail every time.

use std::time::Duration;

use highwater_state_api::{ConfigOption, ConfigValue, OptionDescription};

use crate::FailoverStrategy;

const AT_LEAST_ONE: &str = "a whole number from 1 to 4294967295";
const AT_LEAST_A_MILLISECOND: &str = "a duration of at least 1 ms, such as 10 min, 30 s or 500 (milliseconds)";

/// Which restart strategy a job has that sets none by code.
pub const RESTART_STRATEGY: ConfigOption<String> = ConfigOption::new(
    "restart-strategy.type",
    "The name of the restart strategy: `none` (or `off`, `disable`), `fixed-delay`, `failure-rate` or \
     `exponential-delay`. Not set: `exponential-delay` for a job with checkpoints, `none` for one without.",
)
.with_deprecated_keys(&["restart-strategy"]);

/// `fixed-delay`: how many restarts there are.
pub const FIXED_DELAY_ATTEMPTS: ConfigOption<u32> = ConfigOption::new(
    "restart-strategy.fixed-delay.attempts",
    "How often the job is restarted; 4294967295 means without end.",
)
.with_default("1");

/// `fixed-delay`: how long to wait before each restart.
pub const FIXED_DELAY_DELAY: ConfigOption<Duration> =
    ConfigOption::new("restart-strategy.fixed-delay.delay", "How long to wait before each restart.")
        .with_default("1 s");

/// `failure-rate`: how many failures are allowed within an interval.
pub const FAILURE_RATE_MAX_FAILURES: ConfigOption<u32> = ConfigOption::new(
    "restart-strategy.failure-rate.max-failures-per-interval",
    "How many failures within the interval are followed by a restart. One more ends the job.",
)
.with_default("1")
.with_check(AT_LEAST_ONE, |failures| *failures >= 1);

/// `failure-rate`: the interval in which failures are counted.
pub const FAILURE_RATE_INTERVAL: ConfigOption<Duration> = ConfigOption::new(
    "restart-strategy.failure-rate.failure-rate-interval",
    "The interval in which failures are counted; it ends with the latest.",
)
.with_default("1 min")
.with_check(AT_LEAST_A_MILLISECOND, is_a_millisecond);

/// `failure-rate`: how long to wait before each restart.
pub const FAILURE_RATE_DELAY: ConfigOption<Duration> =
    ConfigOption::new("restart-strategy.failure-rate.delay", "How long to wait before each restart.")
        .with_default("1 s");

/// `exponential-delay`: the first delay.
pub const EXPONENTIAL_DELAY_INITIAL_BACKOFF: ConfigOption<Duration> = ConfigOption::new(
    "restart-strategy.exponential-delay.initial-backoff",
    "How long to wait before the first restart. Not more than the longest delay.",
)
.with_default("1 s")
.with_check(AT_LEAST_A_MILLISECOND, is_a_millisecond);

/// `exponential-delay`: the longest delay.
pub const EXPONENTIAL_DELAY_MAX_BACKOFF: ConfigOption<Duration> = ConfigOption::new(
    "restart-strategy.exponential-delay.max-backoff",
    "How long to wait before a restart at most. Not less than the first delay.",
)
.with_default("1 min")
.with_check(AT_LEAST_A_MILLISECOND, is_a_millisecond);

/// `exponential-delay`: how much longer each delay is than the one before.
pub const EXPONENTIAL_DELAY_MULTIPLIER: ConfigOption<f64> = ConfigOption::new(
    "restart-strategy.exponential-delay.backoff-multiplier",
    "How many times as long as the one before each delay is.",
)
.with_default("1.5")
.with_check("a number above 1, such as 1.5", |multiplier| *multiplier > 1.0 && multiplier.is_finite());

/// `exponential-delay`: how long the job has to run for its delays to begin anew.
pub const EXPONENTIAL_DELAY_RESET_THRESHOLD: ConfigOption<Duration> = ConfigOption::new(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    "How long the job has to run without a failure for delays and restarts to be counted anew.",
)
.with_default("1 h")
.with_check(AT_LEAST_A_MILLISECOND, is_a_millisecond);

/// `exponential-delay`: how far chance moves a delay.
pub const EXPONENTIAL_DELAY_JITTER: ConfigOption<f64> = ConfigOption::new(
    "restart-strategy.exponential-delay.jitter-factor",
    "How far a delay may be from what was calculated, as a part of it, so that jobs that fail together are not restarted \
     together.",
)
.with_default("0.1")
.with_check("a number from 0 to 1, such as 0.1", |jitter| (0.0..=1.0).contains(jitter));

/// `exponential-delay`: how many restarts there are until they are counted anew.
pub const EXPONENTIAL_DELAY_ATTEMPTS: ConfigOption<u32> = ConfigOption::new(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    "How often the job is restarted until its restarts are counted anew; 4294967295 means without end.",
)
.with_default("4294967295")
.with_check(AT_LEAST_ONE, |attempts| *attempts >= 1);

/// What is restarted when a task fails.
pub const FAILOVER_STRATEGY: ConfigOption<FailoverStrategy> = ConfigOption::new(
    "jobmanager.execution.failover-strategy",
    "What is restarted when a task fails. `region`: the tasks that records reach it from or reach from it. `full`: all.",
)
.with_default("region");

/// After how many equal failures a record is suspected.
pub const POISON_RECORD_REPEATS: ConfigOption<u32> = ConfigOption::new(
    "restart-strategy.poison-record.repeats",
    "After how many failures of the same operator with the same error, and no checkpoint completed in between, the same \
     record is suspected each time.",
)
.with_default("3")
.with_check("a whole number from 2 to 4294967295", |repeats| *repeats >= 2);

/// What follows when a record is suspected.
pub const POISON_RECORD_ACTION: ConfigOption<PoisonRecordAction> = ConfigOption::new(
    "restart-strategy.poison-record.action",
    "What to do then. `report`: say so, and leave the rest to the restart strategy, since an outage of another system \
     looks the same. `fail`: end the job.",
)
.with_default("report");

/// What to do when the same record seems to make a job fail again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoisonRecordAction {
    /// Say so.
    Report,
    /// Say so, and end the job.
    Fail,
}

impl ConfigValue for PoisonRecordAction {
    const EXPECTED: &'static str = "report or fail";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "report" => Some(Self::Report),
            "fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

fn is_a_millisecond(duration: &Duration) -> bool {
    *duration >= Duration::from_millis(1)
}

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    vec![
        RESTART_STRATEGY.describe(),
        FIXED_DELAY_ATTEMPTS.describe(),
        FIXED_DELAY_DELAY.describe(),
        FAILURE_RATE_MAX_FAILURES.describe(),
        FAILURE_RATE_INTERVAL.describe(),
        FAILURE_RATE_DELAY.describe(),
        EXPONENTIAL_DELAY_INITIAL_BACKOFF.describe(),
        EXPONENTIAL_DELAY_MAX_BACKOFF.describe(),
        EXPONENTIAL_DELAY_MULTIPLIER.describe(),
        EXPONENTIAL_DELAY_RESET_THRESHOLD.describe(),
        EXPONENTIAL_DELAY_JITTER.describe(),
        EXPONENTIAL_DELAY_ATTEMPTS.describe(),
        FAILOVER_STRATEGY.describe(),
        POISON_RECORD_REPEATS.describe(),
        POISON_RECORD_ACTION.describe(),
    ]
}
