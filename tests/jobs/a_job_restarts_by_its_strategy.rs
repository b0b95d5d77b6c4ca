//! The restart strategy of a job is what code sets, or what the configuration names, or exponential delay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::support::{assert_counted, count, text};

const NUMBERS: u64 = 300;
/// Delays that a test can wait for.
const SHORT: [(&str, &str); 2] = [
    ("restart-strategy.exponential-delay.initial-backoff", "1 ms"),
    ("restart-strategy.exponential-delay.max-backoff", "2 ms"),
];

/// An environment with checkpoints and without a restart strategy.
fn with_checkpoints() -> StreamExecutionEnvironment {
    let env = without_checkpoints();
    env.enable_checkpointing(Duration::from_millis(10));
    env
}

fn without_checkpoints() -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new("strategic");
    env.set_state_backend(MemoryStateBackend::new());
    env
}

fn configuration<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Configuration {
    SHORT.into_iter().chain(settings).collect()
}

/// Runs a job that fails at one of its numbers as often as that is read. The error, and how often it has failed.
fn run_hopeless(env: &StreamExecutionEnvironment) -> (JobError, u32) {
    let failures = Arc::new(AtomicU32::new(0));
    let counter = failures.clone();
    let records = CollectedRecords::default();
    count(env, NUMBERS, None, &records, move |number| {
        if number == 7 {
            counter.fetch_add(1, Ordering::SeqCst);
            return Err("always".into());
        }
        Ok(())
    });
    let error = env.execute().unwrap_err();
    (error, failures.load(Ordering::SeqCst))
}

/// The strategy that gave up on a job that always fails, and how often it had failed by then.
fn gave_up(env: &StreamExecutionEnvironment) -> (&'static str, u32) {
    match run_hopeless(env) {
        (JobError::NotRestarted { strategy, source }, failures) => {
            assert!(matches!(&*source, JobError::Task { restarts, .. } if restarts + 1 == failures), "{source:?}");
            (strategy.name(), failures)
        }
        (other, _) => panic!("{other:?}"),
    }
}

/// Contract: O281.
#[test]
fn which_is_exponential_delay_without_end_after_errors_and_panics() {
    const FAILURES: u32 = 12;
    let env = with_checkpoints();
    env.configure(configuration([]));
    let failures = Arc::new(AtomicU32::new(0));
    let records = CollectedRecords::default();
    count(&env, NUMBERS, None, &records, move |number| {
        if number != 7 {
            return Ok(());
        }
        match failures.fetch_add(1, Ordering::SeqCst) {
            FAILURES.. => Ok(()),
            failure if failure % 2 == 0 => Err("as planned".into()),
            _ => panic!("as planned"),
        }
    });
    let result = env.execute().unwrap();
    assert_eq!((result.outcome, result.status.restarts), (JobOutcome::Finished, FAILURES));
    assert_counted(&records, NUMBERS);
}

/// Contract: O281.
#[test]
fn which_is_configured_like_any_other_when_it_is_the_default() {
    let env = with_checkpoints();
    env.configure(configuration([("restart-strategy.exponential-delay.attempts-before-reset-backoff", "3")]));
    assert_eq!(gave_up(&env), ("exponential-delay", 4));
}

/// Contract: O281.
#[test]
fn which_is_none_without_checkpoints() {
    assert_eq!(gave_up(&without_checkpoints()), ("none", 1));
}

/// Contract: O277, O281.
#[test]
fn which_code_sets_before_the_job_configures_it_before_the_cluster_does() {
    let cluster = [
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1"),
        ("restart-strategy.fixed-delay.delay", "1"),
    ];
    let job = [
        ("restart-strategy", "failure-rate"),
        ("restart-strategy.failure-rate.max-failures-per-interval", "2"),
        ("restart-strategy.failure-rate.failure-rate-interval", "1 h"),
        ("restart-strategy.failure-rate.delay", "1"),
    ];
    for env in [with_checkpoints(), without_checkpoints()] {
        env.set_cluster_configuration(configuration(cluster));
        assert_eq!(gave_up(&env), ("fixed-delay", 2));
    }
    let env = with_checkpoints();
    env.set_cluster_configuration(configuration(cluster)).configure(configuration(job));
    assert_eq!(gave_up(&env), ("failure-rate", 3));

    let env = with_checkpoints();
    env.set_cluster_configuration(configuration(cluster)).configure(configuration(job));
    env.set_restart_strategy(ExponentialDelay {
        initial_backoff_ms: 1,
        max_backoff_ms: 1,
        attempts_before_reset_backoff: 3,
        ..ExponentialDelay::default()
    });
    assert_eq!(gave_up(&env), ("exponential-delay", 4));
}

/// Contract: O281.
#[test]
fn which_has_to_be_known() {
    let env = with_checkpoints();
    env.configure(configuration([("restart-strategy.type", "sometimes")]));
    let (error, failures) = run_hopeless(&env);
    assert_eq!(failures, 0, "the job was started");
    assert!(matches!(error, JobError::Configuration(_)));
    assert_eq!(
        text(&error),
        "the configuration cannot be used: restart-strategy.type: nothing is known under the name \"sometimes\"; valid \
         values: none, fixed-delay, failure-rate, exponential-delay"
    );
}

#[test]
fn which_has_to_be_within_its_bounds_also_when_code_sets_it() {
    let env = with_checkpoints();
    env.set_restart_strategy(ExponentialDelay { jitter_factor: 1.5, ..ExponentialDelay::default() });
    let (error, failures) = run_hopeless(&env);
    assert_eq!(failures, 0, "the job was started");
    assert_eq!(
        text(&error),
        "the configuration cannot be used: restart-strategy.exponential-delay.jitter-factor: \"1.5\" is not valid; \
         expected a number from 0 to 1, such as 0.1"
    );
}
