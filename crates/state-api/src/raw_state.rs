//! Raw state: streams that a function writes in a snapshot and reads at a restore, and nobody else looks into.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};

use bytes::Bytes;

use crate::checkpoint_stream::CheckpointStateOutputStream;
use crate::{Checksum, KeyGroup, KeyGroupPart, KeyGroupRange, OperatorStateMeta, Redistribution, Schema, StorageError};

/// Name under which the partitions of the raw operator stream stand in a snapshot, as a split list.
pub const RAW_OPERATOR_STATE: &str = "_raw_operator_state";

/// What is recorded of the raw operator stream.
pub fn raw_operator_state_meta() -> OperatorStateMeta {
    OperatorStateMeta {
        name: RAW_OPERATOR_STATE.to_owned(),
        redistribution: Redistribution::Split,
        map_key: None,
        element: Schema::Opaque { name: "raw".to_owned(), version: 1 },
    }
}

/// A raw stream was used in a way that it cannot be. A mistake in the program; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawStreamError {
    /// The stream was to be written although what is restored of it was never asked for. That would be gone, or come back
    /// in the next snapshot that writes nothing.
    #[error("{what} is restored and was not read: what is written would take its place; read it in `initialize_state`")]
    NotRead {
        /// Raw operator state or raw keyed state.
        what: &'static str,
    },
    /// Bytes were written before a key group was started.
    #[error("raw keyed state was written before a key group was started")]
    NoKeyGroup,
    /// The group is another subtask's.
    #[error("key group {group} is not in {range}, the range of this subtask")]
    ForeignKeyGroup {
        /// The group.
        group: KeyGroup,
        /// The groups that may be written.
        range: KeyGroupRange,
    },
    /// The group was started before: each is written in one piece.
    #[error("key group {group} was started before")]
    StartedBefore {
        /// The group.
        group: KeyGroup,
    },
}

impl From<RawStreamError> for io::Error {
    fn from(error: RawStreamError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

/// Takes the raw keyed state of one operator subtask, key group by key group: [`start_new_key_group`], then
/// [`Write`].
///
/// Groups may come in any order, each once; groups that are left out have no state.
///
/// [`start_new_key_group`]: KeyedStateCheckpointOutputStream::start_new_key_group
#[derive(Debug, Clone)]
pub struct KeyedStateCheckpointOutputStream {
    range: KeyGroupRange,
    current: Option<KeyGroup>,
    groups: BTreeMap<KeyGroup, Vec<u8>>,
}

impl KeyedStateCheckpointOutputStream {
    /// A stream for these key groups.
    pub fn new(range: KeyGroupRange) -> Self {
        Self { range, current: None, groups: BTreeMap::new() }
    }

    /// What is written from now on belongs to `group`.
    ///
    /// Fails when the group is not one of this subtask, and when it was started before; then the group before goes on.
    pub fn start_new_key_group(&mut self, group: KeyGroup) -> Result<(), RawStreamError> {
        if !self.range.contains(group) {
            return Err(RawStreamError::ForeignKeyGroup { group, range: self.range });
        }
        if self.groups.contains_key(&group) {
            return Err(RawStreamError::StartedBefore { group });
        }
        self.groups.insert(group, Vec::new());
        self.current = Some(group);
        Ok(())
    }

    /// The group that is being written; `None` before the first.
    pub fn current_key_group(&self) -> Option<KeyGroup> {
        self.current
    }

    /// The groups that may be written.
    pub fn key_groups(&self) -> KeyGroupRange {
        self.range
    }

    /// Whether a group was started.
    pub fn is_key_group_already_started(&self, group: KeyGroup) -> bool {
        self.groups.contains_key(&group)
    }

    /// Whether a group was started and another one after it.
    pub fn is_key_group_already_finished(&self, group: KeyGroup) -> bool {
        self.groups.contains_key(&group) && self.current != Some(group)
    }

    /// What was written, to be stored.
    pub fn freeze(self) -> FrozenRawKeyedState {
        let groups = self.groups.into_iter().map(|(group, bytes)| (group, Bytes::from(bytes))).collect();
        FrozenRawKeyedState { range: self.range, groups }
    }
}

impl Write for KeyedStateCheckpointOutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let current = self.current.and_then(|group| self.groups.get_mut(&group));
        current.ok_or(RawStreamError::NoKeyGroup)?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Raw keyed state that waits to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenRawKeyedState {
    /// The groups that the subtask owned.
    pub range: KeyGroupRange,
    /// The groups that there is state of, in ascending order. One without bytes was started and nothing was written.
    pub groups: Vec<(KeyGroup, Bytes)>,
}

impl FrozenRawKeyedState {
    /// Writes the groups to a stream, one part each.
    pub async fn write(self, stream: &mut CheckpointStateOutputStream<'_>) -> Result<Vec<KeyGroupPart>, StorageError> {
        let mut parts = Vec::with_capacity(self.groups.len());
        for (group, bytes) in self.groups {
            let (offset, length, checksum) = (stream.position(), bytes.len() as u64, Checksum::of(&bytes));
            stream.write(bytes).await?;
            parts.push(KeyGroupPart { group, offset, length, checksum });
        }
        Ok(parts)
    }
}

/// Takes the raw operator state of one operator subtask, in partitions. When the parallelism changes, whole partitions are
/// divided among the subtasks as the elements of a split list are.
#[derive(Debug, Clone, Default)]
pub struct OperatorStateCheckpointOutputStream {
    partitions: Vec<Vec<u8>>,
}

impl OperatorStateCheckpointOutputStream {
    /// What is written from now on belongs to a new partition.
    pub fn start_new_partition(&mut self) {
        self.partitions.push(Vec::new());
    }

    /// Number of partitions so far.
    pub fn number_of_partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The partitions, to be stored.
    pub fn freeze(self) -> Vec<Bytes> {
        self.partitions.into_iter().map(Bytes::from).collect()
    }
}

impl Write for OperatorStateCheckpointOutputStream {
    /// What is written before a partition was started belongs to partition 0.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.partitions.is_empty() {
            self.start_new_partition();
        }
        let last = self.partitions.last_mut().expect("there is one now");
        last.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads restored raw state.
pub type StateInputStream = Cursor<Bytes>;

/// One restored partition of raw operator state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePartitionStreamProvider(Bytes);

impl StatePartitionStreamProvider {
    /// A partition with this content.
    pub fn new(content: Bytes) -> Self {
        Self(content)
    }

    /// A stream from the beginning of the partition. Its content has been read and checked.
    pub fn get_stream(&self) -> StateInputStream {
        Cursor::new(self.0.clone())
    }
}

/// The restored raw keyed state of one key group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGroupStatePartitionStreamProvider {
    group: KeyGroup,
    content: Bytes,
}

impl KeyGroupStatePartitionStreamProvider {
    /// The state of a group.
    pub fn new(group: KeyGroup, content: Bytes) -> Self {
        Self { group, content }
    }

    /// The group.
    pub fn key_group(&self) -> KeyGroup {
        self.group
    }

    /// A stream from the beginning of the group's state. Its content has been read and checked.
    pub fn get_stream(&self) -> StateInputStream {
        Cursor::new(self.content.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: E116.
    #[test]
    fn what_is_written_before_a_partition_is_started_is_partition_0() {
        let mut stream = OperatorStateCheckpointOutputStream::default();
        assert_eq!(stream.number_of_partitions(), 0);
        stream.write_all(b"ze").unwrap();
        stream.write_all(b"ro").unwrap();
        stream.start_new_partition();
        stream.start_new_partition();
        stream.write_all(b"two").unwrap();
        assert_eq!(stream.number_of_partitions(), 3);
        assert_eq!(stream.freeze(), ["zero", "", "two"]);
    }

    #[test]
    fn a_key_group_is_written_once_and_in_one_piece() {
        let range = KeyGroupRange::new(KeyGroup(3), KeyGroup(6)).unwrap();
        let mut stream = KeyedStateCheckpointOutputStream::new(range);
        assert_eq!((stream.key_groups(), stream.current_key_group()), (range, None));
        let error = stream.write_all(b"x").unwrap_err();
        assert_eq!(error.to_string(), "raw keyed state was written before a key group was started");

        stream.start_new_key_group(KeyGroup(5)).unwrap();
        stream.write_all(b"fi").unwrap();
        let foreign = stream.start_new_key_group(KeyGroup(7)).unwrap_err();
        assert_eq!(foreign, RawStreamError::ForeignKeyGroup { group: KeyGroup(7), range });
        let twice = stream.start_new_key_group(KeyGroup(5)).unwrap_err();
        assert_eq!(twice, RawStreamError::StartedBefore { group: KeyGroup(5) });
        // A refused group does not end the one before it.
        assert_eq!(stream.current_key_group(), Some(KeyGroup(5)));
        stream.write_all(b"ve").unwrap();
        assert!(stream.is_key_group_already_started(KeyGroup(5)) && !stream.is_key_group_already_finished(KeyGroup(5)));

        stream.start_new_key_group(KeyGroup(3)).unwrap();
        assert!(stream.is_key_group_already_finished(KeyGroup(5)) && !stream.is_key_group_already_started(KeyGroup(4)));
        stream.write_all(b"three").unwrap();
        let expected = vec![(KeyGroup(3), Bytes::from("three")), (KeyGroup(5), Bytes::from("five"))];
        assert_eq!(stream.freeze(), FrozenRawKeyedState { range, groups: expected });
    }
}
