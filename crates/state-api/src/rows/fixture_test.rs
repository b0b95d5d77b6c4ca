//! What the tests of the row tier stand on: two small backends, and snapshots as plain bytes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use bytes::Bytes;

use super::TypedRows;
use crate::{
    At, BincodeSerializer, ByteTables, CheckpointId, Entry, EntryVisitor, FrozenKeyedState, FrozenState, JobName, Key,
    KeyGroup, KeyGroupRange, KeyHash, KeyHasher, KeyedBackendParameters, KeyedState, KeyedStateBackend,
    KeyedStateStore, MaxParallelism, OperatorUid, Prefix, Residence, RowSettings, SnapshotRequest, StateError, TableId,
    TableMeta, canonical,
};

/// How the state under test is held: in rows, or in bytes behind a cache of so many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Heap,
    Bytes { cached_rows_max: usize },
}

/// Every way that behaviour must not depend on.
pub(crate) const EVERY_WAY: [Held; 4] = [
    Held::Heap,
    Held::Bytes { cached_rows_max: 0 },
    Held::Bytes { cached_rows_max: 3 },
    Held::Bytes { cached_rows_max: 1_000_000 },
];

pub(crate) fn groups() -> MaxParallelism {
    MaxParallelism::new(16).unwrap()
}

pub(crate) fn all() -> KeyGroupRange {
    groups().all()
}

pub(crate) fn hash<K: Key>(key: &K) -> KeyHash {
    KeyHasher::default().hash(key).unwrap()
}

/// An empty state of the subtask that owns `range`.
pub(crate) fn open<K: Key>(held: Held, range: KeyGroupRange) -> KeyedState {
    match held {
        Held::Heap => open_on::<K>(Box::new(HeapBackend), 0, range),
        Held::Bytes { cached_rows_max } => open_on::<K>(Box::new(TreeBackend::default()), cached_rows_max, range),
    }
}

/// A state on a backend that is empty.
pub(crate) fn open_on<K: Key>(
    backend: Box<dyn KeyedStateBackend>,
    cached_rows_max: usize,
    range: KeyGroupRange,
) -> KeyedState {
    let parameters = KeyedBackendParameters {
        job: JobName::new("job").unwrap(),
        operator: OperatorUid::new("operator").unwrap(),
        subtask: 0,
        max_parallelism: groups(),
        range,
    };
    let settings = RowSettings { cached_rows_max, hash_seed: 7 };
    KeyedState::open::<K>(backend, &parameters, Arc::new(BincodeSerializer::traced()), settings).unwrap()
}

pub(crate) fn store(state: &mut KeyedState) -> &mut dyn KeyedStateStore {
    state
}

pub(crate) fn request() -> SnapshotRequest {
    SnapshotRequest { checkpoint: CheckpointId(1) }
}

/// A snapshot as it is kept: tables, and the canonical stream of each group that has one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Written {
    pub(crate) tables: Vec<TableMeta>,
    pub(crate) groups: BTreeMap<u16, Bytes>,
}

impl Written {
    pub(crate) fn of(mut frozen: FrozenKeyedState) -> Self {
        let mut written = Self { tables: frozen.tables.clone(), groups: BTreeMap::new() };
        for group in all().iter() {
            let mut stream = Vec::new();
            canonical::write_key_group(&mut *frozen.content, group, &mut stream).unwrap();
            if !stream.is_empty() {
                written.groups.insert(group.0, stream.into());
            }
        }
        written
    }

    pub(crate) fn restore_into(&self, state: &mut KeyedState, range: KeyGroupRange) -> Result<(), StateError> {
        state.restore_tables(&self.tables)?;
        for group in range.iter() {
            if let Some(stream) = self.groups.get(&group.0) {
                state.restore_key_group(&self.tables, group, stream.clone())?;
            }
        }
        Ok(())
    }

    /// A state of this whole snapshot.
    pub(crate) fn reopen<K: Key>(&self, held: Held) -> KeyedState {
        let mut state = open::<K>(held, all());
        self.restore_into(&mut state, all()).unwrap();
        state
    }

    /// The entries by the name of their table, in order.
    pub(crate) fn entries(&self) -> BTreeMap<(String, OwnedAt), Vec<u8>> {
        let mut entries = BTreeMap::new();
        for (group, stream) in &self.groups {
            for section in canonical::sections(stream.clone()).unwrap() {
                let name = &self.tables[usize::from(section.table.0)].name;
                let mut add = |entry: Entry<'_>| {
                    let at = OwnedAt { table: TableId(0), ..OwnedAt::from(entry.at) };
                    assert!(entries.insert((name.clone(), at), entry.value.to_vec()).is_none(), "twice: {entry:?}");
                    Ok(())
                };
                section.visit(section.table, KeyGroup(*group), &mut add).unwrap();
            }
        }
        entries
    }
}

/// The rows are the state.
pub(crate) struct HeapBackend;

impl KeyedStateBackend for HeapBackend {
    fn backend_type(&self) -> &'static str {
        "test-heap"
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Rows
    }

    fn freeze(&mut self, _: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        Ok(rows.freeze())
    }
}

/// An address that owns its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnedAt {
    pub(crate) table: TableId,
    pub(crate) group: KeyGroup,
    pub(crate) key: Vec<u8>,
    pub(crate) namespace: Vec<u8>,
    pub(crate) map_key: Vec<u8>,
}

impl From<At<'_>> for OwnedAt {
    fn from(at: At<'_>) -> Self {
        Self {
            table: at.table,
            group: at.group,
            key: at.key.to_vec(),
            namespace: at.namespace.to_vec(),
            map_key: at.map_key.to_vec(),
        }
    }
}

impl OwnedAt {
    fn entry<'a>(&'a self, value: &'a [u8]) -> Entry<'a> {
        let Self { table, group, key, namespace, map_key } = self;
        Entry { at: At { table: *table, group: *group, key, namespace, map_key }, value }
    }
}

/// The state is bytes in an ordered map.
#[derive(Clone, Default)]
pub(crate) struct TreeBackend {
    /// How often it was read, by `get` or `scan`.
    pub(crate) reads: Arc<AtomicU32>,
    /// Counts down with every call; the one that finds 1 fails. 0 and below: none does.
    pub(crate) calls_to_failure: Arc<AtomicI64>,
    tables: Vec<TableMeta>,
    entries: BTreeMap<OwnedAt, Vec<u8>>,
}

impl TreeBackend {
    fn call(&self) -> Result<(), StateError> {
        if self.calls_to_failure.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Err(StateError::Backend("the disk is gone".into()));
        }
        Ok(())
    }
}

impl KeyedStateBackend for TreeBackend {
    fn backend_type(&self) -> &'static str {
        "test-tree"
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Bytes(self)
    }

    fn freeze(&mut self, _: &SnapshotRequest, _: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        Ok(Box::new(self.clone()))
    }
}

impl ByteTables for TreeBackend {
    fn open_table(&mut self, table: TableId, meta: &TableMeta) -> Result<(), StateError> {
        assert_eq!(usize::from(table.0), self.tables.len(), "tables are opened once, in order");
        self.tables.push(meta.clone());
        Ok(())
    }

    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        assert!(usize::from(at.table.0) < self.tables.len());
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.call()?;
        let value = self.entries.get(&at.into());
        out.extend_from_slice(value.map(Vec::as_slice).unwrap_or_default());
        Ok(value.is_some())
    }

    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        assert!(usize::from(at.table.0) < self.tables.len());
        self.call()?;
        self.entries.insert(at.into(), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        self.call()?;
        self.entries.remove(&at.into());
        Ok(())
    }

    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        let is_wanted = |at: &OwnedAt| match prefix {
            Prefix::Table(table) => at.table == table,
            Prefix::Namespace { table, group, key, namespace } => {
                at.table == table && at.group == group && at.key == key && at.namespace == namespace
            }
        };
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.call()?;
        for (at, value) in self.entries.iter().filter(|(at, _)| is_wanted(at)) {
            if visit(at.entry(value)).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl FrozenState for TreeBackend {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        self.entries.iter().filter(|(at, _)| at.group == group).try_for_each(|(at, value)| visit(at.entry(value)))
    }
}
