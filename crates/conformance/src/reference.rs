//! The shortest right backend: the keyed state of an operator as bytes in one sorted map.
//!
//! It needs nothing but `highwater_state_api` and the standard library. A file to begin a backend of your own with:
//! copy it, run the suite on the copy, then replace the map.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_state_api::{
    At, ByteTables, Entry, EntryVisitor, FrozenState, KeyGroup, KeyedBackendParameters, KeyedStateBackend, Prefix,
    Residence, SnapshotRequest, StateBackend, StateError, TableId, TableMeta, TypedRows,
};

/// Keeps working state in a sorted map for each operator subtask. Right, short, and not fast: the first write after a
/// snapshot copies the map while the snapshot is open.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReferenceBackend;

impl StateBackend for ReferenceBackend {
    fn name(&self) -> &str {
        "reference"
    }

    fn create_keyed_backend(&self, _: &KeyedBackendParameters) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        Ok(Box::new(Tables(Arc::default())))
    }
}

/// Key group, table, key, namespace, map key: in this order, so that the entries of a group stand together, in
/// ascending order of table, and those of a map stand together too.
type Address = (KeyGroup, TableId, Vec<u8>, Vec<u8>, Vec<u8>);

/// The backend of one operator subtask, and a snapshot of it: the map is shared until it is changed.
struct Tables(Arc<BTreeMap<Address, Vec<u8>>>);

fn address(at: At<'_>) -> Address {
    (at.group, at.table, at.key.to_vec(), at.namespace.to_vec(), at.map_key.to_vec())
}

fn entry<'a>((address, value): (&'a Address, &'a Vec<u8>)) -> Entry<'a> {
    let (group, table, key, namespace, map_key) = address;
    Entry { at: At { table: *table, group: *group, key, namespace, map_key }, value }
}

impl KeyedStateBackend for Tables {
    fn backend_type(&self) -> &'static str {
        "reference"
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Bytes(self)
    }

    fn freeze(&mut self, _: &SnapshotRequest, _: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl ByteTables for Tables {
    fn open_table(&mut self, _: TableId, _: &TableMeta) -> Result<(), StateError> {
        Ok(()) // the number of the table is a part of every address
    }

    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        let value = self.0.get(&address(at));
        out.extend(value.into_iter().flatten());
        Ok(value.is_some())
    }

    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        Arc::make_mut(&mut self.0).insert(address(at), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        Arc::make_mut(&mut self.0).remove(&address(at));
        Ok(())
    }

    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        // Whether the visitor broke makes no difference to the caller.
        let _ = match prefix {
            Prefix::Table(table) => {
                self.0.iter().map(entry).filter(|entry| entry.at.table == table).try_for_each(visit)
            }
            Prefix::Namespace { table, group, key, namespace } => {
                let first = At { table, group, key, namespace, map_key: &[] };
                let is_in = |entry: &Entry<'_>| At { map_key: &[], ..entry.at } == first;
                self.0.range(address(first)..).map(entry).take_while(is_in).try_for_each(visit)
            }
        };
        Ok(())
    }
}

impl FrozenState for Tables {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        let first = (group, TableId(0), Vec::new(), Vec::new(), Vec::new());
        self.0.range(first..).map(entry).take_while(|entry| entry.at.group == group).try_for_each(visit)
    }
}
