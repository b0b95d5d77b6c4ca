//! Snapshots with a defect.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use highwater_state_api::{
    CheckpointId, EntryVisitor, FrozenState, KeyGroup, KeyGroupRange, Prefix, StateError, TableId,
};

use super::backend::{BackendDefect, Live, OwnedEntry};

/// The content of a snapshot, which wrong backends change while it is open.
type Content = Mutex<Box<dyn FrozenState>>;

/// A snapshot that may be open, and the checkpoint that it was taken for.
type Known = (CheckpointId, Weak<Content>);

/// The snapshots of a backend that may be open. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Snapshots(Arc<Mutex<Vec<Known>>>);

impl Snapshots {
    fn add(&self, content: &Arc<Content>, checkpoint: CheckpointId) {
        let mut snapshots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.push((checkpoint, Arc::downgrade(content)));
    }

    /// Those that are open, up to a checkpoint.
    fn open(&self, last: CheckpointId) -> Vec<Arc<Content>> {
        let snapshots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.iter().filter(|(of, _)| *of <= last).filter_map(|(_, content)| content.upgrade()).collect()
    }

    /// Empties those that are open, up to a checkpoint.
    pub(super) fn empty_up_to(&self, last: CheckpointId) {
        for content in self.open(last) {
            *content.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(Nothing);
        }
    }
}

/// A snapshot with a defect.
pub(super) struct WrongFrozen {
    defect: BackendDefect,
    range: KeyGroupRange,
    live: Live,
    content: Arc<Content>,
    others: Snapshots,
    /// The address that was written last before the freeze.
    buffered: Option<OwnedEntry>,
    /// The addresses that were written since the freeze before.
    changed: BTreeSet<OwnedEntry>,
    visited: BTreeSet<KeyGroup>,
    thread: Arc<()>,
}

thread_local! {
    /// Tells this thread from the others.
    static THREAD: Arc<()> = Arc::default();
}

impl WrongFrozen {
    /// Makes a wrong snapshot of a right one.
    pub(super) fn new(
        defect: BackendDefect,
        range: KeyGroupRange,
        live: Live,
        right: Box<dyn FrozenState>,
        (checkpoint, others): (CheckpointId, Snapshots),
        (buffered, changed): (Option<OwnedEntry>, BTreeSet<OwnedEntry>),
    ) -> Self {
        let open = others.open(CheckpointId(u64::MAX)).pop();
        let content = match (open, defect) {
            (Some(open), BackendDefect::SnapshotReplacesTheOthers) => {
                *open.lock().unwrap_or_else(PoisonError::into_inner) = right;
                open
            }
            (Some(open), BackendDefect::RowsGiveTheOpenSnapshot) => open,
            _ => Arc::new(Mutex::new(right)),
        };
        others.add(&content, checkpoint);
        let thread = THREAD.with(Arc::clone);
        Self { defect, range, live, content, others, buffered, changed, visited: BTreeSet::new(), thread }
    }

    fn is_empty(&mut self, group: KeyGroup) -> bool {
        let is_first = self.visited.insert(group);
        match self.defect {
            BackendDefect::VisitsAGroupOnce => !is_first,
            BackendDefect::VisitsGroupsForward => self.visited.last() != Some(&group),
            BackendDefect::SnapshotStaysOnItsThread => !THREAD.with(|thread| Arc::ptr_eq(thread, &self.thread)),
            _ => false,
        }
    }

    /// An entry as this snapshot sees it, if it does.
    fn seen(&self, entry: OwnedEntry) -> Result<Option<OwnedEntry>, StateError> {
        let at = entry.borrowed().at;
        let is_seen = match self.defect {
            BackendDefect::SnapshotSeesRemovals => self.live.value(at)?.is_some(),
            BackendDefect::SnapshotMissesTheBuffer => self.buffered != Some(OwnedEntry::address(at)),
            BackendDefect::SnapshotHasOnlyChanges => self.changed.contains(&OwnedEntry::address(at)),
            BackendDefect::VisitsTheFirstTable => entry.table == TableId(0),
            BackendDefect::SnapshotSeesWrites => {
                return Ok(Some(match self.live.value(at)? {
                    Some(value) => OwnedEntry { value, ..entry },
                    None => entry,
                }));
            }
            _ => true,
        };
        Ok(is_seen.then_some(entry))
    }
}

impl FrozenState for WrongFrozen {
    fn visit_key_group(&mut self, group: KeyGroup, visit: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        if self.is_empty(group) {
            return Ok(());
        }
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        match self.defect {
            BackendDefect::TakesAFailedVisitForTheEnd => {
                let mut of_visitor = Ok(());
                let end = content.visit_key_group(group, &mut |entry| {
                    of_visitor = visit(entry);
                    if of_visitor.is_ok() { Ok(()) } else { Err(StateError::Backend("the visitor failed".into())) }
                });
                end.or(of_visitor)
            }
            BackendDefect::HidesErrorsOfTheVisitor => {
                let mut visitor_failed = false;
                let end =
                    content.visit_key_group(group, &mut |entry| visit(entry).inspect_err(|_| visitor_failed = true));
                if visitor_failed { Ok(()) } else { end }
            }
            BackendDefect::GoesOnAfterErrorsOfTheVisitor => {
                let mut first = Ok(());
                content.visit_key_group(group, &mut |entry| {
                    let outcome = visit(entry);
                    if first.is_ok() {
                        first = outcome;
                    }
                    Ok(())
                })?;
                first
            }
            BackendDefect::VisitsAllGroups => {
                let mut entries = all_of(&mut **content, self.range)?;
                entries.sort_by_key(|entry| entry.table);
                entries.iter().try_for_each(|entry| visit(entry.borrowed()))
            }
            BackendDefect::VisitsTablesBackwards => {
                let mut entries = Vec::new();
                content.visit_key_group(group, &mut |entry| {
                    entries.push(OwnedEntry::of(entry));
                    Ok(())
                })?;
                entries.sort_by_key(|entry| Reverse(entry.table));
                entries.iter().try_for_each(|entry| visit(entry.borrowed()))
            }
            _ => content.visit_key_group(group, &mut |entry| match self.seen(OwnedEntry::of(entry))? {
                Some(entry) => visit(entry.borrowed()),
                None => Ok(()),
            }),
        }
    }
}

impl Drop for WrongFrozen {
    fn drop(&mut self) {
        if self.defect == BackendDefect::DroppedSnapshotEmptiesTheOthers {
            self.others.empty_up_to(CheckpointId(u64::MAX));
        }
        if self.defect == BackendDefect::GivenUpSnapshotTakesState && self.visited.is_empty() {
            self.live.clear(Prefix::Table(TableId(0))).expect("the reference fails only during an outage");
        }
    }
}

/// Everything that a snapshot has.
pub(super) fn all_of(frozen: &mut dyn FrozenState, range: KeyGroupRange) -> Result<Vec<OwnedEntry>, StateError> {
    let mut entries = Vec::new();
    for group in range.iter() {
        frozen.visit_key_group(group, &mut |entry| {
            entries.push(OwnedEntry::of(entry));
            Ok(())
        })?;
    }
    Ok(entries)
}

/// A snapshot without entries.
pub(super) struct Nothing;

impl FrozenState for Nothing {
    fn visit_key_group(&mut self, _: KeyGroup, _: &mut EntryVisitor<'_>) -> Result<(), StateError> {
        Ok(())
    }
}
