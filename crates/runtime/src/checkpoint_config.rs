//! How checkpoints of a job are taken: what was set, what the configuration asks for, or the defaults.

use std::time::Duration;

use highwater_checkpoint::CheckpointingMode;
use highwater_state_api::{ConfigError, ConfigNotice, ConfigNotices, ConfigOption, ConfigValue, Configuration};

use crate::options::checkpointing::*;
use crate::plan::JobConfig;
use crate::{ExternalizedCheckpointRetention, JobError, options};

/// What code has set; `None` where it has not.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointSettings {
    pub(crate) interval: Option<Duration>,
    pub(crate) mode: Option<CheckpointingMode>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) min_pause: Option<Duration>,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) tolerable_failures: Option<u32>,
    pub(crate) retain: Option<usize>,
    pub(crate) externalized_retention: Option<ExternalizedCheckpointRetention>,
    pub(crate) fall_back: Option<bool>,
}

/// The numbers that a job runs with. Flink's `CheckpointConfig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointConfig {
    /// `None` when there are no periodic checkpoints.
    pub(crate) interval: Option<Duration>,
    pub(crate) mode: CheckpointingMode,
    pub(crate) timeout: Duration,
    pub(crate) min_pause: Duration,
    pub(crate) max_concurrent: u32,
    /// `u32::MAX` is any number.
    pub(crate) tolerable_failures: u32,
    /// At least 1.
    pub(crate) retain: usize,
    pub(crate) externalized_retention: ExternalizedCheckpointRetention,
    /// Whether an older checkpoint takes the place of a damaged one.
    pub(crate) fall_back: bool,
}

/// Chooses, and logs what somebody should change in the configuration.
///
/// What was set by code counts; then comes the configuration of the job, then that of the cluster, then the default.
pub(crate) fn choose(config: &JobConfig) -> Result<CheckpointConfig, JobError> {
    let mut notices = ConfigNotices::default();
    let configuration = config.layered_configuration();
    let chosen = choose_with(&config.checkpoints, &configuration, &mut notices);
    options::log_notices(&config.name, &notices);
    let chosen = chosen?;
    for remark in remarks(&chosen) {
        tracing::debug!(target: "highwater::job", job = config.name, remark, "checkpoints");
    }
    Ok(chosen)
}

pub(crate) fn choose_with(
    set: &CheckpointSettings,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<CheckpointConfig, ConfigError> {
    let mut reader = Reader { configuration, notices };
    let retain = match set.retain {
        Some(retain) => retain.max(1),
        None => {
            let retain = reader.value(&RETAINED, None)?;
            if retain < 1 {
                reader
                    .notices
                    .add(ConfigNotice::ReplacedValue { key: RETAINED.key().to_owned(), value: "1".to_owned() });
            }
            usize::try_from(retain.max(1)).unwrap_or(usize::MAX)
        }
    };
    let tolerable_failures = match set.tolerable_failures {
        Some(number) => number,
        None => tolerated(reader.value(&TOLERABLE_FAILURES, None)?),
    };
    Ok(CheckpointConfig {
        interval: reader.optional(&INTERVAL, set.interval)?,
        mode: reader.value(&MODE, set.mode.map(Mode))?.0,
        timeout: reader.value(&TIMEOUT, set.timeout)?,
        min_pause: reader.value(&MIN_PAUSE, set.min_pause)?,
        max_concurrent: reader.value(&MAX_CONCURRENT, set.max_concurrent)?,
        tolerable_failures,
        retain,
        externalized_retention: reader.value(&EXTERNALIZED_RETENTION, set.externalized_retention)?,
        fall_back: reader.value(&FALL_BACK, set.fall_back)?,
    })
}

struct Reader<'a> {
    configuration: &'a Configuration,
    notices: &'a mut ConfigNotices,
}

impl Reader<'_> {
    /// What code has set, held against the bounds of the option, or else what is configured.
    fn optional<T: ConfigValue + std::fmt::Debug>(
        &mut self,
        option: &ConfigOption<T>,
        set: Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        match set {
            Some(value) => {
                let text = format!("{value:?}");
                option.check(value, &text).map(Some)
            }
            None => self.configuration.get(option, self.notices),
        }
    }

    fn value<T: ConfigValue + std::fmt::Debug>(
        &mut self,
        option: &ConfigOption<T>,
        set: Option<T>,
    ) -> Result<T, ConfigError> {
        Ok(self.optional(option, set)?.expect("every option that is read by this function has a default"))
    }
}

/// What somebody might not expect of these numbers together.
pub(crate) fn remarks(config: &CheckpointConfig) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(interval) = config.interval
        && config.min_pause > interval
    {
        remarks.push(format!(
            "the interval of {interval:?} is raised to the minimum pause of {:?}: no two periodic checkpoints are closer",
            config.min_pause
        ));
    }
    if config.min_pause > Duration::ZERO && config.max_concurrent > 1 {
        remarks.push(format!(
            "{} checkpoints may be pending at the same time, but with a minimum pause a periodic one waits for the \
             completion of the one before it and the pause: more than one are pending only if they are asked for",
            config.max_concurrent
        ));
    }
    if config.fall_back && config.retain == 1 {
        remarks
            .push("only one checkpoint is kept: there is no older one to fall back to when it is damaged".to_owned());
    }
    if config.interval.is_none() {
        remarks.push(
            "there are no periodic checkpoints: after a failure the job begins anew, or goes on from a checkpoint that \
             was asked for"
                .to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
#[path = "checkpoint_config_test.rs"]
mod checkpoint_config_test;
