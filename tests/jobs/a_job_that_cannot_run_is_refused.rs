//! Mistakes in the description of a job are found at its start and named.

use highwater::MemoryStateBackend;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::support::{count, environment, storage};

fn refusal(env: &StreamExecutionEnvironment) -> String {
    match env.execute().unwrap_err() {
        JobError::Invalid(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn with_backend(name: &str) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend(MemoryStateBackend::new());
    env
}

#[test]
fn a_name_that_is_no_path_segment() {
    let env = with_backend("a/b");
    env.from_source(SequenceSource::new(0..1)).sink_to(CollectSink::<u64>::default());
    assert!(refusal(&env).contains(r#"job name "a/b" is not usable"#));
}

#[test]
fn a_job_without_a_source() {
    assert_eq!(refusal(&with_backend("empty")), "it has no source");
}

#[test]
fn a_job_without_a_backend() {
    let env = StreamExecutionEnvironment::new("bare");
    env.from_source(SequenceSource::new(0..1)).sink_to(CollectSink::<u64>::default());
    assert_eq!(
        refusal(&env),
        "no state backend is set: call `set_state_backend`, or `set_state_backend_registry` to have one found by the \
         configuration or by default"
    );
}

#[test]
fn two_steps_with_state_and_no_uid() {
    let env = with_backend("nameless");
    let numbers = env.from_source(SequenceSource::new(0..1));
    numbers.sink_to(CollectSink::<u64>::default());
    numbers.sink_to(CollectSink::<u64>::default());
    assert_eq!(
        refusal(&env),
        "there is state and no uid in step 1 (sink), step 2 (sink): give each a name with `.uid(...)`, so that its state is \
         found again"
    );
}

#[test]
fn two_steps_with_the_same_uid() {
    let env = with_backend("twins");
    env.from_source(SequenceSource::new(0..1)).uid("same").sink_to(CollectSink::<u64>::default()).uid("same");
    assert_eq!(refusal(&env), r#"two steps have the uid "same""#);
}

/// Contract: F125.
#[test]
fn a_parallelism_out_of_range() {
    for (parallelism, message) in [(0, "parallelism 0 is outside 1..=128"), (9, "parallelism 9 is outside 1..=8")] {
        let env = environment("wide", storage());
        env.set_parallelism(parallelism);
        if parallelism > 0 {
            env.set_max_parallelism(8);
        }
        count(&env, 10, None, &CollectedRecords::default(), |_| Ok(()));
        let refusal = refusal(&env);
        assert!(refusal.contains(message), "{refusal}");
    }
    let env = environment("wider", storage());
    env.set_max_parallelism(40_000);
    count(&env, 10, None, &CollectedRecords::default(), |_| Ok(()));
    assert_eq!(refusal(&env), "max parallelism 40000 is outside 1..=32768");
}

/// Contract: A29, O282.
#[test]
fn state_of_the_same_name_and_another_kind() {
    #[derive(Default)]
    struct Confused {
        value: ValueState<u64>,
        map: MapState<u64, u64>,
    }
    impl KeyedProcessFunction<u64, u64> for Confused {
        type Out = u64;
        fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
            let store = cx.keyed_state_store()?;
            self.value = store.get_state(&ValueStateDescriptor::new("s"))?;
            self.map = store.get_map_state(&MapStateDescriptor::new("s"))?;
            Ok(())
        }
        fn process(&mut self, _: u64, _: &mut KeyedContext<'_, u64>, _: &mut Collector<u64>) -> Result<()> {
            unreachable!("the function cannot be initialised")
        }
    }
    let env = environment("confused", storage());
    env.from_source(SequenceSource::new(0..1))
        .key_by(|number| number)
        .process(Confused::default)
        .uid("confused")
        .sink_to(CollectSink::<u64>::default());
    let JobError::Task { source, restarts: 0, .. } = env.execute().unwrap_err() else {
        panic!("the task did not fail, or was restarted although it had to fail again");
    };
    let cause = std::error::Error::source(&source).map(ToString::to_string).unwrap_or_default();
    assert_eq!(cause, r#"state "s" is registered or restored as value state and cannot be used as map state"#);
}
