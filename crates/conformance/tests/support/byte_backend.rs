//! A backend that keeps bytes in a sorted map, and with it six that are deliberately wrong.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use highwater_state_api::{
    At, ByteTables, Entry, EntryVisitor, FrozenState, KeyGroup, KeyedBackendParameters, KeyedStateBackend, Prefix,
    Residence, SnapshotRequest, StateBackend, StateError, TableId, TableMeta, TypedRows,
};

type Address = (TableId, KeyGroup, Vec<u8>, Vec<u8>, Vec<u8>);

/// A way to break the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The parts of an address are joined without their lengths.
    JoinsWithoutLengths,
    /// A scan of one key goes on to the keys that begin like it.
    ScansTooFar,
    /// A value without bytes is taken for none.
    TakesEmptyForAbsent,
    /// A snapshot is a view of the live state.
    FreezesNothing,
    /// What was removed stays in the snapshots.
    KeepsWhatWasRemoved,
    /// Key groups are not told apart.
    ForgetsTheGroup,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ByteBackend {
    mistake: Option<Mistake>,
}

impl ByteBackend {
    pub(crate) fn with(mistake: Mistake) -> Self {
        Self { mistake: Some(mistake) }
    }
}

impl StateBackend for ByteBackend {
    fn name(&self) -> &str {
        "btree"
    }

    fn create_keyed_backend(&self, _: &KeyedBackendParameters) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        Ok(Box::new(KeyedBytes { tables: Bytes { mistake: self.mistake, ..Bytes::default() } }))
    }
}

struct KeyedBytes {
    tables: Bytes,
}

#[derive(Clone, Default)]
struct Bytes {
    entries: Arc<Mutex<BTreeMap<Address, Vec<u8>>>>,
    mistake: Option<Mistake>,
}

impl Bytes {
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn address(&self, at: At<'_>) -> Address {
        let group = if self.makes(Mistake::ForgetsTheGroup) { KeyGroup(0) } else { at.group };
        if self.makes(Mistake::JoinsWithoutLengths) {
            return (at.table, group, [at.key, at.namespace, at.map_key].concat(), Vec::new(), Vec::new());
        }
        (at.table, group, at.key.to_vec(), at.namespace.to_vec(), at.map_key.to_vec())
    }
}

fn entry<'a>((address, value): (&'a Address, &'a Vec<u8>)) -> Entry<'a> {
    let (table, group, key, namespace, map_key) = address;
    Entry { at: At { table: *table, group: *group, key, namespace, map_key }, value }
}

impl KeyedStateBackend for KeyedBytes {
    fn backend_type(&self) -> &'static str {
        "btree"
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Bytes(&mut self.tables)
    }

    fn freeze(&mut self, _: &SnapshotRequest, _: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        let mut frozen = self.tables.clone();
        if !self.tables.makes(Mistake::FreezesNothing) {
            frozen.entries = Arc::new(Mutex::new(self.tables.entries.lock().unwrap().clone()));
        }
        Ok(Box::new(frozen))
    }
}

impl ByteTables for Bytes {
    fn open_table(&mut self, _: TableId, _: &TableMeta) -> Result<(), StateError> {
        Ok(())
    }

    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        let entries = self.entries.lock().unwrap();
        let value = entries.get(&self.address(at));
        out.extend(value.into_iter().flatten());
        Ok(value.is_some_and(|value| !value.is_empty() || !self.makes(Mistake::TakesEmptyForAbsent)))
    }

    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        self.entries.lock().unwrap().insert(self.address(at), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        if !self.makes(Mistake::KeepsWhatWasRemoved) {
            self.entries.lock().unwrap().remove(&self.address(at));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        for entry in self.entries.lock().unwrap().iter().map(entry) {
            let At { table, group, key, namespace, .. } = entry.at;
            let wanted = match prefix {
                Prefix::Table(of) => of == table,
                Prefix::Namespace { table: of, key: beginning, .. } if self.makes(Mistake::ScansTooFar) => {
                    of == table && key.starts_with(beginning)
                }
                namespaced => namespaced == Prefix::Namespace { table, group, key, namespace },
            };
            if wanted && visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl FrozenState for Bytes {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        let entries = self.entries.lock().unwrap();
        entries.iter().map(entry).filter(|entry| entry.at.group == group).try_for_each(visit)
    }
}
