//! A state backend as a third party would write it: the keyed state of an operator as bytes in sorted maps.
//!
//! It implements four traits of `highwater::state` and knows no other backend. What it gets for nothing: typed state,
//! serialisation, caching, snapshots in the canonical stream, restoring, and rescaling.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use highwater::state::{
    At, ByteTables, Entry, EntryVisitor, FrozenState, KeyGroup, KeyGroupRange, KeyedBackendParameters,
    KeyedStateBackend, Prefix, Residence, SnapshotRequest, StateBackend, StateError, TableId, TableMeta, TypedRows,
};

/// Keeps working state in sorted maps, one for each key group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BTreeStateBackend;

impl StateBackend for BTreeStateBackend {
    fn name(&self) -> &str {
        "btree"
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        let range = parameters.range;
        let maps = range.iter().map(|_| Arc::default()).collect();
        Ok(Box::new(BTreeKeyedStateBackend { tables: BTreeTables { range, maps, address: Vec::new() } }))
    }
}

/// The entries of one key group: encoded address to value.
type GroupMap = BTreeMap<Vec<u8>, Vec<u8>>;

/// The backend of one operator subtask.
struct BTreeKeyedStateBackend {
    tables: BTreeTables,
}

impl KeyedStateBackend for BTreeKeyedStateBackend {
    fn backend_type(&self) -> &'static str {
        "btree"
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Bytes(&mut self.tables)
    }

    /// A freeze shares the map of every key group, so it does not take longer for more keys.
    ///
    /// The bill comes later: the first write to a key group while its map is shared clones that map, all its keys and
    /// values. For an example that is good enough. A backend for much state would clone less at a time, with
    /// persistent trees, copy-on-write pages, or the immutable files of a log-structured store.
    fn freeze(&mut self, _: &SnapshotRequest, _: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        Ok(Box::new(FrozenBTrees { range: self.tables.range, maps: self.tables.maps.clone() }))
    }
}

/// The live state: a map for each key group of `range`, in order. A snapshot that is still open shares some of them.
struct BTreeTables {
    range: KeyGroupRange,
    maps: Vec<Arc<GroupMap>>,
    /// Memory to encode addresses into, so that reading does not allocate.
    address: Vec<u8>,
}

impl BTreeTables {
    fn map_of(&mut self, group: KeyGroup) -> Result<&mut Arc<GroupMap>, StateError> {
        let range = self.range;
        let index = index_of(range, group).ok_or(StateError::ForeignKeyGroup { group, range })?;
        Ok(&mut self.maps[index])
    }
}

impl ByteTables for BTreeTables {
    fn open_table(&mut self, _: TableId, _: &TableMeta) -> Result<(), StateError> {
        Ok(()) // the number of the table is a part of every address
    }

    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        let mut address = std::mem::take(&mut self.address);
        encode(at, &mut address);
        let value = self.map_of(at.group)?.get(&address);
        out.extend_from_slice(value.map_or(&[], Vec::as_slice));
        let is_there = value.is_some();
        self.address = address;
        Ok(is_there)
    }

    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        let mut address = Vec::new();
        encode(at, &mut address);
        Arc::make_mut(self.map_of(at.group)?).insert(address, value.to_vec());
        Ok(())
    }

    fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        let mut address = Vec::new();
        encode(at, &mut address);
        let map = self.map_of(at.group)?;
        // What is not there must not clone a shared map.
        if map.contains_key(&address) {
            Arc::make_mut(map).remove(&address);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        match prefix {
            Prefix::Table(table) => {
                let beginning = table.0.to_be_bytes();
                for (group, map) in self.range.iter().zip(&self.maps) {
                    if scan_map(map, group, &beginning, visit)?.is_break() {
                        break;
                    }
                }
            }
            Prefix::Namespace { table, group, key, namespace } => {
                let mut beginning = Vec::new();
                encode(At { table, group, key, namespace, map_key: &[] }, &mut beginning);
                // Whether the visitor broke off makes no difference to the caller.
                let _ = scan_map(self.map_of(group)?, group, &beginning, visit)?;
            }
        }
        Ok(())
    }
}

/// Visits the entries whose encoded addresses begin with `beginning`.
fn scan_map(
    map: &GroupMap,
    group: KeyGroup,
    beginning: &[u8],
    visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, StateError> {
    for (address, value) in map.range(beginning.to_vec()..) {
        if !address.starts_with(beginning) {
            break;
        }
        if visit(Entry { at: decode(group, address)?, value }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A snapshot: the maps as they were, shared with the live state until that changes.
struct FrozenBTrees {
    range: KeyGroupRange,
    maps: Vec<Arc<GroupMap>>,
}

impl FrozenState for FrozenBTrees {
    /// Addresses begin with the number of the table, most significant byte first, so a map has the order that is asked
    /// for.
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        let Some(index) = index_of(self.range, group) else { return Ok(()) };
        let mut entries = self.maps[index].iter();
        entries.try_for_each(|(address, value)| visit(Entry { at: decode(group, address)?, value }))
    }
}

fn index_of(range: KeyGroupRange, group: KeyGroup) -> Option<usize> {
    range.contains(group).then(|| usize::from(group.0 - range.start().0))
}

/// Writes an address without its key group over `out`: table, then key and namespace each with their length before
/// them, then the map key. The lengths keep addresses apart whose parts run together to the same bytes.
fn encode(at: At<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&at.table.0.to_be_bytes());
    for part in [at.key, at.namespace] {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
    out.extend_from_slice(at.map_key);
}

/// Reads what [`encode`] wrote.
fn decode(group: KeyGroup, address: &[u8]) -> Result<At<'_>, StateError> {
    let parts = || -> Option<At<'_>> {
        let (table, rest) = address.split_first_chunk()?;
        let (key, rest) = split_part(rest)?;
        let (namespace, map_key) = split_part(rest)?;
        Some(At { table: TableId(u16::from_be_bytes(*table)), group, key, namespace, map_key })
    };
    parts().ok_or_else(|| StateError::Backend("an address is cut off".into()))
}

fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
}
