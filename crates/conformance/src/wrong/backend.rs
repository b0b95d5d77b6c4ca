//! State backends with one defect each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater_state_api::{
    At, ByteTables, CheckpointId, Entry, FrozenState, KeyGroup, KeyGroupRange, KeyedBackendParameters,
    KeyedStateBackend, Prefix, Residence, SnapshotRequest, StateBackend, StateError, TableId, TypedRows,
};

use super::defects;
use super::frozen::{Nothing, Snapshots, WrongFrozen, all_of};
use super::tables::WrongTables;
use crate::keyed::{BackendUnderTest, KeyedCase};
use crate::{FaultyBackend, Outage, ReferenceBackend};

defects! {
    /// What is wrong with a [`WrongBackend`].
    BackendDefect, caught by cases of keyed: KeyedCase;

    /// The namespace is no part of an address.
    ForgetsTheNamespace => bytes_are_kept_under_their_whole_address,
    /// Key and namespace are joined without their lengths.
    JoinsKeyAndNamespace => bytes_are_kept_under_their_whole_address,
    /// Key and map key are joined without their lengths.
    JoinsKeyAndMapKey => bytes_are_kept_under_their_whole_address,
    /// The table is no part of an address.
    ForgetsTheTable => states_do_not_share_values,
    /// The key group is no part of an address.
    ForgetsTheKeyGroup => bytes_are_kept_under_their_whole_address,
    /// A key ends at its first zero byte, as a C string does.
    EndsKeysAtZeroBytes => keys_that_look_alike_are_different,
    /// A key is cut after 65,535 bytes.
    CutsLongKeys => long_parts_and_values_are_kept,
    /// A value is cut after 65,535 bytes.
    CutsLongValues => long_parts_and_values_are_kept,
    /// A value without bytes is not stored.
    DropsEmptyValues => an_empty_value_is_a_value,
    /// An absent entry is read as an empty value.
    TakesAbsenceForAnEmptyValue => a_map_entry_is_absent_until_it_is_put,
    /// A value that is there is not replaced.
    KeepsTheFirstValue => a_value_is_replaced_changed_and_cleared,
    /// A value is appended to the one that was there.
    AppendsValues => bytes_are_kept_under_their_whole_address,
    /// `get` empties the buffer before it appends.
    EmptiesTheBuffer => reading_appends_to_what_is_there,
    /// Removals are not carried out.
    ForgetsRemovals => a_snapshot_does_not_have_what_was_removed,
    /// The removal of an entry that is not there is an error.
    RefusesAbsentRemovals => removing_what_is_not_there_succeeds,
    /// A removal takes all entries of the key and namespace with it.
    RemovesTheNamespace => removing_what_is_not_there_succeeds,
    /// A table is made at its first write, and that write is lost.
    LosesTheFirstWrite => bytes_are_kept_under_their_whole_address,
    /// Opening a table empties those that were opened before.
    OpensTablesAnew => the_order_of_registration_does_not_matter,
    /// All keyed backends of one state backend have the same tables.
    SharesTables => backends_of_one_factory_are_independent,
    /// A scan ends after its first page of 1,024 entries.
    ScansOnePage => a_scan_of_many_entries_visits_them_all,
    /// A scan visits its first entry once more at its end.
    ScansInACircle => a_scan_visits_exactly_its_prefix,
    /// A scan of a key has the entries of the keys that begin like it.
    ScansLongerKeys => a_scan_visits_exactly_its_prefix,
    /// A scan of a namespace has the entries of all namespaces of the key.
    ScansAllNamespaces => a_scan_visits_exactly_its_prefix,
    /// A scan does not have the entry that was written last, which waits in a buffer.
    ScansBesideTheBuffer => a_scan_visits_exactly_its_prefix,
    /// A scan goes on after the visitor broke.
    IgnoresTheBreak => a_scan_ends_when_the_visitor_breaks,
    /// A scan that the visitor broke is an error.
    TakesTheBreakForAnError => a_scan_ends_when_the_visitor_breaks,
    /// What was prefetched is still read when it has been changed.
    ReadsStalePrefetches => a_prefetch_changes_nothing,
    /// An entry that cannot be read is reported as absent.
    TakesAFailedReadForAbsence => a_failed_read_is_not_an_absent_entry,
    /// A scan that cannot go on is at its end.
    TakesAFailedScanForTheEnd => a_failed_read_is_not_the_end_of_a_scan,
    /// A snapshot that cannot be read is at its end.
    TakesAFailedVisitForTheEnd => a_failed_read_is_not_the_end_of_a_snapshot,
    /// A write that failed is reported as done.
    HidesFailedWrites => a_write_that_failed_is_reported,
    /// What is said to make it fail does nothing: the mistake of who hands a backend to the suite.
    FeelsNoOutage => an_outage_of_the_backend_is_felt,
    /// An open snapshot has the values that were written later.
    SnapshotSeesWrites => a_snapshot_does_not_see_later_changes,
    /// An open snapshot does not have what was removed later.
    SnapshotSeesRemovals => a_snapshot_does_not_see_later_changes,
    /// A state without entries cannot be frozen.
    RefusesToFreezeNothing => an_empty_state_has_a_snapshot,
    /// A snapshot does not have the entry that was written last, which waits in a buffer.
    SnapshotMissesTheBuffer => a_snapshot_has_every_entry_once,
    /// A snapshot has only what was written since the one before.
    SnapshotHasOnlyChanges => an_unchanged_state_has_a_whole_snapshot_again,
    /// The next snapshot takes the place of those that are open.
    SnapshotReplacesTheOthers => several_snapshots_can_be_open_at_once,
    /// A snapshot that is dropped empties the others that are open.
    DroppedSnapshotEmptiesTheOthers => several_snapshots_can_be_open_at_once,
    /// A snapshot that is dropped unread takes the first state with it.
    GivenUpSnapshotTakesState => a_snapshot_that_is_given_up_leaves_the_state,
    /// Snapshots are empty when the backend that took them is gone.
    SnapshotGoesWithTheBackend => a_snapshot_outlives_its_state,
    /// A snapshot is empty on any thread but the one that took it.
    SnapshotStaysOnItsThread => a_snapshot_can_be_written_on_another_thread,
    /// A key group of a snapshot can be visited once.
    VisitsAGroupOnce => a_key_group_can_be_written_in_any_order_and_again,
    /// Key groups can be visited in ascending order only.
    VisitsGroupsForward => a_key_group_can_be_written_in_any_order_and_again,
    /// A visit of one key group has the entries of all.
    VisitsAllGroups => a_snapshot_has_every_entry_once,
    /// A visit has the entries of the first table only.
    VisitsTheFirstTable => a_snapshot_has_every_entry_once,
    /// A visit has the tables in descending order.
    VisitsTablesBackwards => a_snapshot_has_every_entry_once,
    /// An error of the visitor ends the visit and is forgotten.
    HidesErrorsOfTheVisitor => the_error_of_a_visitor_ends_the_visit_and_is_returned,
    /// An error of the visitor is returned at the end of the visit.
    GoesOnAfterErrorsOfTheVisitor => the_error_of_a_visitor_ends_the_visit_and_is_returned,
    /// A completed checkpoint takes the live state with it.
    ForgetsAtConfirmed => the_fate_of_a_checkpoint_changes_no_state,
    /// A completed checkpoint empties the snapshots that are open for it and for those before.
    EmptiesSnapshotsAtConfirmed => the_fate_of_a_checkpoint_changes_no_state,
    /// An aborted checkpoint takes the live state back to its snapshot.
    GoesBackAtAborted => the_fate_of_a_checkpoint_changes_no_state,
    /// Keeps rows: the snapshot of a state that has not changed since the one before is empty.
    RowsSkipWhatIsUnchanged => an_unchanged_state_has_a_whole_snapshot_again,
    /// Keeps rows: while a snapshot is open, it is given again instead of a new one.
    RowsGiveTheOpenSnapshot => several_snapshots_can_be_open_at_once,
}

impl BackendDefect {
    fn is_of_rows(self) -> bool {
        matches!(self, Self::RowsSkipWhatIsUnchanged | Self::RowsGiveTheOpenSnapshot)
    }
}

/// A [`ReferenceBackend`], or a backend that keeps rows, with one defect.
#[derive(Debug)]
pub struct WrongBackend {
    defect: BackendDefect,
    right: FaultyBackend,
    shared: Mutex<Option<Live>>,
}

impl WrongBackend {
    /// A backend with this defect.
    pub fn new(defect: BackendDefect) -> Self {
        Self::during(defect, Outage::default())
    }

    fn during(defect: BackendDefect, outage: Outage) -> Self {
        let right = if defect.is_of_rows() {
            FaultyBackend::new(Rows, outage)
        } else {
            FaultyBackend::new(ReferenceBackend, outage)
        };
        Self { defect, right, shared: Mutex::default() }
    }

    /// A backend with this defect as the suite takes it, with outages.
    pub fn under_test(defect: BackendDefect) -> BackendUnderTest {
        let outage = Outage::default();
        BackendUnderTest::from(Self::during(defect, outage.clone()))
            .with_outage(move |lasts| outage.set(lasts && defect != BackendDefect::FeelsNoOutage))
    }
}

impl StateBackend for WrongBackend {
    fn name(&self) -> &str {
        "wrong"
    }

    fn create_keyed_backend(
        &self,
        parameters: &KeyedBackendParameters,
    ) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        let made = Live(Arc::new(Mutex::new(self.right.create_keyed_backend(parameters)?)));
        let live = if self.defect == BackendDefect::SharesTables {
            self.shared.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(made).clone()
        } else {
            made
        };
        Ok(Box::new(WrongKeyedBackend {
            defect: self.defect,
            range: parameters.range,
            tables: WrongTables::new(self.defect, live.clone()),
            live,
            snapshots: Snapshots::default(),
            kept: BTreeMap::new(),
            last_content: BTreeSet::new(),
        }))
    }
}

/// The right backend inside a wrong one, for the wrong tables and for snapshots that see too much.
#[derive(Clone)]
pub(super) struct Live(Arc<Mutex<Box<dyn KeyedStateBackend>>>);

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Live")
    }
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Box<dyn KeyedStateBackend>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the right tables.
    pub(super) fn tables<T>(&self, work: impl FnOnce(&mut dyn ByteTables) -> T) -> T {
        match self.lock().residence() {
            Residence::Bytes(tables) => work(tables),
            Residence::Rows => unreachable!("a backend that keeps rows is not asked for bytes"),
        }
    }

    /// The value at an address, if it has one.
    pub(super) fn value(&self, at: At<'_>) -> Result<Option<Vec<u8>>, StateError> {
        let mut value = Vec::new();
        Ok(self.tables(|tables| tables.get(at, &mut value))?.then_some(value))
    }

    /// The entries of a prefix.
    pub(super) fn entries(&self, prefix: Prefix<'_>) -> Result<Vec<OwnedEntry>, StateError> {
        let mut entries = Vec::new();
        self.tables(|tables| {
            tables.scan(prefix, &mut |entry| {
                entries.push(OwnedEntry::of(entry));
                ControlFlow::Continue(())
            })
        })?;
        Ok(entries)
    }

    /// Removes the entries of a prefix.
    pub(super) fn clear(&self, prefix: Prefix<'_>) -> Result<(), StateError> {
        let entries = self.entries(prefix)?;
        entries.iter().try_for_each(|entry| self.tables(|tables| tables.remove(entry.borrowed().at)))
    }
}

/// An entry that outlives its visit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedEntry {
    pub(super) table: TableId,
    pub(super) group: KeyGroup,
    pub(super) key: Vec<u8>,
    pub(super) namespace: Vec<u8>,
    pub(super) map_key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl OwnedEntry {
    pub(super) fn of(entry: Entry<'_>) -> Self {
        let At { table, group, key, namespace, map_key } = entry.at;
        let [key, namespace, map_key, value] = [key, namespace, map_key, entry.value].map(<[u8]>::to_vec);
        Self { table, group, key, namespace, map_key, value }
    }

    /// An address, as an entry without a value.
    pub(super) fn address(at: At<'_>) -> Self {
        Self::of(Entry { at, value: &[] })
    }

    pub(super) fn borrowed(&self) -> Entry<'_> {
        let Self { table, group, key, namespace, map_key, value } = self;
        Entry { at: At { table: *table, group: *group, key, namespace, map_key }, value }
    }
}

const IN_MEMORY: &str = "the reference fails only during an outage, when no checkpoint ends";

struct WrongKeyedBackend {
    defect: BackendDefect,
    range: KeyGroupRange,
    tables: WrongTables,
    live: Live,
    snapshots: Snapshots,
    /// For going back: what the snapshots had.
    kept: BTreeMap<CheckpointId, Vec<OwnedEntry>>,
    /// For skipping what is unchanged: what the last snapshot had.
    last_content: BTreeSet<OwnedEntry>,
}

impl KeyedStateBackend for WrongKeyedBackend {
    fn backend_type(&self) -> &'static str {
        "wrong"
    }

    fn residence(&mut self) -> Residence<'_> {
        if self.defect.is_of_rows() { Residence::Rows } else { Residence::Bytes(&mut self.tables) }
    }

    fn freeze(&mut self, request: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        let mut right = self.live.lock().freeze(request, rows)?;
        if self.defect == BackendDefect::GoesBackAtAborted {
            self.kept.insert(request.checkpoint, all_of(&mut *right, self.range)?);
        }
        if self.defect == BackendDefect::RefusesToFreezeNothing && all_of(&mut *right, self.range)?.is_empty() {
            return Err(StateError::Backend("there is nothing to freeze".into()));
        }
        if self.defect == BackendDefect::RowsSkipWhatIsUnchanged {
            let content: BTreeSet<_> = all_of(&mut *right, self.range)?.into_iter().collect();
            if content == std::mem::replace(&mut self.last_content, content.clone()) {
                right = Box::new(Nothing);
            }
        }
        Ok(Box::new(WrongFrozen::new(
            self.defect,
            self.range,
            self.live.clone(),
            right,
            (request.checkpoint, self.snapshots.clone()),
            self.tables.take_written(),
        )))
    }

    fn confirmed(&mut self, checkpoint: CheckpointId) {
        match self.defect {
            BackendDefect::ForgetsAtConfirmed => self.tables.forget_everything().expect(IN_MEMORY),
            BackendDefect::EmptiesSnapshotsAtConfirmed => self.snapshots.empty_up_to(checkpoint),
            _ => self.live.lock().confirmed(checkpoint),
        }
    }

    fn aborted(&mut self, checkpoint: CheckpointId) {
        self.live.lock().aborted(checkpoint);
        if let Some(entries) = self.kept.get(&checkpoint) {
            self.tables.forget_everything().expect(IN_MEMORY);
            for entry in entries.iter().map(OwnedEntry::borrowed) {
                self.live.tables(|tables| tables.put(entry.at, entry.value)).expect(IN_MEMORY);
            }
        }
    }
}

impl Drop for WrongKeyedBackend {
    fn drop(&mut self) {
        if self.defect == BackendDefect::SnapshotGoesWithTheBackend {
            self.snapshots.empty_up_to(CheckpointId(u64::MAX));
        }
    }
}

/// A right backend that keeps rows, for the defects of those.
#[derive(Debug)]
struct Rows;

impl StateBackend for Rows {
    fn name(&self) -> &str {
        "rows"
    }

    fn create_keyed_backend(&self, _: &KeyedBackendParameters) -> Result<Box<dyn KeyedStateBackend>, StateError> {
        Ok(Box::new(Self))
    }
}

impl KeyedStateBackend for Rows {
    fn backend_type(&self) -> &'static str {
        "rows"
    }

    fn residence(&mut self) -> Residence<'_> {
        Residence::Rows
    }

    fn freeze(&mut self, _: &SnapshotRequest, rows: &mut TypedRows) -> Result<Box<dyn FrozenState>, StateError> {
        Ok(rows.freeze())
    }
}
