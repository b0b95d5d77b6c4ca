//! What follows a failed attempt: another one after a delay, or the end of the job.

use std::io::ErrorKind;
use std::time::Duration;

use highwater_checkpoint::{
    AttemptFailure, Now, PoisonRecord, PoisonRecordDetector, RestartDecision, Restarter, TaskFailure,
};
use highwater_state_api::{JobName, StorageError};

use crate::error::chain_of;
use crate::job::StatusBoard;
use crate::options::restart::PoisonRecordAction;
use crate::restart_choice::RestartSettings;
use crate::{JobError, TaskError, random};

/// What ended an attempt.
pub(crate) enum Failure {
    /// A task failed.
    Task {
        /// Its name.
        task: String,
        /// What went wrong.
        source: TaskError,
    },
    /// The coordinator ended it.
    Coordinator(AttemptFailure),
    /// No task was started.
    Start(JobError),
}

/// The failures of a job in this process and what is left of its restarts.
pub(crate) struct Recovery {
    restarter: Restarter,
    detector: PoisonRecordDetector,
    poison_record_action: PoisonRecordAction,
}

impl Recovery {
    /// No failure yet.
    pub(crate) fn new(settings: RestartSettings) -> Self {
        Self {
            restarter: Restarter::new(settings.strategy),
            detector: PoisonRecordDetector::new(settings.poison_record_repeats),
            poison_record_action: settings.poison_record_action,
        }
    }

    /// An attempt has failed. How long to wait before the next one; an error ends the job.
    pub(crate) fn on_failure(
        &mut self,
        job: &JobName,
        now: Now,
        board: &StatusBoard,
        failure: Failure,
    ) -> Result<Duration, JobError> {
        let restarts = self.restarter.restarts();
        let (error, may_restart) = match failure {
            // That somebody else has the job says nothing about the task.
            Failure::Task { source: TaskError::Fenced { sequence }, .. } => {
                return Err(JobError::Coordinator(AttemptFailure::Fenced { sequence }));
            }
            Failure::Task { task, source } if source.is_permanent() => {
                (JobError::Task { task, restarts, source }, false)
            }
            Failure::Task { task, source } if source.is_of_another_system() => {
                (JobError::Task { task, restarts, source }, true)
            }
            Failure::Task { task, source } => {
                let suspected = self.suspect(job, board, &task, &source);
                if let Some(PoisonRecord { operator, checkpoint, failures, .. }) = suspected
                    && self.poison_record_action == PoisonRecordAction::Fail
                {
                    return Err(JobError::PoisonRecord { operator, checkpoint, failures, source: Box::new(source) });
                }
                (JobError::Task { task, restarts, source }, true)
            }
            Failure::Coordinator(failure) => {
                let is_fenced = matches!(failure, AttemptFailure::Fenced { .. });
                (JobError::Coordinator(failure), !is_fenced)
            }
            Failure::Start(JobError::Storage(error)) => {
                // What never was allowed is a mistake, too.
                let may_restart = restarts > 0 || !is_denied(&error);
                (JobError::Storage(error), may_restart)
            }
            // What worked once in this process may work again; what never has is a mistake.
            Failure::Start(error @ (JobError::Start { .. } | JobError::HookStart { .. })) => (error, restarts > 0),
            Failure::Start(error) => (error, false),
        };
        if !may_restart {
            return Err(error);
        }
        let at_ms = match self.restarter.on_failure(now, random::nonce()) {
            RestartDecision::Restart { at_ms } | RestartDecision::AlreadyPlanned { at_ms } => at_ms,
            RestartDecision::GiveUp => {
                let strategy = self.restarter.strategy();
                return Err(JobError::NotRestarted { strategy, source: Box::new(error) });
            }
        };
        let delay_ms = at_ms.saturating_sub(now.monotonic_ms);
        tracing::warn!(
            target: "highwater::job",
            %job,
            error = chain_of(&error),
            delay_ms,
            "the attempt failed and will be followed by another"
        );
        Ok(Duration::from_millis(delay_ms))
    }

    /// Looks whether a task fails in the same place again and again, and says so where its owner sees it.
    fn suspect(&mut self, job: &JobName, board: &StatusBoard, task: &str, source: &TaskError) -> Option<PoisonRecord> {
        let mut board = board.lock();
        let failure = TaskFailure {
            operator: source.operator().unwrap_or(task),
            error: &chain_of(source),
            checkpoint: board.newest_checkpoint(),
        };
        let suspected = self.detector.on_failure(failure).cloned();
        if let Some(PoisonRecord { operator, error, checkpoint, failures }) = &suspected {
            tracing::error!(
                target: "highwater::job",
                %job,
                operator,
                checkpoint = checkpoint.map(|checkpoint| checkpoint.0),
                failures,
                error,
                "the same failure again, and no checkpoint in between: probably one record causes it each time"
            );
        }
        board.status.suspected_poison_record.clone_from(&suspected);
        suspected
    }
}

/// Whether a storage has refused instead of failed.
fn is_denied(error: &StorageError) -> bool {
    let StorageError::Unavailable { source, .. } = error else { return false };
    matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
#[path = "recovery_test.rs"]
mod recovery_test;
