//! Two processes at a time: an old one stands still, is taken for dead, and goes on while another one runs the job.

use highwater_runtime::MasterEnd;

use crate::invariants::Violation;
use crate::process::{Process, chain_of};
use crate::scenario::Topology;
use crate::work::Work;
use crate::world::World;

/// Of 1,000 steps, in how many a process that stands still goes on.
const RESUMES: u32 = 15;
/// Of 1,000 steps, how many are those of the old process once it goes on.
const SHARE: u32 = 400;
const SHARE_WHEN_HEALED: u32 = 150;
/// The same, while the new one only waits for the old one's lease to run out.
const SHARE_OF_HOLDER_WHEN_HEALED: u32 = 900;

/// A process that was stopped, with its storage work.
pub(crate) struct Paused {
    process: Process,
    works: Vec<Work>,
    topology: Option<Topology>,
    is_resumed: bool,
}

impl World {
    /// The process stands still, with everything that is on its way in it; soon another one is started.
    pub(crate) fn pause(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.coverage.count("pauses");
        self.trace.write(self.now_ms, "world", format_args!("the process of attempt {} stands still", process.attempt));
        let (works, topology) = (std::mem::take(&mut self.works), self.topology.take());
        self.paused = Some(Paused { process, works, topology, is_resumed: false });
        self.may_leave_behind = true;
        self.nonce = None;
    }

    /// One of the things that can happen does, in whichever process.
    pub(crate) fn step_anywhere(&mut self) -> Result<(), Violation> {
        let Some(paused) = &mut self.paused else { return self.step() };
        if !paused.is_resumed {
            if self.healed_at_step.is_some() || self.dice.chance(RESUMES) {
                paused.is_resumed = true;
                let attempt = paused.process.attempt;
                self.trace.write(self.now_ms, "world", format_args!("the process of attempt {attempt} goes on"));
                if self.ids.claimed().is_some_and(|claimed| claimed > attempt) {
                    self.coverage.count("pauses: resumed when another attempt had the job");
                }
            }
            return self.step();
        }
        // Then the new one only waits.
        self.is_old_alone = self.is_healed() && self.scenario.stands_by && self.process.is_none();
        let share = match (self.is_healed(), self.is_old_alone) {
            (false, _) => SHARE,
            (true, false) => SHARE_WHEN_HEALED,
            (true, true) => SHARE_OF_HOLDER_WHEN_HEALED,
        };
        if self.dice.chance(share) { self.step_of_paused() } else { self.step() }
    }

    /// A step of the old process: it takes the place of the new one for that long.
    fn step_of_paused(&mut self) -> Result<(), Violation> {
        let Some(Paused { process, works, topology, .. }) = self.paused.take() else { return Ok(()) };
        let starting = self.starting.take();
        let new = (self.process.replace(process), std::mem::replace(&mut self.works, works), self.topology);
        self.topology = topology;
        self.is_old = true;
        let result = self.step().and_then(|()| self.observe());
        self.is_old = false;
        let old_works = std::mem::replace(&mut self.works, new.1);
        if let Some(process) = std::mem::replace(&mut self.process, new.0) {
            self.paused = Some(Paused { process, works: old_works, topology, is_resumed: true });
        }
        (self.starting, self.topology) = (starting, new.2);
        result
    }

    /// The old process has come to its end.
    pub(crate) fn end_old(&mut self, mut process: Process, end: MasterEnd) -> Result<(), Violation> {
        let how = match end {
            MasterEnd::Finished => "the job is finished".to_owned(),
            MasterEnd::TaskFailed(_, error) | MasterEnd::RegionFailed(_, error, _) => chain_of(&error),
            MasterEnd::CoordinatorFailed(failure) => failure.to_string(),
        };
        self.trace.write(self.now_ms, "master", format_args!("the old attempt {} ends: {how}", process.attempt));
        if how.contains("has claimed the job") {
            self.coverage.count("pauses: fenced");
        }
        process.fence.expect_nobody();
        process.stop(self.time());
        for report in std::mem::take(&mut process.reports) {
            self.keep_late(report);
        }
        Ok(())
    }
}
