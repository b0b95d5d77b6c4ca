//! A snapshot of the rows: serialises them key group by key group, while the task goes on writing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RowSpace;
use super::access::serializer_error;
use super::column::{Buffers, FrozenColumn};
use super::key_rows::{FrozenKeys, OwnedGroups};
use super::namespaces::FrozenNamespaces;
use crate::backend::EntryVisitor;
use crate::canonical::Section;
use crate::panic::caught;
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
            keys.serialize(*row, &mut self.bytes).map_err(serializer_error(state))?;
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
                FrozenContent::Rows(column) => caught(&table.name, || {
                    if !std::mem::replace(&mut has_keys, true) {
                        self.group_keys.fill(&table.name, &*self.keys, rows)?;
                    }
                    let buffers = &mut self.buffers;
                    for (row, key) in rows.iter().zip(self.group_keys.iter()) {
                        let mut visit_row = |row, namespace: &[u8]| {
                            column.visit(row, buffers, &mut |map_key, value| {
                                visit(Entry { at: At { table: id, group, key, namespace, map_key }, value })
                            })
                        };
                        match table.space.index() {
                            None => visit_row(*row, &[])?,
                            Some(index) => {
                                self.namespaces[index].visit(&table.name, *row, &mut self.namespace, &mut visit_row)?;
                            }
                        }
                    }
                    Ok(())
                })?,
            }
        }
        Ok(())
    }
}
