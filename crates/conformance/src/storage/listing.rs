//! Cases: folders are listed and deleted, each for itself.

use bytes::Bytes;

use super::{Factory, assert_not_found, block_on, content_of, object};

/// A listing has the objects at any depth, in ascending order of path.
pub fn a_listing_is_sorted_and_recursive(factory: Factory<'_>) {
    let test = factory();
    // In an order that is neither the sorted one nor that of a walk through the folders.
    let paths = [
        "job/log/00000000000000000010",
        "job/chk-2/b",
        "job/log/00000000000000000009",
        "job/chk-10/a",
        "job/chk-2/a/deep/er",
        "job/chk-2-x",
        "job/chk-2/B",
        "job/a",
        "job/chk-2/a-b",
    ];
    for path in paths {
        test.created(path);
    }
    let mut sorted = paths.map(str::to_owned);
    sorted.sort_unstable();
    assert_eq!(test.list("job"), sorted);
    assert_eq!(test.list("job/chk-2"), ["job/chk-2/B", "job/chk-2/a-b", "job/chk-2/a/deep/er", "job/chk-2/b"]);
    assert_eq!(test.list("job/chk-2/a"), ["job/chk-2/a/deep/er"]);
}

/// A folder whose name begins like another's is another folder.
pub fn a_listing_is_of_one_folder_only(factory: Factory<'_>) {
    let test = factory();
    for path in ["job/state", "job2/state", "jo/state", "job-/state", "other/job/state", "jobs"] {
        test.created(path);
    }
    assert_eq!(test.list("job"), ["job/state"]);
    assert_eq!(test.list("jo"), ["jo/state"]);
    assert_eq!(test.list("other"), ["other/job/state"]);
}

/// A folder that is not there is empty, not an error.
pub fn an_absent_folder_is_empty(factory: Factory<'_>) {
    let test = factory();
    assert!(test.list("absent").is_empty());
    assert!(test.list("absent/too").is_empty());
    test.created("job/state");
    assert!(test.list("job/chk-1").is_empty());
}

/// A place can be made ready more than once; nothing is in it before something is written, and it goes like any folder.
pub fn a_place_that_was_made_ready_holds_nothing_and_takes_objects(factory: Factory<'_>) {
    let test = factory();
    let folder = object("job/chk-1-5");
    let make_ready = || block_on(test.storage.initialize_location(&folder));
    make_ready().unwrap();
    make_ready().unwrap();
    assert!(test.list("job").is_empty());
    test.created("job/chk-1-5/state");
    make_ready().unwrap();
    assert_eq!(test.list("job"), ["job/chk-1-5/state"]);
    block_on(test.storage.delete_folder(&folder)).unwrap();
    make_ready().unwrap();
    block_on(test.storage.delete_folder(&folder)).unwrap();
    assert!(test.list_folders("job").is_empty());
}

/// An upload appears in a listing with its finish, under its own name only.
pub fn a_listing_does_not_show_unfinished_uploads(factory: Factory<'_>) {
    let test = factory();
    test.created("job/chk-1/other");
    let mut upload = block_on(test.storage.create(&object("job/chk-1/state"))).unwrap();
    block_on(upload.write(Bytes::from("content"))).unwrap();
    assert_eq!(test.list("job"), ["job/chk-1/other"]);
    block_on(upload.finish()).unwrap();
    assert_eq!(test.list("job"), ["job/chk-1/other", "job/chk-1/state"]);
}

/// A deleted object is not listed any more.
pub fn a_listing_does_not_show_deleted_objects(factory: Factory<'_>) {
    let test = factory();
    let path = test.created("job/a");
    test.created("job/b");
    test.delete(&path).unwrap();
    assert_eq!(test.list("job"), ["job/b"]);
}

/// A folder goes with all that is in it; its siblings stay.
pub fn deleting_a_folder_removes_everything_in_it_and_nothing_else(factory: Factory<'_>) {
    let test = factory();
    let gone = ["job/chk-1/metadata", "job/chk-1/a/b/c", "job/chk-1/a/d"].map(|path| test.created(path));
    let kept =
        ["job/chk-10/metadata", "job/chk-1x", "job/chk-2/chk-1/a", "job2/chk-1/a"].map(|path| test.created(path));
    test.delete_folder("job/chk-1").unwrap();
    for path in gone {
        assert_not_found(&path, test.read(&path));
    }
    assert!(test.list("job/chk-1").is_empty());
    for path in &kept {
        assert_eq!(test.read(path).unwrap(), content_of(path));
    }
    test.delete_folder("job").unwrap();
    assert_eq!(test.list("job2"), ["job2/chk-1/a"]);
}

/// Deleting a folder succeeds when there is none, also when it is repeated.
pub fn deleting_an_absent_folder_succeeds(factory: Factory<'_>) {
    let test = factory();
    test.delete_folder("never/was/there").unwrap();
    test.created("job/chk-1/state");
    test.delete_folder("job/chk-1").unwrap();
    test.delete_folder("job/chk-1").unwrap();
    test.delete_folder("job/chk-2").unwrap();
}

/// What a folder holds besides objects goes with it, and an upload that was under way can still be dropped.
pub fn deleting_a_folder_removes_unfinished_uploads(factory: Factory<'_>) {
    let test = factory();
    let mut upload = block_on(test.storage.create(&object("job/chk-1/state"))).unwrap();
    block_on(upload.write(Bytes::from("content"))).unwrap();
    test.delete_folder("job/chk-1").unwrap();
    assert!(test.list("job").is_empty());
    drop(upload);
    assert!(test.list("job").is_empty());
}

/// A deleted folder is not in the way of a new one.
pub fn a_folder_can_be_used_again_after_it_was_deleted(factory: Factory<'_>) {
    let test = factory();
    for _ in 0..3 {
        let path = test.created("job/chk-1/a/state");
        assert_eq!(test.list("job"), ["job/chk-1/a/state"]);
        test.delete_folder("job/chk-1").unwrap();
        assert_not_found(&path, test.read(&path));
    }
}

/// The folders directly in a folder are listed, each once, without what is deeper and without objects.
pub fn folders_are_listed_by_level(factory: Factory<'_>) {
    let test = factory();
    for path in ["job/chk-2/b", "job/chk-2/a/deep/er", "job/chk-1/a", "job/object", "job2/chk-9/a"] {
        test.created(path);
    }
    assert_eq!(test.list_folders("job"), ["job/chk-1", "job/chk-2"]);
    assert_eq!(test.list_folders("job/chk-2"), ["job/chk-2/a"]);
    assert!(test.list_folders("job/chk-1").is_empty());
    assert!(test.list_folders("absent").is_empty());
    test.delete_folder("job/chk-2").unwrap();
    assert_eq!(test.list_folders("job"), ["job/chk-1"]);
}
