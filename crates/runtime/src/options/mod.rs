//! The options of a configuration that concern how a job runs; those of its state are in `state_api::options`.

pub mod checkpointing;
pub mod execution;
pub mod high_availability;
pub(crate) mod later;
pub mod restart;
mod unknown_keys;

use highwater_state_api::{ConfigNotices, OptionDescription};

use crate::plan::JobConfig;

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    [execution::describe(), checkpointing::describe(), restart::describe(), high_availability::describe()].concat()
}

/// The options that a job can be configured by: those of state, those here, and those of its registry.
pub(crate) fn of_job(config: &JobConfig) -> Vec<OptionDescription> {
    let mut options = highwater_state_api::options::describe();
    options.extend(describe());
    options.extend(config.registry.iter().flat_map(|registry| registry.options()));
    options
}

/// Notices the keys in the configuration of a job that have no effect.
pub(crate) fn notice_keys_without_effect(config: &JobConfig, notices: &mut ConfigNotices) {
    let configuration = config.layered_configuration();
    unknown_keys::notice_unknown_keys(&configuration, &of_job(config), notices);
    later::notice(&configuration, notices);
}

/// Shows the owner of a job which keys of its configuration have no effect.
pub(crate) fn log_keys_without_effect(config: &JobConfig) {
    let mut notices = ConfigNotices::default();
    notice_keys_without_effect(config, &mut notices);
    log_notices(&config.name, &notices);
}

/// Shows the owner of a job what to change in its configuration.
pub(crate) fn log_notices(job: &str, notices: &ConfigNotices) {
    for notice in notices.iter() {
        tracing::warn!(target: "highwater::job", %job, "{notice}");
    }
}
