//! Raw state: partitions of the operator stream are divided, keyed streams go with their key groups.

use std::io::{Read, Write};

use highwater::prelude::*;
use highwater::state::KeyGroup;

use crate::support::{Notes, endless, environment, run_and_cancel, storage, text};

/// What a subtask found: partitions, and the content by key group.
type Found = (Vec<String>, Vec<(u16, String)>);

/// Writes three partitions at its first start and what it found later; a line for each of its key groups.
#[derive(Clone)]
struct Raw {
    /// Looks at what is restored and writes it again. Otherwise it has nothing to do with raw state.
    takes_part: bool,
    partitions: Vec<String>,
    found: Notes<Found>,
}

impl KeyedProcessFunction<u64, u64> for Raw {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        if !self.takes_part {
            return Ok(());
        }
        let mut partitions = Vec::new();
        for partition in cx.raw_operator_state_inputs() {
            let mut content = String::new();
            partition.get_stream().read_to_string(&mut content)?;
            partitions.push(content);
        }
        let mut groups = Vec::new();
        for group in cx.raw_keyed_state_inputs()? {
            let mut content = String::new();
            group.get_stream().read_to_string(&mut content)?;
            groups.push((group.key_group().0, content));
        }
        if cx.is_restored() {
            self.partitions = partitions.clone();
        }
        self.found.note((partitions, groups));
        Ok(())
    }

    fn process(&mut self, number: u64, _: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        if !self.takes_part {
            return Ok(());
        }
        for partition in &self.partitions {
            let stream = cx.raw_operator_state_output()?;
            stream.start_new_partition();
            stream.write_all(partition.as_bytes())?;
        }
        let stream = cx.raw_keyed_state_output()?;
        if let Err(error) = stream.write_all(b"too early") {
            assert!(error.to_string().contains("before a key group was started"), "{error}");
        }
        let range = stream.key_groups();
        for group in range.iter() {
            stream.start_new_key_group(group)?;
            write!(stream, "group {group}")?;
        }
        assert!(stream.start_new_key_group(KeyGroup(range.end().0 + 1)).is_err());
        assert!(stream.start_new_key_group(range.start()).is_err());
        Ok(())
    }
}

/// Contract: E116, F133.
#[test]
fn over_rescaling() {
    let storage = storage();
    let found = Notes::new();
    let run = |parallelism: u32, takes_part: bool| {
        let env = environment("raw", storage.clone());
        env.set_parallelism(parallelism).set_max_parallelism(10);
        let partitions = ["x", "", "z"].map(str::to_owned).to_vec();
        let function = Raw { takes_part, partitions, found: found.clone() };
        env.from_source(endless(7))
            .key_by(|number| number)
            .process(move || function.clone())
            .uid("raw")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 2);
        let mut found = found.take();
        found.sort_by_key(|(_, groups)| groups.first().cloned());
        found
    };
    let groups = |range: std::ops::Range<u16>| range.map(|group| (group, format!("group {group}"))).collect::<Vec<_>>();
    assert_eq!(run(1, true), [(Vec::new(), Vec::new())]);

    let shares = run(3, true);
    let expected = [("x", 0..4), ("", 4..7), ("z", 7..10)];
    assert_eq!(shares, expected.map(|(partition, range)| (vec![partition.to_owned()], groups(range))));

    // Nobody asks for it for a while: it goes on unchanged.
    run(3, false);
    run(2, false);
    let (partitions, found): (Vec<_>, Vec<_>) = run(1, true).into_iter().unzip();
    assert_eq!(partitions, [["x", "", "z"]]);
    assert_eq!(found, [groups(0..10)]);
}

/// Asks for keyed raw state where there is no key.
struct Mistaken;

impl ProcessFunction<u64> for Mistaken {
    type Out = u64;

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        cx.raw_keyed_state_output()?;
        Ok(())
    }
}

#[test]
fn but_not_without_a_key() {
    let env = environment("mistaken", storage());
    env.set_restart_strategy(RestartStrategy::None);
    env.from_source(endless(1)).process(|| Mistaken).uid("mistaken").sink_to(CollectSink::default());
    let error = text(&env.execute().unwrap_err());
    assert!(
        error.contains("raw keyed state needs a key, and operator \"mistaken\" is not on a keyed stream"),
        "{error}"
    );
}
