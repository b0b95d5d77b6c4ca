//! How the tests talk to a coordinator: a script of events as text in, a transcript of events and actions as text out.
//!
//! The job has a source and a counter with two subtasks each. Time is the number behind `@`, in milliseconds.

use std::collections::VecDeque;
use std::fmt::Write;

use bytes::Bytes;
use highwater_state_api::{
    Attempt, CheckpointId, Checksum, JobName, KeyedStateHandle, MaxParallelism, ObjectPath, OperatorUid, StateHandle,
    SubtaskId,
};

use crate::{
    Acknowledgement, Action, AttemptStart, CheckpointFailure, CheckpointFailureReason, CheckpointMetrics,
    CheckpointRequest, CompletedCheckpoint, Coordinator, CoordinatorConfig, Decline, Discard, EnumeratorState, Event,
    HookState, LogRecord, Now, OperatorPlan, OperatorSnapshot, RequestId, SubtaskSnapshot, TaskPlan, paths,
};

pub(crate) const ATTEMPT: Attempt = Attempt(5);

pub(crate) fn job() -> JobName {
    JobName::new("job").unwrap()
}

pub(crate) fn uid(uid: &str) -> OperatorUid {
    OperatorUid::new(uid).unwrap()
}

pub(crate) fn config() -> CoordinatorConfig {
    let groups = MaxParallelism::new(128).unwrap();
    let task = |operator: &str, is_source| TaskPlan {
        parallelism: 2,
        is_source,
        upstream: if is_source { Vec::new() } else { vec![0] },
        group: u32::from(!is_source),
        finished: false,
        operators: vec![OperatorPlan { uid: uid(operator), max_parallelism: groups }],
    };
    CoordinatorConfig {
        job: job(),
        interval_ms: Some(1_000),
        timeout_ms: 600,
        min_pause_ms: 0,
        max_concurrent: 1,
        tolerable_failures: u32::MAX,
        checkpoints_after_tasks_finish: true,
        retain: 1,
        key_hash: "a-hash".to_owned(),
        tasks: vec![task("source", true), task("counter", false)],
    }
}

pub(crate) fn start() -> AttemptStart {
    AttemptStart { attempt: ATTEMPT, first_checkpoint: CheckpointId(1), next_sequence: 6, retained: Vec::new() }
}

pub(crate) fn object(path: ObjectPath) -> StateHandle {
    StateHandle::Object { path, length: 3, checksum: Checksum::of(b"abc") }
}

pub(crate) fn metadata_handle(attempt: Attempt, checkpoint: CheckpointId) -> StateHandle {
    object(paths::checkpoint_metadata(&job(), attempt, checkpoint))
}

pub(crate) fn completed(sequence: u64, attempt: u64, checkpoint: u64) -> CompletedCheckpoint {
    let (attempt, checkpoint) = (Attempt(attempt), CheckpointId(checkpoint));
    CompletedCheckpoint { sequence, attempt, checkpoint, metadata: metadata_handle(attempt, checkpoint) }
}

pub(crate) fn subtask(task: u32, subtask: u32) -> SubtaskId {
    SubtaskId { task, subtask }
}

/// The acknowledgement of a subtask; counters have keyed state, sources have none.
pub(crate) fn acknowledgement(attempt: Attempt, checkpoint: CheckpointId, subtask: SubtaskId) -> Acknowledgement {
    let operator = uid(if subtask.task == 0 { "source" } else { "counter" });
    let keyed = (subtask.task != 0).then(|| KeyedStateHandle {
        range: MaxParallelism::new(128).unwrap().range_of(subtask.subtask.min(1), 2),
        tables: Vec::new(),
        parts: Vec::new(),
        state: object(paths::state_object(&job(), attempt, checkpoint, &operator, subtask.subtask)),
    });
    let snapshot = OperatorSnapshot { keyed, ..OperatorSnapshot::default() };
    let snapshot = SubtaskSnapshot { operators: vec![(operator, snapshot)] };
    let bytes = snapshot.state_bytes();
    let metrics = CheckpointMetrics {
        bytes_persisted_of_this_checkpoint: bytes,
        total_bytes_persisted: bytes,
        ..CheckpointMetrics::default()
    };
    Acknowledgement { job: job(), attempt, checkpoint, subtask, snapshot, metrics }
}

pub(crate) fn enumerated(checkpoint: CheckpointId) -> Event {
    let states = vec![EnumeratorState { operator: uid("source"), state: Bytes::from_static(b"splits") }];
    Event::EnumeratorsSnapshotted { checkpoint, states }
}

/// Runs a script. Each line is `[@TIME] [EVENT [ARGUMENTS]]`; a time is a tick of its own, before the event.
///
/// The places of checkpoints are made ready at once and without a word, unless the first line is `by-hand`.
pub(crate) fn run(coordinator: &mut Coordinator, script: &str) -> String {
    run_observed(coordinator, script, |_, _, _| ())
}

/// Runs a script before the eyes of somebody who is shown each event with the actions that follow from it.
pub(crate) fn run_observed(
    coordinator: &mut Coordinator,
    script: &str,
    mut look: impl FnMut(Now, &Event, &[Action]),
) -> String {
    let mut transcript = String::new();
    let mut now_ms = 0;
    let mut last_append = None;
    let mut lines = script.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let by_hand = lines.next_if_eq(&"by-hand").is_some();
    for line in lines {
        writeln!(transcript, "{line}").unwrap();
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(time) = words[0].strip_prefix('@') {
            now_ms = time.parse().unwrap();
            words.remove(0);
        }
        let tick = line.starts_with('@').then_some(Event::Tick);
        let mut events: VecDeque<Event> = tick.into_iter().chain(events(&words, last_append.as_ref())).collect();
        while let Some(event) = events.pop_front() {
            let actions = coordinator.on_event(now(now_ms), event.clone());
            look(now(now_ms), &event, &actions);
            for action in actions {
                if let Action::InitializeLocation { checkpoint, .. } = action
                    && !by_hand
                {
                    events.push_front(Event::LocationInitialized { checkpoint });
                    continue;
                }
                writeln!(transcript, "    {}", describe(&action)).unwrap();
                match action {
                    Action::AppendLog { record, .. } => last_append = Some(record),
                    // Deletions succeed at once.
                    Action::Discard { id, .. } => events.push_back(Event::Discarded { id }),
                    _ => {}
                }
            }
        }
    }
    match coordinator.next_deadline() {
        Some(at_ms) => writeln!(transcript, "deadline: {at_ms}").unwrap(),
        None => writeln!(transcript, "no deadline").unwrap(),
    }
    transcript
}

/// Monotonic and wall clock differ, so that a mix-up shows.
pub(crate) fn now(monotonic_ms: u64) -> Now {
    Now { monotonic_ms, wall_clock_ms: 1_000_000 + monotonic_ms }
}

fn events(words: &[&str], last_append: Option<&LogRecord>) -> Vec<Event> {
    let all = || config().subtasks().into_iter();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    let checkpoint = || CheckpointId(number(1));
    let cause = || if words.len() > 2 { words[2..].join(" ") } else { "time-out".to_owned() };
    let one = |index: usize| {
        let (task, index) = words[index].split_once('/').unwrap();
        subtask(task.parse().unwrap(), index.parse().unwrap())
    };
    let Some(event) = words.first() else { return Vec::new() };
    match *event {
        "running" => all().map(|subtask| Event::SubtaskRunning { subtask }).collect(),
        "running-only" => vec![Event::SubtaskRunning { subtask: one(1) }],
        "ended" => all().map(|subtask| Event::SubtaskEnded { subtask }).collect(),
        "ended-only" => vec![Event::SubtaskEnded { subtask: one(1) }],
        "settled" => all().map(|subtask| Event::SubtaskSettled { subtask, checkpoint: checkpoint() }).collect(),
        "settled-only" => vec![Event::SubtaskSettled { subtask: one(2), checkpoint: checkpoint() }],
        "request" => {
            let request =
                CheckpointRequest { forced: words.contains(&"forced"), periodic: words.contains(&"periodic") };
            let id = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
            vec![Event::CheckpointRequested { id: RequestId(id), request }]
        }
        "backlog" => vec![Event::BacklogChanged { is_processing_backlog: words[1] == "on" }],
        "start-scheduler" => vec![Event::SchedulerStarted],
        "stop-scheduler" => vec![Event::SchedulerStopped],
        "located" => vec![Event::LocationInitialized { checkpoint: checkpoint() }],
        "location-failed" => vec![Event::LocationFailed { checkpoint: checkpoint(), cause: cause() }],
        "enumerator-failed" => {
            let (checkpoint, operator) = (checkpoint(), uid("source"));
            vec![Event::EnumeratorFailed { checkpoint, operator, cause: cause() }]
        }
        "hooks" => {
            let state = |word: &&str| HookState { identifier: (*word).to_owned(), state: Bytes::from_static(b"state") };
            vec![Event::HooksTriggered { checkpoint: checkpoint(), states: words[2..].iter().map(state).collect() }]
        }
        "hook-failed" => {
            let (checkpoint, identifier) = (checkpoint(), Some("session".to_owned()));
            vec![Event::HookFailed { checkpoint, identifier, cause: cause() }]
        }
        "hooks-not-called" => {
            vec![Event::HookFailed { checkpoint: checkpoint(), identifier: None, cause: cause() }]
        }
        "task-failed" => vec![Event::TaskFailed { subtask: one(1), cause: cause() }],
        "region-failed" => vec![Event::RegionFailed { subtask: one(1), cause: cause() }],
        "enumerated" => vec![enumerated(checkpoint())],
        "ack" => all().map(|one| Event::Acknowledged(acknowledgement(ATTEMPT, checkpoint(), one))).collect(),
        "ack-only" => vec![Event::Acknowledged(acknowledgement(ATTEMPT, checkpoint(), one(2)))],
        "ack-of-attempt" => {
            vec![Event::Acknowledged(acknowledgement(Attempt(number(3)), checkpoint(), one(2)))]
        }
        "decline" => {
            let reason = match words[3] {
                "subsumed" => CheckpointFailureReason::DeclinedSubsumed,
                "snapshot" => CheckpointFailureReason::Declined,
                "async" => CheckpointFailureReason::AsyncException,
                name => CheckpointFailureReason::all().find(|reason| reason.name() == name).unwrap(),
            };
            let message = if words.len() > 4 { words[4..].join(" ") } else { "disk full".to_owned() };
            let failure = CheckpointFailure::new(reason, message);
            let (job, attempt, checkpoint, subtask) = (job(), ATTEMPT, checkpoint(), one(2));
            vec![Event::Declined(Decline { job, attempt, checkpoint, subtask, failure })]
        }
        "written" => {
            let metadata = metadata_handle(ATTEMPT, checkpoint());
            vec![Event::MetadataWritten { checkpoint: checkpoint(), metadata }]
        }
        "write-failed" => {
            vec![Event::MetadataFailed { checkpoint: checkpoint(), cause: "disk full".to_owned() }]
        }
        "appended" => vec![Event::LogAppended { sequence: number(1) }],
        "taken" => vec![Event::LogTaken { sequence: number(1) }],
        "unknown" => vec![Event::LogUnknown { sequence: number(1), cause: cause() }],
        "read-own" => vec![Event::LogRead { sequence: number(1), record: last_append.cloned() }],
        "read-none" => vec![Event::LogRead { sequence: number(1), record: None }],
        "read-claim" => {
            let record = Some(LogRecord::Claim { nonce: 9, first_checkpoint: CheckpointId(9) });
            vec![Event::LogRead { sequence: number(1), record }]
        }
        "read-failed" => vec![Event::LogReadFailed { sequence: number(1), cause: cause() }],
        "shutdown" => vec![Event::Shutdown],
        other => panic!("no event {other}"),
    }
}

pub(crate) fn describe(action: &Action) -> String {
    match action {
        Action::InitializeLocation { folder, .. } => format!("initialize {folder}"),
        Action::SnapshotEnumerators { checkpoint } => format!("snapshot enumerators for {checkpoint}"),
        Action::TriggerSubtasks { checkpoint, triggered_at_ms, subtasks, .. } => {
            let subtasks = subtasks.iter().map(SubtaskId::to_string).collect::<Vec<_>>().join(" ");
            format!("trigger {checkpoint} of {triggered_at_ms} at {subtasks}")
        }
        Action::TriggerHooks { checkpoint, .. } => format!("trigger hooks for {checkpoint}"),
        Action::FinishSubtasks { subtasks } => {
            format!("finish {}", subtasks.iter().map(SubtaskId::to_string).collect::<Vec<_>>().join(" "))
        }
        Action::WriteMetadata { path, metadata, hooks, .. } => {
            let operators = metadata.operators.iter().map(|operator| {
                let subtasks = operator.subtasks.len();
                if operator.finished {
                    format!("{} finished", operator.uid)
                } else {
                    format!("{} × {subtasks}", operator.uid)
                }
            });
            let hooks = hooks.iter().map(|hook| format!("hook {}", hook.identifier));
            format!("write {path}: {}", operators.chain(hooks).collect::<Vec<_>>().join(", "))
        }
        Action::AppendLog { sequence, record } => format!("append {sequence}: {}", describe_record(record)),
        Action::ReadLog { sequence } => format!("read {sequence}"),
        Action::ReportLogSilence { sequence, waited_ms } => format!("report silence about {sequence} for {waited_ms}"),
        Action::NotifyComplete { checkpoint } => format!("notify complete {checkpoint}"),
        Action::NoteComplete { checkpoint } => format!("note complete {checkpoint}"),
        Action::NotifyAborted { checkpoint, failure, latest_complete } => {
            let latest = latest_complete.map_or("none".to_owned(), |latest| latest.to_string());
            format!("notify aborted {checkpoint}: {failure} (latest complete: {latest})")
        }
        Action::RequestFailed { request, failure } => {
            format!("request {} fails, {}: {failure}", request.0, failure.reason.name())
        }
        Action::RequestCompleted { request, checkpoint } => format!("request {} got {checkpoint}", request.0),
        Action::NotifySubsumed { checkpoint } => format!("notify subsumed {checkpoint}"),
        Action::Discard { discard: Discard::Folder(folder), .. } => format!("discard {folder}"),
        Action::Discard { discard: Discard::Objects(paths), .. } => {
            format!("discard {}", paths.iter().map(ObjectPath::as_str).collect::<Vec<_>>().join(" "))
        }
        Action::Finished => "finished".to_owned(),
        Action::Fail(failure) => format!("fail: {failure}"),
    }
}

fn describe_record(record: &LogRecord) -> String {
    match record {
        LogRecord::Claim { first_checkpoint, .. } => format!("claim, first checkpoint {first_checkpoint}"),
        LogRecord::Completed { attempt, checkpoint, metadata } => {
            let metadata = metadata.object().map_or("inline", ObjectPath::as_str);
            format!("completed {checkpoint} by attempt {attempt}, {metadata}")
        }
        LogRecord::Finished { attempt } => format!("finished by attempt {attempt}"),
        LogRecord::Dropped { .. } => unreachable!("a coordinator drops nothing"),
    }
}
