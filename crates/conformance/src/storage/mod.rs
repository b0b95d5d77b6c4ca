//! The contract of a checkpoint storage, one function a behaviour.

#![expect(clippy::unwrap_used, reason = "a case is a test: it panics where the contract is broken")]

mod lasting;
mod listing;
mod objects;
mod outages;
mod races;
mod uploads;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use highwater_state_api::{CheckpointStorage, ObjectPath, StateHandle, StorageError};

pub use lasting::*;
pub use listing::*;
pub use objects::*;
pub use outages::*;
pub use races::*;
pub use uploads::*;

use crate::trial::{self, Trial};

/// Runs every case on a storage, one after the other, and tells how each ended: for tables and tools. Tests are made by
/// [`storage_conformance!`](crate::storage_conformance).
pub fn run_all(factory: Factory<'_>) -> Vec<Trial> {
    run(factory, |_| true)
}

/// Runs the cases of which the names are wanted.
pub(crate) fn run(factory: Factory<'_>, wanted: impl Fn(&str) -> bool) -> Vec<Trial> {
    let cases = CASES.iter().filter(|(name, _)| wanted(name));
    cases.map(|(name, case)| trial::run(name, || case(factory))).collect()
}

/// Opens a storage again that has been opened before.
type Reopen = Box<dyn Fn() -> Arc<dyn CheckpointStorage>>;

/// An empty storage on which a case is run.
pub struct StorageUnderTest {
    storage: Arc<dyn CheckpointStorage>,
    reopen: Option<Reopen>,
    set_outage: Option<Box<dyn Fn(bool)>>,
    kept: Option<Box<dyn Any>>,
}

impl fmt::Debug for StorageUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageUnderTest").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl StorageUnderTest {
    /// A storage that ends with its value.
    pub fn new(storage: impl CheckpointStorage + 'static) -> Self {
        Self { storage: Arc::new(storage), reopen: None, set_outage: None, kept: None }
    }

    /// A storage that can be opened again, as a durable one has to be: `open` is called for each instance.
    pub fn reopened_by<S: CheckpointStorage + 'static>(open: impl Fn() -> S + 'static) -> Self {
        let open = move || -> Arc<dyn CheckpointStorage> { Arc::new(open()) };
        Self { storage: open(), reopen: Some(Box::new(open)), set_outage: None, kept: None }
    }

    /// Makes the cases about failures possible: `set_outage(true)` makes what lies beneath the storage fail, its disk
    /// or its network for instance, for every instance; `set_outage(false)` puts it right.
    pub fn with_outage(mut self, set_outage: impl Fn(bool) + 'static) -> Self {
        self.set_outage = Some(Box::new(set_outage));
        self
    }

    /// Keeps something for as long as the storage, such as a temporary directory.
    pub fn keeping(mut self, kept: impl Any) -> Self {
        self.kept = Some(Box::new((self.kept.take(), kept)));
        self
    }

    fn create(&self, path: &ObjectPath, content: impl Into<Bytes>) -> Result<StateHandle, StorageError> {
        create(&*self.storage, path, content)
    }

    fn created(&self, path: &str) -> ObjectPath {
        let path = object(path);
        self.create(&path, content_of(&path)).expect("a new object can be created");
        path
    }

    fn create_if_absent(&self, path: &ObjectPath, content: impl Into<Bytes>) -> Result<(), StorageError> {
        block_on(self.storage.create_if_absent(path, content.into()))
    }

    fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        block_on(self.storage.read(path))
    }

    fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        block_on(self.storage.read_range(path, offset, length))
    }

    fn list(&self, folder: &str) -> Vec<String> {
        list(&*self.storage, folder)
    }

    fn list_folders(&self, folder: &str) -> Vec<String> {
        let folders = block_on(self.storage.list_folders(&object(folder)));
        folders.expect("a folder can be listed, there or not").iter().map(ObjectPath::to_string).collect()
    }

    fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        block_on(self.storage.delete(path))
    }

    fn delete_folder(&self, folder: &str) -> Result<(), StorageError> {
        block_on(self.storage.delete_folder(&object(folder)))
    }
}

/// Makes an empty storage; called at least once by every case.
pub type Factory<'f> = &'f dyn Fn() -> StorageUnderTest;

/// A case: panics when the storage breaks the contract.
pub type Case = fn(Factory<'_>);

/// Runs a future to its end on this thread; what the futures of a storage do meanwhile may block.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

fn object(path: &str) -> ObjectPath {
    ObjectPath::parse(path).expect("the cases use paths that are paths")
}

/// Content that tells whose it is.
fn content_of(path: &ObjectPath) -> Bytes {
    format!("content of {path}").into()
}

fn create(
    storage: &dyn CheckpointStorage,
    path: &ObjectPath,
    content: impl Into<Bytes>,
) -> Result<StateHandle, StorageError> {
    let content = content.into();
    block_on(async {
        let mut upload = storage.create(path).await?;
        upload.write(content).await?;
        upload.finish().await
    })
}

fn list(storage: &dyn CheckpointStorage, folder: &str) -> Vec<String> {
    let objects = block_on(storage.list(&object(folder))).expect("a folder can be listed, there or not");
    objects.iter().map(ObjectPath::to_string).collect()
}

#[track_caller]
fn assert_not_found<T: fmt::Debug>(path: &ObjectPath, result: Result<T, StorageError>) {
    match result {
        Err(StorageError::NotFound { path: named }) => assert_eq!(named, *path, "the error names another object"),
        other => panic!("expected {path} not to be found, got {other:?}"),
    }
}

#[track_caller]
fn assert_already_exists<T: fmt::Debug>(path: &ObjectPath, result: Result<T, StorageError>) {
    match result {
        Err(StorageError::AlreadyExists { path: named }) => assert_eq!(named, *path, "the error names another object"),
        other => panic!("expected {path} to be refused as taken, got {other:?}"),
    }
}

/// The one list of the suite: from it come [`CASES`] and [`storage_conformance!`].
macro_rules! suite {
    ($d:tt $($case:ident),* $(,)?) => {
        /// Every case with its name, in the order of the suite.
        pub const CASES: &[(&str, Case)] = &[$((stringify!($case), $case)),*];

        /// Makes one `#[test]` for each case of the storage suite.
        ///
        /// Takes a factory, `Fn() -> StorageUnderTest`, that makes an empty storage at each call. Durable storages
        /// have to be given with [`StorageUnderTest::reopened_by`](crate::storage::StorageUnderTest::reopened_by).
        #[macro_export]
        macro_rules! storage_conformance {
            ($d factory:expr $d(,)?) => {
                $(
                    #[test]
                    fn $case() {
                        $d crate::storage::$case(&$d factory);
                    }
                )*
            };
        }
    };
}

suite! { $
    an_object_is_read_as_it_was_written,
    an_empty_object_is_an_object,
    a_large_object_is_read_as_it_was_written,
    a_handle_has_the_length_and_checksum_of_its_object,
    an_object_created_whole_is_an_object_like_any_other,
    reading_an_absent_object_is_not_found,
    a_folder_is_not_an_object,
    a_range_inside_an_object_is_read,
    a_range_that_reaches_outside_an_object_is_refused,
    names_of_any_kind_are_kept_apart,
    deleting_an_object_leaves_its_neighbours,
    deleting_an_absent_object_succeeds,
    a_path_can_be_used_again_after_it_was_deleted,
    an_unfinished_upload_is_invisible,
    a_dropped_upload_leaves_nothing,
    creating_over_an_object_fails_and_leaves_it_unharmed,
    the_first_of_two_uploads_to_finish_has_the_path,
    creating_whole_over_an_object_fails_and_leaves_it_unharmed,
    an_upload_does_not_replace_an_object_created_meanwhile,
    a_listing_is_sorted_and_recursive,
    a_listing_is_of_one_folder_only,
    an_absent_folder_is_empty,
    a_place_that_was_made_ready_holds_nothing_and_takes_objects,
    a_listing_does_not_show_unfinished_uploads,
    a_listing_does_not_show_deleted_objects,
    folders_are_listed_by_level,
    deleting_a_folder_removes_everything_in_it_and_nothing_else,
    deleting_an_absent_folder_succeeds,
    deleting_a_folder_removes_unfinished_uploads,
    a_folder_can_be_used_again_after_it_was_deleted,
    of_racing_creations_exactly_one_wins,
    of_racing_uploads_exactly_one_wins,
    many_writers_do_not_disturb_each_other,
    a_reader_never_sees_half_an_object,
    listings_and_deletes_go_on_beside_writers,
    a_durable_storage_can_be_opened_again,
    another_instance_sees_what_was_finished,
    another_instance_does_not_see_what_was_not_finished,
    another_instance_does_not_overwrite,
    a_folder_that_another_instance_deleted_can_be_written_to,
    what_a_dead_writer_left_goes_with_its_folder,
    an_outage_of_the_storage_is_felt,
    a_failed_read_is_not_an_absent_object,
    a_failed_listing_is_not_an_empty_one,
    a_creation_that_failed_is_reported_as_unknown,
    a_piece_that_failed_is_not_there_twice,
    a_delete_that_failed_is_reported,
}
