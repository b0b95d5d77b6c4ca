//! A complete checkpoint as the invariants look at it: decoded from the storage, independently of the restore.

use std::collections::BTreeMap;

use highwater_checkpoint::{CheckpointMetadata, OperatorState, decode_metadata};
use highwater_state_api::{
    BincodeSerializer, BoxedError, CheckpointId, KeyedStateHandle, ObjectPath, READER_SPLITS, Serializer, StateHandle,
    canonical, check, operator_state,
};

use crate::job::{COUNT_STATE, KEYS_STATE, Split, Transaction, Uids, read_enumerator};
use crate::storage::SimStorage;

/// What a complete checkpoint says.
pub(crate) struct CheckpointView {
    /// The index of the next record of each split that is not read to its end.
    pub positions: BTreeMap<u32, u32>,
    /// The state of the counters; `None` when their task has finished, and has none.
    pub counters: Option<CountersView>,
    /// The transactions that are not known to be committed.
    pub transactions: Vec<Transaction>,
}

/// What a checkpoint says of the counters.
pub(crate) struct CountersView {
    /// The count of each key.
    pub counts: BTreeMap<u32, u64>,
    /// The same from operator state: how often each key is in the counters' lists.
    pub keys: BTreeMap<u32, u64>,
}

/// Reads the metadata of a checkpoint, with everything it names: lengths and checksums are checked.
pub(crate) fn read_durable(storage: &SimStorage, metadata: &StateHandle) -> Result<CheckpointMetadata, BoxedError> {
    let decoded = decode_metadata(&read_handle(storage, metadata)?)?;
    for snapshot in decoded.operators.iter().flat_map(|operator| &operator.subtasks) {
        for handle in snapshot.handles() {
            read_handle(storage, handle)?;
        }
    }
    Ok(decoded)
}

fn read_handle(storage: &SimStorage, handle: &StateHandle) -> Result<bytes::Bytes, BoxedError> {
    match handle {
        StateHandle::Inline(bytes) => Ok(bytes.clone()),
        StateHandle::Object { path, length, checksum } => {
            let bytes = storage.peek(path).ok_or_else(|| format!("{path} does not exist"))?;
            check(path, &bytes, *length, *checksum)?;
            Ok(bytes)
        }
        other => Err(format!("a handle of a kind unknown to the simulation: {other:?}").into()),
    }
}

impl CheckpointView {
    /// Decodes what a pipeline has in a checkpoint. An error says what in it cannot be.
    pub(crate) fn read(storage: &SimStorage, metadata: &CheckpointMetadata, uids: &Uids) -> Result<Self, BoxedError> {
        let operator = |uid: &str| {
            let found = metadata.operators.iter().find(|operator| operator.uid.as_str() == uid);
            found.ok_or_else(|| BoxedError::from(format!("operator {uid} is not in the checkpoint")))
        };
        let counter = operator(uids.counter)?;
        let sources = uids.sources.iter().map(|uid| operator(uid)).collect::<Result<Vec<_>, _>>()?;
        let counters = match counter.finished {
            true => None,
            false => Some(CountersView { counts: counts(storage, counter)?, keys: keys(storage, counter)? }),
        };
        Ok(Self {
            positions: positions(storage, sources)?,
            counters,
            transactions: transactions(storage, operator(uids.sink)?)?,
        })
    }
}

fn positions(storage: &SimStorage, sources: Vec<&OperatorState>) -> Result<BTreeMap<u32, u32>, BoxedError> {
    let mut splits = Vec::new();
    // One that has finished has read everything.
    for source in sources.into_iter().filter(|source| !source.finished) {
        let enumerator = source.enumerator.as_ref().ok_or("a source has no enumerator state")?;
        splits.extend(read_enumerator(enumerator)?);
        for element in elements(storage, source, READER_SPLITS)? {
            let split: Split = BincodeSerializer::default().deserialize(&element)?;
            splits.push(split);
        }
    }
    let mut positions = BTreeMap::new();
    for Split { number, next } in splits {
        if let Some(other) = positions.insert(number, next) {
            return Err(format!("split {number} is in it twice, at {other} and at {next}").into());
        }
    }
    Ok(positions)
}

fn transactions(storage: &SimStorage, sink: &OperatorState) -> Result<Vec<Transaction>, BoxedError> {
    let serializer = BincodeSerializer::default();
    let read = |element: Vec<u8>| {
        let (_, transaction): (CheckpointId, Transaction) = serializer.deserialize(&element)?;
        Ok(transaction)
    };
    elements(storage, sink, "_sink_transactions")?.into_iter().map(read).collect()
}

/// The elements of a list in all subtasks.
fn elements(storage: &SimStorage, operator: &OperatorState, name: &str) -> Result<Vec<Vec<u8>>, BoxedError> {
    let mut found = Vec::new();
    for handle in operator.subtasks.iter().filter_map(|snapshot| snapshot.operator.as_ref()) {
        let content = read_handle(storage, &handle.state)?;
        for part in handle.parts.iter().filter(|part| part.meta.name == name) {
            let bytes = &content[part.offset as usize..(part.offset + part.length) as usize];
            check(&ObjectPath::new(["part"]), bytes, part.length, part.checksum)?;
            for element in operator_state::elements(bytes) {
                found.push(element?.to_vec());
            }
        }
    }
    Ok(found)
}

fn keys(storage: &SimStorage, counter: &OperatorState) -> Result<BTreeMap<u32, u64>, BoxedError> {
    let mut keys = BTreeMap::new();
    for element in elements(storage, counter, KEYS_STATE)? {
        let key: u32 = BincodeSerializer::default().deserialize(&element)?;
        *keys.entry(key).or_default() += 1;
    }
    Ok(keys)
}

fn counts(storage: &SimStorage, counter: &OperatorState) -> Result<BTreeMap<u32, u64>, BoxedError> {
    let mut counts = BTreeMap::new();
    for handle in counter.subtasks.iter().filter_map(|snapshot| snapshot.keyed.as_ref()) {
        read_counts(storage, handle, &mut counts)?;
    }
    Ok(counts)
}

fn read_counts(
    storage: &SimStorage,
    handle: &KeyedStateHandle,
    counts: &mut BTreeMap<u32, u64>,
) -> Result<(), BoxedError> {
    let content = read_handle(storage, &handle.state)?;
    let serializer = BincodeSerializer::default();
    for part in &handle.parts {
        let stream = content.slice(part.offset as usize..(part.offset + part.length) as usize);
        check(&ObjectPath::new(["part"]), &stream, part.length, part.checksum)?;
        for section in canonical::sections(stream)? {
            if handle.tables[usize::from(section.table.0)].name != COUNT_STATE {
                continue;
            }
            let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            section.visit(section.table, part.group, &mut |entry| {
                entries.push((entry.at.key.to_vec(), entry.value.to_vec()));
                Ok(())
            })?;
            for (key, count) in entries {
                let (key, count): (u32, u64) = (serializer.deserialize(&key)?, serializer.deserialize(&count)?);
                if counts.insert(key, count).is_some() {
                    return Err(format!("key {key} has two counts").into());
                }
            }
        }
    }
    Ok(())
}
