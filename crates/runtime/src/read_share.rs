//! Reads what the subtasks of an operator get back, and checks every byte of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_checkpoint::{OperatorStatePiece, OperatorStateShare, RestoredSource, RestoredSubtask};
use highwater_state_api::operator_state::{elements, slice_elements};
use highwater_state_api::{
    CheckpointId, CheckpointStorage, KeyGroup, KeyGroupPart, ObjectPath, RestoredElements, Schema, StateHandle,
    StorageError, check, read_state,
};
use highwater_stream_api::Timestamp;

use crate::operator::{RestoredKeyedState, RestoredOperator, RestoredOperatorState};

/// What the split enumerator of a source gets back, read and checked.
#[derive(Debug, Clone)]
pub struct RestoredSplits {
    /// What the enumerator had written.
    pub enumerator: Bytes,
    /// The schema of the splits; `None` when no reader wrote any list.
    pub schema: Option<Schema>,
    /// The splits that readers had not read to their end, with positions, in the order of the old subtasks.
    pub splits: Vec<Bytes>,
}

/// Reads the state of one operator. What several subtasks get of one part is read once and shared by them.
pub struct ShareReader<'s> {
    storage: &'s dyn CheckpointStorage,
    /// Parts of operator state that lie in objects, by object, first byte and length: a part without bytes begins where the
    /// next one does.
    parts: BTreeMap<(ObjectPath, u64, u64), Bytes>,
}

impl<'s> ShareReader<'s> {
    /// Has read nothing so far.
    pub fn new(storage: &'s dyn CheckpointStorage) -> Self {
        Self { storage, parts: BTreeMap::new() }
    }

    /// Reads the share of one subtask.
    pub async fn read_subtask(
        &mut self,
        checkpoint: CheckpointId,
        subtask: &RestoredSubtask,
        finished: bool,
    ) -> Result<RestoredOperator, StorageError> {
        let mut keyed = Vec::with_capacity(subtask.keyed.len());
        for handle in &subtask.keyed {
            let groups = self.read_key_groups(&handle.parts, &handle.state).await?;
            keyed.push(RestoredKeyedState { tables: handle.tables.clone(), groups });
        }
        let mut raw_keyed = Vec::new();
        for handle in &subtask.raw_keyed {
            raw_keyed.extend(self.read_key_groups(&handle.parts, &handle.state).await?);
        }
        let mut operator = Vec::with_capacity(subtask.operator.len());
        for share in &subtask.operator {
            operator.push(self.read_state(share).await?);
        }
        let watermark = subtask.watermark.map_or(Timestamp::MIN, Timestamp::from_raw);
        Ok(RestoredOperator { checkpoint, keyed, raw_keyed, operator, watermark, finished })
    }

    /// Reads what the enumerator of a source gets back.
    pub async fn read_source(&mut self, source: &RestoredSource) -> Result<RestoredSplits, StorageError> {
        let enumerator = source.enumerator.clone();
        let Some(share) = &source.splits else {
            return Ok(RestoredSplits { enumerator, schema: None, splits: Vec::new() });
        };
        let state = self.read_state(share).await?;
        let splits = state.serialized_elements().map(|split| split.map(Bytes::copy_from_slice));
        let splits = splits.collect::<Result<Vec<_>, _>>().map_err(|error| StorageError::Corrupt {
            path: share.pieces.first().map_or_else(metadata_path, |piece| path_of(&piece.state)),
            expected: "a list of splits".to_owned(),
            found: error.to_string(),
        })?;
        Ok(RestoredSplits { enumerator, schema: Some(state.meta.element), splits })
    }

    async fn read_state(&mut self, share: &OperatorStateShare) -> Result<RestoredOperatorState, StorageError> {
        let mut read = Vec::with_capacity(share.pieces.len());
        for piece in &share.pieces {
            let strings_each = if share.meta.is_broadcast() { 2 } else { 1 };
            let part = self.read_part(piece, strings_each).await?;
            let strings = piece.elements.start * strings_each..piece.elements.end * strings_each;
            let content = slice_elements(&part, strings).map_err(|error| corrupt(piece, error.to_string()))?;
            let elements = piece.elements.end - piece.elements.start;
            read.push(RestoredElements { elements, content, is_carried: piece.is_carried });
        }
        Ok(RestoredOperatorState { meta: share.meta.clone(), elements: read })
    }

    /// Reads the whole part that a piece is cut from.
    async fn read_part(&mut self, piece: &OperatorStatePiece, strings_each: u64) -> Result<Bytes, StorageError> {
        let OperatorStatePiece { state, offset, length, checksum, part_elements, .. } = piece;
        let key = state.object().map(|path| (path.clone(), *offset, *length));
        if let Some(part) = key.as_ref().and_then(|key| self.parts.get(key)) {
            return Ok(part.clone());
        }
        let (part, path) = self.read_range(state, *offset, *length).await?;
        check(&path, &part, *length, *checksum)?;
        let mut strings = 0;
        for string in elements(&part) {
            string.map_err(|error| corrupt(piece, error.to_string()))?;
            strings += 1;
        }
        if strings != part_elements * strings_each {
            return Err(corrupt(piece, format!("{} elements", strings / strings_each)));
        }
        if let Some(key) = key {
            self.parts.insert(key, part.clone());
        }
        Ok(part)
    }

    async fn read_key_groups(
        &self,
        parts: &[KeyGroupPart],
        state: &StateHandle,
    ) -> Result<Vec<(KeyGroup, Bytes)>, StorageError> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(Vec::new()) };
        // Key groups are written in ascending order, so that those of a range lie side by side: one read gets them all.
        let length = last.offset + last.length - first.offset;
        let (bytes, path) = self.read_range(state, first.offset, length).await?;
        let mut groups = Vec::with_capacity(parts.len());
        for part in parts {
            let start = (part.offset - first.offset) as usize;
            let end = start + part.length as usize;
            if end > bytes.len() {
                let (expected, found) = (format!("{end} bytes"), format!("{} bytes", bytes.len()));
                return Err(StorageError::Corrupt { path, expected, found });
            }
            let stream = bytes.slice(start..end);
            check(&path, &stream, part.length, part.checksum)?;
            groups.push((part.group, stream));
        }
        Ok(groups)
    }

    /// Reads bytes of a state; also the object that they are in.
    async fn read_range(
        &self,
        state: &StateHandle,
        offset: u64,
        length: u64,
    ) -> Result<(Bytes, ObjectPath), StorageError> {
        if let StateHandle::Object { path, .. } = state {
            // Nothing to be read is not asked for: not every storage has an empty range.
            let bytes = if length == 0 { Bytes::new() } else { self.storage.read_range(path, offset, length).await? };
            return Ok((bytes, path.clone()));
        }
        let path = path_of(state);
        let bytes = read_state(self.storage, state).await?;
        let end = (offset + length) as usize;
        if bytes.len() < end {
            let (expected, found) = (format!("{end} bytes"), format!("{} bytes", bytes.len()));
            return Err(StorageError::Corrupt { path, expected, found });
        }
        Ok((bytes.slice(offset as usize..end), path))
    }
}

/// Where a state is, for messages: an inline one is in the metadata.
fn path_of(state: &StateHandle) -> ObjectPath {
    state.object().cloned().unwrap_or_else(metadata_path)
}

fn metadata_path() -> ObjectPath {
    ObjectPath::new(["_metadata"])
}

fn corrupt(piece: &OperatorStatePiece, found: String) -> StorageError {
    let expected = format!("{} elements of operator state at byte {}", piece.part_elements, piece.offset);
    StorageError::Corrupt { path: path_of(&piece.state), expected, found }
}

#[cfg(test)]
#[path = "read_share_test.rs"]
mod read_share_test;
