//! A transaction that is lost, or of which nobody knows any more, stops the job and is not forgotten.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::prelude::*;
use highwater::runtime::TaskError;
use highwater::state::{Attempt, CheckpointId};
use highwater::stream::{CommitError, SinkContext, SinkWriter};
use serde::{Deserialize, Serialize};

use crate::support::{environment, storage, text};

const NUMBERS: u64 = 20;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Numbers {
    attempt: Attempt,
    numbers: Vec<u64>,
}

/// Commits to a set, unless `fails` says otherwise.
#[derive(Clone)]
struct SetSink {
    committed: Arc<Mutex<BTreeSet<Numbers>>>,
    fails: fn() -> Option<CommitError>,
    timeout: Option<Duration>,
}

impl SetSink {
    fn new() -> Self {
        Self { committed: Arc::default(), fails: || None, timeout: None }
    }
}

struct Writer(Numbers);

impl Sink for SetSink {
    type In = u64;
    type Transaction = Numbers;
    type Writer = Writer;

    fn create_writer(&self, cx: &SinkContext) -> Result<Writer> {
        Ok(Writer(Numbers { attempt: cx.attempt, numbers: Vec::new() }))
    }

    fn commit(&self, transaction: &Numbers) -> Result<(), CommitError> {
        if let Some(error) = (self.fails)() {
            return Err(error);
        }
        self.committed.lock().unwrap().insert(transaction.clone());
        Ok(())
    }

    fn transaction_timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl SinkWriter for Writer {
    type In = u64;
    type Transaction = Numbers;

    fn write(&mut self, number: u64, _: Timestamp) -> Result<()> {
        self.0.numbers.push(number);
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Option<Numbers>> {
        let empty = Numbers { attempt: self.0.attempt, numbers: Vec::new() };
        let written = std::mem::replace(&mut self.0, empty);
        Ok((!written.numbers.is_empty()).then_some(written))
    }
}

fn run(env: &StreamExecutionEnvironment, sink: &SetSink) -> Result<JobResult, JobError> {
    env.from_source(SequenceSource::new(0..NUMBERS)).sink_to(sink.clone()).uid("target");
    env.execute()
}

/// Contract: R314, R316.
#[test]
fn and_is_committed_when_the_job_is_started_again() {
    let storage = storage();
    let sink = SetSink::new();
    let env = environment("lossy", storage.clone());
    let error = run(&env, &SetSink { fails: || Some(CommitError::Lost("it is not there".into())), ..sink.clone() });
    // More than once, so that the transaction is also kept by an attempt that could do nothing about it.
    let env = environment("lossy", storage.clone());
    let again = run(&env, &SetSink { fails: || Some(CommitError::Lost("it is not there".into())), ..sink.clone() });
    for error in [error, again] {
        let error = error.unwrap_err();
        let JobError::Task { source: TaskError::Commit { operator, subtask: 0, tries: 1, transaction, .. }, .. } =
            &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(operator, "target");
        assert!(transaction.starts_with("Numbers { attempt: Attempt(1), numbers: [0"), "{transaction}");
        let text = text(&error);
        assert!(text.contains("start the job again") && text.contains("it is not there"), "{text}");
    }
    assert!(sink.committed.lock().unwrap().is_empty());

    run(&environment("lossy", storage), &sink).unwrap();
    let mut visible: Vec<u64> =
        sink.committed.lock().unwrap().iter().flat_map(|transaction| transaction.numbers.clone()).collect();
    visible.sort_unstable();
    assert_eq!(visible, (0..NUMBERS).collect::<Vec<u64>>());
}

/// When one region is restarted, what the writers of the others have prepared for the aborted checkpoint waits for the next one.
///
/// Contract: O275, R316.
#[test]
fn a_sink_whose_transactions_live_too_short_for_the_restart_of_another_region_is_refused() {
    let run = |strategy, timeout_ms| {
        let env = environment("hurried", storage());
        env.enable_checkpointing(Duration::from_millis(10)).set_checkpoint_timeout(Duration::from_millis(2_000));
        env.set_restart_strategy(RestartStrategy::FixedDelay { attempts: 5, delay_ms: 300 });
        env.set_failover_strategy(strategy);
        for name in ["left", "right"] {
            let sink = SetSink { timeout: Some(Duration::from_millis(timeout_ms)), ..SetSink::new() };
            env.from_source(SequenceSource::new(0..NUMBERS)).uid(format!("{name}-source")).sink_to(sink).uid(name);
        }
        env.execute()
    };
    let error = run(FailoverStrategy::Region, 64_319).unwrap_err();
    let JobError::TransactionTimeout { operator, needed, .. } = &error else { panic!("{error:?}") };
    assert_eq!((operator.as_str(), *needed), ("left", Some(Duration::from_millis(64_320))));
    let expected = "20 ms until the next but one checkpoint, 4000 ms for both, 300 ms before another region is restarted and 60000 ms";
    assert!(text(&error).contains(expected), "{}", text(&error));
    run(FailoverStrategy::Region, 64_320).unwrap();
    run(FailoverStrategy::Full, 62_310).unwrap();
}

/// Contract: R316.
#[test]
fn a_sink_whose_transactions_live_too_short_is_refused() {
    let needed = |env: &StreamExecutionEnvironment, timeout_ms| {
        let sink = SetSink { timeout: Some(Duration::from_millis(timeout_ms)), ..SetSink::new() };
        match run(env, &sink) {
            Err(JobError::TransactionTimeout { operator, timeout, needed, .. }) => {
                assert_eq!((operator.as_str(), timeout.as_millis()), ("target", u128::from(timeout_ms)));
                Some(needed.map(|needed| needed.as_millis()))
            }
            Ok(_) => None,
            Err(other) => panic!("{other:?}"),
        }
    };
    let with = |strategy: RestartStrategy| {
        let env = environment("hurried", storage());
        env.enable_checkpointing(Duration::from_millis(10)).set_checkpoint_timeout(Duration::from_millis(2_000));
        env.set_min_pause_between_checkpoints(Duration::from_millis(19)).set_restart_strategy(strategy);
        env
    };
    let fixed = RestartStrategy::FixedDelay { attempts: 5, delay_ms: 300 };
    assert_eq!(needed(&with(fixed), 62_318), Some(Some(62_319)));
    assert_eq!(needed(&with(fixed), 62_319), None);
    assert_eq!(needed(&with(RestartStrategy::None), 10), Some(Some(62_019)));
    assert_eq!(needed(&with(ExponentialDelay::default().into()), 10), Some(Some(122_019)));

    let without_interval = StreamExecutionEnvironment::new("bare");
    without_interval.set_state_backend(highwater::MemoryStateBackend::new());
    assert_eq!(needed(&without_interval, 1_000_000_000), Some(None));
}

/// Contract: R316.
#[test]
fn the_refusal_says_both_times_and_what_can_be_changed() {
    let env = environment("hurried", storage());
    env.set_checkpoint_timeout(Duration::from_secs(2));
    let sink = SetSink { timeout: Some(Duration::from_secs(30)), ..SetSink::new() };
    assert_eq!(
        run(&env, &sink).unwrap_err().to_string(),
        "the transactions of sink \"target\" are over after 30000 ms, and with one restart it may take 62011 ms before \
         they are committed, 10 ms until the next checkpoint, 2000 ms for it, 1 ms before a restart and 60000 ms for \
         that: make the transaction timeout of the sink longer, or the checkpoint interval (`enable_checkpointing`), the \
         checkpoint timeout (`set_checkpoint_timeout`), the delays of the restart strategy (`set_restart_strategy`, \
         `restart-strategy.*`) or the lease (`set_lease_duration`) shorter"
    );
}
