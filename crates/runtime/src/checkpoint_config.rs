//! How checkpoints of a job are taken: what was set, what the configuration asks for, or the defaults.

use std::collections::BTreeSet;
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
    pub(crate) interval_during_backlog: Option<Duration>,
    pub(crate) pause_sources: Option<bool>,
    /// What was set by `set_fail_on_checkpointing_errors`: `tolerable_failures` counts before it.
    pub(crate) fail_on_errors: Option<bool>,
    pub(crate) mode: Option<CheckpointingMode>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) min_pause: Option<Duration>,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) tolerable_failures: Option<u32>,
    pub(crate) after_tasks_finish: Option<bool>,
    pub(crate) retain: Option<usize>,
    pub(crate) externalized_retention: Option<ExternalizedCheckpointRetention>,
    pub(crate) fall_back: Option<bool>,
}

impl CheckpointSettings {
    /// What is set, by the keys of its options.
    pub(crate) fn by_code(&self) -> Vec<(&'static str, String)> {
        let mut by_code = Vec::new();
        let mut add = |key, value: Option<String>| by_code.extend(value.map(|value| (key, value)));
        add(INTERVAL.key(), self.interval.map(|interval| format!("{interval:?}")));
        add(INTERVAL_DURING_BACKLOG.key(), self.interval_during_backlog.map(|interval| format!("{interval:?}")));
        add(PAUSE_SOURCES.key(), self.pause_sources.map(|pauses| pauses.to_string()));
        add(MODE.key(), self.mode.map(|mode| Mode(mode).to_string()));
        add(TIMEOUT.key(), self.timeout.map(|timeout| format!("{timeout:?}")));
        add(MIN_PAUSE.key(), self.min_pause.map(|pause| format!("{pause:?}")));
        add(MAX_CONCURRENT.key(), self.max_concurrent.map(|number| number.to_string()));
        let tolerable = self.tolerable_failures.or(self.fail_on_errors.map(|fails| if fails { 0 } else { u32::MAX }));
        add(TOLERABLE_FAILURES.key(), tolerable.map(|number| number.to_string()));
        add(AFTER_TASKS_FINISH.key(), self.after_tasks_finish.map(|enabled| enabled.to_string()));
        add(RETAINED.key(), self.retain.map(|number| number.to_string()));
        add(EXTERNALIZED_RETENTION.key(), self.externalized_retention.map(|retention| retention.to_string()));
        add(FALL_BACK.key(), self.fall_back.map(|falls_back| falls_back.to_string()));
        by_code
    }
}

/// The numbers that a job runs with. Flink's `CheckpointConfig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointConfig {
    /// `None` when there are no periodic checkpoints.
    pub(crate) interval: Option<Duration>,
    /// `None`: the usual one; 0: no checkpoints meanwhile.
    pub(crate) interval_during_backlog: Option<Duration>,
    /// Sources read nothing before they have taken part in a checkpoint.
    pub(crate) pause_sources: bool,
    pub(crate) mode: CheckpointingMode,
    pub(crate) timeout: Duration,
    pub(crate) min_pause: Duration,
    pub(crate) max_concurrent: u32,
    /// `u32::MAX` is any number.
    pub(crate) tolerable_failures: u32,
    /// Whether there are any once some subtasks have ended and others have not.
    pub(crate) after_tasks_finish: bool,
    /// At least 1.
    pub(crate) retain: usize,
    pub(crate) externalized_retention: ExternalizedCheckpointRetention,
    /// Whether an older checkpoint takes the place of a damaged one.
    pub(crate) fall_back: bool,
    /// State of operators and hooks that the job does not have may be lost.
    pub(crate) ignores_unclaimed: bool,
    /// Of how many checkpoints the statistics are kept.
    pub(crate) history: usize,
}

impl CheckpointConfig {
    /// Whether sources wait for a checkpoint, which has to come by itself.
    pub(crate) fn pauses_sources(&self) -> bool {
        self.pause_sources && self.interval.is_some()
    }
}

/// Chooses, and logs what somebody should change in the configuration.
///
/// What was set by code counts; then comes the configuration of the job, then that of the cluster, then the default.
pub(crate) fn choose(config: &JobConfig) -> Result<CheckpointConfig, JobError> {
    let mut notices = ConfigNotices::default();
    let configuration = config.layered_configuration();
    if config.is_batch() {
        let chosen = choose_for_batch(&config.checkpoints, &configuration, &mut notices);
        options::log_notices(&config.name, &notices);
        return Ok(chosen?);
    }
    let chosen = choose_with(&config.checkpoints, &configuration, &mut notices);
    options::log_notices(&config.name, &notices);
    let chosen = chosen?;
    check_together(&chosen)?;
    for remark in remarks(&chosen) {
        tracing::debug!(target: "highwater::job", job = %config.name, remark, "checkpoints");
    }
    Ok(chosen)
}

/// In batch mode there is the final checkpoint alone, and it is taken with the defaults. One notice names what is set.
pub(crate) fn choose_for_batch(
    set: &CheckpointSettings,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<CheckpointConfig, ConfigError> {
    let by_code = set.by_code().into_iter().map(|(key, _)| key);
    let options = describe();
    let keys =
        options.iter().flat_map(|option| std::iter::once(option.key).chain(option.deprecated_keys.iter().copied()));
    let configured = keys.filter(|key| configuration.effective_text(key).is_some());
    let ignored: BTreeSet<&str> = by_code.chain(configured).collect();
    if !ignored.is_empty() {
        let setting = ignored.into_iter().collect::<Vec<_>>().join(", ");
        let reason = "in batch mode no checkpoints are taken but the last one, when all input has ended".to_owned();
        notices.add(ConfigNotice::NoEffect { setting, reason });
    }
    choose_with(&CheckpointSettings::default(), &Configuration::new(), notices)
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
    let by_code = set.tolerable_failures.or(set.fail_on_errors.map(|fails| if fails { 0 } else { u32::MAX }));
    let tolerable_failures = match by_code {
        Some(number) => number,
        None => tolerated(reader.value(&TOLERABLE_FAILURES, None)?),
    };
    Ok(CheckpointConfig {
        interval: reader.optional(&INTERVAL, set.interval)?,
        interval_during_backlog: reader.optional(&INTERVAL_DURING_BACKLOG, set.interval_during_backlog)?,
        pause_sources: reader.value(&PAUSE_SOURCES, set.pause_sources)?,
        mode: reader.value(&MODE, set.mode.map(Mode))?.0,
        timeout: reader.value(&TIMEOUT, set.timeout)?,
        min_pause: reader.value(&MIN_PAUSE, set.min_pause)?,
        max_concurrent: reader.value(&MAX_CONCURRENT, set.max_concurrent)?,
        tolerable_failures,
        after_tasks_finish: reader.value(&AFTER_TASKS_FINISH, set.after_tasks_finish)?,
        retain,
        externalized_retention: reader.value(&EXTERNALIZED_RETENTION, set.externalized_retention)?,
        fall_back: reader.value(&FALL_BACK, set.fall_back)?,
        ignores_unclaimed: reader.value(&IGNORE_UNCLAIMED_STATE, None)?,
        history: reader.value(&HISTORY, None)? as usize,
    })
}

/// Refuses what each option allows and all of them together do not.
pub(crate) fn check_together(config: &CheckpointConfig) -> Result<(), JobError> {
    let (Some(interval), Some(backlog)) = (config.interval, config.interval_during_backlog) else { return Ok(()) };
    let (interval_key, backlog_key, pause_key) = (INTERVAL.key(), INTERVAL_DURING_BACKLOG.key(), PAUSE_SOURCES.key());
    if backlog.is_zero() && config.pause_sources {
        return Err(JobError::Invalid(format!(
            "`{pause_key}: true` and `{backlog_key}: 0` exclude each other: sources that work through a backlog would wait \
             for a checkpoint that does not come"
        )));
    }
    if !backlog.is_zero() && backlog < interval {
        return Err(JobError::Invalid(format!(
            "`{backlog_key}` is {backlog:?}, expected 0 or at least {interval:?}, which is `{interval_key}`"
        )));
    }
    Ok(())
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
    if let Some(interval) = config.interval {
        match config.interval_during_backlog {
            Some(backlog) if backlog.is_zero() => {
                remarks.push("while a source works through a backlog there are no periodic checkpoints".to_owned());
            }
            Some(backlog) => remarks.push(format!(
                "while a source works through a backlog checkpoints are {:?} apart, else {:?}",
                backlog.max(config.min_pause),
                interval.max(config.min_pause)
            )),
            None => {}
        }
        if config.pause_sources {
            remarks.push("sources read nothing before they have taken part in the first checkpoint".to_owned());
        }
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
    if !config.after_tasks_finish {
        remarks.push(
            "once a task has ended there are no checkpoints until all have: a failure meanwhile goes back to before that"
                .to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
#[path = "checkpoint_config_test.rs"]
mod checkpoint_config_test;
