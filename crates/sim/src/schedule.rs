//! The scheduler: what can happen next, one of which the dice choose, and how it happens.

use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::{
    Action, CheckpointFailureReason, CheckpointRequest, Discard, Event, LogRecord, RequestId, paths,
    renewal_interval_ms,
};
use highwater_runtime::control::{Control, Report};
use highwater_runtime::{MasterEnd, Order, Step};
use highwater_state_api::{Attempt, CheckpointId, StateHandle, SubtaskId};

use crate::dice::Dice;
use crate::invariants::fencing::Actor;
use crate::invariants::{Violation, consistency, durable, progress};
use crate::planted::Planted;
use crate::process::{Process, Stepped};
use crate::view::CheckpointView;
use crate::work::{Kind, Outcome, Work};
use crate::world::World;

/// Of 1,000 steps of time, how many jump to the next deadline though something else could happen.
const JUMPS: u32 = 100;

/// In how many of 1,000 steps storage work that hangs may go on.
const COMES_BACK: u32 = 2;

/// In how many of 1,000 steps somebody may ask for a checkpoint.
const REQUESTS: u32 = 10;

/// Something that can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// A subtask steps.
    Step(SubtaskId),
    /// The oldest trigger or split reaches a subtask.
    Order(SubtaskId),
    /// A notification reaches a subtask.
    Notice(SubtaskId),
    /// The oldest report of a subtask reaches the master.
    Report(SubtaskId),
    /// What is said of a snapshot reaches the master.
    SnapshotReport(usize),
    /// A report of an earlier attempt reaches the master.
    Late(usize),
    /// An answer of the storage reaches the master.
    Answer(usize),
    /// Storage work goes on.
    Work(usize),
    /// The lease is renewed.
    Renewal,
    /// The start of an attempt goes on.
    Starting,
    /// Somebody goes on dropping checkpoints.
    Dropping(usize),
    /// The restart of a region goes on.
    Failover,
    /// The master's deadline has come.
    Tick,
    /// Records arrive for readers that wait for some.
    WakeSleepers,
    /// Somebody asks for a checkpoint.
    Request,
    /// Time goes on.
    Time,
}

impl World {
    /// One of the things that can happen does.
    pub(crate) fn step(&mut self) -> Result<(), Violation> {
        let is_asked = self.dice.chance(REQUESTS);
        let choices = self.choices(is_asked);
        let total: u64 = choices.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let mut drawn = self.dice.below(total);
        let mut chosen = Choice::Time;
        for (weight, choice) in &choices {
            if drawn < u64::from(*weight) {
                chosen = *choice;
                break;
            }
            drawn -= u64::from(*weight);
        }
        match chosen {
            // The old process waits as long as the new one has something to do.
            Choice::Time if self.is_old && !self.is_old_alone => Ok(()),
            Choice::Time => self.pass_time(choices.len() == 1),
            Choice::Work(index) => {
                if !self.hang(index) {
                    self.go_on_work(index);
                }
                Ok(())
            }
            Choice::Renewal => {
                self.renew_lease();
                Ok(())
            }
            Choice::Starting => self.go_on_starting(),
            Choice::Dropping(index) => {
                self.go_on_dropping(index);
                Ok(())
            }
            Choice::WakeSleepers => {
                self.surroundings.sleepers.wake();
                self.trace.write(self.now_ms, "world", "records arrive for readers that wait");
                Ok(())
            }
            chosen => self.act(chosen),
        }
    }

    fn choices(&mut self, is_asked: bool) -> Vec<(u32, Choice)> {
        let pace = self.scenario.pace;
        let mut choices = vec![(pace.time, Choice::Time)];
        let dice = &mut self.dice;
        let moves = |work: &Work, dice: &mut Dice| !work.hangs || dice.chance(COMES_BACK);
        let moving = self.works.iter().enumerate().filter(|(_, work)| moves(work, dice));
        choices.extend(moving.map(|(index, _)| (pace.storage, Choice::Work(index))));
        if self.is_starting() {
            choices.push((pace.storage, Choice::Starting));
        }
        choices.extend(self.droppings().map(|(weight, index)| (weight, Choice::Dropping(index))));
        let Some(process) = &self.process else { return choices };
        for (id, slot) in &process.slots {
            if slot.is_ready(self.time()) {
                choices.push((pace.subtask, Choice::Step(*id)));
            }
            if !slot.orders.is_empty() {
                choices.push((pace.control, Choice::Order(*id)));
            }
            if !slot.notices.is_empty() {
                choices.push((pace.control, Choice::Notice(*id)));
            }
            if !slot.reports.is_empty() {
                choices.push((pace.report, Choice::Report(*id)));
            }
        }
        choices.extend((0..process.reports.len()).map(|index| (pace.report, Choice::SnapshotReport(index))));
        choices.extend((0..process.answers.len()).map(|index| (pace.report, Choice::Answer(index))));
        choices.extend(self.late_choices(process));
        if process.master.next_deadline().is_some_and(|deadline| deadline <= self.now_ms) {
            choices.push((pace.report, Choice::Tick));
        }
        if process.renewals.is_some() && process.renewal_at_ms <= self.now_ms {
            choices.push((pace.storage, Choice::Renewal));
        }
        if process.failover.as_ref().is_some_and(|failover| failover.is_ready(process, self.now_ms)) {
            choices.push((pace.storage, Choice::Failover));
        }
        if self.surroundings.sleepers.any() {
            choices.push((1, Choice::WakeSleepers));
        }
        if is_asked {
            choices.push((pace.report, Choice::Request));
        }
        choices
    }

    /// Reports of earlier attempts come when they can do most harm: while a checkpoint of the same id is pending.
    fn late_choices(&self, process: &Process) -> Vec<(u32, Choice)> {
        let coordinator = process.master.coordinator();
        let mut choices = Vec::new();
        for (index, report) in self.late.iter().enumerate() {
            let checkpoint = match report {
                Report::Acknowledged(acknowledgement) => acknowledgement.checkpoint,
                Report::Declined(decline) => decline.checkpoint,
                _ => continue,
            };
            if coordinator.pending().any(|pending| pending == checkpoint) {
                choices.push((self.scenario.pace.report * 5, Choice::Late(index)));
            } else if checkpoint < coordinator.next_checkpoint() {
                choices.push((1, Choice::Late(index)));
            }
        }
        choices
    }

    /// Time goes on by a moment, or to the next deadline.
    fn pass_time(&mut self, nothing_else: bool) -> Result<(), Violation> {
        let deadline = self.process.as_ref().and_then(Process::next_deadline_ms);
        if nothing_else && self.process.is_some() && !self.is_old && deadline.is_none() {
            return Err(progress::stuck());
        }
        // To renew a lease is no progress.
        let renewal = self.process.as_ref().filter(|process| process.renewals.is_some()).map(|it| it.renewal_at_ms);
        let deadline = deadline.into_iter().chain(renewal).min();
        match deadline.filter(|deadline| *deadline > self.now_ms) {
            Some(deadline) if nothing_else || (!self.is_healed() && self.dice.chance(JUMPS)) => {
                self.now_ms = deadline;
                self.trace.write(self.now_ms, "world", "time jumps to the next deadline");
            }
            _ => self.now_ms += 1,
        }
        Ok(())
    }

    /// Storage work stands still from now on, sometimes; if it stood still, it goes on.
    fn hang(&mut self, index: usize) -> bool {
        let work = &mut self.works[index];
        if std::mem::take(&mut work.hangs) || !self.dice.chance(self.faults.hang) {
            return false;
        }
        work.hangs = true;
        self.may_leave_behind = true;
        self.coverage.count("hangs");
        self.trace.write(self.now_ms, "storage", format_args!("hangs: {} (attempt {})", work.name, work.attempt));
        true
    }

    /// Storage work goes on by one operation; what it results in is on its way then.
    pub(crate) fn go_on_work(&mut self, index: usize) {
        let mut work = self.works.swap_remove(index);
        self.actor = Some(self.actor_of(&mut work));
        let Some(outcome) = work.go_on() else { return self.works.push(work) };
        self.trace.write(self.now_ms, "storage", format_args!("done: {} (attempt {})", work.name, work.attempt));
        let process = self.process.as_mut().filter(|process| process.attempts.contains(&work.attempt));
        let is_of_before = process.as_ref().is_some_and(|process| process.attempt != work.attempt);
        match (outcome, process) {
            // Subtasks that go on report to the attempt that has taken them over, and their storage work is theirs.
            (Outcome::Report(report), Some(process)) => process.reports.push(report),
            (Outcome::Report(report), None) => self.keep_late(report),
            (Outcome::Answer(_) | Outcome::Renewed(..), Some(_)) if is_of_before => {}
            (Outcome::Answer(Some(event)), Some(process)) => process.answers.push(event),
            (Outcome::Answer(_), _) => {}
            (Outcome::Renewed(renewals, event), Some(process)) => {
                self.coverage.count("renewals");
                process.answers.extend(event);
                process.renewals = Some(renewals);
            }
            (Outcome::Renewed(..), None) => {}
        }
    }

    fn renew_lease(&mut self) {
        let Some(process) = &mut self.process else { return };
        let Some(renewals) = process.renewals.take() else { return };
        process.renewal_at_ms = self.now_ms + renewal_interval_ms(self.scenario.lease_ms);
        self.works.push(Work::renewal(process.attempt, renewals));
    }

    /// Who acts when the work goes on. It is as fenced as it was when it began.
    pub(crate) fn actor_of(&self, work: &mut Work) -> Actor {
        let is_fenced = self.is_to_do_nothing(work.attempt);
        Actor { attempt: work.attempt, begun_fenced: *work.begun_fenced.get_or_insert(is_fenced) }
    }

    /// Something happens in the process.
    fn act(&mut self, chosen: Choice) -> Result<(), Violation> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let is_fenced = self.is_to_do_nothing(process.attempt);
        let begun_fenced = match &mut process.failover {
            Some(failover) if chosen == Choice::Failover => failover.note_fenced(is_fenced),
            _ => is_fenced,
        };
        self.actor = Some(Actor { attempt: process.attempt, begun_fenced });
        let orders = match chosen {
            Choice::Failover => self.go_on_failing_over(&mut process)?,
            chosen => self.happen(&mut process, chosen),
        };
        self.obey(&mut process, orders)?;
        for snapshot in process.snapshots.take() {
            self.works.push(Work::snapshot(self.storage.clone(), snapshot));
        }
        match process.end.take() {
            None => {
                self.process = Some(process);
                Ok(())
            }
            Some(end) => self.end(process, end),
        }
    }

    fn happen(&mut self, process: &mut Process, chosen: Choice) -> Vec<Order> {
        let (now, time) = (self.now(), self.time());
        match chosen {
            Choice::Step(id) => {
                self.step_subtask(process, id, time);
                Vec::new()
            }
            Choice::Order(id) => {
                let Some(message) = process.slots.get_mut(&id).and_then(|slot| slot.orders.pop_front()) else {
                    return Vec::new();
                };
                self.deliver(process, id, message);
                Vec::new()
            }
            Choice::Notice(id) => {
                let Some(slot) = process.slots.get_mut(&id) else { return Vec::new() };
                let index = self.dice.below(slot.notices.len() as u64) as usize;
                let message = slot.notices.swap_remove(index);
                self.deliver(process, id, message);
                Vec::new()
            }
            Choice::Report(id) => match process.slots[&id].reports.take() {
                Some(report) => self.report(process, report),
                None => Vec::new(),
            },
            Choice::SnapshotReport(index) => {
                let report = process.reports.swap_remove(index);
                self.report(process, report)
            }
            Choice::Late(index) => {
                let report = self.late.swap_remove(index);
                self.coverage.count("late reports of earlier attempts");
                self.report(process, report)
            }
            Choice::Answer(index) => {
                let event = process.answers.swap_remove(index);
                self.trace.write(self.now_ms, "master", format_args!("hears {}", describe_event(&event)));
                process.master.on_event(now, event)
            }
            Choice::Tick => process.master.on_event(now, Event::Tick),
            Choice::Request => {
                self.trace.write(self.now_ms, "master", "is asked for a checkpoint");
                let id = RequestId(process.requested);
                process.requested += 1;
                process.master.on_event(now, Event::CheckpointRequested { id, request: CheckpointRequest::default() })
            }
            Choice::Work(_)
            | Choice::Renewal
            | Choice::Starting
            | Choice::Failover
            | Choice::Dropping(_)
            | Choice::WakeSleepers
            | Choice::Time => Vec::new(),
        }
    }

    fn step_subtask(&mut self, process: &mut Process, id: SubtaskId, time: Duration) {
        let Some(slot) = process.slots.get_mut(&id) else { return };
        let records_max = self.dice.pick(&[1, 1, 1, 2, 4, 1_000]);
        let stepped = slot.step(time, records_max);
        match &stepped {
            Stepped::Opened => self.trace.write(self.now_ms, &slot.name, "has restored its state"),
            Stepped::Step(Step::Progress) => {
                self.trace.write(self.now_ms, &slot.name, format_args!("step of {records_max}"));
            }
            Stepped::Step(Step::Waits(until)) => match until {
                Some(until) => {
                    self.trace.write(self.now_ms, &slot.name, format_args!("waits until {} ms", until.as_millis()));
                }
                None => self.trace.write(self.now_ms, &slot.name, "waits"),
            },
            Stepped::Step(Step::Stopped) => self.trace.write(self.now_ms, &slot.name, "stopped"),
            Stepped::Failed(error) => self.trace.write(self.now_ms, &slot.name, format_args!("failed: {error}")),
        }
    }

    /// A message reaches a subtask, or is lost.
    fn deliver(&mut self, process: &Process, id: SubtaskId, message: Control) {
        let slot = &process.slots[&id];
        let (rate, lost) = match &message {
            Control::Trigger { .. } => (self.faults.lost_trigger, "lost: triggers"),
            Control::Complete(_) => (self.faults.lost_notice, "lost: complete"),
            Control::Aborted { .. } => (self.faults.lost_notice, "lost: aborted"),
            Control::Subsumed(_) => (self.faults.lost_notice, "lost: subsumed"),
            _ => (0, ""),
        };
        let what = describe_control(&message);
        if self.dice.chance(rate) {
            self.coverage.count(lost);
            self.trace.write(self.now_ms, &slot.name, format_args!("is never told: {what}"));
            return;
        }
        self.trace.write(self.now_ms, &slot.name, format_args!("is told: {what}"));
        slot.deliver(message);
    }

    /// A report reaches the master, or is lost.
    fn report(&mut self, process: &mut Process, mut report: Report) -> Vec<Order> {
        let (rate, lost) = match &report {
            Report::Acknowledged(_) => (self.faults.lost_answer, "lost: acknowledgements"),
            Report::Declined(_) => (self.faults.lost_answer, "lost: declines"),
            Report::Settled(..) => (self.faults.lost_settled, "lost: settled"),
            _ => (0, ""),
        };
        let what = describe_report(&report);
        if self.dice.chance(rate) {
            self.coverage.count(lost);
            self.may_leave_behind = true;
            self.trace.write(self.now_ms, "master", format_args!("never hears: {what}"));
            return Vec::new();
        }
        self.trace.write(self.now_ms, "master", format_args!("hears: {what}"));
        if let Some(planted) = self.planted {
            planted.tamper(&mut report, process.attempt);
        }
        let added = self.planted.and_then(|planted| planted.adds(&report));
        let mut orders = process.master.on_report(self.now(), report);
        orders.extend(added.into_iter().flat_map(|report| process.master.on_report(self.now(), report)));
        orders
    }

    /// Whether another attempt has claimed the job.
    fn is_fenced(&self, attempt: Attempt) -> bool {
        self.ids.claimed().is_some_and(|claimed| claimed > attempt)
    }

    /// Whether an attempt must not begin anything any more. The next attempt of the same process does not wait until the lease
    /// of this one has run out: within it only the claims of others count. One that takes its subtasks over does not stop it.
    fn is_to_do_nothing(&self, attempt: Attempt) -> bool {
        let nonce = self.claims.get(&attempt);
        let mut later = self.claims.range(attempt..).skip(1);
        let is_strict = self.scenario.lease_ms == 0;
        later.any(|(by, claim)| Some(claim) != nonce || is_strict && !self.takeovers.contains(by))
    }

    pub(crate) fn obey(&mut self, process: &mut Process, orders: Vec<Order>) -> Result<(), Violation> {
        for order in orders {
            match order {
                Order::Tell(_, Control::Adopt(_)) if self.planted == Some(Planted::SurvivorsNotAdopted) => {}
                Order::Tell(id, message) => {
                    if let Control::Trigger { checkpoint, .. } = &message {
                        self.ids.triggered(process.attempt, *checkpoint)?;
                        self.coverage.count("triggers");
                    }
                    if message == Control::Finish {
                        self.coverage.count("subtasks that have finished before the job");
                        self.tempt_fate();
                    }
                    if let Some(slot) = process.slots.get_mut(&id) {
                        slot.send(message);
                    }
                }
                Order::Store(mut action) => {
                    if self.planted == Some(Planted::RetentionDeletesTheNewest) {
                        self.discard_newest(&mut action);
                    }
                    if self.planted == Some(Planted::CommitBeforeLog) {
                        commit_early(process, &action);
                    }
                    let work = Work::action(&self.storage, &self.job, process, action, self.planted);
                    if matches!(work.kind, Kind::Metadata | Kind::Publication) {
                        self.tempt_fate();
                    }
                    if work.kind != Kind::Discard {
                        self.trace.write(self.now_ms, "master", format_args!("orders: {}", work.name));
                    }
                    self.works.push(work);
                }
                Order::LogSilent { sequence, waited_ms } => {
                    self.coverage.count("hangs: the log has not answered in time");
                    let silence = format_args!("has no answer about log {sequence} after {waited_ms} ms");
                    self.trace.write(self.now_ms, "master", silence);
                    if self.planted == Some(Planted::SilenceTakenForSuccess) {
                        process.answers.push(Event::LogAppended { sequence });
                    }
                }
                Order::TriggerHooks(..) => unreachable!("the simulated job has no hooks"),
                Order::Answer(request, answer) => {
                    let answer = answer.map_or_else(|failure| failure.to_string(), |checkpoint| checkpoint.to_string());
                    self.trace.write(self.now_ms, "master", format_args!("answers request {}: {answer}", request.0));
                }
                Order::Completed(checkpoint) => {
                    self.trace.write(self.now_ms, "master", format_args!("checkpoint {checkpoint} is complete"));
                    process.failures.completed(checkpoint);
                    // What a fenced attempt hears late may have been superseded and deleted long ago.
                    let is_to_be_read =
                        !self.is_fenced(process.attempt) && !self.completed.is_damaged(process.attempt, checkpoint);
                    if !self.told.insert((process.attempt, checkpoint)) {
                        return Err(progress::unexpected(format!("checkpoint {checkpoint} is complete twice")));
                    }
                    if is_to_be_read {
                        self.coverage.count("checkpoints completed");
                        self.tempt_fate();
                        let metadata =
                            durable::check_told(&self.storage, &self.completed, process.attempt, checkpoint)?;
                        for pipeline in &self.surroundings.pipelines {
                            let view = CheckpointView::read(&self.storage, &metadata, pipeline.uids)
                                .map_err(|error| Violation::new("I1 consistency", error))?;
                            consistency::check(pipeline, &view)?;
                        }
                    }
                }
                Order::Failed(checkpoint) => {
                    self.coverage.count("checkpoints failed");
                    let reason = process.failure_of(checkpoint);
                    let name = reason.map_or("no reason", CheckpointFailureReason::name);
                    self.trace.write(self.now_ms, "master", format_args!("checkpoint {checkpoint} has failed: {name}"));
                    self.coverage.count(match reason {
                        Some(CheckpointFailureReason::Expired) => "checkpoints failed: expired",
                        Some(CheckpointFailureReason::Declined) => "checkpoints failed: declined",
                        Some(CheckpointFailureReason::Subsumed) => "checkpoints failed: subsumed",
                        _ => "checkpoints failed: otherwise",
                    });
                    reason.into_iter().for_each(|reason| process.failures.failed(checkpoint, reason));
                    if self.planted == Some(Planted::SubsumedPendingCompletes)
                        && reason == Some(CheckpointFailureReason::Subsumed)
                    {
                        self.works.push(self.complete_subsumed(process, checkpoint));
                    }
                }
                Order::End(MasterEnd::RegionFailed(task, error, tasks)) if process.end.is_none() => {
                    self.region_failed(process, (task, error), tasks)?;
                }
                Order::End(end) => {
                    process.end.get_or_insert(end);
                }
            }
        }
        process.failures.check(process.end.is_some())
    }

    /// What is left to do of an attempt that ends.
    pub(crate) fn store(&mut self, process: &Process, order: Order) {
        if let Order::Store(action) = order {
            let work = Work::action(&self.storage, &self.job, process, action, self.planted);
            self.works.push(work);
        }
    }

    /// Planted: the record of a checkpoint that was subsumed is written behind that of the newer one.
    fn complete_subsumed(&self, process: &Process, checkpoint: CheckpointId) -> Work {
        let paths = self.storage.peek_paths();
        let last = paths.iter().filter_map(|path| paths::sequence_of(&self.job, path)).max().unwrap_or(0);
        let metadata = StateHandle::Inline(Bytes::new());
        let attempt = process.attempt;
        let record = LogRecord::Completed { attempt, checkpoint, metadata };
        let action = Action::AppendLog { sequence: last + 1, record };
        Work::action(&self.storage, &self.job, process, action, self.planted)
    }
}

impl World {
    /// Planted: what is no longer retained stays, and the newest checkpoint goes.
    fn discard_newest(&self, action: &mut Action) {
        if let Action::Discard { discard: Discard::Folder(folder), .. } = action
            && let Some(id) = paths::checkpoint_of(&self.job, folder)
            && self.completed.contains(id)
            && let [(attempt, checkpoint, _)] = self.completed.newest(1)
        {
            *folder = paths::checkpoint_folder(&self.job, *attempt, *checkpoint);
        }
    }
}

/// Planted: subtasks are told of a checkpoint when its record is about to be written.
fn commit_early(process: &mut Process, action: &Action) {
    if let Action::AppendLog { record: LogRecord::Completed { checkpoint, .. }, .. } = action {
        process.slots.values_mut().for_each(|slot| slot.send(Control::Complete(*checkpoint)));
    }
}

fn describe_control(message: &Control) -> String {
    match message {
        Control::Trigger { checkpoint, .. } => format!("take checkpoint {checkpoint}"),
        Control::AllRunning => "every subtask runs".to_owned(),
        Control::Complete(checkpoint) => format!("checkpoint {checkpoint} is complete"),
        Control::Aborted { checkpoint, .. } => format!("checkpoint {checkpoint} will never complete"),
        Control::Subsumed(checkpoint) => format!("checkpoint {checkpoint} is subsumed"),
        Control::AddSplit(_) => "read another split".to_owned(),
        Control::NoMoreSplits => "there are no more splits".to_owned(),
        Control::Adopt(attempt) => format!("attempt {attempt} takes it over"),
        Control::Finish => "its task has finished".to_owned(),
        Control::Cancel => "stop".to_owned(),
    }
}

fn describe_report(report: &Report) -> String {
    match report {
        Report::Running(id) => format!("{id} runs"),
        Report::Ended(id) => format!("{id} has ended"),
        Report::Adopted(id) => format!("{id} was taken over"),
        Report::Settled(id, checkpoint) => format!("{id} has settled checkpoint {checkpoint}"),
        Report::SplitRequested(id) => format!("{id} wants a split"),
        Report::Acknowledged(it) => {
            format!("{} acknowledges checkpoint {} (attempt {})", it.subtask, it.checkpoint, it.attempt)
        }
        Report::Declined(it) => {
            format!(
                "{} declines checkpoint {} (attempt {}): {:?}",
                it.subtask, it.checkpoint, it.attempt, it.failure.reason
            )
        }
        Report::Failed(id, _) => format!("{id} has failed"),
        Report::Stopped(id) => format!("{id} has stopped"),
    }
}

fn describe_event(event: &Event) -> String {
    match event {
        Event::MetadataWritten { checkpoint, .. } => format!("the metadata of checkpoint {checkpoint} is written"),
        Event::MetadataFailed { checkpoint, .. } => format!("the metadata of checkpoint {checkpoint} is not written"),
        Event::LogAppended { sequence } => format!("log {sequence} is written"),
        Event::LogTaken { sequence } => format!("log {sequence} is taken"),
        Event::LogUnknown { sequence, .. } => format!("nobody knows about log {sequence}"),
        Event::LogRead { sequence, record } => format!("log {sequence} is {record:?}"),
        Event::LogReadFailed { sequence, .. } => format!("log {sequence} cannot be read"),
        other => format!("{other:?}"),
    }
}
