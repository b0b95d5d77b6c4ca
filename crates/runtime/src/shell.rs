//! The shell around the coordinator: tells it what happens and does what it says. It decides nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_checkpoint::{
    Action, AttemptStart, CheckpointMetadata, Coordinator, CoordinatorConfig, EnumeratorState, Event, OperatorPlan,
    TaskPlan, decode_log_record, encode_log_record, encode_metadata, paths,
};
use highwater_state_api::{
    BoxedError, CheckpointId, CheckpointStorage, KEY_HASH_ID, MaxParallelism, ObjectPath, OperatorUid, StateHandle,
    StorageError, SubtaskId,
};
use tokio::sync::mpsc;

use crate::attempt::{AttemptEnd, Enumerators, assign_split};
use crate::control::{Control, ControlSender, Report};
use crate::driver::{Input, Job};
use crate::error::chain_of;
use crate::io_pool::IoPool;
use crate::job::Command;
use crate::split_gate::SplitGate;
use crate::{TaskError, failpoint};

/// The shell of one attempt.
pub(crate) struct Shell<'a> {
    job: &'a Job,
    coordinator: Coordinator,
    controls: BTreeMap<SubtaskId, ControlSender>,
    enumerators: Enumerators,
    gate: SplitGate,
    pool: IoPool,
    inputs: mpsc::Receiver<Input>,
    end: Option<AttemptEnd>,
    stopped: usize,
}

impl<'a> Shell<'a> {
    pub(crate) fn new(
        job: &'a Job,
        start: AttemptStart,
        max_parallelism: &BTreeMap<OperatorUid, MaxParallelism>,
        controls: BTreeMap<SubtaskId, ControlSender>,
        enumerators: Enumerators,
        pool: IoPool,
        inputs: mpsc::Receiver<Input>,
    ) -> Self {
        let coordinator = Coordinator::new(coordinator_config(job, max_parallelism), start);
        Self {
            job,
            coordinator,
            controls,
            enumerators,
            gate: SplitGate::default(),
            pool,
            inputs,
            end: None,
            stopped: 0,
        }
    }

    /// Drives the coordinator until the attempt is over.
    pub(crate) async fn run(&mut self, commands: &mut mpsc::Receiver<Command>) -> AttemptEnd {
        loop {
            if let Some(end) = self.end.take() {
                if !matches!(end, AttemptEnd::Finished) {
                    self.on_event(Event::Shutdown);
                }
                return end;
            }
            let deadline = self.coordinator.next_deadline();
            let wait_ms = deadline.map(|deadline| deadline.saturating_sub(self.job.clock.now().monotonic_ms));
            tokio::select! {
                biased;
                command = commands.recv(), if !commands.is_closed() => match command {
                    Some(Command::Cancel) => self.end = Some(AttemptEnd::Cancelled),
                    Some(Command::TriggerCheckpoint) => self.on_event(Event::TriggerRequested),
                    None => {}
                },
                input = self.inputs.recv() => match input {
                    Some(Input::Event(event)) => self.on_event(event),
                    Some(Input::Report(report)) => self.on_report(report),
                    // Every subtask holds a sender until it has reported how it ended, which ends this loop.
                    None => unreachable!("the subtasks went away without a report"),
                },
                () = sleep(wait_ms) => self.on_event(Event::Tick),
            }
        }
    }

    /// Waits until `expected` subtasks have stopped or failed; what else comes in is of no interest any more.
    pub(crate) async fn all_stopped(&mut self, expected: usize) {
        while self.stopped < expected {
            match self.inputs.recv().await {
                Some(Input::Report(Report::Stopped(_) | Report::Failed(..))) => self.stopped += 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    fn on_report(&mut self, report: Report) {
        match report {
            Report::Running(subtask) => self.on_event(Event::SubtaskRunning { subtask }),
            Report::Ended(subtask) => self.on_event(Event::SubtaskEnded { subtask }),
            Report::Settled(subtask, checkpoint) => self.on_event(Event::SubtaskSettled { subtask, checkpoint }),
            Report::SplitRequested(subtask) => {
                if self.gate.request(subtask) {
                    self.assign_split(subtask);
                }
            }
            Report::Acknowledged(acknowledgement) => {
                let (subtask, checkpoint) = (acknowledgement.subtask, acknowledgement.checkpoint);
                let has_waited = self.gate.acknowledged(subtask, checkpoint);
                self.on_event(Event::Acknowledged(acknowledgement));
                if has_waited {
                    self.assign_split(subtask);
                }
            }
            Report::Declined(decline) => self.on_event(Event::Declined(decline)),
            Report::Failed(subtask, error) => {
                self.stopped += 1;
                self.fail(subtask.task as usize, error);
            }
            Report::Stopped(_) => self.stopped += 1,
        }
    }

    fn fail(&mut self, task: usize, error: TaskError) {
        // The first failure is the cause; those that follow may be its consequences.
        self.end.get_or_insert(AttemptEnd::TaskFailed(self.job.graph.task_name(task), error));
    }

    fn assign_split(&mut self, subtask: SubtaskId) {
        let Some((uid, enumerator)) = self.enumerators.get_mut(&subtask.task) else { return };
        match enumerator.next_split(subtask.subtask) {
            Ok(split) => self.controls[&subtask].send(assign_split(split)),
            Err(source) => {
                let error = TaskError::user(uid, "find the next split")(source);
                self.fail(subtask.task as usize, error);
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        tracing::trace!(target: "highwater::protocol", ?event);
        let actions = self.coordinator.on_event(self.job.clock.now(), event);
        for action in actions {
            tracing::trace!(target: "highwater::protocol", ?action);
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::SnapshotEnumerators { checkpoint } => self.snapshot_enumerators(checkpoint),
            Action::TriggerSources { checkpoint, triggered_at_ms, subtasks } => {
                tracing::info!(target: "highwater::checkpoint", %checkpoint, "triggered");
                for subtask in subtasks {
                    self.controls[&subtask].send(Control::Trigger { checkpoint, triggered_at_ms });
                }
            }
            Action::WriteMetadata { checkpoint, path, metadata } => self.io(move |storage| async move {
                let answer = match write_metadata(&*storage, &path, &metadata).await {
                    Ok(metadata) => {
                        tracing::info!(target: "highwater::checkpoint", %checkpoint, "metadata written");
                        Event::MetadataWritten { checkpoint, metadata }
                    }
                    Err(error) => Event::MetadataFailed { checkpoint, cause: chain_of(&*error) },
                };
                Some(answer)
            }),
            Action::AppendLog { sequence, record } => {
                let path = paths::log_record(&self.job.name, sequence);
                self.io(move |storage| async move {
                    failpoint::hit(failpoint::BEFORE_LOG_APPEND);
                    let content = match encode_log_record(&record) {
                        Ok(content) => Bytes::from(content),
                        Err(error) => return Some(Event::LogUnknown { sequence, cause: chain_of(&error) }),
                    };
                    Some(match storage.create_if_absent(&path, content).await {
                        Ok(()) => Event::LogAppended { sequence },
                        Err(StorageError::AlreadyExists { .. }) => Event::LogTaken { sequence },
                        Err(error) => Event::LogUnknown { sequence, cause: chain_of(&error) },
                    })
                });
            }
            Action::ReadLog { sequence } => {
                let path = paths::log_record(&self.job.name, sequence);
                self.io(move |storage| async move {
                    let failed = |cause| Event::LogReadFailed { sequence, cause };
                    Some(match storage.read(&path).await {
                        Ok(bytes) => match decode_log_record(&bytes) {
                            Ok(record) => Event::LogRead { sequence, record: Some(record) },
                            Err(error) => failed(chain_of(&error)),
                        },
                        Err(StorageError::NotFound { .. }) => Event::LogRead { sequence, record: None },
                        Err(error) => failed(chain_of(&error)),
                    })
                });
            }
            Action::NotifyComplete { checkpoint } => {
                tracing::info!(target: "highwater::checkpoint", %checkpoint, "complete");
                let mut board = self.job.board.lock();
                // Repeated for the last checkpoint, until everybody has done what it allows.
                if board.status.last_checkpoint != Some(checkpoint) {
                    board.completed(checkpoint);
                }
                drop(board);
                self.controls.values().for_each(|control| control.send(Control::Complete(checkpoint)));
                self.open_gate(checkpoint);
            }
            Action::NotifyAborted { checkpoint, failure } => {
                tracing::warn!(target: "highwater::checkpoint", %checkpoint, %failure, "failed");
                self.job.board.lock().status.checkpoints_failed += 1;
                self.controls.values().for_each(|control| control.send(Control::Aborted(checkpoint)));
                self.open_gate(checkpoint);
            }
            Action::DiscardCheckpoint { folder } => self.io(move |storage| async move {
                log_failure("discard", &folder, storage.delete_folder(&folder).await);
                None
            }),
            Action::DiscardState { handles } => self.io(move |storage| async move {
                for path in handles.iter().filter_map(StateHandle::object) {
                    log_failure("discard", path, storage.delete(path).await);
                }
                None
            }),
            Action::TruncateLog { sequences } => {
                let records: Vec<ObjectPath> =
                    sequences.into_iter().map(|sequence| paths::log_record(&self.job.name, sequence)).collect();
                self.io(move |storage| async move {
                    for path in &records {
                        log_failure("truncate", path, storage.delete(path).await);
                    }
                    None
                });
            }
            Action::Finished => {
                tracing::info!(target: "highwater::job", job = %self.job.name, "finished");
                self.end = Some(AttemptEnd::Finished);
            }
            Action::Fail(failure) => {
                self.end.get_or_insert(AttemptEnd::CoordinatorFailed(failure));
            }
        }
    }

    /// Runs storage work on the pool; what it answers comes back as an event.
    fn io<F>(&self, work: impl FnOnce(Arc<dyn CheckpointStorage>) -> F)
    where
        F: Future<Output = Option<Event>> + Send + 'static,
    {
        let work = work(self.job.storage.clone());
        self.pool.submit(async move { work.await.map(Input::Event) });
    }

    fn snapshot_enumerators(&mut self, checkpoint: CheckpointId) {
        let mut states = Vec::with_capacity(self.enumerators.len());
        let mut failed = None;
        for (task, (uid, enumerator)) in &self.enumerators {
            match enumerator.snapshot() {
                Ok(state) => states.push(EnumeratorState { operator: uid.clone(), state: Bytes::from(state) }),
                Err(source) => failed = Some((*task, TaskError::user(uid, "snapshot its splits")(source))),
            }
        }
        if let Some((task, error)) = failed {
            self.fail(task as usize, error);
            return;
        }
        let readers = self.controls.keys().filter(|subtask| self.enumerators.contains_key(&subtask.task));
        self.gate.close(checkpoint, readers.copied());
        self.on_event(Event::EnumeratorsSnapshotted { checkpoint, states });
    }

    fn open_gate(&mut self, checkpoint: CheckpointId) {
        for subtask in self.gate.ended(checkpoint) {
            self.assign_split(subtask);
        }
    }
}

async fn sleep(wait_ms: Option<u64>) {
    match wait_ms {
        Some(wait_ms) => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
        None => std::future::pending().await,
    }
}

async fn write_metadata(
    storage: &dyn CheckpointStorage,
    path: &ObjectPath,
    metadata: &CheckpointMetadata,
) -> Result<StateHandle, BoxedError> {
    let content = encode_metadata(metadata)?;
    let mut upload = storage.create(path).await?;
    upload.write(Bytes::from(content)).await?;
    Ok(upload.finish().await?)
}

/// Left-overs are found again at the next start of the job.
fn log_failure(operation: &'static str, path: &ObjectPath, result: Result<(), StorageError>) {
    if let Err(error) = result {
        tracing::warn!(target: "highwater::checkpoint", operation, %path, error = chain_of(&error), "a clean-up failed");
    }
}

fn coordinator_config(job: &Job, max_parallelism: &BTreeMap<OperatorUid, MaxParallelism>) -> CoordinatorConfig {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let tasks = job.graph.tasks.iter().map(|task| TaskPlan {
        parallelism: task.parallelism,
        is_source: task.operators[0].source.is_some(),
        operators: task
            .operators
            .iter()
            .map(|operator| OperatorPlan { uid: operator.uid.clone(), max_parallelism: max_parallelism[&operator.uid] })
            .collect(),
    });
    CoordinatorConfig {
        job: job.name.clone(),
        interval_ms: job.config.checkpoint_interval.map(millis),
        timeout_ms: millis(job.config.checkpoint_timeout),
        min_pause_ms: millis(job.config.min_pause),
        max_concurrent: 1,
        tolerable_failures: job.config.tolerable_failures,
        retain: job.config.retain,
        key_hash: KEY_HASH_ID.to_owned(),
        tasks: tasks.collect(),
    }
}
