//! A function on a stream without a key keeps a list that goes through cancels and other parallelisms without loss.

use std::collections::BTreeSet;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::support::{Notes, endless, environment, run_and_cancel, storage, text};

/// Keeps every number that it has passed on.
struct Remembering {
    seen: OperatorListState<u64>,
    restored: Notes<Restored>,
}

/// What a subtask was started with.
#[derive(Debug, Clone)]
struct Restored {
    is_restored: bool,
    from: Option<CheckpointId>,
    seen: Vec<u64>,
}

impl ProcessFunction<u64> for Remembering {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.seen = cx.operator_state_store().get_list_state(&ListStateDescriptor::new("seen"))?;
        let seen = self.seen.get(cx)?;
        self.restored.note(Restored { is_restored: cx.is_restored(), from: cx.restored_checkpoint(), seen });
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        self.seen.add(cx, number)?;
        out.collect(number);
        Ok(())
    }
}

/// Field case: R53.
#[test]
fn through_cancels_and_rescaling() {
    let storage = storage();
    let records = CollectedRecords::default();
    let restored = Notes::new();
    let mut before = 0;
    for (round, parallelism) in [2, 3, 7, 1, 20, 20].into_iter().enumerate() {
        let committed_before: BTreeSet<u64> = records.to_vec().into_iter().collect();
        let env = environment("remembering", storage.clone());
        env.set_parallelism(parallelism);
        let notes = restored.clone();
        env.from_source(endless(7))
            .rebalance()
            .process(move || Remembering { seen: OperatorListState::default(), restored: notes.clone() })
            .uid("remembering")
            .sink_to(CollectSink::new(records.clone()));
        let restored_from = run_and_cancel(&env, 3).restored_from;

        let shares = restored.take();
        assert_eq!(shares.len(), parallelism as usize, "each subtask once");
        assert!(shares.iter().all(|share| share.from == restored_from && share.is_restored == (round > 0)));
        let sizes: Vec<usize> = shares.iter().map(|share| share.seen.len()).collect();
        if round < 5 {
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
        // Numbers that were committed had been seen, and what had been seen is committed by now; each is there once.
        let all: Vec<u64> = shares.into_iter().flat_map(|share| share.seen).collect();
        let seen: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(seen.len(), all.len(), "a number is in the list twice");
        assert!(committed_before.is_subset(&seen), "a number has gone out of the list");
        let committed: BTreeSet<u64> = records.to_vec().into_iter().collect();
        assert_eq!(committed.len(), records.len(), "a number was passed on twice");
        assert!(seen.is_subset(&committed), "a number is in the list and was never passed on");
        assert!(all.len() >= before, "the list has shrunk");
        before = all.len();
    }
    assert!(before > 0);
}

/// What a subtask was restored with, and what of its list is in a checkpoint later on.
type Shares = Vec<(u32, Vec<u64>)>;

/// Subtask `i` keeps what it is restored with; at the first start the list that is given for it.
#[derive(Clone)]
struct Keeping {
    first: Vec<Vec<u64>>,
    list: OperatorListState<u64>,
    restored: Notes<(u32, Vec<u64>)>,
    /// Subtask and parallelism, as the function was told when it was initialised.
    task: (u32, u32),
}

impl ProcessFunction<u64> for Keeping {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        self.list = cx.operator_state_store().get_list_state(&ListStateDescriptor::new("kept"))?;
        self.task = (cx.subtask(), cx.parallelism());
        if cx.is_restored() {
            self.restored.note((cx.subtask(), self.list.get(cx)?));
        } else {
            let own = self.first[cx.subtask() as usize].clone();
            self.list.update(cx, own)?;
        }
        Ok(())
    }

    fn process(&mut self, number: u64, cx: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        assert_eq!((cx.subtask(), cx.parallelism()), self.task);
        out.collect(number);
        Ok(())
    }
}

/// What the subtasks get at `parallelism` of these lists of the old ones.
fn redistributed(first: &[&[u64]], parallelism: u32) -> Shares {
    let storage = storage();
    let restored = Notes::new();
    for parallelism in [first.len() as u32, parallelism] {
        let env = environment("keeping", storage.clone());
        env.set_parallelism(parallelism);
        let first = first.iter().map(|list| list.to_vec()).collect();
        let keeping = Keeping { first, list: OperatorListState::default(), restored: restored.clone(), task: (0, 0) };
        env.from_source(endless(7))
            .rebalance()
            .process(move || keeping.clone())
            .uid("keeping")
            .sink_to(CollectSink::default());
        run_and_cancel(&env, 1);
    }
    let mut shares = restored.take();
    shares.sort();
    shares
}

/// Contract: E107, E108, E109, E110.
#[test]
fn and_each_subtask_gets_the_share_that_is_promised() {
    let (a, b): (&[u64], &[u64]) = (&[1, 2, 3], &[11, 12]);
    let expect = |first: &[&[u64]], shares: &[&[u64]]| {
        let shares: Shares = (0..).zip(shares.iter().map(|share| share.to_vec())).collect();
        assert_eq!(redistributed(first, shares.len() as u32), shares);
    };
    expect(&[a, b], &[&[1, 2], &[3, 11], &[12]]);
    expect(&[a, b], &[&[1, 2, 3, 11, 12]]);
    expect(&[a, b], &[&[1, 2], &[3], &[11], &[12]]);
    expect(&[a, &[], b], &[a, &[], b]);
    // The others know that they were restored.
    expect(&[&[7]], &[&[7], &[], &[], &[]]);
}

#[test]
fn and_a_uid_has_to_be_given() {
    let env = environment("no-uid", storage());
    let restored = Notes::new();
    env.from_source(SequenceSource::new(0..9))
        .process(move || Remembering { seen: OperatorListState::default(), restored: restored.clone() })
        .sink_to(CollectSink::default());
    let error = text(&env.execute().unwrap_err());
    assert!(error.contains("there is state and no uid in step "), "{error}");
}

/// Passes numbers on, and asks for keyed state.
struct Mistaken;

impl ProcessFunction<u64> for Mistaken {
    type Out = u64;

    fn initialize_state(&mut self, cx: &mut dyn FunctionInitializationContext) -> Result<()> {
        cx.keyed_state_store()?.get_state(&ValueStateDescriptor::<u64>::new("count"))?;
        Ok(())
    }

    fn process(&mut self, number: u64, _: &mut ProcessContext<'_>, out: &mut Collector<u64>) -> Result<()> {
        out.collect(number);
        Ok(())
    }
}

/// Contract: O282.
#[test]
fn and_keyed_state_is_refused() {
    let env = environment("mistaken", storage());
    env.from_source(SequenceSource::new(0..9)).process(|| Mistaken).uid("mistaken").sink_to(CollectSink::default());
    let error = text(&env.execute().unwrap_err());
    assert!(
        error.contains("state \"count\" needs a key, and operator \"mistaken\" is not on a keyed stream"),
        "{error}"
    );
    assert!(error.contains("restarts before: 0"), "it is not tried again: {error}");
}

/// Contract: Q302.
#[test]
fn whether_it_is_restored_is_a_matter_of_its_task() {
    let storage = storage();
    let restored = Notes::new();
    let remembering = |notes: &Notes<Restored>| {
        let notes = notes.clone();
        move || Remembering { seen: OperatorListState::default(), restored: notes.clone() }
    };
    let env = environment("new-operators", storage.clone());
    env.from_source(endless(1)).process(remembering(&restored)).uid("first").sink_to(CollectSink::default());
    run_and_cancel(&env, 1);
    restored.take();

    // One new operator in the task of the source, and one in a task of its own.
    let (in_chain, alone) = (Notes::new(), Notes::new());
    let env = environment("new-operators", storage);
    env.from_source(endless(1))
        .process(remembering(&restored))
        .uid("first")
        .process(remembering(&in_chain))
        .uid("in-chain")
        .sink_to(CollectSink::default());
    env.from_source(endless(1))
        .uid("another-source")
        .process(remembering(&alone))
        .uid("alone")
        .set_parallelism(2)
        .sink_to(CollectSink::<u64>::default())
        .uid("another-sink");
    let restored_from = run_and_cancel(&env, 1).restored_from;
    assert!(restored_from.is_some() && restored.take()[0].is_restored);
    let share = in_chain.take().remove(0);
    assert_eq!((share.is_restored, share.from, share.seen), (true, restored_from, Vec::new()));
    assert!(alone.take().iter().all(|share| !share.is_restored && share.from.is_none() && share.seen.is_empty()));
}
