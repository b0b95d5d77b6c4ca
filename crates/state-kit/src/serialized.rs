//! A snapshot that is bytes already: what a synchronous freeze leaves for the asynchronous half.

use bytes::Bytes;
use highwater_state_api::{EntryVisitor, FrozenState, KeyGroup, KeyGroupRange, StateError, canonical};

/// The canonical stream of every key group of a subtask.
#[derive(Debug)]
pub(crate) struct SerializedState {
    range: KeyGroupRange,
    /// One for each group of the range, in their order; empty where the group is.
    groups: Vec<Bytes>,
}

impl SerializedState {
    /// Serialises a snapshot, which is not needed afterwards.
    pub(crate) fn of(frozen: &mut dyn FrozenState, range: KeyGroupRange) -> Result<Self, StateError> {
        let groups = range.iter().map(|group| {
            let mut stream = Vec::new();
            canonical::write_key_group(frozen, group, &mut stream)?;
            Ok(Bytes::from(stream))
        });
        Ok(Self { range, groups: groups.collect::<Result<_, StateError>>()? })
    }
}

impl FrozenState for SerializedState {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        if !self.range.contains(group) {
            return Ok(());
        }
        let stream = &self.groups[usize::from(group.0 - self.range.start().0)];
        for section in canonical::sections(stream.clone())? {
            section.visit(section.table, group, visit)?;
        }
        Ok(())
    }
}
