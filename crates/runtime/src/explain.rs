//! The effective configuration of a job in words: what each option is, and who said so.

use std::fmt::Write;

use highwater_state_api::options::{
    ASYNCHRONOUS_SNAPSHOTS, CHECKPOINT_DIRECTORY, CHECKPOINT_STORAGE, DATA_INLINE_THRESHOLD,
};
use highwater_state_api::{ConfigNotices, Configuration, OptionDescription, StateBackendRegistry};

use crate::options::execution::RUNTIME_MODE;
use crate::options::high_availability::*;
use crate::options::restart::FAILOVER_STRATEGY;
use crate::plan::JobConfig;
use crate::{
    JobError, backend_choice, checkpoint_config, failover_strategy, high_availability, options, restart_choice,
};

/// One line an option, then what the options mean together and what should be written otherwise. What a start would refuse is
/// an error, as far as that can be told without touching anything outside the process.
pub(crate) fn explain(config: &JobConfig, is_batch: bool) -> Result<String, JobError> {
    let configuration = config.layered_configuration();
    let mut notices = ConfigNotices::default();
    let (has_interval, remarks) = if is_batch {
        checkpoint_config::choose_for_batch(&config.checkpoints, &configuration, &mut notices)?;
        (false, vec![BATCH.to_owned()])
    } else {
        let checkpoints = checkpoint_config::choose_with(&config.checkpoints, &configuration, &mut notices)?;
        checkpoint_config::check_together(&checkpoints)?;
        (checkpoints.interval.is_some(), checkpoint_config::remarks(&checkpoints))
    };
    options::later::check(&configuration)?;
    let restart = restart_choice::choose_with(config.restart, &configuration, has_interval, &mut notices)?;
    failover_strategy::choose_with(config.failover, &configuration, &mut notices)?;
    high_availability::choose_with(&config.high_availability, &configuration, &mut notices)?;
    options::notice_keys_without_effect(config, &mut notices);
    backend_choice::check(config, &configuration, &mut notices)?;
    let by_code = set_by_code(config);
    let mut text = String::new();
    for option in options::of_job(config) {
        let (value, origin) = match by_code.iter().find(|(key, _)| *key == option.key) {
            Some((_, value)) => (value.clone(), "code".to_owned()),
            None => left_to_code(&option, config)
                .or_else(|| derived_storage(&option, config))
                .or_else(|| configured(&option, config))
                .unwrap_or_else(|| (option.default.unwrap_or("not set").to_owned(), "default".to_owned())),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}: {value}  ({origin})", option.key);
    }
    if config.state_backend.is_some() {
        text.push_str("The state backend was set by code: `state.backend.type` does not count.\n");
    }
    if config.checkpoint_storage.is_some() {
        text.push_str("The checkpoint storage was set by code: `execution.checkpointing.storage` does not count.\n");
    }
    if config.restart.is_some() {
        text.push_str("The restart strategy was set by code: `restart-strategy.*` does not count.\n");
    }
    let _ = writeln!(text, "Note: the restart strategy is {}.", restart.strategy);
    for remark in remarks {
        let _ = writeln!(text, "Note: {remark}.");
    }
    for notice in notices.iter() {
        let _ = writeln!(text, "Note: {notice}.");
    }
    Ok(text)
}

/// What a backend or a storage that was set by code has of its own, or leaves to the configuration of the cluster.
fn left_to_code(option: &OptionDescription, config: &JobConfig) -> Option<(String, String)> {
    let is_of_storage = [CHECKPOINT_DIRECTORY.key(), DATA_INLINE_THRESHOLD.key()].contains(&option.key);
    let is_of_backend = option.key == ASYNCHRONOUS_SNAPSHOTS.key();
    let is_set =
        (is_of_storage && config.checkpoint_storage.is_some()) || (is_of_backend && config.state_backend.is_some());
    let (otherwise, origin) = configured_in(option, [(&config.cluster_configuration, "cluster")])
        .unwrap_or_else(|| (option.default.unwrap_or("not set").to_owned(), "default".to_owned()));
    is_set
        .then(|| ("what was set with it".to_owned(), format!("code; where that leaves it open: {otherwise}, {origin}")))
}

/// What is written for an option, and in which configuration.
fn configured(option: &OptionDescription, config: &JobConfig) -> Option<(String, String)> {
    configured_in(option, [(&config.configuration, "job"), (&config.cluster_configuration, "cluster")])
}

fn configured_in<const N: usize>(
    option: &OptionDescription,
    layers: [(&Configuration, &str); N],
) -> Option<(String, String)> {
    let keys = || std::iter::once(option.key).chain(option.deprecated_keys.iter().copied());
    layers.into_iter().find_map(|(layer, name): (&Configuration, _)| {
        keys().find_map(|key| {
            let origin = if key == option.key { name.to_owned() } else { format!("{name}, as `{key}`") };
            Some((layer.text(key)?.to_owned(), origin))
        })
    })
}

/// The checkpoint storage, where it follows from what is written elsewhere or nowhere.
fn derived_storage(option: &OptionDescription, config: &JobConfig) -> Option<(String, String)> {
    if option.key != CHECKPOINT_STORAGE.key() || config.checkpoint_storage.is_some() {
        return None;
    }
    match StateBackendRegistry::checkpoint_storage_name(&config.layered_configuration()) {
        (_, Some(key)) if CHECKPOINT_STORAGE.has_key(&key) => None,
        (name, Some(key)) => Some((name, format!("since `{key}` is set"))),
        (name, None) => Some((name, "default".to_owned())),
    }
}

fn set_by_code(config: &JobConfig) -> Vec<(&'static str, String)> {
    let mut by_code = config.checkpoints.by_code();
    let mut add = |key, value: Option<String>| by_code.extend(value.map(|value| (key, value)));
    add(RUNTIME_MODE.key(), config.runtime_mode.map(|mode| mode.to_string()));
    add(FAILOVER_STRATEGY.key(), config.failover.map(|strategy| strategy.to_string()));
    add(STANDBY.key(), config.high_availability.standby.map(|standby| standby.to_string()));
    add(LEASE_DURATION.key(), config.high_availability.lease.map(|lease| format!("{lease:?}")));
    by_code
}

/// What is to be said of batch mode.
const BATCH: &str = "the job is run in batch mode: keyed functions get one key after the other, what comes out becomes visible \
                     at the end, and after a failure the job begins anew, if it has a restart strategy";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::StreamExecutionEnvironment;
    use highwater_state_api::Configuration;

    #[test]
    fn every_option_is_there_with_who_said_so() {
        let env = StreamExecutionEnvironment::new("explained");
        env.configure(Configuration::from([
            ("execution.checkpointing.timeout", "2 min"),
            ("state.backend", "hashmap"),
            ("execution.checkpointing.unaligned", "true"),
        ]));
        env.set_cluster_configuration(Configuration::from([
            ("execution.checkpointing.timeout", "9 min"),
            ("execution.checkpointing.max-concurrent-checkpoints", "3"),
            ("execution.checkpointing.interval-during-backlog", "10 min"),
        ]));
        env.enable_checkpointing(Duration::from_secs(1)).set_min_pause_between_checkpoints(Duration::from_secs(5));
        insta::assert_snapshot!(env.explain_configuration().unwrap());
    }

    #[test]
    fn the_storage_is_named_though_it_is_written_nowhere() {
        let storage = |settings: &[(&str, &str)]| {
            let env = StreamExecutionEnvironment::new("explained");
            env.configure(settings.iter().copied().collect());
            let text = env.explain_configuration().unwrap();
            let line = text.lines().find(|line| line.starts_with("execution.checkpointing.storage: "));
            line.unwrap().replace("execution.checkpointing.storage: ", "")
        };
        assert_eq!(storage(&[]), "jobmanager  (default)");
        let directory = ("execution.checkpointing.dir", "/checkpoints");
        assert_eq!(storage(&[directory]), "filesystem  (since `execution.checkpointing.dir` is set)");
        let old = storage(&[("state.backend.fs.checkpointdir", "/checkpoints")]);
        assert_eq!(old, "filesystem  (since `state.backend.fs.checkpointdir` is set)");
        let named = ("execution.checkpointing.storage", "jobmanager");
        assert_eq!(storage(&[directory, named]), "jobmanager  (job)");
        let legacy = storage(&[directory, named, ("state.backend", "filesystem")]);
        assert_eq!(legacy, "filesystem  (since `state.backend` is set)");
    }

    #[test]
    fn what_a_start_would_refuse_or_ignore_is_said() {
        let env = StreamExecutionEnvironment::new("explained");
        env.configure(Configuration::from([("restart-strategy.typ", "none")]));
        let text = env.explain_configuration().unwrap();
        assert!(text.contains("if `restart-strategy.type` is meant, write that"), "{text}");
        assert!(text.contains("the restart strategy is none."), "{text}");
        for (key, value) in [("restart-strategy.type", "sometimes"), ("high-availability.lease-duration", "1 ms")] {
            let env = StreamExecutionEnvironment::new("explained");
            env.configure(Configuration::from([(key, value)]));
            let error = env.explain_configuration().unwrap_err();
            assert!(format!("{error:?}").contains(key), "{error:?}");
        }
    }
}
