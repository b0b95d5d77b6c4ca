//! A function whose state is a list of its own: `ListCheckpointed`.

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::support::{Notes, endless, environment, run_and_cancel, storage};

/// Counts what it passes on, in fields.
struct Counting {
    counts: Vec<u64>,
    restored: Notes<Option<Vec<u64>>>,
}

impl ProcessFunction<u64> for Counting {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        if !cx.is_restored() {
            self.restored.note(None);
        }
        Ok(())
    }

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        *self.counts.last_mut().ok_or("there is a count")? += 1;
        out.collect(number);
        Ok(())
    }
}

impl ListCheckpointed<u64> for Counting {
    fn snapshot_state(&mut self, checkpoint: CheckpointId, timestamp_ms: u64) -> Result<Vec<u64>> {
        assert!(checkpoint.0 > 0 && timestamp_ms > 1_600_000_000_000, "{checkpoint} at {timestamp_ms}");
        Ok(self.counts.clone())
    }

    fn restore_state(&mut self, state: Vec<u64>) -> Result<()> {
        self.restored.note(Some(state.clone()));
        self.counts = state;
        self.counts.push(0);
        Ok(())
    }
}

#[test]
fn its_elements_are_divided_among_the_subtasks() {
    let storage = storage();
    let records = CollectedRecords::<u64>::default();
    let restored = Notes::new();
    for (round, parallelism) in [3, 1, 4].into_iter().enumerate() {
        let committed_before = records.len() as u64;
        let env = environment("counting", storage.clone());
        env.set_parallelism(parallelism);
        let notes = restored.clone();
        env.from_source(endless(7))
            .rebalance()
            .process(move || ListCheckpointedFunction::new(Counting { counts: vec![0], restored: notes.clone() }))
            .uid("counting")
            .sink_to(CollectSink::new(records.clone()));
        run_and_cancel(&env, 2);

        let shares = restored.take();
        assert_eq!(shares.len(), parallelism as usize);
        if round == 0 {
            assert!(shares.iter().all(Option::is_none), "nothing is restored at the first start");
            continue;
        }
        let shares: Vec<Vec<u64>> = shares.into_iter().map(|share| share.expect("it is restored")).collect();
        // Three counts after the first round; the one subtask of the second has added one to them.
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), 2 + round);
        let counted: u64 = shares.iter().flatten().sum();
        assert!(counted >= committed_before, "{counted} of {committed_before}");
        assert!(counted <= records.len() as u64, "{counted} of {}", records.len());
    }
}

/// Its elements have no schema that can be traced, and say so.
#[derive(Clone)]
struct Untraceable(u64);

impl serde::Serialize for Untraceable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Untraceable {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        if number < 1_000_000 { Err(serde::de::Error::custom("too small")) } else { Ok(Self(number)) }
    }
}

struct Large(Notes<Vec<u64>>);

impl ProcessFunction<u64> for Large {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }
}

impl ListCheckpointed<Untraceable> for Large {
    fn snapshot_state(&mut self, _: CheckpointId, _: u64) -> Result<Vec<Untraceable>> {
        Ok(vec![Untraceable(1_000_000), Untraceable(1_000_001)])
    }

    fn restore_state(&mut self, state: Vec<Untraceable>) -> Result<()> {
        self.0.note(state.into_iter().map(|element| element.0).collect());
        Ok(())
    }
}

#[test]
fn under_a_descriptor_of_its_own_if_it_needs_one() {
    let storage = storage();
    let notes = Notes::new();
    let environment = || environment("described", storage.clone());
    let env = environment();
    let of_function = notes.clone();
    env.from_source(SequenceSource::new(0..9))
        .process(move || ListCheckpointedFunction::new(Large(of_function.clone())))
        .uid("large")
        .sink_to(CollectSink::default());
    let error = format!("{:?}", env.execute().unwrap_err());
    assert!(error.contains(r#"state "_list_checkpointed": no schema could be traced"#), "{error}");

    for restored in [&[][..], &[vec![1_000_000, 1_000_001]]] {
        let env = environment();
        let of_function = notes.clone();
        env.from_source(endless(1))
            .process(move || {
                let descriptor = ListStateDescriptor::new("large numbers").opaque_schema("large", 1);
                ListCheckpointedFunction::with_descriptor(Large(of_function.clone()), descriptor)
            })
            .uid("large")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 1);
        assert_eq!(notes.take(), restored);
    }
}

/// The same on a keyed stream, beside the hooks of the function itself.
struct Keyed(Notes<&'static str>);

impl KeyedProcessFunction<u64, u64> for Keyed {
    type Out = u64;

    fn initialize_state(&mut self, _: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.0.note("initialised");
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        assert_eq!((cx.subtask(), cx.parallelism()), (0, 1));
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, _: &mut dyn FunctionSnapshotContext) -> Result<()> {
        self.0.note("snapshotted");
        Ok(())
    }
}

impl ListCheckpointed<String> for Keyed {
    fn snapshot_state(&mut self, _: CheckpointId, _: u64) -> Result<Vec<String>> {
        self.0.note("list taken");
        Ok(vec!["state".to_owned()])
    }

    fn restore_state(&mut self, state: Vec<String>) -> Result<()> {
        assert_eq!(state, ["state"]);
        self.0.note("list restored");
        Ok(())
    }
}

#[test]
fn on_a_keyed_stream_too() {
    let storage = storage();
    let notes = Notes::new();
    let run = || {
        let env = environment("keyed", storage.clone());
        let notes_of_function = notes.clone();
        env.from_source(endless(1))
            .key_by(|number| number)
            .process(move || ListCheckpointedFunction::new(Keyed(notes_of_function.clone())))
            .uid("keyed")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 1);
        notes.take()
    };
    assert_eq!(run()[..3], ["initialised", "snapshotted", "list taken"]);
    assert_eq!(run()[..4], ["initialised", "list restored", "snapshotted", "list taken"]);
}
