//! A snapshot of the rows: serialises them key group by key group, while the task goes on writing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::RowSpace;
use super::column::{Buffers, FrozenColumn};
use super::key_rows::{FrozenKeys, OwnedGroups};
use super::namespaces::FrozenNamespaces;
use crate::backend::EntryVisitor;
use crate::canonical::Section;
use crate::panic::{caught, serializer_of};
use crate::{At, Entry, FrozenState, KeyGroup, StateError, TableId};

/// One table as it was at the freeze.
pub(super) struct FrozenTable {
    pub(super) name: String,
    pub(super) space: RowSpace,
    pub(super) content: FrozenContent,
}

/// Where the entries of a table are.
pub(super) enum FrozenContent {
    /// In a column.
    Rows(Box<dyn FrozenColumn>),
    /// In the bytes that they were restored from.
    Dormant(Arc<BTreeMap<KeyGroup, Section>>),
}

/// The typed rows as they were at a freeze.
pub(super) struct FrozenRows {
    groups: OwnedGroups,
    keys: Box<dyn FrozenKeys>,
    namespaces: Vec<Box<dyn FrozenNamespaces>>,
    tables: Vec<FrozenTable>,
    /// Made when the first key group is asked for.
    order: Option<RowOrder>,
    buffers: Buffers,
    namespace: Vec<u8>,
    group_keys: GroupKeys,
}

/// The rows in use, in the order of their key groups.
struct RowOrder {
    rows: Vec<u32>,
    /// For each owned group where its rows end.
    ends: Vec<u32>,
}

/// The serialised keys of one group, one after the other.
#[derive(Default)]
struct GroupKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl FrozenRows {
    pub(super) fn new(
        groups: OwnedGroups,
        keys: Box<dyn FrozenKeys>,
        namespaces: Vec<Box<dyn FrozenNamespaces>>,
        tables: Vec<FrozenTable>,
    ) -> Self {
        let (buffers, namespace, group_keys) = (Buffers::default(), Vec::new(), GroupKeys::default());
        Self { groups, keys, namespaces, tables, order: None, buffers, namespace, group_keys }
    }
}

impl RowOrder {
    /// A counting sort: the keys are passed twice, and nothing is compared.
    fn of(keys: &dyn FrozenKeys, groups: OwnedGroups) -> Self {
        let place = |row| {
            let group = groups.max_parallelism.group_of(keys.hash(row)?);
            Some(usize::from(group.0 - groups.range.start().0))
        };
        let mut ends = vec![0u32; groups.range.count() as usize];
        for group in (0..keys.row_count()).filter_map(place) {
            ends[group] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            // Where the rows of the group start, for now.
            total += std::mem::replace(end, total);
        }
        let mut rows = vec![0; total as usize];
        for row in 0..keys.row_count() {
            if let Some(group) = place(row) {
                rows[ends[group] as usize] = row;
                ends[group] += 1;
            }
        }
        Self { rows, ends }
    }

    fn of_group(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.rows[start as usize..self.ends[index] as usize]
    }
}

impl GroupKeys {
    fn fill(&mut self, state: &str, keys: &dyn FrozenKeys, rows: &[u32]) -> Result<(), StateError> {
        self.bytes.clear();
        self.ends.clear();
        for row in rows {
            keys.serialize(state, *row, &mut self.bytes)?;
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

impl FrozenState for FrozenRows {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        if !self.groups.range.contains(group) {
            return Ok(());
        }
        let order = self.order.get_or_insert_with(|| RowOrder::of(&*self.keys, self.groups));
        let rows = order.of_group(usize::from(group.0 - self.groups.range.start().0));
        let mut has_keys = false;
        for (number, table) in self.tables.iter().enumerate() {
            let id = TableId(number as u16);
            match &table.content {
                FrozenContent::Dormant(sections) => {
                    if let Some(section) = sections.get(&group) {
                        section.visit(id, group, visit)?;
                    }
                }
                FrozenContent::Rows(column) => {
                    if !std::mem::replace(&mut has_keys, true) {
                        let fill = || self.group_keys.fill(&table.name, &*self.keys, rows);
                        caught(|| "the serializer of the keys".to_owned(), fill)?;
                    }
                    let is_visiting = Cell::new(false);
                    let mut visit = |key: &[u8], namespace: &[u8], map_key: &[u8], value: &[u8]| {
                        is_visiting.set(true);
                        visit(Entry { at: At { table: id, group, key, namespace, map_key }, value })?;
                        is_visiting.set(false);
                        Ok(())
                    };
                    let whose = || match is_visiting.get() {
                        true => format!("the visitor of state {:?}", table.name),
                        false => serializer_of(&table.name),
                    };
                    let namespaces = table.space.index().map(|index| &*self.namespaces[index]);
                    let mut memory = (&mut self.buffers, &mut self.namespace);
                    let mut keyed_rows = rows.iter().copied().zip(self.group_keys.iter());
                    caught(whose, || {
                        keyed_rows.try_for_each(|keyed_row| {
                            visit_row(&table.name, &**column, namespaces, keyed_row, &mut memory, &mut visit)
                        })
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Visits the entries of one key in a column as (key, namespace, map key, value).
fn visit_row(
    state: &str,
    column: &dyn FrozenColumn,
    namespaces: Option<&dyn FrozenNamespaces>,
    (row, key): (u32, &[u8]),
    (buffers, namespace): &mut (&mut Buffers, &mut Vec<u8>),
    visit: &mut impl FnMut(&[u8], &[u8], &[u8], &[u8]) -> Result<(), StateError>,
) -> Result<(), StateError> {
    let mut visit_row =
        |row, namespace: &[u8]| column.visit(row, buffers, &mut |map_key, value| visit(key, namespace, map_key, value));
    match namespaces {
        None => visit_row(row, &[]),
        Some(namespaces) => namespaces.visit(state, row, namespace, &mut visit_row),
    }
}
