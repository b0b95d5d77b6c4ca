//! Answers of the job log that do not come: a call of the storage that never returns is one whose outcome is unknown.
//!
//! The coordinator waits for the answer to an append whatever time it takes, since nobody else can say what became of it, and
//! nothing completes meanwhile. So somebody has to say that there is none. Then the number is read back, and the record is
//! appended again if it is not there. The call that hangs does no harm: it finds the number taken, or, if that record was deleted since, brings back an old
//! one that says what was true (`docs/format/job-log.md`).

use std::time::Duration;

use highwater_checkpoint::Action;

/// How long an answer is waited for, if not the timeout of a checkpoint is over before.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// What the log of one attempt was asked last.
pub(crate) struct LogAnswers {
    deadline: Duration,
    appended: Option<u64>,
    read: Option<u64>,
}

impl LogAnswers {
    /// It was asked nothing. `timeout` is that of a checkpoint.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { deadline: ANSWER_DEADLINE.min(timeout), appended: None, read: None }
    }

    /// How long to wait for the answer to an action before it counts as one that does not come; `None` for one that may take its
    /// time. That is also what is asked again: its outcome is unknown by then, which the coordinator bears for a while only, and
    /// every call that hangs keeps a thread.
    pub(crate) fn deadline(&mut self, action: &Action) -> Option<Duration> {
        let (last, sequence) = match action {
            Action::AppendLog { sequence, .. } => (&mut self.appended, *sequence),
            Action::ReadLog { sequence } => (&mut self.read, *sequence),
            _ => return None,
        };
        (last.replace(sequence) != Some(sequence)).then_some(self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_waited_for_no_longer_than_the_deadline_once() {
        let mut answers = LogAnswers::new(Duration::from_secs(5));
        let read = |sequence| Action::ReadLog { sequence };
        let deadline = Some(Duration::from_secs(5));
        assert_eq!([7, 7, 8].map(|sequence| answers.deadline(&read(sequence))), [deadline, None, deadline]);
        assert_eq!(answers.deadline(&Action::TruncateLog { sequences: vec![9] }), None);
        assert_eq!(LogAnswers::new(Duration::from_secs(600)).deadline(&read(7)), Some(ANSWER_DEADLINE));
    }
}
