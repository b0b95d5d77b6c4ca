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

/// Shows the owner of a job which keys of its configuration have no effect: those of no option that is known here, in
/// `state_api::options` or in the registry of the job.
pub(crate) fn log_unknown_keys(config: &JobConfig) {
    let mut options = highwater_state_api::options::describe();
    options.extend(describe());
    options.extend(config.registry.iter().flat_map(|registry| registry.options()));
    let configuration = config.layered_configuration();
    let mut notices = ConfigNotices::default();
    unknown_keys::notice_unknown_keys(&configuration, &options, &mut notices);
    later::notice(&configuration, &mut notices);
    log_notices(&config.name, &notices);
}

/// Shows the owner of a job what to change in its configuration.
pub(crate) fn log_notices(job: &str, notices: &ConfigNotices) {
    for notice in notices.iter() {
        tracing::warn!(target: "highwater::job", job, "{notice}");
    }
}
