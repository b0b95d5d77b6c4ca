//! The options that concern checkpoints: when they are taken, how long they may take, which failures matter, how many are kept.

use std::fmt;
use std::time::Duration;

use highwater_checkpoint::CheckpointingMode;
use highwater_state_api::{ConfigOption, ConfigValue, OptionDescription};

use crate::ExternalizedCheckpointRetention;

/// Flink's largest number: as many as one likes.
const ANY_NUMBER: i64 = i32::MAX as i64;
const AT_LEAST_10_MS: &str = "a duration of at least 10 ms, such as 10 min, 30 s or 500 (milliseconds)";

/// How often a checkpoint is taken.
pub const INTERVAL: ConfigOption<Duration> = ConfigOption::new(
    "execution.checkpointing.interval",
    "How often a checkpoint is taken. Not set: none is, but for those that are asked for and the last one, when the input \
     has ended.",
)
.with_check(AT_LEAST_10_MS, is_at_least_10_ms);

/// How often a checkpoint is taken while a source works through a backlog.
pub const INTERVAL_DURING_BACKLOG: ConfigOption<Duration> = ConfigOption::new(
    "execution.checkpointing.interval-during-backlog",
    "How often a checkpoint is taken while a source works through a backlog; 0: none is. Not set: as often as always. Not \
     less than the usual interval.",
)
.with_check("0, or a duration of at least 10 ms, such as 10 min, 30 s or 500 (milliseconds)", |interval| {
    interval.is_zero() || is_at_least_10_ms(interval)
});

/// Whether sources wait for the first checkpoint.
pub const PAUSE_SOURCES: ConfigOption<bool> = ConfigOption::new(
    "pipeline.sources.pause-until-first-checkpoint",
    "Whether sources read nothing before they have taken part in a checkpoint. Then the first one waits for the minimum \
     pause alone. Without an interval nothing waits.",
)
.with_default("false");

/// How many checkpoints that have ended are remembered.
pub const HISTORY: ConfigOption<u32> =
    ConfigOption::new("web.checkpoints.history", "Of how many checkpoints that have ended the statistics are kept.")
        .with_default("10");

/// Whether records count exactly or at least once.
pub const MODE: ConfigOption<Mode> = ConfigOption::new(
    "execution.checkpointing.mode",
    "Whether a record counts exactly or at least once in the state that a job is restored with. At least once, no input \
     waits for the barriers of another one.",
)
.with_default("EXACTLY_ONCE");

/// How long a checkpoint may take.
pub const TIMEOUT: ConfigOption<Duration> = ConfigOption::new(
    "execution.checkpointing.timeout",
    "How long a checkpoint may take before it is given up, and the job log may fail to tell whether a record was written \
     before the attempt is.",
)
.with_default("10 min")
.with_check(AT_LEAST_10_MS, is_at_least_10_ms);

/// How long a job is left alone between checkpoints.
pub const MIN_PAUSE: ConfigOption<Duration> = ConfigOption::new(
    "execution.checkpointing.min-pause",
    "How much time at least lies between the completion of a checkpoint and the trigger of the next periodic one. An \
     interval that is shorter is raised to it.",
)
.with_default("0 ms")
.with_check("a duration of at most 365 d, such as 30 s or 500 (milliseconds)", |pause| {
    *pause <= Duration::from_secs(365 * 86_400)
});

/// How many checkpoints are taken at the same time.
pub const MAX_CONCURRENT: ConfigOption<u32> = ConfigOption::new(
    "execution.checkpointing.max-concurrent-checkpoints",
    "How many checkpoints may be pending at the same time. With a minimum pause it is one in practice: the next periodic \
     one waits for a completion and the pause.",
)
.with_default("1")
.with_check("a whole number from 1 to 4294967295", |number| *number >= 1);

/// How many checkpoints may fail in a row.
pub const TOLERABLE_FAILURES: ConfigOption<i64> = ConfigOption::new(
    "execution.checkpointing.tolerable-failed-checkpoints",
    "How many checkpoints may fail in a row before the attempt does; 2147483647 means any number.",
)
.with_default("0")
.with_check("a whole number from 0 to 2147483647", |number| (0..=ANY_NUMBER).contains(number));

/// Whether checkpoints are taken after some tasks have ended.
pub const AFTER_TASKS_FINISH: ConfigOption<bool> = ConfigOption::new(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    "Whether checkpoints are taken once some subtasks have processed all their input and others have not. If not, the next \
     one is the last, when all of them have.",
)
.with_default("true")
.with_deprecated_keys(&["execution.checkpointing.checkpoints-after-tasks-finish.enabled"]);

/// Whether state that nobody claims may be lost.
pub const IGNORE_UNCLAIMED_STATE: ConfigOption<bool> = ConfigOption::new(
    "execution.state-recovery.ignore-unclaimed-state",
    "Whether the state of operators and hooks that the job does not have any more may be lost.",
)
.with_default("false")
.with_deprecated_keys(&["execution.savepoint.ignore-unclaimed-state"]);

/// How many complete checkpoints are kept.
pub const RETAINED: ConfigOption<i64> = ConfigOption::new(
    "execution.checkpointing.num-retained",
    "How many complete checkpoints are kept. What is less than 1 counts as 1, with a warning.",
)
.with_default("1")
.with_deprecated_keys(&["state.checkpoints.num-retained"]);

/// What becomes of the checkpoints of a job that ends.
pub const EXTERNALIZED_RETENTION: ConfigOption<ExternalizedCheckpointRetention> = ConfigOption::new(
    "execution.checkpointing.externalized-checkpoint-retention",
    "Whether checkpoints outlive a job that is cancelled or fails: both (RETAIN_ON_CANCELLATION), only the failure \
     (DELETE_ON_CANCELLATION) or neither (NO_EXTERNALIZED_CHECKPOINTS, Flink's default). A finished job keeps none, a killed \
     one all.",
)
.with_default("RETAIN_ON_CANCELLATION");

/// Whether a job goes on from an older checkpoint when the newest is damaged.
pub const FALL_BACK: ConfigOption<bool> = ConfigOption::new(
    "execution.state-recovery.fall-back-to-older-checkpoint",
    "Whether a job goes on from the next older checkpoint that is kept when the newest one is damaged; otherwise it is not \
     started. What followed the newer one outside the job, such as committed transactions and acknowledged input, is not \
     taken back.",
)
.with_default("false");

impl ConfigValue for Mode {
    const EXPECTED: &'static str = "EXACTLY_ONCE or AT_LEAST_ONCE";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_uppercase().replace('-', "_").as_str() {
            "EXACTLY_ONCE" => Some(Self(CheckpointingMode::ExactlyOnce)),
            "AT_LEAST_ONCE" => Some(Self(CheckpointingMode::AtLeastOnce)),
            _ => None,
        }
    }
}

/// A [`CheckpointingMode`] as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub CheckpointingMode);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            CheckpointingMode::ExactlyOnce => "EXACTLY_ONCE",
            CheckpointingMode::AtLeastOnce => "AT_LEAST_ONCE",
        })
    }
}

/// What a number of tolerated failures means to a coordinator.
pub(crate) fn tolerated(number: i64) -> u32 {
    if number >= ANY_NUMBER { u32::MAX } else { u32::try_from(number).unwrap_or(0) }
}

fn is_at_least_10_ms(duration: &Duration) -> bool {
    *duration >= Duration::from_millis(10)
}

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    vec![
        INTERVAL.describe(),
        INTERVAL_DURING_BACKLOG.describe(),
        PAUSE_SOURCES.describe(),
        MODE.describe(),
        TIMEOUT.describe(),
        MIN_PAUSE.describe(),
        MAX_CONCURRENT.describe(),
        TOLERABLE_FAILURES.describe(),
        AFTER_TASKS_FINISH.describe(),
        RETAINED.describe(),
        EXTERNALIZED_RETENTION.describe(),
        FALL_BACK.describe(),
        IGNORE_UNCLAIMED_STATE.describe(),
        HISTORY.describe(),
    ]
}

#[cfg(test)]
mod tests {
    use highwater_state_api::{ConfigNotices, Configuration};

    use super::*;

    /// Contract: L231, U347.
    #[test]
    fn settings_that_make_no_sense_are_refused_with_their_bounds() {
        let notices = &mut ConfigNotices::default();
        for (key, wrong, right) in [
            (INTERVAL.key(), "9", "10"),
            (TIMEOUT.key(), "9 ms", "10 ms"),
            (INTERVAL_DURING_BACKLOG.key(), "5", "0"),
            (INTERVAL_DURING_BACKLOG.key(), "9 ms", "10 ms"),
            (MIN_PAUSE.key(), "-1", "0"),
            (MIN_PAUSE.key(), "366 d", "365 d"),
            (MAX_CONCURRENT.key(), "0", "1"),
            (TOLERABLE_FAILURES.key(), "-1", "0"),
            (MODE.key(), "sometimes", "at-least-once"),
        ] {
            let mut read = |value: &str| -> Vec<String> {
                let configuration = Configuration::from([(key, value)]);
                let durations = [&INTERVAL, &INTERVAL_DURING_BACKLOG, &TIMEOUT, &MIN_PAUSE]
                    .map(|option| configuration.get(option, notices).err());
                let others = [
                    configuration.get(&MAX_CONCURRENT, notices).err(),
                    configuration.get(&TOLERABLE_FAILURES, notices).err(),
                    configuration.get(&MODE, notices).err(),
                ];
                durations.into_iter().chain(others).flatten().map(|error| error.to_string()).collect()
            };
            let errors = read(wrong);
            assert_eq!(errors.len(), 1, "{key}: {wrong}");
            assert!(errors[0].starts_with(&format!("{key}: {wrong:?} is not valid; expected ")), "{}", errors[0]);
            assert_eq!(read(right), [""; 0], "{key}: {right}");
        }
        assert!(notices.is_empty());
    }

    /// Contract: L231.
    #[test]
    fn the_largest_number_of_failures_of_flink_is_any_number() {
        assert_eq!([0, 7, i64::from(i32::MAX) - 1].map(tolerated), [0, 7, i32::MAX as u32 - 1]);
        assert_eq!(tolerated(i64::from(i32::MAX)), u32::MAX);
    }
}
