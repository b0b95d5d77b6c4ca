//! Broadcast state: every subtask has one whole copy, whatever the parallelism was and is.

use highwater::prelude::*;

use crate::support::{Notes, endless, environment, run_and_cancel, storage};

type Entries = Vec<(String, u32)>;

/// Keeps two rules.
struct Ruled {
    rules: BroadcastState<String, u32>,
    restored: Notes<Entries>,
}

impl Ruled {
    fn initialize(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.rules = cx.operator_state_store().get_broadcast_state(&MapStateDescriptor::new("rules"))?;
        let mut entries = self.rules.entries(cx)?;
        entries.sort();
        self.restored.note(entries);
        if !cx.is_restored() {
            self.rules.put_all(cx, rules())?;
        }
        Ok(())
    }
}

fn rules() -> Entries {
    vec![("a".to_owned(), 1), ("b".to_owned(), 2)]
}

impl ProcessFunction<u64> for Ruled {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.initialize(cx)
    }

    fn process(&mut self, number: u64, cx: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        let rule = self.rules.read_only().get(cx, &"b".to_owned())?;
        out.collect(number + u64::from(rule.ok_or("the rule is there")?));
        Ok(())
    }
}

impl KeyedProcessFunction<u64, u64> for Ruled {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.initialize(cx)
    }

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<u64>) -> Result<()> {
        let rule = self.rules.read_only().get(cx, &"b".to_owned())?;
        out.collect(number + u64::from(rule.ok_or("the rule is there")?));
        Ok(())
    }
}

/// Contract: E102, E113.
/// Field case: R55.
#[test]
fn through_rescaling() {
    let storage = storage();
    let restored = Notes::new();
    for (round, parallelism) in [2, 4, 1, 3].into_iter().enumerate() {
        let env = environment("ruled", storage.clone());
        env.set_parallelism(parallelism);
        let (notes, notes_of_keyed) = (restored.clone(), restored.clone());
        env.from_source(endless(7))
            .rebalance()
            .process(move || Ruled { rules: BroadcastState::default(), restored: notes.clone() })
            .uid("ruled")
            .key_by(|number| number)
            .process(move || Ruled { rules: BroadcastState::default(), restored: notes_of_keyed.clone() })
            .uid("ruled-by-key")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 1);
        let expected = if round == 0 { Vec::new() } else { rules() };
        assert_eq!(restored.take(), vec![expected; 2 * parallelism as usize]);
    }
}

/// Contract: E114.
/// Field case: R55.
#[test]
fn also_when_a_subtask_has_finished() {
    let storage = storage();
    let restored = Notes::new();
    for (round, parallelism) in [2, 2, 4].into_iter().enumerate() {
        let env = environment("half-finished", storage.clone());
        env.set_parallelism(parallelism);
        let notes = restored.clone();
        // One split: all subtasks but one have nothing to read and are at their end at once.
        env.from_source(endless(1))
            .process(move || Ruled { rules: BroadcastState::default(), restored: notes.clone() })
            .uid("ruled")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 2);
        let expected = if round == 0 { Vec::new() } else { rules() };
        assert_eq!(restored.take(), vec![expected; parallelism as usize]);
    }
}
