//! State that is registered at the first record, in the subtasks that get one: the others have nothing to restore.

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::state::KeyCx;

use crate::support::{endless, environment, run_and_cancel, storage};

/// Counts with states that it gets at its first record.
#[derive(Default)]
struct Late {
    handles: Option<(ValueState<u64>, OperatorListState<u64>)>,
}

impl KeyedProcessFunction<u64, u64> for Late {
    type Out = (u64, usize);

    fn process(&mut self, number: u64, cx: &mut KeyedContext<'_, u64>, out: &mut Collector<Self::Out>) -> Result<()> {
        let (count, list) = match self.handles {
            Some(handles) => handles,
            None => {
                let store: &mut dyn KeyedStateStore = cx.keyed_state();
                let count = store.get_state(&ValueStateDescriptor::new("late"))?;
                let store: &mut dyn OperatorStateStore = cx.operator_state();
                let list = store.get_list_state(&ListStateDescriptor::new("late"))?;
                *self.handles.insert((count, list))
            }
        };
        let so_far = count.value(cx)?.unwrap_or(0) + 1;
        count.update(cx, so_far)?;
        if list.is_empty(cx)? {
            list.add(cx, number)?;
        }
        out.collect((so_far, list.get(cx)?.len()));
        Ok(())
    }
}

/// Field case: R49.
#[test]
fn by_some_subtasks_and_not_by_others() {
    let storage = storage();
    let records = CollectedRecords::<(u64, usize)>::default();
    for parallelism in [2, 4, 1] {
        let env = environment("late", storage.clone());
        env.set_parallelism(parallelism).set_max_parallelism(4);
        // One key: one subtask has all the records.
        env.from_source(endless(1))
            .key_by_value(|_| 7u64)
            .process(Late::default)
            .uid("late")
            .sink_to(CollectSink::new(records.clone()));
        run_and_cancel(&env, 2);
    }
    // Every record counted once, through three parallelisms.
    let records = records.to_vec();
    let mut counts: Vec<u64> = records.iter().map(|(count, _)| *count).collect();
    counts.sort_unstable();
    assert!(counts.iter().copied().eq(1..=counts.len() as u64), "a record was lost or counted twice");
    // The one element of the list goes to one subtask, and the one with the records adds its own if it is not there.
    assert!(records.iter().all(|(_, elements)| (1..=3).contains(elements)));
}
