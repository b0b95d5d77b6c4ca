//! Poison records: recognises that a job fails in the same place again and again.

use highwater_state_api::CheckpointId;

/// The failure of a task, as far as it can be compared with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFailure<'a> {
    /// The uid of the operator that failed, or the name of its task when it is not known which of its operators did.
    pub operator: &'a str,
    /// The error with its causes.
    pub error: &'a str,
    /// The newest complete checkpoint of the job, if there is one: the next attempt goes on from it.
    pub checkpoint: Option<CheckpointId>,
}

/// A record that probably makes the job fail whenever it is read.
///
/// A suspicion: nobody knows which record it is, or whether it is one. The same operator has failed with
/// the same error, each time on the way from the same checkpoint, hence from the same positions of the sources, to the
/// next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoisonRecord {
    /// The uid of the operator that fails, or the name of its task when it is not known which of its operators does.
    pub operator: String,
    /// The error with its causes.
    pub error: String,
    /// The checkpoint behind which the record is; `None` when the job has not completed any.
    pub checkpoint: Option<CheckpointId>,
    /// How often it has happened, one after the other.
    pub failures: u32,
}

/// Compares each failure of a task with the one before.
///
/// Failures that no task is to blame for, such as those of the storage, say nothing about records and are not shown to it.
#[derive(Debug, Clone)]
pub struct PoisonRecordDetector {
    repeats: u32,
    last: Option<PoisonRecord>,
}

impl PoisonRecordDetector {
    /// Suspects a record after this many equal failures.
    pub fn new(repeats: u32) -> Self {
        Self { repeats, last: None }
    }

    /// A task has failed. What is suspected now, if anything is.
    pub fn on_failure(&mut self, failure: TaskFailure<'_>) -> Option<&PoisonRecord> {
        let TaskFailure { operator, error, checkpoint } = failure;
        let is_repeated =
            |last: &PoisonRecord| last.operator == operator && last.error == error && last.checkpoint == checkpoint;
        match &mut self.last {
            Some(last) if is_repeated(last) => last.failures = last.failures.saturating_add(1),
            last => {
                let (operator, error) = (operator.to_owned(), error.to_owned());
                *last = Some(PoisonRecord { operator, error, checkpoint, failures: 1 });
            }
        }
        self.last.as_ref().filter(|last| last.failures >= self.repeats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILURE: TaskFailure<'static> =
        TaskFailure { operator: "sum", error: "not a number", checkpoint: Some(CheckpointId(7)) };

    /// How often each failure has been seen when it makes a record suspected; 0 when it does not.
    fn suspicions<const N: usize>(failures: [TaskFailure<'_>; N]) -> [u32; N] {
        let mut detector = PoisonRecordDetector::new(3);
        failures.map(|failure| detector.on_failure(failure).map_or(0, |suspected| suspected.failures))
    }

    /// Contract: O282.
    #[test]
    fn a_record_is_suspected_when_the_same_failure_has_come_often_enough() {
        assert_eq!(suspicions([FAILURE; 5]), [0, 0, 3, 4, 5]);
        let from_nothing = TaskFailure { checkpoint: None, ..FAILURE };
        assert_eq!(suspicions([from_nothing; 3]), [0, 0, 3]);
    }

    /// Contract: O282.
    #[test]
    fn what_is_suspected_is_named() {
        let mut detector = PoisonRecordDetector::new(2);
        assert_eq!(detector.on_failure(FAILURE), None);
        let expected = PoisonRecord {
            operator: "sum".to_owned(),
            error: "not a number".to_owned(),
            checkpoint: FAILURE.checkpoint,
            failures: 2,
        };
        assert_eq!(detector.on_failure(FAILURE), Some(&expected));
    }

    /// Contract: O282.
    #[test]
    fn another_operator_another_error_or_progress_begins_the_count_anew() {
        for other in [
            TaskFailure { operator: "max", ..FAILURE },
            TaskFailure { error: "too large", ..FAILURE },
            TaskFailure { checkpoint: Some(CheckpointId(8)), ..FAILURE },
            TaskFailure { checkpoint: None, ..FAILURE },
        ] {
            assert_eq!(suspicions([FAILURE, FAILURE, other, FAILURE, FAILURE, FAILURE]), [0, 0, 0, 0, 0, 3]);
        }
    }
}
