//! Metadata of version 1, which is read for ever. Defined in `docs/format/checkpoint-version-1.md`.

use bytes::Bytes;
use highwater_state_api::operator_state::write_element;
use highwater_state_api::{
    Attempt, CheckpointId, Checksum, JobName, KeyGroupPart, KeyGroupRange, KeyedStateHandle, MaxParallelism,
    OperatorStateHandle, OperatorStateMeta, OperatorStatePart, OperatorUid, Redistribution, Schema, StateHandle,
    StateKind, TableMeta,
};
use serde::Deserialize;

use crate::{CheckpointMetadata, OperatorSnapshot, OperatorState};

#[derive(Deserialize)]
pub(crate) struct MetadataV1 {
    job: JobName,
    attempt: Attempt,
    checkpoint: CheckpointId,
    triggered_at_ms: u64,
    key_hash: String,
    operators: Vec<OperatorV1>,
}

#[derive(Deserialize)]
struct OperatorV1 {
    uid: OperatorUid,
    max_parallelism: MaxParallelism,
    subtasks: Vec<SnapshotV1>,
    enumerator: Option<Bytes>,
}

#[derive(Deserialize)]
struct SnapshotV1 {
    keyed: Option<KeyedV1>,
    lists: Vec<ListV1>,
    watermark: Option<i64>,
    finished: bool,
}

#[derive(Deserialize)]
struct KeyedV1 {
    range: KeyGroupRange,
    tables: Vec<TableV1>,
    parts: Vec<KeyGroupPart>,
    state: StateHandle,
}

#[derive(Deserialize)]
struct TableV1 {
    name: String,
    kind: KindV1,
    key: Schema,
    map_key: Option<Schema>,
    value: Schema,
}

#[derive(Deserialize)]
enum KindV1 {
    Value,
    Map,
}

#[derive(Deserialize)]
struct ListV1 {
    name: String,
    redistribution: RedistributionV1,
    schema: Schema,
    elements: Vec<Bytes>,
}

#[derive(Deserialize)]
enum RedistributionV1 {
    Split,
    Union,
}

impl From<MetadataV1> for CheckpointMetadata {
    fn from(metadata: MetadataV1) -> Self {
        let MetadataV1 { job, attempt, checkpoint, triggered_at_ms, key_hash, operators } = metadata;
        let operators = operators.into_iter().map(OperatorState::from).collect();
        Self { job, attempt, checkpoint, triggered_at_ms, key_hash, operators }
    }
}

impl From<OperatorV1> for OperatorState {
    fn from(operator: OperatorV1) -> Self {
        let OperatorV1 { uid, max_parallelism, subtasks, enumerator } = operator;
        let subtasks = subtasks.into_iter().map(OperatorSnapshot::from).collect();
        Self { uid, max_parallelism, finished: false, subtasks, enumerator }
    }
}

impl From<SnapshotV1> for OperatorSnapshot {
    fn from(snapshot: SnapshotV1) -> Self {
        let SnapshotV1 { keyed, lists, watermark, finished } = snapshot;
        let operator = (!lists.is_empty()).then(|| operator_state(lists));
        Self { keyed: keyed.map(KeyedStateHandle::from), raw_keyed: None, operator, watermark, ended: finished }
    }
}

impl From<KeyedV1> for KeyedStateHandle {
    fn from(keyed: KeyedV1) -> Self {
        let KeyedV1 { range, tables, parts, state } = keyed;
        Self { range, tables: tables.into_iter().map(TableMeta::from).collect(), parts, state }
    }
}

impl From<TableV1> for TableMeta {
    fn from(table: TableV1) -> Self {
        let TableV1 { name, kind, key, map_key, value } = table;
        let kind = match kind {
            KindV1::Value => StateKind::Value,
            KindV1::Map => StateKind::Map,
        };
        Self { name, kind, key, namespace: Schema::unit(), map_key, value }
    }
}

/// The lists with their elements as parts of an inline state.
fn operator_state(mut lists: Vec<ListV1>) -> OperatorStateHandle {
    lists.sort_by(|one, other| one.name.cmp(&other.name));
    let mut content = Vec::new();
    let mut parts = Vec::with_capacity(lists.len());
    for ListV1 { name, redistribution, schema, elements } in lists {
        let offset = content.len();
        elements.iter().for_each(|element| write_element(element, &mut content));
        let redistribution = match redistribution {
            RedistributionV1::Split => Redistribution::Split,
            RedistributionV1::Union => Redistribution::Union,
        };
        parts.push(OperatorStatePart {
            meta: OperatorStateMeta { name, redistribution, map_key: None, element: schema },
            elements: elements.len() as u64,
            offset: offset as u64,
            length: (content.len() - offset) as u64,
            checksum: Checksum::of(&content[offset..]),
        });
    }
    OperatorStateHandle { parts, state: StateHandle::Inline(Bytes::from(content)) }
}
