//! Which state backend and checkpoint storage a job gets: what was set, or what the configuration asks for.

use std::sync::Arc;

use highwater_state_api::{BackendPairing, CheckpointStorage, ConfigNotices, Configuration, StateBackendRegistry};

use crate::plan::JobConfig;
use crate::{JobError, options};

/// Chooses both, and logs what somebody should change in the configuration.
///
/// What was set by code counts, and takes what it left open from the configuration of the cluster; then comes the
/// configuration of the job, then that of the cluster, then the defaults of the registry.
pub(crate) fn choose(config: &JobConfig) -> Result<BackendPairing, JobError> {
    let mut notices = ConfigNotices::default();
    let chosen = choose_with(config, &mut notices);
    options::log_notices(&config.name, &notices);
    chosen
}

/// Reads what the configuration says of both, as far as it counts, and makes no storage. Without a registry whoever starts the job
/// hears what is missing.
pub(crate) fn check(
    config: &JobConfig,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<(), JobError> {
    let (cluster, registry) = (&config.cluster_configuration, &config.registry);
    match (&config.state_backend, registry) {
        (Some(backend), _) => drop(backend.configure(cluster, notices)?),
        (None, Some(registry)) => drop(registry.load_state_backend(configuration, notices)?),
        (None, None) => {}
    }
    match (&config.checkpoint_storage, registry) {
        (Some(storage), _) => drop(storage.configure(cluster, notices)?),
        (None, Some(registry)) => registry.check_checkpoint_storage(configuration, notices)?,
        (None, None) => {}
    }
    Ok(())
}

fn choose_with(config: &JobConfig, notices: &mut ConfigNotices) -> Result<BackendPairing, JobError> {
    let cluster = &config.cluster_configuration;
    let configuration = config.layered_configuration();
    let state_backend = match &config.state_backend {
        Some(backend) => backend.configure(cluster, notices)?.unwrap_or_else(|| backend.clone()),
        None => registry(config, "state backend")?.load_state_backend(&configuration, notices)?,
    };
    let checkpoint_storage = match &config.checkpoint_storage {
        Some(storage) => storage.configure(cluster, notices)?.unwrap_or_else(|| storage.clone()),
        None => from_configuration(config, &configuration, notices)?,
    };
    Ok(BackendPairing { state_backend, checkpoint_storage })
}

fn from_configuration(
    config: &JobConfig,
    configuration: &Configuration,
    notices: &mut ConfigNotices,
) -> Result<Arc<dyn CheckpointStorage>, JobError> {
    let storage = registry(config, "checkpoint storage")?.load_checkpoint_storage(configuration, notices)?;
    if !storage.is_durable() {
        tracing::warn!(
            target: "highwater::job",
            job = %config.name,
            "checkpoints are kept in memory and do not outlive the process: set `execution.checkpointing.dir` to keep them"
        );
    }
    Ok(storage)
}

fn registry<'c>(config: &'c JobConfig, what: &str) -> Result<&'c StateBackendRegistry, JobError> {
    config.registry.as_ref().ok_or_else(|| {
        JobError::Invalid(format!(
            "no {what} is set: call `set_state_backend`, or `set_state_backend_registry` to have one found by the \
             configuration or by default"
        ))
    })
}
