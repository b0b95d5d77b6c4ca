//! Cases: an upload is all or nothing, and never replaces anything.

use bytes::Bytes;
use highwater_state_api::{ObjectPath, StateUpload};

use super::{Factory, StorageUnderTest, assert_already_exists, assert_not_found, block_on, content_of, object};

fn begun(test: &StorageUnderTest, path: &ObjectPath, content: &'static str) -> Box<dyn StateUpload> {
    block_on(async {
        let mut upload = test.storage.create(path).await?;
        upload.write(Bytes::from(content)).await?;
        Ok::<_, highwater_state_api::StorageError>(upload)
    })
    .expect("an upload can be started")
}

/// Nothing of an upload can be seen before its finish, and all of it afterwards.
pub fn an_unfinished_upload_is_invisible(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/chk-1/state");
    let mut upload = begun(&test, &path, "first half, ");
    assert_not_found(&path, test.read(&path));
    assert_not_found(&path, test.read_range(&path, 0, 1));
    block_on(upload.write(Bytes::from("second half"))).unwrap();
    assert_not_found(&path, test.read(&path));
    block_on(upload.finish()).unwrap();
    assert_eq!(test.read(&path).unwrap(), "first half, second half");
}

/// An upload that is dropped has never been: the path is free, the folder is empty.
pub fn a_dropped_upload_leaves_nothing(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/chk-1/state");
    drop(begun(&test, &path, "never finished"));
    drop(block_on(test.storage.create(&path)).unwrap());
    assert_not_found(&path, test.read(&path));
    assert!(test.list("job").is_empty());
    test.create(&path, "finished").unwrap();
    assert_eq!(test.read(&path).unwrap(), "finished");
}

/// An upload to a path that is taken fails at its start or at its finish.
pub fn creating_over_an_object_fails_and_leaves_it_unharmed(factory: Factory<'_>) {
    let test = factory();
    let path = test.created("job/state");
    for content in ["", "longer than what is there, by far"] {
        assert_already_exists(&path, test.create(&path, content));
        assert_eq!(test.read(&path).unwrap(), content_of(&path));
    }
    assert_eq!(test.list("job"), ["job/state"]);
}

/// Two uploads to one path may both be started; the first to finish has it.
pub fn the_first_of_two_uploads_to_finish_has_the_path(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/state");
    let first = begun(&test, &path, "started first");
    let second = begun(&test, &path, "started second");
    block_on(second.finish()).unwrap();
    assert_already_exists(&path, block_on(first.finish()));
    assert_eq!(test.read(&path).unwrap(), "started second");
    assert_eq!(test.list("job"), ["job/state"]);
}

/// `create_if_absent` does not replace, whatever made the object.
pub fn creating_whole_over_an_object_fails_and_leaves_it_unharmed(factory: Factory<'_>) {
    let test = factory();
    let uploaded = test.created("job/uploaded");
    let whole = object("job/whole");
    test.create_if_absent(&whole, content_of(&whole)).unwrap();
    for path in [uploaded, whole] {
        assert_already_exists(&path, test.create_if_absent(&path, "other"));
        assert_already_exists(&path, test.create_if_absent(&path, content_of(&path)));
        assert_eq!(test.read(&path).unwrap(), content_of(&path));
    }
}

/// An upload that has been started holds no claim on its path.
pub fn an_upload_does_not_replace_an_object_created_meanwhile(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/state");
    let upload = begun(&test, &path, "upload");
    test.create_if_absent(&path, "meanwhile").unwrap();
    assert_already_exists(&path, block_on(upload.finish()));
    assert_eq!(test.read(&path).unwrap(), "meanwhile");
}
