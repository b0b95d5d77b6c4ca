//! The world: storage and sink that outlive everything, the process that runs the job now, and time.
//!
//! First things go wrong, as the seed says; then the world is healed, and the job has to finish.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use highwater_checkpoint::{AttemptFailure, Event, Now};
use highwater_runtime::control::Report;
use highwater_runtime::graph::JobGraph;
use highwater_runtime::restore::{Begun, Claimant, JobClaim, Over, RestoreOptions, begin_attempt, remove_left_overs};
use highwater_runtime::{Fence, FenceSetup, JobError, MasterEnd, Renewals, StandbyLook, StandbyWatch};
use highwater_state_api::{Attempt, CheckpointId, JobName, MaxParallelism};

use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::ending::Dropping;
use crate::invariants::durable::Completed;
use crate::invariants::fencing::Actor;
use crate::invariants::ids::Ids;
use crate::invariants::{Violation, commits, discarded, durable, exactly_once, progress, restored};
use crate::job::{JOB, Outside, PIPELINES, Pipeline, Sleepers, Surroundings, Transaction, Uids, job_graph};
use crate::overlap::Paused;
use crate::planted::Planted;
use crate::preparing::Preparing;
use crate::probe::Witness;
use crate::process::{Claim, Process, chain_of};
use crate::record::{Counted, Input};
use crate::scenario::{FaultRates, Pace, Scenario, Topology};
use crate::storage::SimStorage;
use crate::trace::Trace;
use crate::work::{Kind, Outcome, Work, poll_once};

/// How long a job waits before it is started again in the same process.
pub(crate) const RESTART_DELAY_MS: u64 = 20;
/// What a checkpoint may take in attempts that begin in a healed world: time is no enemy there.
const HEALED_TIMEOUT_MS: u64 = 5_000;
/// For how many steps a kill is more likely around the publication of a checkpoint, and how much more.
const TEMPTING_STEPS: u32 = 30;
const TEMPTATION: u32 = 8;
/// Of 1,000 steps while a checkpoint is being published, in how many a function fails where its region is restarted alone.
const FAILURES_WHILE_PUBLISHING: u32 = 100;
/// How many late reports of older attempts are on their way at most.
const LATE_REPORTS_MAX: usize = 16;

/// A simulated world.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) planted: Option<Planted>,
    pub(crate) job: JobName,
    pub(crate) dice: Dice,
    pub(crate) now_ms: u64,
    pub(crate) storage: SimStorage,
    pub(crate) surroundings: Surroundings,
    pub(crate) faults: FaultRates,
    pub(crate) trace: Trace,
    pub(crate) coverage: Coverage,
    /// Storage work in flight, of this attempt and of earlier ones.
    pub(crate) works: Vec<Work>,
    /// Reports of earlier attempts that are still on their way.
    pub(crate) late: Vec<Report>,
    pub(crate) completed: Completed,
    pub(crate) ids: Ids,
    /// Checkpoints of which subtasks were told, once they were looked at.
    pub(crate) told: BTreeSet<(Attempt, CheckpointId)>,
    pub(crate) process: Option<Process>,
    pub(crate) starting: Option<Starting>,
    pub(crate) topology: Option<Topology>,
    /// An earlier process that stands still, or has gone on since.
    pub(crate) paused: Option<Paused>,
    /// Whether it is that one's turn.
    pub(crate) is_old: bool,
    /// Whether the new process only waits for it.
    pub(crate) is_old_alone: bool,
    /// What is in the claim of each attempt; those of one process have the same.
    pub(crate) claims: BTreeMap<Attempt, u64>,
    /// Who acts in this step.
    pub(crate) actor: Option<Actor>,
    /// In the claims of the process; `None` until it has one.
    pub(crate) nonce: Option<u64>,
    /// Those that drop checkpoints after the job was cancelled.
    pub(crate) droppings: Vec<Dropping>,
    /// The attempts that have taken over subtasks of the one before, or were to.
    pub(crate) takeovers: BTreeSet<Attempt>,
    /// Whether what happens in this step is done by one that is to take over.
    pub(crate) is_taking_over: bool,
    /// The time, for whoever outlives a step.
    pub(crate) clock: Arc<AtomicU64>,
    /// How many subtasks the job had when a checkpoint last completed.
    topology_of_checkpoint: Option<Topology>,
    kills_left: u32,
    damages_left: u32,
    cancels_left: u32,
    pauses_left: u32,
    steps: u64,
    tempting_steps: u32,
    pub(crate) healed_at_step: Option<u64>,
    is_finished: bool,
    /// Something kept state of this attempt from being deleted.
    pub(crate) may_leave_behind: bool,
    in_process_restarts: u64,
}

/// An attempt that is not running yet.
pub(crate) struct Starting {
    graph: Arc<JobGraph>,
    witnesses: Vec<Witness>,
    nonce: u64,
    future: Pin<Box<dyn Future<Output = Result<Started, JobError>>>>,
}

enum Started {
    Finished,
    /// Another process has the job.
    Held,
    Claimed(Box<Claim>),
}

impl World {
    /// The world of a seed, before anything has happened.
    pub fn new(seed: u64, planted: Option<Planted>, keeps_all_lines: bool) -> Self {
        let mut dice = Dice::new(seed);
        let scenario = Scenario::draw(&mut dice);
        let (faults, retain) = (scenario.faults, scenario.protocol.retain);
        let job = JobName::new(JOB).expect("the name of the job is a name");
        let storage = SimStorage::new(job.clone(), dice.fork(), faults.storage_before, faults.storage_after);
        match planted {
            Some(Planted::DroppedIsRestored) => storage.hide_dropped(),
            Some(Planted::FallBackIsNotLogged) => storage.forget_fall_backs(),
            _ => {}
        }
        let inputs = [&scenario.input].into_iter().chain(&scenario.other_input);
        let pipeline = |(uids, input): (&'static Uids, &Input)| {
            let outside = Outside::new(dice.fork(), faults.commit_before, faults.commit_after);
            Pipeline { uids, input: Arc::new(input.clone()), outside }
        };
        let pipelines = PIPELINES.iter().zip(inputs).map(pipeline).collect();
        let (sleepers, fails, declines) = (Sleepers::default(), Arc::default(), Arc::default());
        Self {
            kills_left: scenario.kills_max,
            damages_left: scenario.damages_max,
            cancels_left: scenario.cancels_max,
            pauses_left: scenario.pauses_max,
            scenario,
            planted,
            job,
            dice,
            now_ms: 0,
            storage,
            surroundings: Surroundings { pipelines, sleepers, fails, declines },
            faults,
            trace: Trace::new(keeps_all_lines),
            coverage: Coverage::default(),
            works: Vec::new(),
            late: Vec::new(),
            completed: Completed::new(retain),
            ids: Ids::default(),
            told: BTreeSet::new(),
            process: None,
            starting: None,
            topology: None,
            paused: None,
            is_old: false,
            claims: BTreeMap::new(),
            is_old_alone: false,
            actor: None,
            nonce: None,
            droppings: Vec::new(),
            takeovers: BTreeSet::new(),
            is_taking_over: false,
            clock: Arc::default(),
            topology_of_checkpoint: None,
            steps: 0,
            tempting_steps: 0,
            healed_at_step: None,
            is_finished: false,
            may_leave_behind: false,
            in_process_restarts: 0,
        }
    }

    /// Runs until the job has finished and everything has been looked at.
    pub fn run(&mut self) -> Result<(), Violation> {
        while !self.is_finished {
            self.steps += 1;
            self.heal_when_due()?;
            if self.process.is_none() && self.starting.is_none() && !self.is_dropping() {
                self.start()?;
            }
            if !self.strike()? {
                self.clock.store(self.now_ms, Ordering::Relaxed);
                self.step_anywhere()?;
            }
            self.observe()?;
        }
        self.coverage.add("steps", self.steps);
        self.close()
    }

    /// What was written down so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What happened so far.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed_at_step.is_some()
    }

    pub(crate) fn now(&self) -> Now {
        now_at(self.now_ms)
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.now_ms)
    }

    // --- What goes wrong ----------------------------------------------------------------------------------------

    fn heal_when_due(&mut self) -> Result<(), Violation> {
        if let Some(at) = self.healed_at_step {
            return progress::check_healed(self.steps - at);
        }
        if self.steps > self.scenario.chaos_steps {
            if self.scenario.heals_with_restart {
                self.kill()?;
            }
            self.heal();
        }
        Ok(())
    }

    fn heal(&mut self) {
        self.trace.write(self.now_ms, "world", "healed: nothing goes wrong from here on");
        self.healed_at_step = Some(self.steps);
        self.faults = FaultRates::none();
        (self.scenario.pace, self.scenario.protocol.timeout_ms) = (Pace::even(), HEALED_TIMEOUT_MS);
        self.storage.heal();
        self.surroundings.pipelines.iter().for_each(|pipeline| pipeline.outside.heal());
        self.surroundings.fails.store(false, Ordering::Relaxed);
        self.surroundings.declines.store(false, Ordering::Relaxed);
    }

    /// Lets something terrible happen, sometimes. Whether it was that terrible.
    fn strike(&mut self) -> Result<bool, Violation> {
        let is_tempting = self.tempting_steps > 0;
        self.tempting_steps = self.tempting_steps.saturating_sub(1);
        let rate = if is_tempting { self.faults.kill * TEMPTATION } else { self.faults.kill };
        if self.kills_left > 0 && self.dice.chance(rate) {
            self.kills_left -= 1;
            self.kill()?;
            return Ok(true);
        }
        let may_pause = self.pauses_left > 0 && self.paused.is_none() && self.process.is_some();
        let rate = if is_tempting { self.faults.pause * TEMPTATION } else { self.faults.pause };
        if may_pause && self.dice.chance(rate) {
            self.pauses_left -= 1;
            self.pause();
            return Ok(true);
        }
        let may_cancel = self.cancels_left > 0 && self.process.is_some();
        let is_worse = |pipeline: &Pipeline| is_tempting && pipeline.outside.has_committed();
        let is_worse = self.faults.cancel > 0 && self.surroundings.pipelines.iter().any(is_worse);
        let rate = if is_worse { self.faults.cancel * TEMPTATION } else { self.faults.cancel };
        if may_cancel && self.dice.chance(rate) {
            self.cancels_left -= 1;
            self.cancel();
            return Ok(true);
        }
        if self.damages_left > 0 && self.dice.chance(self.faults.damage) && self.damage() {
            self.damages_left -= 1;
        }
        // A region that fails while a checkpoint is being published leaves it to the log.
        let is_publishing = || self.works.iter().any(|work| work.kind == Kind::Publication);
        let is_worse = self.faults.task_failure > 0 && self.scenario.other_input.is_some() && is_publishing();
        let rate = if is_worse { FAILURES_WHILE_PUBLISHING } else { self.faults.task_failure };
        if self.process.is_some() && self.dice.chance(rate) {
            self.surroundings.fails.store(true, Ordering::Relaxed);
        }
        if self.process.is_some() && self.dice.chance(self.faults.decline) {
            self.surroundings.declines.store(true, Ordering::Relaxed);
        }
        Ok(false)
    }

    /// A checkpoint of the running attempt is in the log.
    pub(crate) fn note_completed(&mut self) {
        self.topology_of_checkpoint = self.topology.or(self.topology_of_checkpoint);
    }

    /// Nothing of it is left.
    pub(crate) fn forget_topology(&mut self) {
        self.topology_of_checkpoint = None;
    }

    /// A moment has begun in which a kill would hurt most.
    pub(crate) fn tempt_fate(&mut self) {
        self.tempting_steps = TEMPTING_STEPS;
    }

    /// The process is gone, with everything but what is stored, and what is on its way out of it.
    fn kill(&mut self) -> Result<(), Violation> {
        self.count_kill();
        self.trace.write(self.now_ms, "world", "the process is killed");
        // What was sent to the storage may still arrive there; nobody learns of it.
        for mut work in std::mem::take(&mut self.works) {
            // Or long after: what hangs is on its way to the storage.
            if work.hangs {
                self.works.push(work);
                continue;
            }
            self.actor = Some(self.actor_of(&mut work));
            for _ in 0..self.dice.below(5) {
                match work.go_on() {
                    None => {}
                    Some(Outcome::Report(report)) => {
                        self.keep_late(report);
                        break;
                    }
                    Some(Outcome::Answer(_) | Outcome::Renewed(..)) => break,
                }
            }
            self.observe()?;
        }
        for report in self.process.take().map(|process| process.reports).unwrap_or_default() {
            self.keep_late(report);
        }
        self.kill_dropping();
        self.starting = None;
        self.topology = None;
        self.nonce = None;
        self.surroundings.fails.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn committed(&self) -> Vec<BTreeMap<Transaction, Vec<Counted>>> {
        self.surroundings.pipelines.iter().map(|pipeline| pipeline.outside.committed()).collect()
    }

    fn count_kill(&mut self) {
        self.coverage.count("kills");
        if self.starting.is_some() {
            self.coverage.count("kills: during recovery");
        }
        let Some(process) = &self.process else { return };
        if process.failover.is_some() {
            self.coverage.count("kills: a region is being restarted");
        }
        if process.master.coordinator().pending().next().is_some() {
            self.coverage.count("kills: a checkpoint is pending");
        }
        if self.works.iter().any(|work| work.kind == Kind::Publication) {
            self.coverage.count("kills: metadata is written, the log record is not known to be");
        }
        let told = |notice: &_| matches!(notice, highwater_runtime::control::Control::Complete(_));
        if process.slots.values().any(|slot| slot.notices.iter().any(told)) {
            self.coverage.count("kills: complete, subtasks are being told");
        }
    }

    pub(crate) fn keep_late(&mut self, report: Report) {
        let is_answer = matches!(report, Report::Acknowledged(_) | Report::Declined(_));
        if is_answer && self.late.len() < LATE_REPORTS_MAX && self.dice.chance(800) {
            self.late.push(report);
        }
    }

    // --- Attempts -----------------------------------------------------------------------------------------------

    fn start(&mut self) -> Result<(), Violation> {
        let topology = match self.topology {
            Some(topology) => topology, // the same process tries again
            None => Scenario::topology(&mut self.dice),
        };
        self.topology = Some(topology);
        self.coverage.count("attempts");
        self.may_leave_behind = self.paused.is_some() || self.works.iter().any(|work| work.hangs);
        self.trace.write(self.now_ms, "world", format_args!("the job is started: {topology:?}"));
        let witnesses: Vec<Witness> = self.surroundings.pipelines.iter().map(|_| Witness::default()).collect();
        let graph = job_graph(&self.scenario, topology, &self.surroundings, &witnesses, self.planted)
            .map_err(|error| progress::unexpected(format!("the job cannot be built: {error}")))?;
        let graph = Arc::new(graph);
        let is_first = self.completed.newest(1).is_empty();
        let sets_max_parallelism = is_first || self.scenario.sets_max_parallelism;
        let max_parallelism = MaxParallelism::new(self.scenario.max_parallelism).ok().filter(|_| sets_max_parallelism);
        let (storage, job, shared) = (self.storage.clone(), self.job.clone(), graph.clone());
        let falls_back = self.scenario.faults.damage > 0;
        let options = RestoreOptions { retain: self.scenario.protocol.retain, falls_back, ignores_unclaimed: false };
        let hash_seed = self.dice.next();
        // A process that has had the job goes on only with a job that is its own.
        let (nonce, is_own) = match self.nonce {
            Some(nonce) => (nonce, true),
            None => (self.dice.next(), false),
        };
        let stands_by = self.scenario.stands_by && !is_own && self.planted != Some(Planted::StandbyDoesNotWait);
        let (clock, lease_ms) = (self.clock.clone(), self.scenario.lease_ms);
        let (now, planted) = (self.time(), self.planted);
        let future = async move {
            let targets = shared.targets(max_parallelism);
            let (mut claimed, begun_ms) = loop {
                let over = match (is_own, stands_by) {
                    (true, _) => Over::Own,
                    (false, false) => Over::Anyone,
                    (false, true) => {
                        let free = stand_by(&storage, &job, options.retain, lease_ms, nonce, &clock).await?;
                        Over::Unchanged(free)
                    }
                };
                let begun_ms = clock.load(Ordering::Relaxed);
                let claim = JobClaim::new(&job, &targets, options, Claimant { nonce, over });
                match begin_attempt(&storage, claim).await? {
                    Begun::Finished { left_overs, .. } => {
                        remove_left_overs(&storage, &job, &left_overs).await;
                        return Ok(Started::Finished);
                    }
                    Begun::Held { .. } if stands_by => {}
                    Begun::Held { .. } => return Ok(Started::Held),
                    Begun::Claimed(claimed) => break (claimed, begun_ms),
                }
            };
            if let Some(planted) = planted {
                planted.forget(&mut claimed);
            }
            let setup = FenceSetup {
                storage: Arc::new(storage.clone()),
                job: job.clone(),
                now: Box::new(move || now_at(clock.load(Ordering::Relaxed))),
                lease_ms,
                runtime: None,
            };
            let fence = Fence::new(setup, &claimed.start, now_at(begun_ms));
            let retained = claimed.start.retained.clone();
            let preparing = Preparing { storage, job, graph: shared, hash_seed, now };
            let prepared = preparing.prepare(&mut claimed, &fence, None).await?;
            if planted == Some(Planted::FallBackKeepsTheNewer) {
                claimed.start.retained = retained;
            }
            Ok(Started::Claimed(Box::new(Claim { claimed, prepared, fence, nonce })))
        };
        self.starting = Some(Starting { graph, witnesses, nonce, future: Box::pin(future) });
        Ok(())
    }

    pub(crate) fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// The start of an attempt goes on by one storage operation.
    pub(crate) fn go_on_starting(&mut self) -> Result<(), Violation> {
        let Some(mut starting) = self.starting.take() else { return Ok(()) };
        let Some(result) = poll_once(starting.future.as_mut()) else {
            self.starting = Some(starting);
            return Ok(());
        };
        match result {
            Ok(Started::Finished) => {
                self.trace.write(self.now_ms, "world", "the log says that the job is finished");
                self.is_finished = true;
                Ok(())
            }
            Ok(Started::Held) => {
                self.trace.write(self.now_ms, "master", "another process has the job");
                (self.nonce, self.topology) = (None, None);
                Ok(())
            }
            Ok(Started::Claimed(mut claim)) => {
                let Claim { claimed, prepared, .. } = &mut *claim;
                let restored = claimed.restored.as_ref().map(|(checkpoint, _)| *checkpoint);
                let attempt = claimed.start.attempt;
                if self.planted == Some(Planted::IdCounterRestarts) {
                    claimed.start.first_checkpoint = CheckpointId(1);
                }
                self.nonce = Some(starting.nonce);
                self.tempt_fate();
                // It may just have fallen back.
                self.observe()?;
                restored::check(&self.completed, restored)?;
                match restored {
                    Some(checkpoint) => {
                        self.coverage.count("restores");
                        if self.topology != self.topology_of_checkpoint {
                            self.coverage.count("restores: with other numbers of subtasks");
                        }
                        if !prepared.finished.is_empty() {
                            self.coverage.count("restores: with finished tasks");
                        }
                        self.trace.write(self.now_ms, "master", format_args!("attempt {attempt} from {checkpoint}"));
                    }
                    None => self.trace.write(self.now_ms, "master", format_args!("attempt {attempt} from nothing")),
                }
                let Starting { graph, witnesses, .. } = starting;
                let process = Process::new(&self.scenario, &self.job, graph, *claim, witnesses, self.planted);
                let mut process = process.map_err(progress::unexpected)?;
                if self.scenario.stands_by {
                    if self.paused.is_some() {
                        self.coverage.count("pauses: a standby has taken over");
                    }
                    let (storage, fence) = (Arc::new(self.storage.clone()), process.fence.clone());
                    process.renewals = Some(Renewals::new(storage, self.job.clone(), attempt, fence));
                }
                self.process = Some(process);
                Ok(())
            }
            Err(error @ (JobError::Storage(_) | JobError::Coordinator(AttemptFailure::LeaseExpired { .. }))) => {
                self.coverage.count("starts that failed at the storage");
                self.trace.write(self.now_ms, "master", format_args!("the start failed: {error}"));
                // It may have claimed the job before.
                self.nonce = Some(starting.nonce);
                self.now_ms += RESTART_DELAY_MS;
                Ok(())
            }
            Err(JobError::Dropped) => {
                self.coverage.count("cancelled: a standby has waited for the job");
                self.trace.write(self.now_ms, "master", "the job that was waited for is dropped");
                (self.nonce, self.topology) = (None, None);
                Ok(())
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                Err(progress::unexpected(format!("the job cannot be started: {error}: {cause}")))
            }
        }
    }

    /// The attempt of a process has ended. In production the same process starts the next one, unless it is done.
    pub(crate) fn end(&mut self, mut process: Process, end: MasterEnd) -> Result<(), Violation> {
        if self.is_old {
            return self.end_old(process, end);
        }
        process.fence.expect_nobody();
        let is_finished = matches!(end, MasterEnd::Finished);
        match end {
            MasterEnd::Finished => self.trace.write(self.now_ms, "master", "the job is finished"),
            MasterEnd::TaskFailed(_, error) | MasterEnd::RegionFailed(_, error, _) => {
                let error = chain_of(&error);
                self.trace.write(self.now_ms, "master", format_args!("the attempt ends: {error}"));
                if !error.contains("as the seed says") {
                    return Err(progress::unexpected(format!("a task failed: {error}")));
                }
                self.coverage.count("attempts ended by a task");
            }
            MasterEnd::CoordinatorFailed(failure) => {
                self.trace.write(self.now_ms, "master", format_args!("the attempt ends: {failure}"));
                let is_fenced = matches!(failure, AttemptFailure::Fenced { .. });
                if is_fenced {
                    return Err(progress::unexpected(format!("nobody else runs the job, and {failure}")));
                }
                self.coverage.count(match failure {
                    AttemptFailure::LogUnavailable { .. } => "attempts ended by a log that does not tell",
                    _ => "attempts ended by their coordinator",
                });
            }
        }
        if !is_finished {
            self.order_shutdown(&mut process);
            self.in_process_restarts += 1;
            self.now_ms += RESTART_DELAY_MS;
            self.surroundings.fails.store(false, Ordering::Relaxed);
        }
        // Whoever still writes for a checkpoint that has failed will find nobody who deletes it, but the next start.
        let writes = |work: &Work| matches!(work.kind, Kind::Snapshot | Kind::Metadata);
        self.may_leave_behind |= self.works.iter().any(writes);
        // And so will what has just been written, and is on its way to a master that is gone.
        self.may_leave_behind |= process.answers.iter().any(|answer| matches!(answer, Event::MetadataWritten { .. }));
        process.stop(self.time());
        for report in std::mem::take(&mut process.reports) {
            self.keep_late(report);
        }
        self.is_finished = is_finished;
        Ok(())
    }

    // --- The end ------------------------------------------------------------------------------------------------

    /// The job has finished: what is still on its way arrives, and then everything must be as if nothing had happened.
    fn close(&mut self) -> Result<(), Violation> {
        self.storage.heal();
        self.surroundings.pipelines.iter().for_each(|pipeline| pipeline.outside.heal());
        self.paused = None;
        self.finish_droppings()?;
        while !self.works.is_empty() {
            let index = self.dice.below(self.works.len() as u64) as usize;
            self.go_on_work(index);
            self.observe()?;
        }
        self.surroundings.pipelines.iter().try_for_each(commits::check_finished)?;
        self.surroundings.pipelines.iter().try_for_each(exactly_once::check)?;
        durable::check_retained(&self.storage, &self.completed, self.scenario.protocol.retain)?;
        // The last renewal of a lease is what the start below is to find.
        if !self.may_leave_behind && !self.scenario.stands_by && self.in_process_restarts == 0 {
            self.coverage.count("runs without a reason to leave anything behind");
            discarded::check(&self.storage, &self.job, &self.completed, self.scenario.protocol.retain)?;
        }
        // Started again, the finished job does nothing but tidy up.
        let committed = self.committed();
        (self.is_finished, self.topology, self.nonce) = (false, None, None);
        self.start()?;
        while self.is_starting() {
            self.go_on_starting()?;
        }
        self.observe()?;
        if !self.is_finished || self.committed() != committed {
            return Err(progress::unexpected("the finished job did something when it was started again"));
        }
        // What was left behind could not be deleted, or came too late: the start has found it, and the checkpoints, for which
        // there is nothing left to be restored.
        discarded::check(&self.storage, &self.job, &self.completed, 0)
    }
}

pub(crate) fn now_at(now_ms: u64) -> Now {
    Now { monotonic_ms: now_ms, wall_clock_ms: 1_700_000_000_000 + now_ms }
}

/// Waits until whoever has the job has been silent for a lease; returns the number of the next record of the log.
async fn stand_by(
    storage: &SimStorage,
    job: &JobName,
    retain: usize,
    lease_ms: u64,
    nonce: u64,
    clock: &AtomicU64,
) -> Result<u64, JobError> {
    let now_ms = || clock.load(Ordering::Relaxed);
    let mut watch = StandbyWatch::new(lease_ms, nonce);
    loop {
        match watch.look(storage, job, retain, &now_ms).await? {
            StandbyLook::Free(next_sequence) => return Ok(next_sequence),
            StandbyLook::Dropped => return Err(JobError::Dropped),
            StandbyLook::Held | StandbyLook::Failed(_) => {}
        }
        let next_look_ms = now_ms() + watch.interval_ms();
        poll_fn(|_| if now_ms() < next_look_ms { Poll::Pending } else { Poll::Ready(()) }).await;
    }
}
