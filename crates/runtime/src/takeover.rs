//! A regional restart without its threads: what the next attempt takes over, how it claims the job and is prepared.
//!
//! The waiting, the stopping and the starting are the shell's, or a simulation's.

use std::collections::{BTreeMap, BTreeSet};

use highwater_checkpoint::{Now, OperatorTarget};
use highwater_state_api::{CheckpointId, CheckpointStorage, JobName, MaxParallelism, OperatorUid};

use crate::JobError;
use crate::fence::Fence;
use crate::graph::JobGraph;
use crate::prepare::{Preparation, Prepared, prepare_if};
use crate::restore::{Accepts, Begun, Claimant, ClaimedJob, Over, RestoreOptions, begin_attempt_if};

/// What an attempt takes over, instead of starting it.
#[derive(Clone)]
pub struct Adoption {
    /// The tasks that go on.
    pub survivors: BTreeSet<u32>,
    /// The fence that their subtasks have.
    pub fence: Fence,
    /// The largest id of a checkpoint that they may have heard of.
    pub triggered: Option<CheckpointId>,
    /// The newest complete checkpoint that they may have heard of.
    pub newest: Option<CheckpointId>,
}

impl Adoption {
    /// Claims the job for the attempt that takes over, if it is still that of the process whose claims have this nonce: those that
    /// go on are of both attempts from then on. The append begins at `begun` or later.
    pub async fn begin_attempt(
        &self,
        storage: &dyn CheckpointStorage,
        job: &JobName,
        targets: &[OperatorTarget],
        options: RestoreOptions,
        nonce: u64,
        begun: Now,
    ) -> Result<Begun, JobError> {
        self.begin_attempt_if(storage, job, targets, options, nonce, begun, &|_, _| Ok(())).await
    }

    /// The same, if the job can go on from the checkpoint that is found.
    #[expect(clippy::too_many_arguments, reason = "those of the start of any attempt")]
    pub(crate) async fn begin_attempt_if(
        &self,
        storage: &dyn CheckpointStorage,
        job: &JobName,
        targets: &[OperatorTarget],
        options: RestoreOptions,
        nonce: u64,
        begun: Now,
        accepts: &Accepts<'_>,
    ) -> Result<Begun, JobError> {
        // Whoever goes on cannot be taken back further than the newest checkpoint.
        let options = RestoreOptions { falls_back: false, ..options };
        let claimant = Claimant { nonce, over: Over::Own };
        self.fence.expect_successor(nonce);
        let began = begin_attempt_if(storage, job, targets, options, claimant, self.triggered, accepts).await?;
        if let Begun::Claimed(claimed) = &began {
            self.fence.succeed(&claimed.start, begun);
        }
        Ok(began)
    }

    /// Whoever goes on knows of the checkpoint that the others go back to, and of none that is newer.
    pub(crate) fn check_newest(&self, claimed: &ClaimedJob) -> Result<(), JobError> {
        let restored = claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint);
        if self.newest != restored {
            return Err(JobError::Log(
                format!("the newest complete checkpoint is {restored:?}, expected {:?}", self.newest).into(),
            ));
        }
        Ok(())
    }

    /// Prepares what is restarted in the attempt that has claimed the job. An error means that nothing of it runs.
    pub async fn prepare(&self, preparation: &Preparation<'_>, claimed: &mut ClaimedJob) -> Result<Prepared, JobError> {
        self.check_newest(claimed)?;
        let prepared = prepare_if(preparation, claimed, &self.survivors, &|_, _| Ok(())).await?;
        preparation.fence.check().await?;
        Ok(prepared)
    }
}

/// How the tasks of a job run, of which some were restarted and others were not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLayout {
    /// Tasks of which nothing was started, since they had finished before.
    pub finished: BTreeSet<u32>,
    /// Number of key groups of each operator.
    pub max_parallelism: BTreeMap<OperatorUid, MaxParallelism>,
}

impl TaskLayout {
    /// These tasks were restarted, as the attempt says that has done it.
    pub fn restart(&mut self, graph: &JobGraph, tasks: &BTreeSet<u32>, attempt: &Self) {
        self.finished.retain(|task| !tasks.contains(task));
        self.finished.extend(&attempt.finished);
        for operator in tasks.iter().flat_map(|task| &graph.tasks[*task as usize].operators) {
            self.max_parallelism.insert(operator.uid.clone(), attempt.max_parallelism[&operator.uid]);
        }
    }
}
