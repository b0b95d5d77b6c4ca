//! Observation: after every step, what happened to storage, sink and snapshots is written down and judged.

use highwater_checkpoint::{LogRecord, paths};
use highwater_state_api::Attempt;

use crate::invariants::fencing::Actor;
use crate::invariants::{Violation, barriers, commits, durable, fencing, restored};
use crate::job::SinkEvent;
use crate::storage::{StorageEvent, When};
use crate::world::World;

impl World {
    /// Looks at what happened since the last look.
    pub(crate) fn observe(&mut self) -> Result<(), Violation> {
        for event in self.storage.take_events() {
            self.observe_storage(event)?;
        }
        for place in 0..self.surroundings.pipelines.len() {
            for event in self.surroundings.pipelines[place].outside.take_events() {
                self.observe_sink(place, &event)?;
            }
        }
        (self.actor, self.is_taking_over) = (None, false);
        for witness in self.process.iter().flat_map(|process| &process.witnesses) {
            for checkpoint in witness.take_fresh() {
                barriers::check(&witness.lock(), checkpoint)?;
            }
        }
        Ok(())
    }

    fn observe_storage(&mut self, event: StorageEvent) -> Result<(), Violation> {
        match event {
            StorageEvent::Created(path) => self.trace.write(self.now_ms, "storage", format_args!("{path} is created")),
            StorageEvent::Logged(sequence, record) => {
                self.trace.write(self.now_ms, "storage", format_args!("log {sequence} is created: {record:?}"));
                self.ids.logged(sequence, &record)?;
                if let LogRecord::Dropped { newest: Some(newest), .. } = record {
                    restored::check_passed_over(&self.completed, newest)?;
                }
                self.completed.logged(&record);
                match record {
                    LogRecord::Finished { .. } => {
                        self.surroundings.pipelines.iter().try_for_each(commits::check_finished)?;
                    }
                    LogRecord::Completed { .. } => {
                        self.coverage.count("log records of complete checkpoints");
                        self.note_completed();
                    }
                    LogRecord::Claim { nonce, .. } => {
                        self.coverage.count("claims");
                        self.claims.insert(Attempt(sequence), nonce);
                        if self.is_taking_over {
                            self.takeovers.insert(Attempt(sequence));
                        }
                    }
                    LogRecord::Dropped { newest: None, .. } => self.note_dropped(),
                    LogRecord::Dropped { newest: Some(newest), .. } => self.note_fell_back(newest)?,
                }
            }
            StorageEvent::Deleted(path) => {
                self.trace.write(self.now_ms, "storage", format_args!("{path} is deleted"));
                // An old renewal is whose it is, and nobody else looks at it.
                if paths::renewing_attempt(&self.job, &path).is_none() {
                    fencing::check(self.strict_actor(), &format!("deletes {path}"))?;
                }
                durable::check_deleted(&self.completed, self.scenario.protocol.retain, &path)?;
            }
            StorageEvent::Failed(operation, when, path) => {
                self.may_leave_behind = true;
                self.coverage.count(match when {
                    When::Before => "storage failed before",
                    When::After => "storage failed after",
                });
                self.trace.write(self.now_ms, "storage", format_args!("fails to {operation} {path}, {when:?}"));
            }
        }
        Ok(())
    }

    /// The job begins from nothing the next time: all that it has written comes again.
    fn note_dropped(&mut self) {
        self.coverage.count("log records of dropped checkpoints");
        let went_back = self.surroundings.pipelines.iter().map(|pipeline| pipeline.outside.go_back_to(None));
        if went_back.sum::<usize>() > 0 {
            self.coverage.count("log records of dropped checkpoints: something was committed");
        }
        self.forget_topology();
    }

    /// Whoever acts, where it looks into the log before each effect, or where nobody claims the job during its lease.
    fn strict_actor(&self) -> Option<Actor> {
        self.actor.filter(|_| self.scenario.lease_ms == 0 || self.scenario.stands_by)
    }

    fn observe_sink(&mut self, place: usize, event: &SinkEvent) -> Result<(), Violation> {
        self.trace.write(self.now_ms, "outside", format_args!("{event:?}"));
        match event {
            SinkEvent::Committed(transaction) => {
                self.coverage.count("commits");
                fencing::check(self.strict_actor(), &format!("commits {transaction:?}"))?;
            }
            SinkEvent::CommittedAgain(_) => self.coverage.count("commits repeated"),
            SinkEvent::Failed(_, "before") => self.coverage.count("commits failed before"),
            SinkEvent::Failed(..) => self.coverage.count("commits failed after"),
            SinkEvent::Removed(transaction) => {
                self.coverage.count("transactions of dead attempts removed");
                fencing::check(self.strict_actor(), &format!("removes {transaction:?}"))?;
            }
            SinkEvent::Prepared(_) | SinkEvent::Lost(_) => {}
        }
        commits::check(&self.completed, (place, &self.surroundings.pipelines[place]), event)
    }
}
