//! Whether a job is run as a stream or as a batch, and what follows for its operators.

use std::fmt;

use highwater_state_api::{ConfigNotices, ConfigValue};

use crate::options::execution::*;
use crate::plan::JobConfig;
use crate::sort::SortSettings;
use crate::{JobError, options};

/// How the input of a job is processed. Flink's `RuntimeExecutionMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeExecutionMode {
    /// Record by record as it comes, with checkpoints.
    Streaming,
    /// All input ends, and what comes out becomes visible when it has. Keyed functions get one key after the other, no
    /// checkpoints are taken, and a job that fails begins anew.
    Batch,
    /// As a batch if all sources end, or else as a stream.
    Automatic,
}

impl ConfigValue for RuntimeExecutionMode {
    const EXPECTED: &'static str = "STREAMING, BATCH or AUTOMATIC";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_uppercase().as_str() {
            "STREAMING" => Some(Self::Streaming),
            "BATCH" => Some(Self::Batch),
            "AUTOMATIC" => Some(Self::Automatic),
            _ => None,
        }
    }
}

impl fmt::Display for RuntimeExecutionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Streaming => "STREAMING",
            Self::Batch => "BATCH",
            Self::Automatic => "AUTOMATIC",
        })
    }
}

/// What a mode comes down to for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Execution {
    Streaming,
    /// With what input is sorted with.
    Batch(SortSettings),
}

/// Chooses for a job in which this source is unbounded, if one is.
///
/// What was set by code counts; then comes the configuration of the job, then that of the cluster, then the default.
pub(crate) fn choose(config: &JobConfig, unbounded: Option<&str>) -> Result<Execution, JobError> {
    let mut notices = ConfigNotices::default();
    let configuration = config.layered_configuration();
    let mode = match config.runtime_mode {
        Some(mode) => mode,
        None => configuration.get(&RUNTIME_MODE, &mut notices)?.expect("the option has a default"),
    };
    let chosen = match (mode, unbounded) {
        (RuntimeExecutionMode::Streaming, _) | (RuntimeExecutionMode::Automatic, Some(_)) => Execution::Streaming,
        (RuntimeExecutionMode::Batch, Some(source)) => {
            return Err(JobError::UnboundedSource { operator: source.to_owned() });
        }
        (RuntimeExecutionMode::Batch | RuntimeExecutionMode::Automatic, None) => {
            let memory = configuration.get(&SORTED_INPUTS_MEMORY, &mut notices)?.expect("the option has a default");
            let directories = configuration.get(&TMP_DIRS, &mut notices)?;
            Execution::Batch(SortSettings {
                memory_bytes: usize::try_from(memory.bytes).unwrap_or(usize::MAX),
                directories: directories.map(|text| folders(&text)).unwrap_or_default(),
            })
        }
    };
    options::log_notices(&config.name, &notices);
    Ok(chosen)
}
