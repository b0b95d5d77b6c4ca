//! What lies between the claim of a simulated job and its first step.

use std::sync::Arc;
use std::time::Duration;

use highwater_runtime::graph::JobGraph;
use highwater_runtime::restore::ClaimedJob;
use highwater_runtime::{Adoption, Fence, JobError, Preparation, Prepared, prepare};
use highwater_state_api::{JobName, RowSettings, StateBackend};
use highwater_state_kit::HeapStateBackend;

use crate::storage::SimStorage;

/// A job that is about to be claimed.
pub(crate) struct Preparing {
    /// Where its checkpoints are.
    pub storage: SimStorage,
    /// Its name.
    pub job: JobName,
    /// What it runs.
    pub graph: Arc<JobGraph>,
    /// Of its keyed state.
    pub hash_seed: u64,
    /// When it begins.
    pub now: Duration,
}

impl Preparing {
    /// Does with it what production does, once it is claimed.
    pub(crate) async fn prepare(
        &self,
        claimed: &mut ClaimedJob,
        fence: &Fence,
        adoption: Option<&Adoption>,
    ) -> Result<Prepared, JobError> {
        let state_backend: Arc<dyn StateBackend> = Arc::new(HeapStateBackend::new());
        let preparation = Preparation {
            job: &self.job,
            graph: &self.graph,
            state_backend: &state_backend,
            storage: &self.storage,
            row_settings: RowSettings { cached_rows_max: 1 << 16, hash_seed: self.hash_seed },
            fence,
            adoption,
            accepts: &|_, _| Ok(()),
            note: &|_| {},
            now: self.now,
        };
        prepare(&preparation, claimed).await
    }
}
