//! The row tier: typed state in rows and columns.
//!
//! One index maps every key to a dense row, once a record; every registered state is a column over the rows. For heap
//! backends the rows are the state; for backends that keep bytes they are a bounded write-back cache.

mod access;
mod accumulating_column;
pub(crate) mod column;
mod frozen;
mod hash;
mod index;
mod key_cell;
pub(crate) mod key_rows;
mod list_column;
mod map_column;
pub(crate) mod map_entries;
mod marks;
pub(crate) mod namespaces;
mod paged;
pub(crate) mod round_trip;
mod value_column;

#[cfg(test)]
pub(crate) mod fixture_test;
#[cfg(test)]
mod snapshot_test;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use bytes::Bytes;

pub(crate) use access::{AccessError, Behind, Keys, byte_tables};
use column::Column;
use frozen::{FrozenContent, FrozenRows, FrozenTable};
pub(crate) use index::NO_ROW;
pub(crate) use key_rows::{KeyColumn, OwnedGroups};
use list_column::restored_position;
use namespaces::Namespaces;
pub use round_trip::RoundTrip;

use crate::canonical::{self, Section};
use crate::{
    ByteTables, FrozenState, Key, KeyGroup, KeyHasher, Schema, Serializer, StateError, StateKind, TableId, TableMeta,
};

/// The typed rows of one keyed state: its keys, the namespaces of each key, and a column for each registered state.
pub struct TypedRows {
    pub(crate) keys: Keys,
    /// One for each type of namespace.
    pub(crate) namespaces: Vec<Namespaces>,
    pub(crate) tables: Vec<Table>,
    hash_seed: u64,
}

/// Which rows a column is over: 0 for those of the keys, n + 1 for those of the n-th type of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RowSpace(pub(crate) u16);

impl RowSpace {
    /// The rows of the keys.
    pub(crate) const KEYS: Self = Self(0);

    /// Index into the namespaces; `None` for the rows of the keys.
    #[inline]
    pub(crate) fn index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// One state: registered, or only known from a snapshot.
pub(crate) struct Table {
    pub(crate) meta: TableMeta,
    /// `None` until the state is registered.
    pub(crate) column: Option<Box<dyn Column>>,
    /// The rows that the column is over.
    pub(crate) space: RowSpace,
    /// As a cache of lists: one more than the largest position of a restored chunk.
    pub(crate) next_position: u64,
    /// As a cache: the key groups that were restored into the byte tables.
    restored: BTreeSet<KeyGroup>,
    /// What was restored and is not decoded, as long as the state is not registered.
    dormant: Arc<BTreeMap<KeyGroup, Section>>,
}

impl TypedRows {
    pub(crate) fn new(keys: Keys, hash_seed: u64) -> Self {
        Self { keys, namespaces: Vec::new(), tables: Vec::new(), hash_seed }
    }

    /// The rows of namespaces of type `N`, if there are any.
    pub(crate) fn find_space<N: Key>(&self) -> Option<RowSpace> {
        let index = self.namespaces.iter().position(|known| known.typed::<N>().is_some())?;
        Some(RowSpace(index as u16 + 1))
    }

    /// New rows of namespaces of type `N`, of which there must be none.
    pub(crate) fn add_space<N: Key>(&mut self, serializer: Arc<dyn Serializer<N>>, schema: Schema) -> RowSpace {
        self.namespaces.push(Namespaces::new(serializer, schema, self.hash_seed));
        RowSpace(self.namespaces.len() as u16)
    }

    /// No namespace of any type is current.
    #[inline]
    pub(crate) fn leave_namespaces(&mut self) {
        self.namespaces.iter_mut().for_each(|namespaces| namespaces.current = NO_ROW);
    }

    /// Freezes all rows as they are: what a backend whose state is the rows returns from its freeze.
    ///
    /// The cost does not grow with the number of keys. The result serialises the rows when it is asked for them, on
    /// any thread, while the rows go on changing; several may exist at once.
    pub fn freeze(&mut self) -> Box<dyn FrozenState> {
        let tables = self.tables.iter_mut().map(|table| FrozenTable {
            name: table.meta.name.clone(),
            space: table.space,
            content: match &mut table.column {
                Some(column) => FrozenContent::Rows(column.freeze()),
                None => FrozenContent::Dormant(table.dormant.clone()),
            },
        });
        let tables = tables.collect();
        let namespaces = self.namespaces.iter_mut().map(|namespaces| namespaces.rows.freeze()).collect();
        Box::new(FrozenRows::new(self.keys.groups, self.keys.column.freeze(), namespaces, tables))
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
        number.map(TableId).map_err(|_| StateError::TooManyStates)
    }

    /// Makes a table known that nobody has registered yet.
    pub(crate) fn add_table(&mut self, meta: TableMeta) {
        let space = RowSpace::KEYS;
        let (restored, dormant) = (BTreeSet::new(), Arc::default());
        self.tables.push(Table { meta, column: None, space, next_position: 0, restored, dormant });
    }

    /// Keeps a restored section until its state is registered.
    pub(crate) fn add_dormant(&mut self, table: TableId, group: KeyGroup, section: Section) -> Result<(), StateError> {
        let table = &mut self.tables[usize::from(table.0)];
        match Arc::make_mut(&mut table.dormant).entry(group) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert(section);
                Ok(())
            }
            btree_map::Entry::Occupied(_) => Err(restored_twice(&table.meta.name, group)),
        }
    }

    /// As a cache: checks a restored section and puts its entries into the byte tables.
    pub(crate) fn put_restored(
        &mut self,
        id: TableId,
        group: KeyGroup,
        section: &Section,
        bytes: &mut dyn ByteTables,
    ) -> Result<(), StateError> {
        let Table { meta, next_position, restored, .. } = &mut self.tables[usize::from(id.0)];
        if !restored.insert(group) {
            return Err(restored_twice(&meta.name, group));
        }
        let has_namespaces = meta.namespace != Schema::unit();
        let mut hasher = KeyHasher::default();
        let mut checked: Vec<u8> = Vec::new();
        let mut is_first = true;
        section.visit(id, group, &mut |entry| {
            // Entries of one key stand together in most streams.
            if std::mem::take(&mut is_first) || checked != entry.at.key {
                self.keys.column.check_group(&meta.name, group, entry.at.key, &mut hasher)?;
                checked.clear();
                checked.extend_from_slice(entry.at.key);
            }
            if !has_namespaces && !entry.at.namespace.is_empty() {
                return Err(unexpected_namespace(&meta.name));
            }
            if meta.kind == StateKind::List {
                let position = restored_position(&meta.name, entry.at.map_key)?;
                *next_position = (*next_position).max(position + 1);
            }
            bytes.put(entry.at, entry.value)
        })
    }

    /// Gives a table its column and decodes what was restored of it. On an error nothing has changed.
    pub(crate) fn attach(
        &mut self,
        id: TableId,
        meta: TableMeta,
        space: RowSpace,
        column: Box<dyn Column>,
    ) -> Result<(), StateError> {
        let mut column = column;
        column.set_hash_seed(self.hash_seed);
        let table = &self.tables[usize::from(id.0)];
        column.set_next_position(table.next_position);
        let mut made = Made::default();
        let namespaces = space.index().map(|index| &mut self.namespaces[index]);
        let outcome = load(&mut *self.keys.column, namespaces, table, id, &mut *column, &mut made);
        if let Err(error) = outcome {
            if let Some(index) = space.index() {
                let rows = &mut self.namespaces[index].rows;
                made.namespaces.into_iter().rev().for_each(|row| rows.release(row));
            }
            made.keys.into_iter().rev().for_each(|row| self.keys.column.release(row));
            return Err(error);
        }
        let table = &mut self.tables[usize::from(id.0)];
        table.meta = meta;
        table.space = space;
        table.column = Some(column);
        table.dormant = Arc::default();
        Ok(())
    }

    /// Gives back the rows that have no state in any column, of those that may have none.
    pub(crate) fn release_emptied(&mut self) {
        let columns = |space| {
            let of_space = self.tables.iter().filter(move |table| table.space == space);
            of_space.filter_map(|table| table.column.as_ref())
        };
        for (space, namespaces) in (1..).map(RowSpace).zip(&mut self.namespaces) {
            for row in namespaces.emptied.drain(..) {
                let Some(key_row) = namespaces.rows.key_row(row) else { continue };
                if columns(space).all(|column| column.is_empty_at(row)) {
                    namespaces.rows.release(row);
                    self.keys.emptied.push(key_row);
                }
            }
        }
        for row in self.keys.emptied.drain(..) {
            let mut namespaces = self.namespaces.iter();
            if columns(RowSpace::KEYS).all(|column| column.is_empty_at(row))
                && namespaces.all(|namespaces| !namespaces.rows.has_rows(row))
            {
                self.keys.column.release(row);
            }
        }
    }

    /// Does a bounded part of the work that finished snapshots have left behind; whether there is more.
    pub(crate) fn fold(&mut self) -> bool {
        let mut is_more = self.keys.column.fold();
        self.namespaces.iter_mut().for_each(|namespaces| is_more |= namespaces.rows.fold());
        self.columns().for_each(|column| is_more |= column.fold());
        is_more
    }

    /// Takes back all that finished snapshots share, so that no later write copies a page: for backends that have used up
    /// a snapshot before their freeze returns. Takes time in proportion to the rows.
    pub fn fold_back(&mut self) {
        while self.fold() {}
    }

    pub(crate) fn warm(&mut self, rows: &[u32]) {
        let of_keys = self.tables.iter_mut().filter(|table| table.space == RowSpace::KEYS);
        of_keys.filter_map(|table| table.column.as_mut()).for_each(|column| column.warm(rows));
    }

    /// As a cache: how many rows there are, of keys, namespaces and columns.
    pub(crate) fn cached_rows(&self) -> usize {
        let columns = self.tables.iter().filter_map(|table| table.column.as_ref());
        let namespaces = self.namespaces.iter().map(|namespaces| namespaces.rows.len());
        self.keys.column.len() + namespaces.sum::<usize>() + columns.map(|column| column.own_rows()).sum::<usize>()
    }

    /// Gives all rows back: as a cache it loses what is not written back, otherwise all state.
    pub(crate) fn forget(&mut self) {
        self.keys.forget();
        self.namespaces.iter_mut().for_each(Namespaces::forget);
        self.columns().for_each(|column| column.forget());
    }

    /// Drops all rows, and what was restored and is not decoded.
    pub(crate) fn clear(&mut self) {
        self.forget();
        self.tables.iter_mut().for_each(|table| table.dormant = Arc::default());
    }

    fn columns(&mut self) -> impl Iterator<Item = &mut Box<dyn Column>> {
        self.tables.iter_mut().filter_map(|table| table.column.as_mut())
    }
}

fn restored_twice(state: &str, group: KeyGroup) -> StateError {
    StateError::Damaged(format!("state {state:?}: key group {group} was restored twice"))
}

fn unexpected_namespace(state: &str) -> StateError {
    StateError::Damaged(format!("state {state:?}: an entry has a namespace"))
}

/// The rows that were made for a restored table.
#[derive(Default)]
struct Made {
    keys: Vec<u32>,
    namespaces: Vec<u32>,
}

/// Decodes what was restored of a table into a column.
fn load(
    keys: &mut dyn KeyColumn,
    mut namespaces: Option<&mut Namespaces>,
    table: &Table,
    id: TableId,
    column: &mut dyn Column,
    made: &mut Made,
) -> Result<(), StateError> {
    let name = &table.meta.name;
    let mut hasher = KeyHasher::default();
    for (group, section) in &*table.dormant {
        section.visit(id, *group, &mut |entry| {
            let key_row = keys.restore(name, *group, entry.at.key, &mut hasher, &mut made.keys)?;
            let row = match &mut namespaces {
                None if entry.at.namespace.is_empty() => key_row,
                None => return Err(unexpected_namespace(name)),
                Some(namespaces) => {
                    let restored = namespaces.restore(key_row, entry.at.namespace);
                    let (row, is_made) = restored.map_err(access::serializer_error(name))?;
                    made.namespaces.extend(is_made.then_some(row));
                    row
                }
            };
            column.load(row, entry.at.map_key, entry.value)
        })?;
    }
    column.finish_load()
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
