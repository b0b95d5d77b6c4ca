//! What is done to the state in a random case, and how it is drawn.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Key, namespace and map key: texts that are alike when they are joined or cut, and one without bytes.
const TEXTS: [&str; 8] = ["", "k", "k1", "k1x", "1x", "\0", "\0\u{ff}", "\u{ff}"];

/// What is done with one state of the current key.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Value(ValueCall),
    Map(MapCall),
    List(ListCall),
    /// Adds to the reducing state, or clears it.
    Reduce(Option<u16>),
    /// Adds to the aggregating state, or clears it.
    Aggregate(Option<u16>),
    /// Adds to the folding state, or clears it.
    Fold(Option<u16>),
    /// A list in a namespace.
    WindowList(String, ListCall),
    /// A reducing state in a namespace: adds to it, or clears it.
    WindowReduce(String, Option<u16>),
    /// Merges namespaces of both: target and sources.
    Merge(String, Vec<String>),
}

#[derive(Debug, Clone)]
pub(super) enum ValueCall {
    Set(u16),
    Add(u16),
    TakeOut,
    Clear,
    Get,
}

#[derive(Debug, Clone)]
pub(super) enum MapCall {
    Put(String, String),
    PutAll(Vec<(String, String)>),
    Remove(String),
    Get(String),
    Entries,
    IsEmpty,
    /// Keeps the entries whose keys are shorter than so many bytes.
    Retain(usize),
    /// Appends to every value.
    Append(String),
    Clear,
}

#[derive(Debug, Clone)]
pub(super) enum ListCall {
    Add(u16),
    AddAll(Vec<u16>),
    Update(Vec<u16>),
    Get,
    IsEmpty,
    Clear,
}

/// What is done with the operator.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Calls under keys that are resolved together.
    Batch(Vec<(String, Call)>),
    /// A call under a key on its own.
    Single(String, Call),
    EndBatch,
    Freeze,
    /// Writes an open snapshot.
    Write(Index),
    /// Gives an open snapshot up.
    Drop(Index),
    /// Looks at the keys of every state.
    Keys,
    /// Adds to the reducing state of all its keys.
    AddToAll(u16),
    /// Goes through all entries of the map state.
    EveryMapEntry,
    /// A failure: what was written last is restored, at this parallelism, held this way.
    Restore(u32, Way),
}

/// How the state is held: by which of the backends, behind a cache of so many rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) backend: usize,
    pub(super) cached_rows_max: usize,
}

/// A whole case: parallelism, how the state is held, and what is done.
pub(super) fn cases(backends: usize) -> impl Strategy<Value = (u32, Way, Vec<Step>)> {
    (1..=3u32, ways(backends), prop::collection::vec(steps(backends), 1..40))
}

fn ways(backends: usize) -> impl Strategy<Value = Way> {
    let cached_rows = select(vec![0, 3, 1_000_000]);
    (0..backends, cached_rows).prop_map(|(backend, cached_rows_max)| Way { backend, cached_rows_max })
}

fn steps(backends: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((texts(), calls()), 0..12).prop_map(Step::Batch),
        8 => (texts(), calls()).prop_map(|(key, call)| Step::Single(key, call)),
        1 => Just(Step::EndBatch),
        3 => Just(Step::Freeze),
        2 => any::<Index>().prop_map(Step::Write),
        1 => any::<Index>().prop_map(Step::Drop),
        1 => Just(Step::Keys),
        1 => numbers().prop_map(Step::AddToAll),
        1 => Just(Step::EveryMapEntry),
        1 => (1..=3u32, ways(backends)).prop_map(|(parallelism, way)| Step::Restore(parallelism, way)),
    ]
}

fn calls() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => value_calls().prop_map(Call::Value),
        5 => map_calls().prop_map(Call::Map),
        4 => list_calls().prop_map(Call::List),
        1 => added().prop_map(Call::Reduce),
        1 => added().prop_map(Call::Aggregate),
        1 => added().prop_map(Call::Fold),
        3 => (texts(), list_calls()).prop_map(|(namespace, call)| Call::WindowList(namespace, call)),
        2 => (texts(), added()).prop_map(|(namespace, value)| Call::WindowReduce(namespace, value)),
        1 => (texts(), prop::collection::vec(texts(), 0..4)).prop_map(|(target, sources)| Call::Merge(target, sources)),
    ]
}

fn value_calls() -> impl Strategy<Value = ValueCall> {
    prop_oneof![
        3 => numbers().prop_map(ValueCall::Set),
        3 => numbers().prop_map(ValueCall::Add),
        1 => Just(ValueCall::TakeOut),
        1 => Just(ValueCall::Clear),
        2 => Just(ValueCall::Get),
    ]
}

fn map_calls() -> impl Strategy<Value = MapCall> {
    let entries = prop::collection::vec((texts(), texts()), 0..4);
    prop_oneof![
        6 => (texts(), texts()).prop_map(|(map_key, text)| MapCall::Put(map_key, text)),
        2 => entries.prop_map(MapCall::PutAll),
        2 => texts().prop_map(MapCall::Remove),
        2 => texts().prop_map(MapCall::Get),
        1 => Just(MapCall::Entries),
        1 => Just(MapCall::IsEmpty),
        1 => (0..4usize).prop_map(MapCall::Retain),
        1 => texts().prop_map(MapCall::Append),
        1 => Just(MapCall::Clear),
    ]
}

fn list_calls() -> impl Strategy<Value = ListCall> {
    prop_oneof![
        5 => numbers().prop_map(ListCall::Add),
        2 => prop::collection::vec(numbers(), 0..4).prop_map(ListCall::AddAll),
        // More than a chunk.
        1 => (60..140u16).prop_map(|count| ListCall::AddAll((0..count).collect())),
        1 => prop::collection::vec(numbers(), 0..4).prop_map(ListCall::Update),
        2 => Just(ListCall::Get),
        1 => Just(ListCall::IsEmpty),
        1 => Just(ListCall::Clear),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    select(TEXTS.to_vec()).prop_map(String::from)
}

fn numbers() -> impl Strategy<Value = u16> {
    0..5u16
}

fn added() -> impl Strategy<Value = Option<u16>> {
    prop::option::weighted(0.8, numbers())
}
