//! Of a union list every subtask gets all elements of all subtasks, at every restore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater::prelude::*;

use crate::support::{Notes, endless, environment, run_and_cancel, storage};

/// Each subtask keeps one element: a number of its own.
struct Member {
    own: u64,
    registers: bool,
    members: OperatorListState<u64>,
    restored: Notes<Vec<u64>>,
}

impl ProcessFunction<u64> for Member {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        if self.registers {
            self.members = cx.operator_state_store().get_union_list_state(&ListStateDescriptor::new("members"))?;
            let mut members = self.members.get(cx)?;
            members.sort_unstable();
            self.restored.note(members);
        }
        Ok(())
    }

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }

    fn snapshot_state(&mut self, cx: &mut dyn FunctionSnapshotContext) -> Result<()> {
        if self.registers {
            // Its own, in place of everybody's.
            self.members.update(cx, [self.own])?;
        }
        Ok(())
    }
}

/// Contract: E112.
/// Field case: R51.
#[test]
fn and_does_not_grow_with_every_restore() {
    let storage = storage();
    let restored = Notes::new();
    let numbers = Arc::new(AtomicU64::new(0));
    let run = |parallelism: u32, registers: bool| {
        let env = environment("members", storage.clone());
        env.set_parallelism(parallelism);
        let (notes, numbers) = (restored.clone(), numbers.clone());
        env.from_source(endless(7))
            .rebalance()
            .process(move || Member {
                own: numbers.fetch_add(1, Ordering::Relaxed),
                registers,
                members: OperatorListState::default(),
                restored: notes.clone(),
            })
            .uid("members")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 2);
        restored.take()
    };
    assert_eq!(run(1, true), vec![Vec::<u64>::new(); 1]);
    let mut members = 1;
    for parallelism in [2, 2, 4, 3] {
        let shares = run(parallelism, true);
        assert_eq!(shares.len(), parallelism as usize);
        assert!(shares.iter().all(|share| share.len() == members && *share == shares[0]), "{shares:?}");
        members = parallelism as usize;
    }
    // Nobody asks for it for a while.
    let before = {
        run(2, false);
        run(5, false);
        run(2, false);
        run(4, true)
    };
    assert!(before.iter().all(|share| share.len() == members && *share == before[0]), "{before:?}");
}
