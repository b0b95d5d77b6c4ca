//! Observation: after every step, what happened to storage, sink and snapshots is written down and judged.

use highwater_checkpoint::{LogRecord, paths};
use highwater_state_api::Attempt;

use crate::invariants::fencing::Actor;
use crate::invariants::{Violation, barriers, commits, durable, fencing};
use crate::job::SinkEvent;
use crate::storage::{StorageEvent, When};
use crate::world::World;

impl World {
    /// Looks at what happened since the last look.
    pub(crate) fn observe(&mut self) -> Result<(), Violation> {
        for event in self.storage.take_events() {
            self.observe_storage(event)?;
        }
        for event in self.surroundings.outside.take_events() {
            self.observe_sink(&event)?;
        }
        self.actor = None;
        if let Some(process) = &self.process {
            for checkpoint in process.witness.take_fresh() {
                barriers::check(&process.witness.lock(), checkpoint)?;
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
                self.completed.logged(&record);
                match record {
                    LogRecord::Finished { .. } => {
                        commits::check_finished(&self.surroundings.input, &self.surroundings.outside)?;
                    }
                    LogRecord::Completed { .. } => {
                        self.coverage.count("log records of complete checkpoints");
                        self.note_completed();
                    }
                    LogRecord::Claim { nonce, .. } => {
                        self.coverage.count("claims");
                        self.claims.insert(Attempt(sequence), nonce);
                    }
                    LogRecord::Dropped { .. } => {}
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

    /// Whoever acts, where it looks into the log before each effect, or where nobody claims the job during its lease.
    fn strict_actor(&self) -> Option<Actor> {
        self.actor.filter(|_| self.scenario.lease_ms == 0 || self.scenario.stands_by)
    }

    fn observe_sink(&mut self, event: &SinkEvent) -> Result<(), Violation> {
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
        commits::check(&self.completed, &self.surroundings.outside, event)
    }
}
