//! Cases: what is durable is there for the next instance. Storages that are not durable pass them by.

use std::sync::Arc;

use bytes::Bytes;
use highwater_state_api::{CheckpointStorage, read_state};

use super::{
    Factory, StorageUnderTest, assert_already_exists, assert_not_found, block_on, content_of, create, list, object,
};
use crate::trial::pass_by;

/// A second instance of a storage that can have one.
fn second(test: &StorageUnderTest) -> Option<Arc<dyn CheckpointStorage>> {
    test.reopen.as_ref().map(|open| open())
}

/// Durable storages are to be tested as such, and those that are not must not say they are.
pub fn a_durable_storage_can_be_opened_again(factory: Factory<'_>) {
    let test = factory();
    if !test.storage.is_durable() {
        return pass_by();
    }
    let second = second(&test).expect("a durable storage is given to the suite with `reopened_by`");
    assert!(second.is_durable());
}

/// Objects and handles of one instance serve another, also after the first has gone.
pub fn another_instance_sees_what_was_finished(factory: Factory<'_>) {
    let mut test = factory();
    let path = object("job/chk-1/state");
    let handle = test.create(&path, content_of(&path)).unwrap();
    let record = object("job/log/00000000000000000001");
    test.create_if_absent(&record, content_of(&record)).unwrap();
    let Some(second) = second(&test) else { return pass_by() };
    test.storage = second;
    assert_eq!(test.list("job"), ["job/chk-1/state", "job/log/00000000000000000001"]);
    assert_eq!(block_on(read_state(&*test.storage, &handle)).unwrap(), content_of(&path));
    assert_eq!(test.read(&record).unwrap(), content_of(&record));
}

/// An upload that is under way, or was lost with its writer, is nothing to another instance.
pub fn another_instance_does_not_see_what_was_not_finished(factory: Factory<'_>) {
    let test = factory();
    let Some(second) = second(&test) else { return pass_by() };
    let path = object("job/chk-1/state");
    let mut upload = block_on(test.storage.create(&path)).unwrap();
    block_on(upload.write(Bytes::from("half"))).unwrap();
    assert_not_found(&path, block_on(second.read(&path)));
    assert!(list(&*second, "job").is_empty());
    // A writer that dies drops nothing.
    std::mem::forget(upload);
    create(&*second, &path, "whole").unwrap();
    assert_eq!(test.read(&path).unwrap(), "whole");
    assert_eq!(list(&*second, "job"), ["job/chk-1/state"]);
}

/// An object is taken whoever made it.
pub fn another_instance_does_not_overwrite(factory: Factory<'_>) {
    let test = factory();
    let Some(second) = second(&test) else { return pass_by() };
    let path = object("job/log/00000000000000000001");
    test.create_if_absent(&path, "first").unwrap();
    assert_already_exists(&path, block_on(second.create_if_absent(&path, Bytes::from("second"))));
    assert_already_exists(&path, create(&*second, &path, "third"));
    assert_eq!(block_on(second.read(&path)).unwrap(), "first");
}

/// What an instance remembers of a folder does not outlive the folder.
pub fn a_folder_that_another_instance_deleted_can_be_written_to(factory: Factory<'_>) {
    let test = factory();
    let Some(second) = second(&test) else { return pass_by() };
    for number in 0..3 {
        let path = object("job/chk-1/a").join(&number.to_string());
        test.create(&path, "content").unwrap();
        block_on(second.delete_folder(&object("job"))).unwrap();
        assert!(test.list("job").is_empty());
        let record = object("job/log").join(&number.to_string());
        test.create_if_absent(&record, "record").unwrap();
        assert_eq!(list(&*second, "job"), [record.to_string()]);
    }
}

/// What a writer left that died is deleted with its folder, by whoever deletes that, and is not in the way of a new one.
pub fn what_a_dead_writer_left_goes_with_its_folder(factory: Factory<'_>) {
    let test = factory();
    let Some(second) = second(&test) else { return pass_by() };
    let path = object("job/chk-1/state");
    let mut upload = block_on(test.storage.create(&path)).unwrap();
    block_on(upload.write(Bytes::from("half"))).unwrap();
    // A writer that dies drops nothing.
    std::mem::forget(upload);
    block_on(second.delete_folder(&object("job/chk-1"))).unwrap();
    for storage in [&*second, &*test.storage] {
        let folders = block_on(storage.list_folders(&object("job"))).unwrap();
        assert!(folders.is_empty(), "{folders:?} are left");
    }
    create(&*second, &path, "whole").unwrap();
    assert_eq!(test.read(&path).unwrap(), "whole");
}
