//! Byte tables with a defect.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use highwater_state_api::{At, ByteTables, Entry, KeyGroup, Prefix, StateError, TableId, TableMeta};

use super::backend::{BackendDefect, Live, OwnedEntry};

/// Where a length field of two bytes ends.
const SHORT_BYTES_MAX: usize = 65_535;

/// Entries on a page of a scan.
const PAGE_ENTRIES: usize = 1_024;

/// Byte tables with a defect, around right ones.
pub(super) struct WrongTables {
    defect: BackendDefect,
    live: Live,
    opened: Vec<TableId>,
    written: BTreeSet<TableId>,
    prefetched: BTreeMap<OwnedEntry, Option<Vec<u8>>>,
    last_write: Option<OwnedEntry>,
    /// The addresses that were written since the last freeze.
    changed: BTreeSet<OwnedEntry>,
}

impl WrongTables {
    pub(super) fn new(defect: BackendDefect, live: Live) -> Self {
        Self {
            defect,
            live,
            opened: Vec::new(),
            written: BTreeSet::new(),
            prefetched: BTreeMap::new(),
            last_write: None,
            changed: BTreeSet::new(),
        }
    }

    /// The address that was written last, and those that were written since this was asked for.
    pub(super) fn take_written(&mut self) -> (Option<OwnedEntry>, BTreeSet<OwnedEntry>) {
        (self.last_write.clone(), std::mem::take(&mut self.changed))
    }

    /// Removes all entries of all tables.
    pub(super) fn forget_everything(&self) -> Result<(), StateError> {
        self.opened.iter().try_for_each(|table| self.live.clear(Prefix::Table(*table)))
    }

    /// The address under which the right tables keep what has this address.
    fn kept_at(&self, at: At<'_>) -> OwnedEntry {
        let mut kept = OwnedEntry::address(at);
        match self.defect {
            BackendDefect::ForgetsTheNamespace => kept.namespace.clear(),
            BackendDefect::JoinsKeyAndNamespace => kept.key.append(&mut kept.namespace),
            BackendDefect::JoinsKeyAndMapKey => kept.key.append(&mut kept.map_key),
            BackendDefect::ForgetsTheTable => kept.table = TableId(0),
            BackendDefect::ForgetsTheKeyGroup => kept.group = KeyGroup(0),
            BackendDefect::EndsKeysAtZeroBytes => {
                let end = kept.key.iter().position(|byte| *byte == 0);
                kept.key.truncate(end.unwrap_or(usize::MAX));
            }
            BackendDefect::CutsLongKeys => kept.key.truncate(SHORT_BYTES_MAX),
            _ => {}
        }
        kept
    }

    /// The entries that a scan of this prefix visits.
    fn scanned(&self, prefix: Prefix<'_>) -> Result<Vec<OwnedEntry>, StateError> {
        let (whole_table, address) = match prefix {
            Prefix::Table(table) => {
                let at = At { table, group: KeyGroup(0), key: b"", namespace: b"", map_key: b"" };
                (true, self.kept_at(at))
            }
            Prefix::Namespace { table, group, key, namespace } => {
                (false, self.kept_at(At { table, group, key, namespace, map_key: b"" }))
            }
        };
        let At { table, group, key, namespace, .. } = address.borrowed().at;
        if whole_table {
            return self.live.entries(Prefix::Table(table));
        }
        let of_table = |keep: &dyn Fn(&OwnedEntry) -> bool| {
            let mut entries = self.live.entries(Prefix::Table(table))?;
            entries.retain(|entry| entry.group == group && keep(entry));
            Ok(entries)
        };
        match self.defect {
            BackendDefect::ScansLongerKeys => {
                of_table(&|entry| entry.key.starts_with(key) && entry.namespace == namespace)
            }
            BackendDefect::ScansAllNamespaces => of_table(&|entry| entry.key == key),
            _ => self.live.entries(Prefix::Namespace { table, group, key, namespace }),
        }
    }
}

impl ByteTables for WrongTables {
    fn open_table(&mut self, table: TableId, meta: &TableMeta) -> Result<(), StateError> {
        if self.defect == BackendDefect::OpensTablesAnew {
            self.forget_everything()?;
        }
        self.opened.push(table);
        self.live.tables(|tables| tables.open_table(table, meta))
    }

    fn get(&mut self, at: At<'_>, out: &mut Vec<u8>) -> Result<bool, StateError> {
        if self.defect == BackendDefect::EmptiesTheBuffer {
            out.clear();
        }
        if let Some(value) = self.prefetched.get(&OwnedEntry::address(at)) {
            out.extend(value.iter().flatten());
            return Ok(value.is_some());
        }
        let kept = self.kept_at(at);
        let found = self.live.tables(|tables| tables.get(kept.borrowed().at, out));
        match self.defect {
            BackendDefect::TakesAFailedReadForAbsence => found.or(Ok(false)),
            BackendDefect::TakesAbsenceForAnEmptyValue => found.and(Ok(true)),
            _ => found,
        }
    }

    fn put(&mut self, at: At<'_>, value: &[u8]) -> Result<(), StateError> {
        let kept = self.kept_at(at);
        let at = kept.borrowed().at;
        self.last_write = Some(kept.clone());
        self.changed.insert(kept.clone());
        let mut value = value.to_vec();
        match self.defect {
            BackendDefect::DropsEmptyValues if value.is_empty() => return self.remove(at),
            BackendDefect::LosesTheFirstWrite if self.written.insert(at.table) => return Ok(()),
            BackendDefect::KeepsTheFirstValue if self.live.value(at)?.is_some() => return Ok(()),
            BackendDefect::AppendsValues => {
                value = [self.live.value(at)?.unwrap_or_default(), value].concat();
            }
            BackendDefect::CutsLongValues => value.truncate(SHORT_BYTES_MAX),
            _ => {}
        }
        let written = self.live.tables(|tables| tables.put(at, &value));
        if self.defect == BackendDefect::HidesFailedWrites { Ok(()) } else { written }
    }

    fn remove(&mut self, at: At<'_>) -> Result<(), StateError> {
        let kept = self.kept_at(at);
        let at = kept.borrowed().at;
        let At { table, group, key, namespace, .. } = at;
        match self.defect {
            BackendDefect::ForgetsRemovals => return Ok(()),
            BackendDefect::RefusesAbsentRemovals if self.live.value(at)?.is_none() => {
                return Err(StateError::Backend("there is no such entry".into()));
            }
            BackendDefect::RemovesTheNamespace => {
                return self.live.clear(Prefix::Namespace { table, group, key, namespace });
            }
            _ => {}
        }
        let removed = self.live.tables(|tables| tables.remove(at));
        if self.defect == BackendDefect::HidesFailedWrites { Ok(()) } else { removed }
    }

    fn scan(
        &mut self,
        prefix: Prefix<'_>,
        visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StateError> {
        if self.defect == BackendDefect::TakesAFailedScanForTheEnd {
            let _ = self.live.tables(|tables| tables.scan(prefix, visit));
            return Ok(());
        }
        let mut entries = self.scanned(prefix)?;
        match self.defect {
            BackendDefect::ScansOnePage => entries.truncate(PAGE_ENTRIES),
            BackendDefect::ScansInACircle => entries.extend_from_within(..entries.len().min(1)),
            BackendDefect::ScansBesideTheBuffer => {
                entries.retain(|entry| self.last_write != Some(OwnedEntry::address(entry.borrowed().at)));
            }
            _ => {}
        }
        for entry in &entries {
            match visit(entry.borrowed()) {
                ControlFlow::Break(()) if self.defect == BackendDefect::IgnoresTheBreak => {}
                ControlFlow::Break(()) if self.defect == BackendDefect::TakesTheBreakForAnError => {
                    return Err(StateError::Backend("the scan was broken off".into()));
                }
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(()) => {}
            }
        }
        Ok(())
    }

    fn prefetch(&mut self, wanted: &[At<'_>]) {
        if self.defect == BackendDefect::ReadsStalePrefetches {
            for at in wanted {
                if let Ok(value) = self.live.value(*at) {
                    self.prefetched.insert(OwnedEntry::address(*at), value);
                }
            }
        }
    }
}
