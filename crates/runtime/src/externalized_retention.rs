//! What becomes of the complete checkpoints of a job that ends.

use std::fmt;

use highwater_checkpoint::AttemptFailure;
use highwater_state_api::ConfigValue;

use crate::job::JobResult;
use crate::{JobError, job_end::JobEnd};

/// Whether the complete checkpoints of a job outlive it. Flink's `ExternalizedCheckpointRetention`.
///
/// | | finished | cancelled | failed | suspended |
/// |---|---|---|---|---|
/// | `RetainOnCancellation` | deleted | kept | kept | kept |
/// | `DeleteOnCancellation` | deleted | deleted | kept | kept |
/// | `NoExternalizedCheckpoints` | deleted | deleted | deleted | kept |
///
/// A job has *failed* when its tasks or its checkpoints did and no restart follows. It is *suspended* when its process is
/// killed, when another process takes it over or may do so because the lease has run out, and when a start is refused or
/// cannot read the storage: it can be started again as if nothing had happened.
///
/// After its checkpoints were deleted, a job that was cancelled or has failed begins from nothing when it is started
/// again; a finished one has nothing left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExternalizedCheckpointRetention {
    /// Only a job that has finished loses its checkpoints. The default: to cancel a job and to start it again is how a
    /// new version of it is deployed. Flink's default is `NoExternalizedCheckpoints`.
    RetainOnCancellation,
    /// A job that is cancelled loses its checkpoints, one that fails keeps them.
    DeleteOnCancellation,
    /// A job that is cancelled or fails loses its checkpoints.
    NoExternalizedCheckpoints,
}

impl ExternalizedCheckpointRetention {
    /// Whether the checkpoints of a job that ends in this way stay.
    pub(crate) fn keeps(self, end: JobEnd) -> bool {
        match end {
            JobEnd::Finished => false,
            JobEnd::Cancelled => self == Self::RetainOnCancellation,
            JobEnd::Failed => self != Self::NoExternalizedCheckpoints,
            JobEnd::Suspended => true,
        }
    }
}

impl ConfigValue for ExternalizedCheckpointRetention {
    const EXPECTED: &'static str = "RETAIN_ON_CANCELLATION, DELETE_ON_CANCELLATION or NO_EXTERNALIZED_CHECKPOINTS";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_uppercase().replace('-', "_").as_str() {
            "RETAIN_ON_CANCELLATION" => Some(Self::RetainOnCancellation),
            "DELETE_ON_CANCELLATION" => Some(Self::DeleteOnCancellation),
            "NO_EXTERNALIZED_CHECKPOINTS" => Some(Self::NoExternalizedCheckpoints),
            _ => None,
        }
    }
}

impl fmt::Display for ExternalizedCheckpointRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RetainOnCancellation => "RETAIN_ON_CANCELLATION",
            Self::DeleteOnCancellation => "DELETE_ON_CANCELLATION",
            Self::NoExternalizedCheckpoints => "NO_EXTERNALIZED_CHECKPOINTS",
        })
    }
}

impl JobEnd {
    /// How a job with this result has ended.
    pub(crate) fn of(result: &Result<JobResult, JobError>) -> Self {
        let Err(error) = result else { return Self::Finished };
        match error.cause() {
            JobError::Cancelled | JobError::CancelledUndecided { .. } => Self::Cancelled,
            // Another process has the job, or may take it over at any moment.
            JobError::Coordinator(AttemptFailure::Fenced { .. } | AttemptFailure::LeaseExpired { .. }) => {
                Self::Suspended
            }
            JobError::Task { .. } | JobError::PoisonRecord { .. } | JobError::Coordinator(_) => Self::Failed,
            // No task of the last attempt has run.
            _ => Self::Suspended,
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_checkpoint::RestartStrategy;
    use highwater_state_api::CheckpointId;

    use super::*;
    use crate::TaskError;

    /// Contract: M244.
    #[test]
    fn each_policy_says_for_each_end_whether_checkpoints_stay() {
        use ExternalizedCheckpointRetention::*;
        let keeps = |policy: ExternalizedCheckpointRetention| {
            [JobEnd::Finished, JobEnd::Cancelled, JobEnd::Failed, JobEnd::Suspended].map(|end| policy.keeps(end))
        };
        assert_eq!(keeps(RetainOnCancellation), [false, true, true, true]);
        assert_eq!(keeps(DeleteOnCancellation), [false, false, true, true]);
        assert_eq!(keeps(NoExternalizedCheckpoints), [false, false, false, true]);
    }

    #[test]
    fn a_job_that_could_go_on_is_suspended() {
        let task = || JobError::Task {
            task: "sum".to_owned(),
            restarts: 1,
            source: TaskError::InFlight("it failed".to_owned()),
        };
        let fenced = JobError::Coordinator(AttemptFailure::Fenced { sequence: 7 });
        let not_restarted = JobError::NotRestarted { strategy: RestartStrategy::None, source: Box::new(task()) };
        let expired = AttemptFailure::LeaseExpired { lease_ms: 300, cause: "the network is down".to_owned() };
        let cut_off = JobError::NotRestarted {
            strategy: RestartStrategy::None,
            source: Box::new(JobError::Coordinator(expired)),
        };
        let refused = JobError::Invalid("it has no source".to_owned());
        let undecided = JobError::CancelledUndecided { checkpoint: CheckpointId(7) };
        let ends = [JobError::Cancelled, undecided, task(), not_restarted, fenced, cut_off, refused];
        use JobEnd::*;
        assert_eq!(
            ends.map(|error| JobEnd::of(&Err(error))),
            [Cancelled, Cancelled, Failed, Failed, Suspended, Suspended, Suspended]
        );
    }

    #[test]
    fn what_is_written_is_read() {
        use ExternalizedCheckpointRetention::*;
        for policy in [RetainOnCancellation, DeleteOnCancellation, NoExternalizedCheckpoints] {
            assert_eq!(ExternalizedCheckpointRetention::parse(&policy.to_string()), Some(policy));
        }
        assert_eq!(ExternalizedCheckpointRetention::parse("delete-on-cancellation"), Some(DeleteOnCancellation));
        assert_eq!(ExternalizedCheckpointRetention::parse("sometimes"), None);
    }
}
