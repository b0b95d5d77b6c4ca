//! Regional restarts: a region stops, the job is claimed, and the next attempt takes over whatever goes on.
//!
//! What production does on threads ([`highwater_runtime::Adoption`] is what both have in common), step by step.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_checkpoint::AttemptFailure;
use highwater_runtime::graph::JobGraph;
use highwater_runtime::restore::{Begun, Claimant, JobClaim, Over, RestoreOptions};
use highwater_runtime::{Adoption, JobError, MasterEnd, Order, Renewals, TaskError};
use highwater_state_api::{CheckpointId, MaxParallelism};

use crate::invariants::{Violation, progress, restored};
use crate::job::job_graph;
use crate::planted::Planted;
use crate::preparing::Preparing;
use crate::probe::Witness;
use crate::process::{Claim, Process, Restart, chain_of};
use crate::work::poll_once;
use crate::world::{RESTART_DELAY_MS, World, now_at};

/// A region that has failed, and how far its restart has come.
pub(crate) struct Failover {
    tasks: BTreeSet<u32>,
    stage: Stage,
    /// Whether another attempt had claimed the job when it last went on: what it began then happens the next time.
    was_fenced: bool,
    /// What becomes of the attempt if only the whole job can be restarted.
    error: Option<(usize, TaskError)>,
}

enum Stage {
    /// What is left of the region stops.
    Stopping,
    /// The delay of the restart passes.
    Waiting(u64),
    /// What is being appended to the log is waited for, until then at most.
    Deciding(u64),
    /// The job is claimed and state is read.
    Starting(Box<Starting>),
}

struct Starting {
    graph: Arc<JobGraph>,
    survivors: BTreeSet<u32>,
    witnesses: Vec<Witness>,
    future: Pin<Box<dyn Future<Output = Result<Option<Claim>, JobError>>>>,
}

impl Failover {
    /// The time at which it goes on if nothing else happens before.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        match self.stage {
            Stage::Waiting(until_ms) | Stage::Deciding(until_ms) => Some(until_ms),
            Stage::Stopping | Stage::Starting(_) => None,
        }
    }

    /// Whether it can go on.
    pub(crate) fn is_ready(&self, process: &Process, now_ms: u64) -> bool {
        match &self.stage {
            Stage::Stopping => process.have_gone(&self.tasks),
            Stage::Waiting(until_ms) => *until_ms <= now_ms,
            Stage::Deciding(until_ms) => *until_ms <= now_ms || process.master.coordinator().undecided().is_none(),
            Stage::Starting(_) => true,
        }
    }

    /// It has gone on; now another attempt has claimed the job, or not. Returns the same of the time before.
    pub(crate) fn note_fenced(&mut self, is_fenced: bool) -> bool {
        std::mem::replace(&mut self.was_fenced, is_fenced)
    }
}

impl World {
    /// A region has failed, the others go on. Whatever else ends them comes later.
    pub(crate) fn region_failed(
        &mut self,
        process: &mut Process,
        (task, error): (usize, TaskError),
        tasks: BTreeSet<u32>,
    ) -> Result<(), Violation> {
        let error_chain = chain_of(&error);
        self.trace.write(self.now_ms, "master", format_args!("the region {tasks:?} has failed: {error_chain}"));
        if !error_chain.contains("as the seed says") {
            return Err(progress::unexpected(format!("a region failed: {error_chain}")));
        }
        self.coverage.count("regions: failed");
        if process.master.coordinator().undecided().is_some() {
            self.coverage.count("regions: failed while an append was under way");
        }
        for (_, slot) in process.slots.iter_mut().filter(|(id, _)| tasks.contains(&id.task)) {
            slot.cancel();
        }
        process.failover =
            Some(Failover { tasks, stage: Stage::Stopping, was_fenced: false, error: Some((task, error)) });
        self.tempt_fate();
        Ok(())
    }

    /// The restart of a region goes on.
    pub(crate) fn go_on_failing_over(&mut self, process: &mut Process) -> Result<Vec<Order>, Violation> {
        let Some(mut failover) = process.failover.take() else { return Ok(Vec::new()) };
        failover.stage = match failover.stage {
            Stage::Stopping => Stage::Waiting(self.now_ms + RESTART_DELAY_MS),
            Stage::Waiting(_) => Stage::Deciding(self.now_ms + self.scenario.protocol.timeout_ms),
            Stage::Deciding(_) if process.master.coordinator().undecided().is_some() => {
                self.restart_all(process, failover.error, "the log does not tell");
                return Ok(Vec::new());
            }
            Stage::Deciding(_) => Stage::Starting(Box::new(self.start_region(process, &failover.tasks)?)),
            Stage::Starting(mut starting) => {
                self.is_taking_over = true;
                match poll_once(starting.future.as_mut()) {
                    None => Stage::Starting(starting),
                    Some(Ok(Some(claim))) => return self.adopt(process, *starting, claim, failover.tasks),
                    Some(Err(JobError::Coordinator(failure @ AttemptFailure::Fenced { .. }))) => {
                        process.end = Some(MasterEnd::CoordinatorFailed(failure));
                        return Ok(Vec::new());
                    }
                    Some(Ok(None)) => return Err(progress::unexpected("a job that runs has finished")),
                    Some(Err(
                        error @ (JobError::Storage(_) | JobError::Coordinator(AttemptFailure::LeaseExpired { .. })),
                    )) => {
                        self.restart_all(process, failover.error, &error.to_string());
                        return Ok(Vec::new());
                    }
                    // The others cannot be taken back to an older one.
                    Some(Err(error @ JobError::Restore { .. })) if self.completed.is_newest_damaged() => {
                        self.coverage.count("damage: found when a region was to be restarted");
                        self.restart_all(process, failover.error, &error.to_string());
                        return Ok(Vec::new());
                    }
                    Some(Err(error)) => {
                        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                        return Err(progress::unexpected(format!("a region is not restarted: {error}: {cause}")));
                    }
                }
            }
        };
        process.failover = Some(failover);
        Ok(Vec::new())
    }

    /// Only the whole job can be restarted.
    fn restart_all(&mut self, process: &mut Process, error: Option<(usize, TaskError)>, why: &str) {
        self.coverage.count("regions: the whole job is restarted instead");
        self.trace.write(self.now_ms, "master", format_args!("the region cannot be restarted alone: {why}"));
        process.end = error.map(|(task, error)| MasterEnd::TaskFailed(task, error));
    }

    fn start_region(&mut self, process: &Process, tasks: &BTreeSet<u32>) -> Result<Starting, Violation> {
        let topology = self.topology.ok_or_else(|| progress::unexpected("a process without subtasks"))?;
        self.trace.write(self.now_ms, "world", format_args!("the region {tasks:?} is started"));
        let restarted = self.surroundings.pipelines_of(&process.graph, tasks);
        let witness = |(place, old): (usize, &Witness)| match restarted.contains(&place) {
            true => Witness::default(),
            false => old.clone(),
        };
        let witnesses: Vec<Witness> = process.witnesses.iter().enumerate().map(witness).collect();
        let graph = job_graph(&self.scenario, topology, &self.surroundings, &witnesses, self.planted)
            .map_err(|error| progress::unexpected(format!("the job cannot be built: {error}")))?;
        let graph = Arc::new(graph);
        let survivors: BTreeSet<u32> = (0..graph.tasks.len() as u32).filter(|task| !tasks.contains(task)).collect();
        let coordinator = process.master.coordinator();
        let reuses = self.planted == Some(Planted::TakeoverReusesIds);
        let adoption = Adoption {
            survivors: survivors.clone(),
            fence: process.fence.clone(),
            triggered: coordinator.next_checkpoint().0.checked_sub(1).map(CheckpointId).filter(|_| !reuses),
            newest: coordinator.latest_complete(),
        };
        let sets_max_parallelism = self.completed.newest(1).is_empty() || self.scenario.sets_max_parallelism;
        let max_parallelism = MaxParallelism::new(self.scenario.max_parallelism).ok().filter(|_| sets_max_parallelism);
        let options =
            RestoreOptions { retain: self.scenario.protocol.retain, falls_back: false, ignores_unclaimed: false };
        let (storage, job, shared) = (self.storage.clone(), self.job.clone(), graph.clone());
        let (nonce, hash_seed) = (process.nonce, self.dice.next());
        let (clock, now) = (self.clock.clone(), self.time());
        let future = async move {
            let targets = shared.targets(max_parallelism);
            let begun = now_at(clock.load(Ordering::Relaxed));
            let claim = JobClaim::new(&job, &targets, options, Claimant { nonce, over: Over::Own });
            let begun = adoption.begin_attempt(&storage, claim, begun).await?;
            let mut claimed = match begun {
                Begun::Finished { .. } => return Ok(None),
                Begun::Held { sequence } => return Err(JobError::Coordinator(AttemptFailure::Fenced { sequence })),
                Begun::Claimed(claimed) => claimed,
            };
            let preparing = Preparing { storage, job, graph: shared, hash_seed, now };
            let prepared = preparing.prepare(&mut claimed, &adoption.fence, Some(&adoption)).await?;
            Ok(Some(Claim { claimed, prepared, fence: adoption.fence.clone(), nonce }))
        };
        Ok(Starting { graph, survivors, witnesses, future: Box::pin(future) })
    }

    /// The next attempt takes over what goes on.
    fn adopt(
        &mut self,
        process: &mut Process,
        starting: Starting,
        claim: Claim,
        tasks: BTreeSet<u32>,
    ) -> Result<Vec<Order>, Violation> {
        // What storage has answered to the attempt before is heard, or comes too late.
        for event in std::mem::take(&mut process.answers) {
            if self.dice.chance(500) {
                let orders = process.master.on_event(self.now(), event);
                self.obey(process, orders)?;
            }
        }
        if process.end.is_some() {
            return Ok(Vec::new());
        }
        let Starting { graph, survivors, witnesses, .. } = starting;
        let (from, by) = (process.attempt, claim.claimed.start.attempt);
        let restored = claim.claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint);
        self.trace.write(
            self.now_ms,
            "master",
            format_args!("attempt {by} from {restored:?} takes over {survivors:?}"),
        );
        self.coverage.count("regions: restarted alone");
        if restored.is_some() {
            self.coverage.count("regions: restarted alone from a checkpoint");
        }
        if self.is_old {
            self.coverage.count("regions: restarted alone after a pause");
        }
        restored::check(&self.completed, restored)?;
        self.ids.taken_over(from, by)?;
        self.completed.taken_over(from, by, self.surroundings.pipelines_of(&graph, &survivors));
        self.may_leave_behind = true;
        let restart = Restart { graph, claim, tasks, survivors, witnesses };
        let orders = process.adopt(&self.scenario, &self.job, restart, self.planted).map_err(progress::unexpected)?;
        if self.scenario.stands_by {
            let storage = Arc::new(self.storage.clone());
            process.renewals = Some(Renewals::new(storage, self.job.clone(), by, process.fence.clone()));
        }
        self.tempt_fate();
        Ok(orders)
    }
}
