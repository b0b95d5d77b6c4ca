//! Appending to the job log: one record at a time, and no answer is guessed.
//!
//! An append that timed out, or is not answered at all, may have happened. So the number is read back until it is known what
//! is there: the own record, another one, or nothing, in which case the record is appended again under the same number. That
//! has an end too: a log that does not tell for too long ends the attempt, and the next one reads it.
//!
//! A call that hangs does no harm when it goes on: it finds the number taken, or, if that record was deleted since, brings
//! back an old one that says what was true (`docs/format/job-log.md`).

use std::collections::VecDeque;

use highwater_state_api::CheckpointId;

use crate::backoff::wait_ms;
use crate::{Action, AttemptFailure, LogRecord};

/// How long the answer to a call is waited for, if a checkpoint may take that long.
const ANSWER_MS_MAX: u64 = 30_000;
/// How many calls may hang before no other one is made: each keeps a thread.
const HANGING_MAX: u32 = 2;

/// What became of an append.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The record is durable under its number.
    Appended { sequence: u64, record: LogRecord },
    /// Another process has the number.
    Fenced { sequence: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// `AppendLog` is to be answered until then; `None` when it was not, and is waited for all the same.
    Appending {
        until_ms: Option<u64>,
    },
    /// The same of `ReadLog`.
    Reading {
        until_ms: Option<u64>,
    },
    AppendAt {
        at_ms: u64,
    },
    ReadAt {
        at_ms: u64,
    },
}

#[derive(Debug, Clone)]
struct InFlight {
    record: LogRecord,
    step: Step,
    /// Answers in a row that decided nothing.
    undecided: u32,
    /// The storage has failed to say what became of the append. That it was not there at one moment decides nothing.
    unknown: Option<Unknown>,
}

#[derive(Debug, Clone)]
struct Unknown {
    since_ms: u64,
    /// Why it was unknown the last time, for people.
    cause: String,
}

/// Writes records of one attempt.
#[derive(Debug, Clone)]
pub(crate) struct LogWriter {
    next_sequence: u64,
    /// How long the outcome of an append may be unknown.
    patience_ms: u64,
    /// Calls that were not answered yet.
    unanswered: u32,
    in_flight: Option<InFlight>,
    queue: VecDeque<LogRecord>,
}

impl LogWriter {
    pub(crate) fn new(next_sequence: u64, patience_ms: u64) -> Self {
        Self { next_sequence, patience_ms, unanswered: 0, in_flight: None, queue: VecDeque::new() }
    }

    /// Appends a record after those that were pushed before.
    pub(crate) fn push(&mut self, now_ms: u64, record: LogRecord, actions: &mut Vec<Action>) {
        self.queue.push_back(record);
        self.begin_next(now_ms, actions);
    }

    /// Takes the record of a checkpoint back, unless its append has begun.
    pub(crate) fn withdraw(&mut self, checkpoint: CheckpointId) {
        self.queue.retain(|record| completes(record) != Some(checkpoint));
    }

    /// The checkpoint whose record is in flight: only the log can say what becomes of it.
    pub(crate) fn undecided(&self) -> Option<CheckpointId> {
        completes(&self.in_flight.as_ref()?.record)
    }

    /// Whether it is this one.
    pub(crate) fn has_begun(&self, checkpoint: CheckpointId) -> bool {
        self.undecided() == Some(checkpoint)
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let in_flight = self.in_flight.as_ref()?;
        let step = match in_flight.step {
            Step::Appending { until_ms } | Step::Reading { until_ms } => until_ms,
            Step::AppendAt { at_ms } | Step::ReadAt { at_ms } => Some(at_ms),
        };
        let end = in_flight.unknown.as_ref().map(|unknown| unknown.since_ms.saturating_add(self.patience_ms));
        step.into_iter().chain(end).min()
    }

    /// Why the log is not waited for any longer, once it has not told for too long what became of an append.
    pub(crate) fn unavailable(&self, now_ms: u64) -> Option<AttemptFailure> {
        let Unknown { since_ms, cause } = self.in_flight.as_ref()?.unknown.as_ref()?;
        let waited_ms = now_ms.saturating_sub(*since_ms);
        let (sequence, cause) = (self.next_sequence, cause.clone());
        (waited_ms >= self.patience_ms).then_some(AttemptFailure::LogUnavailable { sequence, waited_ms, cause })
    }

    /// Begins to append the record whose turn it is, unless another one is in flight.
    pub(crate) fn begin_next(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        if self.in_flight.is_none()
            && let Some(record) = self.queue.pop_front()
        {
            let step = Step::Appending { until_ms: None };
            self.in_flight = Some(InFlight { record, step, undecided: 0, unknown: None });
            self.append(now_ms, actions);
        }
    }

    pub(crate) fn on_time(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let Some(in_flight) = &self.in_flight else { return };
        match in_flight.step {
            Step::AppendAt { at_ms } if at_ms <= now_ms => self.append(now_ms, actions),
            Step::ReadAt { at_ms } if at_ms <= now_ms => self.read_back(now_ms, actions),
            Step::Appending { until_ms: Some(until_ms) } | Step::Reading { until_ms: Some(until_ms) }
                if until_ms <= now_ms =>
            {
                self.not_answered(now_ms, actions);
            }
            _ => {}
        }
    }

    /// An append was answered.
    pub(crate) fn appended(&mut self, sequence: u64) -> Option<Outcome> {
        self.answered();
        self.in_flight(sequence)?;
        self.decided(sequence)
    }

    /// Whether an append waits for a storage that does not say what became of it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|in_flight| in_flight.unknown.is_some())
    }

    /// Another record has the number, or the own one has it from a try before: only reading tells.
    pub(crate) fn taken(&mut self, now_ms: u64, sequence: u64, actions: &mut Vec<Action>) {
        self.answered();
        self.look_into(now_ms, sequence, actions);
    }

    /// The record may be there or not.
    pub(crate) fn unknown(&mut self, now_ms: u64, sequence: u64, cause: String, actions: &mut Vec<Action>) {
        self.answered();
        if let Some(in_flight) = self.in_flight(sequence) {
            in_flight.note_unknown(now_ms, cause);
        }
        self.look_into(now_ms, sequence, actions);
    }

    pub(crate) fn read(&mut self, now_ms: u64, sequence: u64, found: Option<LogRecord>) -> Option<Outcome> {
        self.answered();
        let in_flight = self.in_flight(sequence)?;
        match found {
            Some(found) if found == in_flight.record => self.decided(sequence),
            Some(_) => Some(Outcome::Fenced { sequence }),
            // Absence is only known of the moment of reading: it says nothing about an append that came after.
            None if in_flight.is_read() => {
                in_flight.step = Step::AppendAt { at_ms: in_flight.retry_at(now_ms) };
                None
            }
            None => None,
        }
    }

    pub(crate) fn read_failed(&mut self, now_ms: u64, sequence: u64, cause: String) {
        self.answered();
        if let Some(in_flight) = self.in_flight(sequence).filter(|in_flight| in_flight.is_read()) {
            in_flight.read_failed(now_ms, cause);
        }
    }

    fn append(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let (until_ms, sequence) = (self.answer_until(now_ms), self.next_sequence);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.step = Step::Appending { until_ms };
            actions.push(Action::AppendLog { sequence, record: in_flight.record.clone() });
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }

    fn read_back(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let (until_ms, sequence) = (self.answer_until(now_ms), self.next_sequence);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.step = Step::Reading { until_ms };
            actions.push(Action::ReadLog { sequence });
            self.unanswered = self.unanswered.saturating_add(1);
        }
    }

    fn look_into(&mut self, now_ms: u64, sequence: u64, actions: &mut Vec<Action>) {
        // A late answer to an append that is being looked into already says nothing new, but may make room for another look.
        let is_open = |step| matches!(step, Step::Appending { .. } | Step::Reading { until_ms: None });
        if self.in_flight(sequence).is_some_and(|in_flight| is_open(in_flight.step)) {
            self.read_back(now_ms, actions);
        }
    }

    /// A call is not answered in time: what became of the append is unknown.
    fn not_answered(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let (sequence, waited_ms) = (self.next_sequence, self.answer_ms());
        let asks_again = self.unanswered <= HANGING_MAX;
        let Some(in_flight) = &mut self.in_flight else { return };
        actions.push(Action::ReportLogSilence { sequence, waited_ms });
        let cause = format!("the storage has not answered for {waited_ms} ms");
        match &mut in_flight.step {
            Step::Reading { .. } if asks_again => in_flight.read_failed(now_ms, cause),
            Step::Appending { until_ms } | Step::Reading { until_ms } => {
                *until_ms = None;
                in_flight.note_unknown(now_ms, cause);
                if asks_again {
                    self.read_back(now_ms, actions);
                }
            }
            Step::AppendAt { .. } | Step::ReadAt { .. } => {}
        }
    }

    /// Some call was answered, whichever it was. One that comes back from long ago counts too: its thread is free.
    fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    fn answer_ms(&self) -> u64 {
        ANSWER_MS_MAX.min(self.patience_ms)
    }

    fn answer_until(&self, now_ms: u64) -> Option<u64> {
        Some(now_ms.saturating_add(self.answer_ms()))
    }

    /// The append that an answer is about; `None` when the answer is late.
    fn in_flight(&mut self, sequence: u64) -> Option<&mut InFlight> {
        self.in_flight.as_mut().filter(|_| sequence == self.next_sequence)
    }

    fn decided(&mut self, sequence: u64) -> Option<Outcome> {
        let InFlight { record, .. } = self.in_flight.take()?;
        self.next_sequence += 1;
        Some(Outcome::Appended { sequence, record })
    }
}

impl InFlight {
    fn is_read(&self) -> bool {
        matches!(self.step, Step::Reading { .. })
    }

    fn read_failed(&mut self, now_ms: u64, cause: String) {
        self.note_unknown(now_ms, cause);
        self.undecided = self.undecided.max(1); // a read that failed is never repeated at once
        self.step = Step::ReadAt { at_ms: self.retry_at(now_ms) };
    }

    fn note_unknown(&mut self, now_ms: u64, cause: String) {
        let since_ms = self.unknown.as_ref().map_or(now_ms, |unknown| unknown.since_ms);
        self.unknown = Some(Unknown { since_ms, cause });
    }

    /// The first time at once, then later and later.
    fn retry_at(&mut self, now_ms: u64) -> u64 {
        let retry_at_ms = now_ms.saturating_add(wait_ms(self.undecided));
        self.undecided = self.undecided.saturating_add(1);
        retry_at_ms
    }
}

fn completes(record: &LogRecord) -> Option<CheckpointId> {
    match record {
        LogRecord::Completed { checkpoint, .. } => Some(*checkpoint),
        LogRecord::Claim { .. } | LogRecord::Finished { .. } | LogRecord::Dropped { .. } => None,
    }
}
