//! The options of a configuration that concern how a job runs; those of its state are in `state_api::options`.

pub mod checkpointing;
pub mod restart;

use highwater_state_api::{ConfigNotices, OptionDescription};

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    [checkpointing::describe(), restart::describe()].concat()
}

/// Shows the owner of a job what to change in its configuration.
pub(crate) fn log_notices(job: &str, notices: &ConfigNotices) {
    for notice in notices.iter() {
        tracing::warn!(target: "highwater::job", job, "{notice}");
    }
}
