//! What is restarted when a task fails: what was set, what the configuration asks for, or the default.

use std::fmt;

use highwater_state_api::{ConfigError, ConfigNotices, ConfigValue, Configuration};

use crate::options::restart::FAILOVER_STRATEGY;
use crate::plan::JobConfig;
use crate::{JobError, options};

/// What is restarted when a task fails. Flink's `jobmanager.execution.failover-strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailoverStrategy {
    /// The region of the task: those that records reach it from or reach from it, over any number of steps. The tasks of other
    /// regions go on.
    Region,
    /// Every task of the job.
    Full,
}

impl fmt::Display for FailoverStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Region => "region",
            Self::Full => "full",
        })
    }
}

impl ConfigValue for FailoverStrategy {
    const EXPECTED: &'static str = "region or full";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "region" => Some(Self::Region),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// Chooses, and logs what somebody should change in the configuration.
///
/// What was set by code counts; then comes the configuration of the job, then that of the cluster, then the default.
pub(crate) fn choose(config: &JobConfig) -> Result<FailoverStrategy, JobError> {
    let mut notices = ConfigNotices::default();
    let chosen = choose_with(config.failover, &config.layered_configuration(), &mut notices);
    options::log_notices(&config.name, &notices);
    Ok(chosen?)
}

/// The same, with the notices for the caller.
pub(crate) fn choose_with(
    set: Option<FailoverStrategy>,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<FailoverStrategy, ConfigError> {
    if let Some(strategy) = set {
        return Ok(strategy);
    }
    Ok(configuration.get(&FAILOVER_STRATEGY, notices)?.expect("the option has a default, which is valid"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain_of;
    use crate::plan::Plan;

    fn chosen(by_code: Option<FailoverStrategy>, configured: Option<&str>) -> Result<FailoverStrategy, JobError> {
        let mut config = Plan::new("job".to_owned()).config;
        config.failover = by_code;
        config.configuration =
            configured.map(|value| ("jobmanager.execution.failover-strategy", value)).into_iter().collect();
        choose(&config)
    }

    /// Contract: O275.
    #[test]
    fn regions_are_restarted_unless_somebody_wants_it_otherwise() {
        let is = |by_code, configured| chosen(by_code, configured).unwrap();
        assert_eq!(is(None, None), FailoverStrategy::Region);
        assert_eq!(is(None, Some("Full")), FailoverStrategy::Full);
        assert_eq!(is(Some(FailoverStrategy::Region), Some("full")), FailoverStrategy::Region);
        let error = chain_of(&chosen(None, Some("individual")).unwrap_err());
        assert!(error.contains("individual") && error.contains("region or full"), "{error}");
    }
}
