//! A regional restart without its threads: what the next attempt takes over, and how it claims the job.
//!
//! The waiting, the stopping and the starting are the shell's, or a simulation's.

use std::collections::{BTreeMap, BTreeSet};

use highwater_checkpoint::Now;
use highwater_state_api::{CheckpointId, CheckpointStorage, MaxParallelism, OperatorUid};

use crate::JobError;
use crate::fence::Fence;
use crate::graph::JobGraph;
use crate::restore::{Begun, Claimant, ClaimedJob, JobClaim, Over, RestoreOptions, begin_attempt};

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
        claim: JobClaim<'_>,
        begun: Now,
    ) -> Result<Begun, JobError> {
        let nonce = claim.claimant.nonce;
        let claim = JobClaim {
            // Whoever goes on cannot be taken back further than the newest checkpoint.
            options: RestoreOptions { falls_back: false, ..claim.options },
            claimant: Claimant { nonce, over: Over::Own },
            triggered: self.triggered,
            ..claim
        };
        self.fence.expect_successor(nonce);
        let began = begin_attempt(storage, claim).await?;
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
    ///
    /// # Panics
    /// When the job does not have one of the tasks, or the attempt one of their operators.
    pub fn restart(&mut self, graph: &JobGraph, tasks: &BTreeSet<u32>, attempt: &Self) {
        self.finished.retain(|task| !tasks.contains(task));
        self.finished.extend(&attempt.finished);
        for operator in tasks.iter().flat_map(|task| &graph.tasks[*task as usize].operators) {
            self.max_parallelism.insert(operator.uid.clone(), attempt.max_parallelism[&operator.uid]);
        }
    }
}
