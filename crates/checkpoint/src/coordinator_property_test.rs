//! The coordinator in a world where everything goes wrong in any order: what must hold all the same, and that it goes on
//! once the world is well again.

use std::collections::{BTreeMap, BTreeSet};

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath, SubtaskId};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::script_test::{
    ATTEMPT, acknowledgement, config, enumerated, job, metadata_handle, now, start, subtask, uid,
};
use crate::{
    Action, AttemptFailure, CheckpointFailure, CheckpointFailureReason, CheckpointRequest, Coordinator,
    CoordinatorConfig, Decline, Discard, DiscardId, Event, LogRecord, LogView, RequestId, paths,
};

/// What the world does next. An [`Index`] picks among what there is.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    /// Do something that was asked for, well or badly.
    Carry(Index, Fate),
    /// An event that was sent before comes again.
    Repeat(Index),
    /// An acknowledgement that is nobody's.
    Stray(Index, u8),
    Request {
        forced: bool,
        periodic: bool,
    },
    Scheduler(bool),
    End(Index),
    Settle(Index),
    /// A write of which nobody knew whether it had happened happens now.
    Land,
    /// Another process takes the job over.
    Claim,
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Well,
    Fails,
    /// It happens, but the answer is lost, or says that nobody knows.
    HappensUnknown,
    /// It does not happen, or later, and nobody knows.
    Lost,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let fate = prop_oneof![
        12 => Just(Fate::Well),
        1 => Just(Fate::Fails),
        1 => Just(Fate::HappensUnknown),
        1 => Just(Fate::Lost),
    ];
    prop_oneof![
        120 => (index(), fate).prop_map(|(which, fate)| Step::Carry(which, fate)),
        12 => (0u64..700).prop_map(Step::Wait),
        10 => index().prop_map(Step::Repeat),
        6 => (index(), 0u8..4).prop_map(|(which, kind)| Step::Stray(which, kind)),
        6 => any::<(bool, bool)>().prop_map(|(forced, periodic)| Step::Request { forced, periodic }),
        3 => any::<bool>().prop_map(Step::Scheduler),
        3 => index().prop_map(Step::End),
        8 => index().prop_map(Step::Settle),
        4 => Just(Step::Land),
        1 => Just(Step::Claim),
        1 => Just(Step::Shutdown),
    ]
}

/// Short enough for checkpoints to expire and the log to be given up, or too long for either.
fn timeout_ms() -> impl Strategy<Value = u64> {
    prop_oneof![Just(config().timeout_ms), Just(600_000)]
}

/// Something that the coordinator asked for and that has not been answered.
#[derive(Debug, Clone)]
enum Task {
    Locate(CheckpointId),
    Enumerate(CheckpointId),
    Snapshot(CheckpointId, SubtaskId),
    Write(CheckpointId),
    Append(u64, LogRecord),
    Read(u64),
    Discard(DiscardId),
}

struct World {
    coordinator: Coordinator,
    config: CoordinatorConfig,
    now_ms: u64,
    tasks: Vec<Task>,
    sent: Vec<Event>,
    log: BTreeMap<u64, LogRecord>,
    /// An append that may still happen.
    limbo: Option<(u64, LogRecord)>,
    /// The last number of which the log did not tell what became of it, and since when.
    unknown: Option<(u64, u64)>,
    last_triggered: CheckpointId,
    acknowledged: BTreeMap<CheckpointId, BTreeSet<SubtaskId>>,
    located: BTreeSet<CheckpointId>,
    written: BTreeSet<CheckpointId>,
    /// Checkpoints whose append was asked for.
    begun: BTreeSet<CheckpointId>,
    completed: BTreeSet<CheckpointId>,
    aborted: BTreeSet<CheckpointId>,
    ended: BTreeSet<SubtaskId>,
    /// The checkpoint that was triggered next after a subtask had ended.
    ended_before: BTreeMap<SubtaskId, CheckpointId>,
    /// Whose snapshots the checkpoints consist of.
    asked: BTreeMap<CheckpointId, BTreeSet<SubtaskId>>,
    /// Who was let go.
    gone: BTreeSet<SubtaskId>,
    settled: BTreeMap<SubtaskId, CheckpointId>,
    /// How many requests there were, and how many of them were forced.
    requested: u64,
    forced: usize,
    /// Requests that were answered.
    answered: BTreeSet<RequestId>,
    is_over: bool,
    is_finished: bool,
    /// The log has not told in time what became of an append.
    has_given_up: bool,
    /// How often an append was answered that had been answered before.
    appended_again: usize,
}

impl World {
    fn new(max_concurrent: u32, retain: usize, timeout_ms: u64) -> Self {
        let config = CoordinatorConfig { max_concurrent, retain, timeout_ms, ..config() };
        let first = LogRecord::Claim { nonce: 1, first_checkpoint: CheckpointId(1) };
        let mut world = Self {
            coordinator: Coordinator::new(config.clone(), start()),
            config,
            now_ms: 0,
            tasks: Vec::new(),
            sent: Vec::new(),
            log: BTreeMap::from([(ATTEMPT.0, first)]),
            limbo: None,
            unknown: None,
            last_triggered: CheckpointId(0),
            acknowledged: BTreeMap::new(),
            located: BTreeSet::new(),
            written: BTreeSet::new(),
            begun: BTreeSet::new(),
            completed: BTreeSet::new(),
            aborted: BTreeSet::new(),
            ended: BTreeSet::new(),
            ended_before: BTreeMap::new(),
            asked: BTreeMap::new(),
            gone: BTreeSet::new(),
            settled: BTreeMap::new(),
            requested: 0,
            forced: 0,
            answered: BTreeSet::new(),
            is_over: false,
            is_finished: false,
            has_given_up: false,
            appended_again: 0,
        };
        for subtask in world.config.subtasks() {
            world.send(Event::SubtaskRunning { subtask });
        }
        world
    }

    fn send(&mut self, event: Event) {
        let is_shutdown = event == Event::Shutdown;
        if let Event::SubtaskEnded { subtask } = event {
            self.ended_before.entry(subtask).or_insert(self.last_triggered.next());
        }
        self.sent.push(event.clone());
        if let Event::LogUnknown { sequence, .. } | Event::LogReadFailed { sequence, .. } = event {
            self.note_unknown(sequence);
        }
        let actions = self.coordinator.on_event(now(self.now_ms), event);
        let is_late_answer = |action: &Action| {
            matches!(action, Action::RequestFailed { .. } | Action::NoteComplete { .. } | Action::Finished)
        };
        assert!(!self.is_over || actions.iter().all(is_late_answer), "after the end: {actions:?}");
        for action in actions {
            self.check(action);
        }
        self.is_over |= is_shutdown;
        assert!(!self.is_over || self.answered.len() as u64 == self.requested, "somebody waits for ever");
        let asked = self.tasks.iter().filter(|task| matches!(task, Task::Append(..) | Task::Read(_))).count();
        assert!(asked <= 3 + self.appended_again, "{asked} calls of the log are not answered");
        assert!(self.coordinator.next_deadline().is_none_or(|at_ms| at_ms > self.now_ms), "a deadline that spins");
        let room = self.config.max_concurrent as usize + 8 + self.forced;
        assert!(self.coordinator.pending().count() <= room);
    }

    fn note_unknown(&mut self, sequence: u64) {
        if self.unknown.is_none_or(|(unknown, _)| unknown != sequence) {
            self.unknown = Some((sequence, self.now_ms));
        }
    }

    /// The newest completed checkpoints that the log has.
    fn retained(&self) -> Vec<CheckpointId> {
        let ids = self.log.values().rev().filter_map(|record| match record {
            LogRecord::Completed { checkpoint, .. } => Some(*checkpoint),
            _ => None,
        });
        ids.take(self.config.retain).collect()
    }

    fn check(&mut self, action: Action) {
        match action {
            Action::InitializeLocation { checkpoint, .. } => {
                assert!(checkpoint > self.last_triggered, "ids increase");
                self.last_triggered = checkpoint;
                self.tasks.push(Task::Locate(checkpoint));
            }
            Action::SnapshotEnumerators { checkpoint } => {
                assert!(self.located.contains(&checkpoint), "its place is not ready");
                self.tasks.push(Task::Enumerate(checkpoint));
            }
            Action::TriggerHooks { .. } => panic!("there are no hooks"),
            Action::TriggerSubtasks { checkpoint, subtasks, .. } => {
                let sources = self.subtasks_of(0);
                if subtasks != sources {
                    assert_eq!(
                        subtasks,
                        self.subtasks_of(1),
                        "who has nobody running ahead is told, all of them and no one else"
                    );
                    self.check_finished(&sources);
                }
                // Barriers take it to all others.
                let asked =
                    self.subtasks_of(0).into_iter().chain(self.subtasks_of(1)).filter(|one| *one >= subtasks[0]);
                self.tasks.extend(asked.map(|one| Task::Snapshot(checkpoint, one)));
            }
            Action::FinishSubtasks { subtasks } => {
                self.check_finished(&subtasks);
                subtasks.into_iter().for_each(|one| assert!(self.gone.insert(one), "let go twice"));
            }
            Action::WriteMetadata { checkpoint, metadata, .. } => {
                let finished = metadata.operators.iter().zip(0..).filter(|(operator, _)| operator.finished);
                let finished: Vec<SubtaskId> = finished.flat_map(|(_, task)| self.subtasks_of(task)).collect();
                self.check_finished(&finished);
                let mut asked = self.config.subtasks();
                asked.retain(|one| !finished.contains(one));
                assert!(self.acknowledged[&checkpoint].is_superset(&asked));
                self.asked.insert(checkpoint, asked);
                assert_eq!((metadata.checkpoint, metadata.attempt, &metadata.job), (checkpoint, ATTEMPT, &job()));
                self.tasks.push(Task::Write(checkpoint));
            }
            Action::AppendLog { sequence, record } => {
                match &record {
                    LogRecord::Completed { checkpoint, attempt, .. } => {
                        assert_eq!(*attempt, ATTEMPT);
                        assert!(self.written.contains(checkpoint), "published before it was durable");
                        assert!(!self.aborted.contains(checkpoint), "published after it was aborted");
                        assert!(self.begun.last().is_none_or(|last| last <= checkpoint), "ids increase in the log");
                        self.begun.insert(*checkpoint);
                    }
                    LogRecord::Finished { .. } => {
                        let last = *self.completed.last().unwrap();
                        let is_settled = |one: &SubtaskId| self.settled.get(one).is_some_and(|id| *id >= last);
                        assert!(self.asked[&last].iter().all(is_settled), "effects are missing");
                    }
                    LogRecord::Claim { .. } | LogRecord::Dropped { .. } => {
                        panic!("a coordinator never writes {record:?}")
                    }
                }
                self.tasks.push(Task::Append(sequence, record));
            }
            Action::ReadLog { sequence } => self.tasks.push(Task::Read(sequence)),
            Action::ReportLogSilence { sequence, waited_ms } => {
                assert_eq!(waited_ms, self.config.timeout_ms.min(30_000));
                self.note_unknown(sequence);
            }
            Action::NotifyComplete { checkpoint } | Action::NoteComplete { checkpoint } => {
                let is_own = |record: &LogRecord| matches!(record, LogRecord::Completed { checkpoint: id, .. } if *id == checkpoint);
                assert!(self.log.values().any(is_own), "complete without a record");
                assert!(!self.aborted.contains(&checkpoint), "complete after it was aborted");
                self.completed.insert(checkpoint);
            }
            Action::RequestFailed { request, .. } => assert!(self.answered.insert(request), "answered twice"),
            Action::RequestCompleted { request, checkpoint } => {
                assert!(self.completed.contains(&checkpoint), "answered before everybody was told");
                assert!(self.answered.insert(request), "answered twice");
            }
            Action::NotifyAborted { checkpoint, latest_complete, .. } => {
                assert_eq!(latest_complete, self.completed.last().copied());
                assert!(!self.begun.contains(&checkpoint), "aborted though the log decides");
                assert!(self.aborted.insert(checkpoint), "aborted twice");
            }
            Action::NotifySubsumed { checkpoint } => {
                assert!(self.completed.contains(&checkpoint), "subsumed though it was never complete");
                assert!(!self.retained().contains(&checkpoint), "subsumed though retained");
            }
            Action::Discard { id, discard: Discard::Folder(folder) } => {
                self.tasks.push(Task::Discard(id));
                let (checkpoint, attempt) = paths::checkpoint_of(&job(), &folder).unwrap();
                assert_eq!(attempt, ATTEMPT);
                assert!(!self.retained().contains(&checkpoint), "discarded though retained");
                assert!(self.aborted.contains(&checkpoint) || self.completed.contains(&checkpoint), "still pending");
            }
            Action::Discard { id, discard: Discard::Objects(paths) } => {
                self.tasks.push(Task::Discard(id));
                for path in &paths {
                    match paths::sequence_of(&job(), path) {
                        Some(sequence) => self.delete_record(sequence),
                        None => self.check_stray(path),
                    }
                }
            }
            Action::Finished => {
                assert!(self.log.values().any(|record| *record == LogRecord::Finished { attempt: ATTEMPT }));
                (self.is_over, self.is_finished) = (true, true);
            }
            Action::Fail(AttemptFailure::Fenced { sequence }) => {
                assert!(matches!(self.log[&sequence], LogRecord::Claim { .. }), "fenced by nobody");
                self.is_over = true;
            }
            Action::Fail(AttemptFailure::LogUnavailable { sequence, waited_ms, .. }) => {
                assert!(waited_ms >= self.config.timeout_ms, "given up too early");
                assert_eq!(self.unknown, Some((sequence, self.now_ms - waited_ms)), "the log has told");
                (self.is_over, self.has_given_up) = (true, true);
            }
            Action::Fail(
                failure @ (AttemptFailure::TooManyFailedCheckpoints { .. } | AttemptFailure::LeaseExpired { .. }),
            ) => panic!("{failure}"),
        }
    }

    /// A record of the log is deleted, perhaps again.
    fn delete_record(&mut self, sequence: u64) {
        if let Some(record) = self.log.remove(&sequence) {
            let LogRecord::Completed { checkpoint, .. } = record else { panic!("{record:?} deleted") };
            assert!(self.completed.contains(&checkpoint) && checkpoint < *self.completed.last().unwrap());
            assert!(self.retained().len() == self.config.retain, "too much was deleted");
        }
    }

    /// State that came too late is deleted.
    fn check_stray(&self, path: &ObjectPath) {
        let (checkpoint, attempt) = paths::checkpoint_of(&job(), path).unwrap();
        let is_pending = self.coordinator.pending().any(|pending| pending == checkpoint);
        let is_known = self.config.subtasks().into_iter().any(|one| {
            let snapshot = acknowledgement(ATTEMPT, checkpoint, one).snapshot;
            snapshot.operators[0].1.handles().any(|handle| handle.object() == Some(path))
        });
        let is_needed = is_known && (is_pending || self.retained().contains(&checkpoint));
        assert!(attempt != ATTEMPT || !is_needed, "{path} is needed");
        assert!(attempt <= ATTEMPT, "{path} belongs to a successor");
    }

    fn subtasks_of(&self, task: u32) -> Vec<SubtaskId> {
        self.config.subtasks().into_iter().filter(|one| one.task == task).collect()
    }

    /// They have ended, and have settled a checkpoint that was triggered after that.
    fn check_finished(&self, subtasks: &[SubtaskId]) {
        for one in subtasks {
            let settled = self.settled.get(one).copied();
            let after = self.ended_before.get(one).copied();
            assert!(
                after.is_some() && settled >= after,
                "{one} has settled {settled:?}, and had ended before {after:?}"
            );
        }
    }

    fn carry(&mut self, task: Task, fate: Fate) {
        match (task, fate) {
            (Task::Locate(checkpoint), Fate::Well) => {
                self.located.insert(checkpoint);
                self.send(Event::LocationInitialized { checkpoint });
            }
            (Task::Locate(checkpoint), Fate::Fails) => {
                self.send(Event::LocationFailed { checkpoint, cause: "disk full".to_owned() });
            }
            (Task::Enumerate(checkpoint), Fate::Fails) => {
                self.send(Event::EnumeratorFailed { checkpoint, operator: uid("source"), cause: "full".to_owned() });
            }
            (Task::Enumerate(checkpoint), Fate::Well) => self.send(enumerated(checkpoint)),
            (Task::Snapshot(checkpoint, subtask), Fate::Well) => {
                self.acknowledged.entry(checkpoint).or_default().insert(subtask);
                self.send(Event::Acknowledged(acknowledgement(ATTEMPT, checkpoint, subtask)));
            }
            (Task::Snapshot(checkpoint, subtask), Fate::Fails) => {
                let failure = CheckpointFailure::new(CheckpointFailureReason::AsyncException, "disk full");
                let decline = Decline { job: job(), attempt: ATTEMPT, checkpoint, subtask, failure };
                self.send(Event::Declined(decline));
            }
            (Task::Write(checkpoint), Fate::Well) => {
                self.written.insert(checkpoint);
                self.send(Event::MetadataWritten { checkpoint, metadata: metadata_handle(ATTEMPT, checkpoint) });
            }
            (Task::Write(checkpoint), Fate::Fails) => {
                self.send(Event::MetadataFailed { checkpoint, cause: "disk full".to_owned() });
            }
            (Task::Append(sequence, record), fate) => self.append(sequence, record, fate),
            (Task::Read(sequence), Fate::Fails | Fate::Lost) => {
                self.send(Event::LogReadFailed { sequence, cause: "time-out".to_owned() });
            }
            (Task::Read(sequence), _) => {
                let record = self.log.get(&sequence).cloned();
                self.send(Event::LogRead { sequence, record });
            }
            (Task::Discard(id), Fate::Well) => self.send(Event::Discarded { id }),
            (Task::Discard(id), _) => self.send(Event::DiscardFailed { id }),
            // The answer is lost.
            (Task::Locate(_) | Task::Enumerate(_) | Task::Snapshot(..) | Task::Write(_), _) => {}
        }
    }

    fn append(&mut self, sequence: u64, record: LogRecord, fate: Fate) {
        let is_free = !self.log.contains_key(&sequence);
        match fate {
            Fate::Well | Fate::Fails if !is_free => return self.send(Event::LogTaken { sequence }),
            Fate::Well | Fate::HappensUnknown if is_free => {
                self.log.insert(sequence, record);
            }
            Fate::Lost => self.limbo = Some((sequence, record)),
            _ => {}
        }
        match fate {
            Fate::Well => self.send(Event::LogAppended { sequence }),
            _ => self.send(Event::LogUnknown { sequence, cause: "time-out".to_owned() }),
        }
    }

    fn land(&mut self) {
        if let Some((sequence, record)) = self.limbo.take() {
            self.log.entry(sequence).or_insert(record);
        }
    }

    /// Another attempt appends its claim. Nobody claims a job that has finished.
    fn claim(&mut self) {
        if self.log.values().any(|record| matches!(record, LogRecord::Finished { .. })) {
            return;
        }
        let next = self.log.last_key_value().map_or(1, |(last, _)| last + 1);
        let first_checkpoint = self.last_triggered.next();
        self.log.insert(next, LogRecord::Claim { nonce: 2, first_checkpoint });
    }

    fn step(&mut self, step: Step) {
        let subtasks: Vec<SubtaskId> = self.config.subtasks().into_iter().collect();
        match step {
            Step::Wait(wait_ms) => {
                self.now_ms += wait_ms;
                self.send(Event::Tick);
            }
            Step::Carry(which, fate) => {
                if !self.tasks.is_empty() {
                    let task = self.tasks.remove(which.index(self.tasks.len()));
                    self.carry(task, fate);
                }
            }
            Step::Repeat(which) => {
                let event = self.sent[which.index(self.sent.len())].clone();
                // Each append and each read is answered once: the shell waits for one answer and takes no other.
                let is_answer = matches!(
                    event,
                    Event::CheckpointRequested { .. } // an id is used once
                        | Event::LogTaken { .. }
                        | Event::LogUnknown { .. }
                        | Event::LogRead { .. }
                        | Event::LogReadFailed { .. }
                );
                if !is_answer && event != Event::Shutdown {
                    self.appended_again += usize::from(matches!(event, Event::LogAppended { .. }));
                    self.send(event);
                }
            }
            Step::Stray(which, kind) => {
                let checkpoint = CheckpointId(which.index(self.last_triggered.0 as usize + 3) as u64);
                let mut stray = acknowledgement(ATTEMPT, checkpoint, subtasks[which.index(4)]);
                match kind {
                    0 => stray.job = JobName::new("other").unwrap(),
                    1 => stray = acknowledgement(Attempt(ATTEMPT.0 - 1), checkpoint, stray.subtask),
                    2 => stray = acknowledgement(Attempt(ATTEMPT.0 + 1), checkpoint, stray.subtask),
                    _ => stray = acknowledgement(ATTEMPT, checkpoint, subtask(1, 9)),
                }
                self.send(Event::Acknowledged(stray));
            }
            Step::Request { forced, periodic } => {
                let id = RequestId(self.requested);
                self.requested += 1;
                self.forced += usize::from(forced);
                self.send(Event::CheckpointRequested { id, request: CheckpointRequest { forced, periodic } });
            }
            Step::Scheduler(true) => self.send(Event::SchedulerStarted),
            Step::Scheduler(false) => self.send(Event::SchedulerStopped),
            Step::End(which) => {
                let subtask = subtasks[which.index(subtasks.len())];
                self.ended.insert(subtask);
                self.send(Event::SubtaskEnded { subtask });
            }
            Step::Settle(which) => self.settle(subtasks[which.index(subtasks.len())]),
            Step::Land => self.land(),
            Step::Claim => self.claim(),
            Step::Shutdown => self.send(Event::Shutdown),
        }
    }

    fn settle(&mut self, subtask: SubtaskId) {
        let is_there = self.ended.contains(&subtask) && !self.gone.contains(&subtask);
        if let Some(checkpoint) = self.completed.last().copied().filter(|_| is_there) {
            self.settled.insert(subtask, checkpoint);
            self.send(Event::SubtaskSettled { subtask, checkpoint });
        }
    }

    /// Calls of the log that are under way are never answered.
    fn hang(&mut self) {
        self.tasks.retain(|task| !matches!(task, Task::Append(..) | Task::Read(_)));
    }

    /// Everything works from now on: what was asked for is done, and time goes from deadline to deadline.
    fn heal(&mut self) {
        self.land();
        self.send(Event::SchedulerStarted);
        let before = self.completed.len();
        for _ in 0..1_000 {
            if self.is_over || (self.completed.len() > before && self.ended != self.config.subtasks()) {
                return;
            }
            if !self.tasks.is_empty() {
                let task = self.tasks.remove(0);
                self.carry(task, Fate::Well);
            } else if let Some(at_ms) = self.coordinator.next_deadline() {
                self.now_ms = at_ms;
                self.send(Event::Tick);
                for subtask in self.config.subtasks() {
                    self.settle(subtask);
                }
            } else {
                panic!("it waits for nothing");
            }
        }
        panic!("no checkpoint completes though everything works");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// Contract: J190, J195, J198, J199, J205, J213, V359.
    #[test]
    fn whatever_happens_the_promises_hold_and_it_goes_on_afterwards(
        steps in prop::collection::vec(step(), 0..250),
        max_concurrent in 1u32..4,
        retain in 1usize..4,
        timeout_ms in timeout_ms(),
        hangs in any::<bool>(),
    ) {
        let mut world = World::new(max_concurrent, retain, timeout_ms);
        for step in steps {
            world.step(step);
        }
        if hangs {
            world.hang();
        }
        world.heal();
        let view = LogView::replay(world.log.into_iter().collect(), retain).unwrap();
        prop_assert!(view.highest_completed() >= world.completed.last().copied());
    }

    /// Contract: J190, J195, J198, J199, J213.
    #[test]
    fn without_another_process_all_input_ends_in_a_finished_job(
        steps in prop::collection::vec(step(), 0..150),
        max_concurrent in 1u32..4,
        timeout_ms in timeout_ms(),
    ) {
        let mut world = World::new(max_concurrent, 1, timeout_ms);
        for step in steps.into_iter().filter(|step| !matches!(step, Step::Claim | Step::Shutdown)) {
            world.step(step);
        }
        for subtask in world.config.subtasks() {
            world.ended.insert(subtask);
            world.send(Event::SubtaskEnded { subtask });
        }
        world.heal();
        if world.has_given_up {
            return Ok(()); // the next attempt finishes it
        }
        prop_assert!(world.is_finished);
        // The world's log is one that a start can read, even if a write has landed long after it was given up.
        let view = LogView::replay(world.log.into_iter().collect(), 1).unwrap();
        prop_assert!(view.is_finished());
        prop_assert_eq!(view.highest_completed(), world.completed.last().copied());
    }
}
