//! Which restart strategy a job gets: what was set, what the configuration asks for, or the default.

use std::time::Duration;

use highwater_checkpoint::{ExponentialDelay, RestartStrategy};
use highwater_state_api::{ConfigError, ConfigNotices, ConfigOption, ConfigValue, Configuration, Setting};

use crate::options::restart::*;
use crate::plan::JobConfig;
use crate::{JobError, options};

/// The names that can be given.
const NAMES: [&str; 4] = ["none", "fixed-delay", "failure-rate", "exponential-delay"];

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RestartSettings {
    pub(crate) strategy: RestartStrategy,
    pub(crate) poison_record_repeats: u32,
    pub(crate) poison_record_action: PoisonRecordAction,
}

/// Chooses, and logs what somebody should change in the configuration.
///
/// What was set by code counts; then comes the configuration of the job, then that of the cluster, then the default. The
/// parameters of the default strategy are configured like those of a strategy that is named.
pub(crate) fn choose(config: &JobConfig, has_checkpoints: bool) -> Result<RestartSettings, JobError> {
    let mut notices = ConfigNotices::default();
    let configuration = config.layered_configuration();
    let chosen = choose_with(config.restart, &configuration, has_checkpoints, &mut notices);
    options::log_notices(&config.name, &notices);
    Ok(chosen?)
}

pub(crate) fn choose_with(
    set_by_code: Option<RestartStrategy>,
    configuration: &Configuration,
    has_checkpoints: bool,
    notices: &mut ConfigNotices,
) -> Result<RestartSettings, ConfigError> {
    let strategy = match set_by_code {
        Some(strategy) => check(strategy)?,
        None => from_configuration(configuration, has_checkpoints, notices)?,
    };
    Ok(RestartSettings {
        strategy,
        poison_record_repeats: value_of(&POISON_RECORD_REPEATS, configuration, notices)?,
        poison_record_action: value_of(&POISON_RECORD_ACTION, configuration, notices)?,
    })
}

fn from_configuration(
    configuration: &Configuration,
    has_checkpoints: bool,
    notices: &mut ConfigNotices,
) -> Result<RestartStrategy, ConfigError> {
    let Some(setting) = configuration.find(&RESTART_STRATEGY, notices) else {
        return if has_checkpoints { exponential_delay(configuration, notices) } else { Ok(RestartStrategy::None) };
    };
    match setting.value.to_ascii_lowercase().as_str() {
        "none" | "off" | "disable" => Ok(RestartStrategy::None),
        "fixed-delay" | "fixeddelay" => Ok(RestartStrategy::FixedDelay {
            attempts: value_of(&FIXED_DELAY_ATTEMPTS, configuration, notices)?,
            delay_ms: milliseconds(&FIXED_DELAY_DELAY, configuration, notices)?,
        }),
        "failure-rate" | "failurerate" => Ok(RestartStrategy::FailureRate {
            max_failures_per_interval: value_of(&FAILURE_RATE_MAX_FAILURES, configuration, notices)?,
            interval_ms: milliseconds(&FAILURE_RATE_INTERVAL, configuration, notices)?,
            delay_ms: milliseconds(&FAILURE_RATE_DELAY, configuration, notices)?,
        }),
        "exponential-delay" | "exponentialdelay" => exponential_delay(configuration, notices),
        _ => Err(ConfigError::UnknownName {
            key: setting.key.to_owned(),
            value: setting.value.to_owned(),
            valid: NAMES.map(str::to_owned).to_vec(),
        }),
    }
}

fn exponential_delay(
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<RestartStrategy, ConfigError> {
    let parameters = ExponentialDelay {
        initial_backoff_ms: milliseconds(&EXPONENTIAL_DELAY_INITIAL_BACKOFF, configuration, notices)?,
        max_backoff_ms: milliseconds(&EXPONENTIAL_DELAY_MAX_BACKOFF, configuration, notices)?,
        backoff_multiplier: value_of(&EXPONENTIAL_DELAY_MULTIPLIER, configuration, notices)?,
        reset_backoff_threshold_ms: milliseconds(&EXPONENTIAL_DELAY_RESET_THRESHOLD, configuration, notices)?,
        jitter_factor: value_of(&EXPONENTIAL_DELAY_JITTER, configuration, notices)?,
        attempts_before_reset_backoff: value_of(&EXPONENTIAL_DELAY_ATTEMPTS, configuration, notices)?,
    };
    let initial = configuration.find(&EXPONENTIAL_DELAY_INITIAL_BACKOFF, notices);
    let max = configuration.find(&EXPONENTIAL_DELAY_MAX_BACKOFF, notices);
    check_order(&parameters, initial, max)?;
    Ok(parameters.into())
}

/// The first delay is not to be longer than the longest. The error names the one that was set.
fn check_order(
    parameters: &ExponentialDelay,
    initial: Option<Setting<'_>>,
    max: Option<Setting<'_>>,
) -> Result<(), ConfigError> {
    let ExponentialDelay { initial_backoff_ms, max_backoff_ms, .. } = parameters;
    if initial_backoff_ms <= max_backoff_ms {
        return Ok(());
    }
    let (initial_key, max_key) = (EXPONENTIAL_DELAY_INITIAL_BACKOFF.key(), EXPONENTIAL_DELAY_MAX_BACKOFF.key());
    let invalid = |setting: Setting<'_>, expected: String| {
        Err(ConfigError::Invalid { key: setting.key.to_owned(), value: setting.value.to_owned(), expected })
    };
    match (initial, max) {
        (None, Some(max)) => {
            invalid(max, format!("at least the {initial_backoff_ms} ms of `{initial_key}`, which is the first delay"))
        }
        (initial, _) => {
            let text = format!("{initial_backoff_ms} ms");
            let initial = initial.unwrap_or(Setting { key: initial_key, value: &text });
            invalid(initial, format!("at most the {max_backoff_ms} ms of `{max_key}`, which is the longest delay"))
        }
    }
}

/// Holds what code has set against the bounds of the options.
fn check(strategy: RestartStrategy) -> Result<RestartStrategy, ConfigError> {
    let duration =
        |option: &ConfigOption<Duration>, ms: u64| option.check(Duration::from_millis(ms), &format!("{ms} ms"));
    let count = |option: &ConfigOption<u32>, number: u32| option.check(number, &number.to_string());
    let factor = |option: &ConfigOption<f64>, number: f64| option.check(number, &number.to_string());
    match &strategy {
        RestartStrategy::FailureRate { max_failures_per_interval, interval_ms, .. } => {
            count(&FAILURE_RATE_MAX_FAILURES, *max_failures_per_interval)?;
            duration(&FAILURE_RATE_INTERVAL, *interval_ms)?;
        }
        RestartStrategy::ExponentialDelay(parameters) => {
            duration(&EXPONENTIAL_DELAY_INITIAL_BACKOFF, parameters.initial_backoff_ms)?;
            duration(&EXPONENTIAL_DELAY_MAX_BACKOFF, parameters.max_backoff_ms)?;
            factor(&EXPONENTIAL_DELAY_MULTIPLIER, parameters.backoff_multiplier)?;
            duration(&EXPONENTIAL_DELAY_RESET_THRESHOLD, parameters.reset_backoff_threshold_ms)?;
            factor(&EXPONENTIAL_DELAY_JITTER, parameters.jitter_factor)?;
            count(&EXPONENTIAL_DELAY_ATTEMPTS, parameters.attempts_before_reset_backoff)?;
            check_order(parameters, None, None)?;
        }
        // Any number of restarts and any delay will do.
        _ => {}
    }
    Ok(strategy)
}

/// The value of an option that has a default.
fn value_of<T: ConfigValue>(
    option: &ConfigOption<T>,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<T, ConfigError> {
    Ok(configuration.get(option, notices)?.expect("every option that is read by this function has a default"))
}

fn milliseconds(
    option: &ConfigOption<Duration>,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<u64, ConfigError> {
    let duration = value_of(option, configuration, notices)?;
    Ok(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "restart_choice_test.rs"]
mod restart_choice_test;
