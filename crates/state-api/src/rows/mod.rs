//! The row tier: typed state in rows and columns.
//!
//! One index maps every key to a dense row, once a record; every registered state is a column over the rows. For heap
//! backends the rows are the state; for backends that keep bytes they are a bounded write-back cache.

mod access;
pub(crate) mod column;
mod frozen;
mod hash;
mod index;
mod key_cell;
pub(crate) mod key_rows;
mod map_column;
pub(crate) mod map_entries;
mod marks;
mod paged;
pub(crate) mod round_trip;
mod value_column;

#[cfg(test)]
pub(crate) mod fixture_test;
#[cfg(test)]
mod model_test;
#[cfg(test)]
mod snapshot_test;

use std::any::Any;
use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use bytes::Bytes;

pub(crate) use access::{AccessError, Behind, Keys, byte_tables};
use column::Column;
use frozen::{FrozenContent, FrozenRows, FrozenTable};
pub(crate) use index::NO_ROW;
pub(crate) use key_rows::{KeyColumn, OwnedGroups};

use crate::canonical::{self, Section};
use crate::{FrozenState, KeyGroup, KeyHasher, StateError, TableId, TableMeta};

/// The typed rows of one keyed state: its keys, and a column for each registered state.
pub struct TypedRows {
    pub(crate) keys: Keys,
    pub(crate) tables: Vec<Table>,
    hash_seed: u64,
}

/// One state: registered, or only known from a snapshot.
pub(crate) struct Table {
    pub(crate) meta: TableMeta,
    /// `None` until the state is registered.
    pub(crate) column: Option<Box<dyn Column>>,
    /// What was restored and is not decoded, as long as the state is not registered.
    dormant: Arc<BTreeMap<KeyGroup, Section>>,
}

impl TypedRows {
    pub(crate) fn new(keys: Keys, hash_seed: u64) -> Self {
        Self { keys, tables: Vec::new(), hash_seed }
    }

    /// Freezes all rows as they are: what a backend whose state is the rows returns from its freeze.
    ///
    /// The cost does not grow with the number of keys. The result serialises the rows when it is asked for them, on
    /// any thread, while the rows go on changing; several may exist at once.
    pub fn freeze(&mut self) -> Box<dyn FrozenState> {
        let tables = self.tables.iter_mut().map(|table| FrozenTable {
            name: table.meta.name.clone(),
            content: match &mut table.column {
                Some(column) => FrozenContent::Rows(column.freeze()),
                None => FrozenContent::Dormant(table.dormant.clone()),
            },
        });
        let tables = tables.collect();
        Box::new(FrozenRows::new(self.keys.groups, self.keys.column.freeze(), tables))
    }

    pub(crate) fn metas(&self) -> Vec<TableMeta> {
        self.tables.iter().map(|table| table.meta.clone()).collect()
    }

    pub(crate) fn find_table(&self, name: &str) -> Option<TableId> {
        self.tables.iter().position(|table| table.meta.name == name).map(|number| TableId(number as u16))
    }

    /// The number that the next new table gets.
    pub(crate) fn next_table(&self) -> Result<TableId, StateError> {
        let number = u16::try_from(self.tables.len());
        number.map(TableId).map_err(|_| StateError::Backend("an operator cannot have more than 65,536 states".into()))
    }

    /// Makes a table known that nobody has registered yet.
    pub(crate) fn add_table(&mut self, meta: TableMeta) {
        self.tables.push(Table { meta, column: None, dormant: Arc::default() });
    }

    /// Keeps a restored section until its state is registered.
    pub(crate) fn add_dormant(&mut self, table: TableId, group: KeyGroup, section: Section) -> Result<(), StateError> {
        let table = &mut self.tables[usize::from(table.0)];
        match Arc::make_mut(&mut table.dormant).entry(group) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert(section);
                Ok(())
            }
            btree_map::Entry::Occupied(_) => {
                let name = &table.meta.name;
                Err(StateError::Damaged(format!("state {name:?}: key group {group} was restored twice")))
            }
        }
    }

    /// Gives a table its column and decodes what was restored of it. On an error nothing has changed.
    pub(crate) fn attach(&mut self, id: TableId, meta: TableMeta, column: Box<dyn Column>) -> Result<(), StateError> {
        let mut column = column;
        column.set_hash_seed(self.hash_seed);
        let table = &self.tables[usize::from(id.0)];
        let mut made = Vec::new();
        let outcome = load(&mut *self.keys.column, table, id, &mut *column, &mut made);
        if let Err(error) = outcome {
            for row in made.into_iter().rev() {
                self.keys.column.release(row);
            }
            return Err(error);
        }
        let table = &mut self.tables[usize::from(id.0)];
        table.meta = meta;
        table.column = Some(column);
        table.dormant = Arc::default();
        Ok(())
    }

    /// Gives back the rows that have no state in any column, of those that may have none.
    pub(crate) fn release_emptied(&mut self) {
        for row in self.keys.emptied.drain(..) {
            let mut columns = self.tables.iter().filter_map(|table| table.column.as_ref());
            if columns.all(|column| column.is_empty_at(row)) {
                self.keys.column.release(row);
            }
        }
    }

    pub(crate) fn fold(&mut self) {
        self.keys.column.fold();
        self.columns().for_each(|column| column.fold());
    }

    pub(crate) fn warm(&mut self, rows: &[u32]) {
        self.columns().for_each(|column| column.warm(rows));
    }

    /// As a cache: how many rows there are, of keys and of columns.
    pub(crate) fn cached_rows(&self) -> usize {
        let columns = self.tables.iter().filter_map(|table| table.column.as_ref());
        self.keys.column.len() + columns.map(|column| column.own_rows()).sum::<usize>()
    }

    /// As a cache: gives all rows back.
    pub(crate) fn forget(&mut self) {
        self.keys.forget();
        self.columns().for_each(|column| column.forget());
    }

    fn columns(&mut self) -> impl Iterator<Item = &mut Box<dyn Column>> {
        self.tables.iter_mut().filter_map(|table| table.column.as_mut())
    }
}

/// Decodes what was restored of a table into a column.
fn load(
    keys: &mut dyn KeyColumn,
    table: &Table,
    id: TableId,
    column: &mut dyn Column,
    made: &mut Vec<u32>,
) -> Result<(), StateError> {
    let name = &table.meta.name;
    let mut hasher = KeyHasher::default();
    for (group, section) in &*table.dormant {
        section.visit(id, *group, &mut |entry| {
            if !entry.at.namespace.is_empty() {
                return Err(StateError::Damaged(format!("state {name:?}: an entry has a namespace")));
            }
            let row = keys.restore(name, *group, entry.at.key, &mut hasher, made)?;
            column.load(row, entry.at.map_key, entry.value)
        })?;
    }
    Ok(())
}

impl Table {
    /// The column by its type.
    #[inline]
    pub(crate) fn typed_column<C: Column>(&mut self) -> Option<&mut C> {
        let column: &mut dyn Any = self.column.as_deref_mut()?;
        column.downcast_mut()
    }
}

/// Splits a restored stream into its sections, each with the meta of its table.
pub(crate) fn restored_sections(tables: &[TableMeta], stream: Bytes) -> Result<Vec<(&TableMeta, Section)>, StateError> {
    let sections = canonical::sections(stream)?.into_iter().map(|section| {
        let meta = tables.get(usize::from(section.table.0));
        let meta = meta.ok_or_else(|| {
            StateError::Damaged(format!("a section is of table {} of {}", section.table.0, tables.len()))
        })?;
        Ok((meta, section))
    });
    sections.collect()
}
