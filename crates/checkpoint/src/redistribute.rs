//! Redistribution: which state of a checkpoint goes to which subtask of a job that may have another parallelism.
//!
//! Pure: metadata and the new job in, assignment out. Rules are Flink's where they decide about results: key groups by
//! range, split lists dealt in runs, union lists to everyone, one copy of a broadcast state to each.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_state_api::{
    KEY_HASH_ID, KeyGroupPart, KeyGroupRange, KeyedStateHandle, MaxParallelism, OperatorUid, ParallelismError,
    READER_SPLITS, RawKeyedStateHandle,
};

use crate::operator_shares::{OldStates, OperatorStateShare};
use crate::{CheckpointMetadata, OperatorSnapshot, OperatorState};

/// An operator of the job that is to be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorTarget {
    /// Its uid.
    pub uid: OperatorUid,
    /// Whether the uid stays the same when the job is changed. Nothing is restored under one that does not: it may have
    /// been another operator's when the checkpoint was taken.
    pub is_stable: bool,
    /// Whether it is a source: only a source can go on from a position.
    pub is_source: bool,
    /// The number of subtasks it is to have.
    pub parallelism: u32,
    /// The number of key groups that was set for it; `None` when it was not set, and the checkpoint's is adopted.
    pub max_parallelism: Option<MaxParallelism>,
}

/// What is restored, by operator. Operators that are not in the checkpoint are not in here: they start empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The operators.
    pub operators: BTreeMap<OperatorUid, RestoredOperator>,
}

/// How many subtasks of an operator had seen the end of their input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HaveEnded {
    /// None of them.
    None,
    /// Some, but not all.
    Some,
    /// Every one: the operator has no records left to process.
    All,
}

impl HaveEnded {
    fn of(operator: &OperatorState) -> Self {
        match operator.subtasks.iter().filter(|snapshot| snapshot.ended).count() {
            ended if ended == operator.subtasks.len() => Self::All,
            0 => Self::None,
            _ => Self::Some,
        }
    }
}

/// What one operator gets back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredOperator {
    /// Number of key groups, as it was when the checkpoint was taken.
    pub max_parallelism: MaxParallelism,
    /// How many of its subtasks had seen the end of their input.
    pub ended: HaveEnded,
    /// Its task had finished: it is not run again.
    pub finished: bool,
    /// It had state, be it empty.
    pub has_state: bool,
    /// What the source's enumerator gets back, if the operator is a source.
    pub source: Option<RestoredSource>,
    /// By index, as many as the operator is to have; none when it is finished.
    pub subtasks: Vec<RestoredSubtask>,
}

impl RestoredOperator {
    /// An operator that is not run again gets nothing, and may have any number of subtasks by now.
    fn finished(max_parallelism: MaxParallelism) -> Self {
        let (ended, subtasks) = (HaveEnded::All, Vec::new());
        Self { max_parallelism, ended, finished: true, has_state: false, source: None, subtasks }
    }
}

/// What the split enumerator of one source gets back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSource {
    /// What the enumerator had written.
    pub enumerator: Bytes,
    /// The splits that readers had not read to their end, with positions, in the order of the old subtasks; `None` when no
    /// reader wrote any list.
    pub splits: Option<OperatorStateShare>,
}

/// What one subtask of one operator gets back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredSubtask {
    /// Keyed state: of each handle the range and the parts that are this subtask's.
    pub keyed: Vec<KeyedStateHandle>,
    /// Raw keyed state, likewise.
    pub raw_keyed: Vec<RawKeyedStateHandle>,
    /// Operator state: lists before broadcast states, in ascending order of name. Every name there is, for every subtask.
    pub operator: Vec<OperatorStateShare>,
    /// The watermark to go on from: no old subtask was behind it. `None` when one had not seen any.
    pub watermark: Option<i64>,
}

/// Why a checkpoint cannot be restored into this job. Final: job or checkpoint has to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedistributeError {
    /// The checkpoint has state that nobody in the job would get.
    #[error(
        "the checkpoint has state of operators that are not in the job: {}; the job has {}; a uid must not change; to lose \
         their state, set `execution.state-recovery.ignore-unclaimed-state: true`",
        list(uids),
        list(job)
    )]
    OperatorsMissing {
        /// Their uids, in ascending order.
        uids: Vec<OperatorUid>,
        /// The uids that the job has, in ascending order.
        job: Vec<OperatorUid>,
    },
    /// The number of key groups was set to another than the state was divided into.
    #[error("operator {uid}: max parallelism is set to {}, its state was taken with {}", requested.get(), restored.get())]
    MaxParallelismDiffers {
        /// The operator.
        uid: OperatorUid,
        /// The number of key groups that was set.
        requested: MaxParallelism,
        /// The number of key groups of the state.
        restored: MaxParallelism,
    },
    /// There are more subtasks than key groups, or none.
    #[error("operator {uid} cannot be restored")]
    Parallelism {
        /// The operator.
        uid: OperatorUid,
        /// The numbers.
        #[source]
        source: ParallelismError,
    },
    /// What was a source is none now: nobody would go on from its position.
    #[error(
        "operator {uid} was a source when the checkpoint was taken, and is none in the job: its position would be lost"
    )]
    NotASource {
        /// The operator.
        uid: OperatorUid,
    },
    /// Keys were placed by another hash: they would be looked for in the wrong key groups.
    #[error("the checkpoint's keys were placed by the key hash {found:?}, this release has {expected:?}")]
    KeyHashDiffers {
        /// The hash there is.
        expected: String,
        /// The hash in the checkpoint.
        found: String,
    },
    /// Subtasks of one operator do not agree on what an operator state is.
    #[error("operator {uid}: subtasks disagree on the redistribution or the schema of the operator state {name:?}")]
    StatesDisagree {
        /// The operator.
        uid: OperatorUid,
        /// The state.
        name: String,
    },
}

fn list(uids: &[OperatorUid]) -> String {
    uids.iter().map(OperatorUid::as_str).collect::<Vec<_>>().join(", ")
}

/// The operators of a checkpoint that have state and are not in the job, in ascending order.
pub fn unclaimed_operators(metadata: &CheckpointMetadata, targets: &[OperatorTarget]) -> Vec<OperatorUid> {
    let targets = stable(targets);
    let is_unclaimed = |operator: &&OperatorState| has_state(operator) && !targets.contains_key(&operator.uid);
    let mut uids: Vec<_> =
        metadata.operators.iter().filter(is_unclaimed).map(|operator| operator.uid.clone()).collect();
    uids.sort();
    uids
}

/// The operators under whose uids something may be restored.
fn stable(targets: &[OperatorTarget]) -> BTreeMap<&OperatorUid, &OperatorTarget> {
    targets.iter().filter(|target| target.is_stable).map(|target| (&target.uid, target)).collect()
}

/// Assigns the state of a checkpoint to the operators of a job. State that no operator of the job would get is an error:
/// whoever wants to lose it leaves [`unclaimed_operators`] out of the metadata.
pub fn redistribute(
    metadata: &CheckpointMetadata,
    targets: &[OperatorTarget],
) -> Result<Assignment, RedistributeError> {
    let uids = unclaimed_operators(metadata, targets);
    let targets = stable(targets);
    if !uids.is_empty() {
        let job = targets.keys().map(|uid| (*uid).clone()).collect();
        return Err(RedistributeError::OperatorsMissing { uids, job });
    }
    if metadata.key_hash != KEY_HASH_ID && metadata.operators.iter().any(is_keyed) {
        let (expected, found) = (KEY_HASH_ID.to_owned(), metadata.key_hash.clone());
        return Err(RedistributeError::KeyHashDiffers { expected, found });
    }
    let mut operators = BTreeMap::new();
    for operator in &metadata.operators {
        if let Some(target) = targets.get(&operator.uid) {
            operators.insert(operator.uid.clone(), restore(operator, target)?);
        }
    }
    Ok(Assignment { operators })
}

fn restore(operator: &OperatorState, target: &OperatorTarget) -> Result<RestoredOperator, RedistributeError> {
    let uid = &operator.uid;
    if operator.enumerator.is_some() && !target.is_source {
        return Err(RedistributeError::NotASource { uid: uid.clone() });
    }
    let restored = operator.max_parallelism;
    if operator.finished {
        return Ok(RestoredOperator::finished(restored));
    }
    if let Some(requested) = target.max_parallelism.filter(|requested| *requested != restored) {
        return Err(RedistributeError::MaxParallelismDiffers { uid: uid.clone(), requested, restored });
    }
    restored.check(target.parallelism).map_err(|source| RedistributeError::Parallelism { uid: uid.clone(), source })?;

    let disagree = |name| RedistributeError::StatesDisagree { uid: uid.clone(), name };
    let mut old =
        OldStates::new(operator.subtasks.iter().map(|snapshot| snapshot.operator.as_ref())).map_err(disagree)?;
    // Readers get their splits from the enumerator, at the same parallelism too: one path, one order.
    let source = operator
        .enumerator
        .as_ref()
        .map(|enumerator| RestoredSource { enumerator: enumerator.clone(), splits: old.take_list(READER_SPLITS) });
    let shares = old.redistribute(target.parallelism as usize);

    let watermark = lowest_watermark(operator);
    let subtasks = (0..target.parallelism)
        .zip(shares)
        .map(|(subtask, shares)| {
            let range = operator.max_parallelism.range_of(subtask, target.parallelism);
            RestoredSubtask {
                keyed: keyed(operator, range),
                raw_keyed: raw_keyed(operator, range),
                operator: shares,
                watermark,
            }
        })
        .collect();
    let has_state = operator.enumerator.is_some() || operator.subtasks.iter().any(OperatorSnapshot::has_state);
    let ended = HaveEnded::of(operator);
    Ok(RestoredOperator { max_parallelism: restored, ended, finished: false, has_state, source, subtasks })
}

/// The parts of the old subtasks' keyed state that fall into the range of a new subtask.
fn keyed(operator: &OperatorState, range: KeyGroupRange) -> Vec<KeyedStateHandle> {
    let old = operator.subtasks.iter().filter_map(|snapshot| snapshot.keyed.as_ref());
    old.filter_map(|old| {
        let range = old.range.intersection(range)?;
        Some(KeyedStateHandle { range, parts: within(range, &old.parts), ..old.clone() })
    })
    .collect()
}

/// The same of raw keyed state.
fn raw_keyed(operator: &OperatorState, range: KeyGroupRange) -> Vec<RawKeyedStateHandle> {
    let old = operator.subtasks.iter().filter_map(|snapshot| snapshot.raw_keyed.as_ref());
    old.filter_map(|old| {
        let range = old.range.intersection(range)?;
        Some(RawKeyedStateHandle { range, parts: within(range, &old.parts), state: old.state.clone() })
    })
    .collect()
}

fn within(range: KeyGroupRange, parts: &[KeyGroupPart]) -> Vec<KeyGroupPart> {
    parts.iter().filter(|part| range.contains(part.group)).copied().collect()
}

/// A subtask that has finished holds nothing back; one without a watermark holds back everything.
fn lowest_watermark(operator: &OperatorState) -> Option<i64> {
    let of = |snapshot: &OperatorSnapshot| match snapshot.watermark {
        None if snapshot.ended => Some(i64::MAX),
        watermark => watermark,
    };
    operator.subtasks.iter().map(of).min().flatten()
}

/// Whether something would be lost without the operator.
fn has_state(operator: &OperatorState) -> bool {
    let has_elements = |snapshot: &OperatorSnapshot| {
        snapshot.operator.iter().flat_map(|operator| &operator.parts).any(|part| part.elements > 0)
    };
    operator.enumerator.is_some() || is_keyed(operator) || operator.subtasks.iter().any(has_elements)
}

/// Whether there is something under a key. Every operator on a keyed stream has tables, be they empty.
fn is_keyed(operator: &OperatorState) -> bool {
    let has_parts = |snapshot: &OperatorSnapshot| {
        let keyed = snapshot.keyed.iter().flat_map(|keyed| &keyed.parts);
        keyed.chain(snapshot.raw_keyed.iter().flat_map(|raw| &raw.parts)).next().is_some()
    };
    operator.subtasks.iter().any(has_parts)
}
