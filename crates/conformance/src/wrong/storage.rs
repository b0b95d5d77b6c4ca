//! Checkpoint storages with one defect each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use async_trait::async_trait;
use bytes::Bytes;
use highwater_state_api::{CheckpointStorage, ObjectPath, StateUpload, StorageError};

use super::defects;
use super::upload::WrongUpload;
use crate::storage::{Case, StorageUnderTest};
use crate::{Faults, FaultyStorage, ReferenceDisk, ReferenceStorage};

/// How often a creation that checks first lets the others go before it acts.
const YIELDS_MAX: u32 = 1_000;

defects! {
    /// What is wrong with a [`WrongStorage`].
    StorageDefect, caught by cases of storage: Case;

    /// An object is published empty and gets its content later, in the memory of the instance until then.
    PublishesBeforeItFlushes => another_instance_sees_what_was_finished,
    /// Objects are in the memory of the instance, and the storage says that it is durable.
    KeepsObjectsInTheInstance => another_instance_sees_what_was_finished,
    /// The storage says that it is durable, and nobody can open it again.
    SaysThatItIsDurable => a_durable_storage_can_be_opened_again,
    /// An upload can be seen from its start.
    ShowsUnfinishedUploads => an_unfinished_upload_is_invisible,
    /// An upload that is dropped is finished.
    FinishesDroppedUploads => a_dropped_upload_leaves_nothing,
    /// An upload replaces the object that has its path.
    FinishOverwrites => the_first_of_two_uploads_to_finish_has_the_path,
    /// `create_if_absent` replaces the object that has its path.
    CreationOverwrites => creating_whole_over_an_object_fails_and_leaves_it_unharmed,
    /// `create_if_absent` looks first whether the path is free, and then writes.
    ChecksBeforeItCreates => of_racing_creations_exactly_one_wins,
    /// Each piece of an upload replaces the one before.
    KeepsTheLastPiece => a_large_object_is_read_as_it_was_written,
    /// A piece that could not be written is kept and written with the next one, though the caller repeats it.
    RepeatsFailedPieces => a_piece_that_failed_is_not_there_twice,
    /// The checksum of a handle is that of the first piece.
    SumsUpTheFirstPiece => a_handle_has_the_length_and_checksum_of_its_object,
    /// An object without content is not created.
    DropsEmptyObjects => an_empty_object_is_an_object,
    /// Line ends are converted, as for a text.
    ConvertsLineEnds => an_object_is_read_as_it_was_written,
    /// Upper and lower case are not told apart.
    FoldsCase => names_of_any_kind_are_kept_apart,
    /// An absent object is read as an empty one.
    TakesAbsenceForEmpty => reading_an_absent_object_is_not_found,
    /// An object that cannot be read is reported as absent.
    TakesAFailedReadForAbsence => a_failed_read_is_not_an_absent_object,
    /// A folder that cannot be listed is reported as empty.
    TakesAFailedListingForEmpty => a_failed_listing_is_not_an_empty_one,
    /// A write that failed is reported as done.
    HidesFailedCreations => a_creation_that_failed_is_reported_as_unknown,
    /// A write that failed is reported as one to a path that is taken.
    TakesAFailedCreationForATakenPath => a_creation_that_failed_is_reported_as_unknown,
    /// A delete that failed is reported as done.
    HidesFailedDeletes => a_delete_that_failed_is_reported,
    /// What is said to make it fail does nothing: the mistake of who hands a storage to the suite.
    FeelsNoOutage => an_outage_of_the_storage_is_felt,
    /// A range that reaches outside an object is cut.
    CutsRanges => a_range_that_reaches_outside_an_object_is_refused,
    /// A range begins with the object.
    ReadsRangesFromTheStart => a_range_inside_an_object_is_read,
    /// A listing has only what is directly in the folder.
    ListsOneLevel => a_listing_is_sorted_and_recursive,
    /// A listing is in no good order.
    ListsUnsorted => a_listing_is_sorted_and_recursive,
    /// A listing has the objects of folders that begin like the one that was asked for.
    ListsNeighbours => a_listing_is_of_one_folder_only,
    /// A listing has the uploads that are under way.
    ListsUnfinishedUploads => a_listing_does_not_show_unfinished_uploads,
    /// A listing has the objects that were deleted.
    ListsDeletedObjects => a_listing_does_not_show_deleted_objects,
    /// The listing of a folder that is not there is an error.
    RefusesToListAbsentFolders => an_absent_folder_is_empty,
    /// A place is made ready by an object in it.
    MarksPlaces => a_place_that_was_made_ready_holds_nothing_and_takes_objects,
    /// A listing of folders has those below them too.
    ListsFoldersAtAnyDepth => folders_are_listed_by_level,
    /// The delete of an object that is not there is an error.
    RefusesAbsentDeletes => deleting_an_absent_object_succeeds,
    /// The delete of an object takes those that begin like it.
    DeletesLongerNames => deleting_an_object_leaves_its_neighbours,
    /// The delete of an object takes the folder of its name.
    DeletesFoldersAsObjects => a_folder_is_not_an_object,
    /// The delete of a folder takes the folders that begin like it.
    DeletesNeighbours => deleting_a_folder_removes_everything_in_it_and_nothing_else,
    /// The delete of a folder leaves the folders in it.
    DeletesOneLevel => deleting_a_folder_removes_everything_in_it_and_nothing_else,
    /// The delete of a folder that is not there is an error.
    RefusesAbsentFolders => deleting_an_absent_folder_succeeds,
    /// The delete of a folder leaves what dead writers left there.
    LeavesUnfinishedUploads => what_a_dead_writer_left_goes_with_its_folder,
    /// The path of a deleted object is taken for ever.
    RemembersDeletedPaths => a_path_can_be_used_again_after_it_was_deleted,
    /// An instance writes to the folders that it knows without looking whether they are still there.
    RemembersFolders => a_folder_that_another_instance_deleted_can_be_written_to,
}

/// A [`ReferenceStorage`] with one defect.
#[derive(Debug)]
pub struct WrongStorage {
    pub(super) memory: Arc<Memory>,
    /// The right storage, behind faults.
    right: Arc<dyn CheckpointStorage>,
}

/// What a wrong storage shares with its uploads.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) defect: StorageDefect,
    pub(super) disk: ReferenceDisk,
    /// Content of published objects that did not get to the disk.
    unflushed: Mutex<BTreeMap<ObjectPath, Bytes>>,
    deleted: Mutex<BTreeSet<ObjectPath>>,
    folders: Mutex<BTreeSet<ObjectPath>>,
    /// Threads that have checked and have not acted yet.
    between: AtomicUsize,
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder_of(path: &ObjectPath) -> Option<ObjectPath> {
    path.as_str().rsplit_once('/').and_then(|(folder, _)| ObjectPath::parse(folder))
}

impl Memory {
    /// An object has been published.
    pub(super) fn published(&self, path: &ObjectPath) {
        if self.defect == StorageDefect::PublishesBeforeItFlushes {
            let mut contents = self.disk.contents();
            let content = contents.objects.insert(path.clone(), Bytes::new());
            locked(&self.unflushed).insert(path.clone(), content.unwrap_or_default());
        }
        locked(&self.folders).extend(folder_of(path));
    }

    /// Whether a path may be written to.
    fn check(&self, path: &ObjectPath) -> Result<(), StorageError> {
        if self.defect == StorageDefect::RemembersDeletedPaths && locked(&self.deleted).contains(path) {
            return Err(StorageError::AlreadyExists { path: path.clone() });
        }
        let known = folder_of(path).filter(|folder| locked(&self.folders).contains(folder));
        if let Some(folder) = known
            && self.defect == StorageDefect::RemembersFolders
            && !self.disk.contents().paths().any(|path| path.is_under(&folder))
        {
            return Err(StorageError::unavailable("create", path, io::ErrorKind::NotFound.into()));
        }
        Ok(())
    }

    fn deleted(&self, path: &ObjectPath) {
        locked(&self.deleted).insert(path.clone());
        locked(&self.folders).clear();
    }
}

impl WrongStorage {
    /// An empty storage with this defect.
    pub fn new(defect: StorageDefect) -> Self {
        Self::on(&ReferenceDisk::default(), defect, Faults::default())
    }

    fn on(disk: &ReferenceDisk, defect: StorageDefect, faults: Faults) -> Self {
        let memory = Memory {
            defect,
            disk: disk.clone(),
            unflushed: Mutex::default(),
            deleted: Mutex::default(),
            folders: Mutex::default(),
            between: AtomicUsize::new(0),
        };
        let right = FaultyStorage::new(Arc::new(ReferenceStorage::on(disk)), faults);
        Self { memory: Arc::new(memory), right: Arc::new(right) }
    }

    /// A storage with this defect as the suite takes it: one that is opened again and has outages.
    pub fn under_test(defect: StorageDefect) -> StorageUnderTest {
        let faults = Faults::default();
        let (disk, set_outage) = (ReferenceDisk::default(), faults.clone());
        let open = move || {
            let own = ReferenceDisk::default();
            let disk = if defect == StorageDefect::KeepsObjectsInTheInstance { &own } else { &disk };
            Self::on(disk, defect, faults.clone())
        };
        let test = match defect {
            StorageDefect::SaysThatItIsDurable => StorageUnderTest::new(open()),
            _ => StorageUnderTest::reopened_by(open),
        };
        test.with_outage(move |lasts| set_outage.set_outage(lasts && defect != StorageDefect::FeelsNoOutage))
    }

    /// The path under which the right storage keeps what has this path.
    fn kept_at(&self, path: &ObjectPath) -> ObjectPath {
        if self.is(StorageDefect::FoldsCase) {
            return ObjectPath::parse(&path.as_str().to_lowercase()).unwrap_or_else(|| path.clone());
        }
        path.clone()
    }

    fn is(&self, defect: StorageDefect) -> bool {
        self.memory.defect == defect
    }

    fn objects(&self, keep: impl Fn(&ObjectPath) -> bool) -> Vec<ObjectPath> {
        self.memory.disk.contents().objects.keys().filter(|path| keep(path)).cloned().collect()
    }

    fn remove(&self, gone: impl Fn(&ObjectPath) -> bool) {
        self.memory.disk.contents().objects.retain(|path, _| !gone(path));
    }

    fn outcome_of_delete(&self, outcome: Result<(), StorageError>) -> Result<(), StorageError> {
        if self.is(StorageDefect::HidesFailedDeletes) { Ok(()) } else { outcome }
    }
}

/// Whether an object is directly in a folder.
fn is_directly_in(path: &ObjectPath, folder: &ObjectPath) -> bool {
    folder_of(path).as_ref() == Some(folder)
}

#[async_trait]
impl CheckpointStorage for WrongStorage {
    async fn initialize_location(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        if self.memory.defect != StorageDefect::MarksPlaces {
            return self.right.initialize_location(folder).await;
        }
        match self.create_if_absent(&folder.join("ready"), Bytes::new()).await {
            Err(StorageError::AlreadyExists { .. }) => Ok(()),
            result => result,
        }
    }

    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        let path = self.kept_at(path);
        self.memory.check(&path)?;
        let right = self.right.create(&path).await?;
        Ok(Box::new(WrongUpload::new(self.memory.clone(), path, right)))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let path = &self.kept_at(path);
        self.memory.check(path)?;
        match self.memory.defect {
            StorageDefect::DropsEmptyObjects if content.is_empty() => return Ok(()),
            StorageDefect::CreationOverwrites => self.remove(|other| other == path),
            StorageDefect::ChecksBeforeItCreates => {
                let between = &self.memory.between;
                if self.memory.disk.contents().objects.contains_key(path) {
                    return Err(StorageError::AlreadyExists { path: path.clone() });
                }
                between.fetch_add(1, Ordering::SeqCst);
                // So that others can have checked, too, whatever the scheduler likes to do.
                for _ in 0..YIELDS_MAX {
                    if between.load(Ordering::SeqCst) > 1 {
                        break;
                    }
                    thread::yield_now();
                }
                self.remove(|other| other == path);
                between.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        }
        let created = self.right.create_if_absent(path, content).await;
        match created {
            Ok(()) => self.memory.published(path),
            Err(error) if error.is_transient() && self.is(StorageDefect::HidesFailedCreations) => return Ok(()),
            Err(error) if error.is_transient() && self.is(StorageDefect::TakesAFailedCreationForATakenPath) => {
                return Err(StorageError::AlreadyExists { path: path.clone() });
            }
            Err(_) => {}
        }
        created
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        let path = &self.kept_at(path);
        match self.right.read(path).await {
            Ok(content) if self.is(StorageDefect::ConvertsLineEnds) => {
                Ok(content.into_iter().filter(|byte| *byte != b'\r').collect())
            }
            Ok(content) => Ok(locked(&self.memory.unflushed).get(path).cloned().unwrap_or(content)),
            Err(StorageError::NotFound { .. }) if self.is(StorageDefect::TakesAbsenceForEmpty) => Ok(Bytes::new()),
            Err(error) if error.is_transient() && self.is(StorageDefect::TakesAFailedReadForAbsence) => {
                Err(StorageError::NotFound { path: path.clone() })
            }
            Err(error) => Err(error),
        }
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let content = self.read(path).await?;
        let found = content.len() as u64;
        let offset = if self.is(StorageDefect::ReadsRangesFromTheStart) { 0 } else { offset };
        let mut end = offset.checked_add(length).filter(|end| *end <= found);
        if self.is(StorageDefect::CutsRanges) {
            end = end.or(Some(found));
        }
        match end {
            Some(end) => Ok(content.slice(offset.min(end) as usize..end as usize)),
            None => Err(StorageError::Corrupt {
                path: path.clone(),
                expected: format!("{length} bytes from byte {offset}"),
                found: format!("{found} bytes in all"),
            }),
        }
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let folder = &self.kept_at(folder);
        let mut listed = match self.right.list(folder).await {
            Err(_) if self.is(StorageDefect::TakesAFailedListingForEmpty) => return Ok(Vec::new()),
            listed => listed?,
        };
        match self.memory.defect {
            StorageDefect::ListsOneLevel => listed.retain(|path| is_directly_in(path, folder)),
            StorageDefect::ListsUnsorted => listed.reverse(),
            StorageDefect::ListsDeletedObjects => {
                listed.extend(locked(&self.memory.deleted).iter().filter(|path| path.is_under(folder)).cloned());
            }
            StorageDefect::RefusesToListAbsentFolders if listed.is_empty() => {
                return Err(StorageError::NotFound { path: folder.clone() });
            }
            StorageDefect::ListsNeighbours => {
                listed = self.objects(|path| path.as_str().starts_with(folder.as_str()));
            }
            StorageDefect::ListsUnfinishedUploads => {
                let contents = self.memory.disk.contents();
                listed = contents.paths().filter(|path| path.is_under(folder)).cloned().collect();
                listed.sort_unstable();
            }
            _ => {}
        }
        Ok(listed)
    }

    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let folder = &self.kept_at(folder);
        let listed = match self.right.list_folders(folder).await {
            Err(_) if self.is(StorageDefect::TakesAFailedListingForEmpty) => return Ok(Vec::new()),
            listed => listed?,
        };
        if !self.is(StorageDefect::ListsFoldersAtAnyDepth) {
            return Ok(listed);
        }
        let mut folders = BTreeSet::new();
        for path in self.objects(|path| path.is_under(folder)) {
            let above = std::iter::successors(folder_of(&path), folder_of);
            folders.extend(above.take_while(|above| above.is_under(folder)));
        }
        Ok(folders.into_iter().collect())
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        let path = &self.kept_at(path);
        match self.memory.defect {
            StorageDefect::RefusesAbsentDeletes => drop(self.right.read(path).await?),
            StorageDefect::DeletesLongerNames => self.remove(|other| other.as_str().starts_with(path.as_str())),
            StorageDefect::DeletesFoldersAsObjects => self.remove(|other| other.is_under(path)),
            _ => {}
        }
        self.memory.deleted(path);
        self.outcome_of_delete(self.right.delete(path).await)
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let folder = &self.kept_at(folder);
        match self.memory.defect {
            StorageDefect::DeletesNeighbours => self.remove(|path| path.as_str().starts_with(folder.as_str())),
            StorageDefect::DeletesOneLevel => {
                self.remove(|path| is_directly_in(path, folder));
                return Ok(());
            }
            StorageDefect::LeavesUnfinishedUploads => {
                self.remove(|path| path.is_under(folder));
                return Ok(());
            }
            StorageDefect::RefusesAbsentFolders if self.right.list(folder).await?.is_empty() => {
                return Err(StorageError::NotFound { path: folder.clone() });
            }
            _ => {}
        }
        self.memory.deleted(folder);
        self.outcome_of_delete(self.right.delete_folder(folder).await)
    }

    fn is_durable(&self) -> bool {
        true
    }
}
