//! Cases: a storage that fails is not an empty one. Storages that nobody can make fail pass them by.
//!
//! During an outage a storage may still succeed. What it answers then is right.

use std::fmt;

use bytes::Bytes;
use highwater_state_api::{ObjectPath, StateHandle, StorageError, read_state};

use super::{Factory, StorageUnderTest, assert_not_found, block_on, content_of, list, object};
use crate::trial::pass_by;

/// Runs a case on a storage with some objects that can be made to fail.
fn with_outage(factory: Factory<'_>, case: impl Fn(&StorageUnderTest, &dyn Fn(bool), &[ObjectPath])) {
    let test = factory();
    let Some(set_outage) = &test.set_outage else { return pass_by() };
    let there = ["job/chk-1/metadata", "job/chk-1/state", "job/log/1"].map(|path| test.created(path));
    case(&test, set_outage, &there);
}

#[track_caller]
fn assert_unavailable<T: fmt::Debug>(what: &str, result: Result<T, StorageError>) {
    match result {
        Err(error) if error.is_transient() => {}
        other => panic!("expected that the storage could not {what} during an outage, got {other:?}"),
    }
}

/// What the suite was given to make the storage fail makes it fail: otherwise the cases about it would prove nothing.
pub fn an_outage_of_the_storage_is_felt(factory: Factory<'_>) {
    with_outage(factory, |test, set_outage, there| {
        set_outage(true);
        let outcomes = [
            test.read(&there[0]).map(drop),
            block_on(test.storage.list(&object("job"))).map(drop),
            test.create(&object("job/uploaded"), "content").map(drop),
            test.create_if_absent(&object("job/whole"), "content"),
        ];
        set_outage(false);
        assert!(outcomes.iter().any(Result::is_err), "an outage makes nothing fail");
    });
}

/// What cannot be read is not reported as absent or damaged; it may be asked for again, and is there.
pub fn a_failed_read_is_not_an_absent_object(factory: Factory<'_>) {
    with_outage(factory, |test, set_outage, there| {
        set_outage(true);
        for path in there {
            match test.read(path) {
                Ok(content) => assert_eq!(content, content_of(path)),
                failed => assert_unavailable("read", failed),
            }
            match test.read_range(path, 1, 3) {
                Ok(content) => assert_eq!(content, content_of(path).slice(1..4)),
                failed => assert_unavailable("read a range", failed),
            }
        }
        set_outage(false);
        for path in there {
            assert_eq!(test.read(path).unwrap(), content_of(path));
        }
    });
}

/// What cannot be listed is not reported as empty, nor as less than there is.
pub fn a_failed_listing_is_not_an_empty_one(factory: Factory<'_>) {
    with_outage(factory, |test, set_outage, there| {
        let folders = ["job/chk-1", "job/log"].map(object);
        set_outage(true);
        match block_on(test.storage.list(&object("job"))) {
            Ok(listed) => assert_eq!(listed, there),
            failed => assert_unavailable("list", failed),
        }
        match block_on(test.storage.list_folders(&object("job"))) {
            Ok(listed) => assert_eq!(listed, folders),
            failed => assert_unavailable("list folders", failed),
        }
        set_outage(false);
        assert_eq!(list(&*test.storage, "job"), there.iter().map(ObjectPath::to_string).collect::<Vec<_>>());
    });
}

/// A write that did not succeed is neither done nor refused: its outcome is unknown, and the object is whole or absent.
pub fn a_creation_that_failed_is_reported_as_unknown(factory: Factory<'_>) {
    with_outage(factory, |test, set_outage, _| {
        let [whole, uploaded] = ["job/log/2", "job/chk-2/state"].map(object);
        set_outage(true);
        let outcomes = [
            (&whole, test.create_if_absent(&whole, content_of(&whole))),
            (&uploaded, test.create(&uploaded, content_of(&uploaded)).map(drop)),
        ];
        set_outage(false);
        for (path, outcome) in outcomes {
            match (outcome, test.read(path)) {
                (Ok(()), found) => assert_eq!(found.unwrap(), content_of(path)),
                (failed, Ok(found)) => {
                    assert_unavailable("create", failed);
                    assert_eq!(found, content_of(path));
                }
                (failed, found) => {
                    assert_unavailable("create", failed);
                    assert_not_found(path, found);
                    test.create(path, content_of(path)).unwrap();
                }
            }
        }
    });
}

/// A piece that could not be written may be written again. If the upload finishes, every piece is there once.
pub fn a_piece_that_failed_is_not_there_twice(factory: Factory<'_>) {
    with_outage(factory, |test, set_outage, _| {
        let path = object("job/chk-2/state");
        let mut upload = block_on(test.storage.create(&path)).unwrap();
        block_on(upload.write(Bytes::from("first, "))).unwrap();
        set_outage(true);
        let outcome = block_on(upload.write(Bytes::from("second, ")));
        set_outage(false);
        let finished: Result<StateHandle, StorageError> = block_on(async {
            if outcome.is_err() {
                upload.write(Bytes::from("second, ")).await?;
            }
            upload.write(Bytes::from("third")).await?;
            upload.finish().await
        });
        match finished {
            Ok(handle) => {
                assert_eq!(test.read(&path).unwrap(), "first, second, third");
                assert_eq!(block_on(read_state(&*test.storage, &handle)).unwrap(), "first, second, third");
            }
            // An upload may be past saving; then there is no object.
            Err(_) => assert_not_found(&path, test.read(&path)),
        }
    });
}

/// A delete that is reported as done is done.
pub fn a_delete_that_failed_is_reported(factory: Factory<'_>) {
    with_outage(factory, |test, set_outage, there| {
        set_outage(true);
        let deleted = test.delete(&there[2]);
        let folder_deleted = test.delete_folder("job/chk-1");
        set_outage(false);
        if deleted.is_ok() {
            assert_not_found(&there[2], test.read(&there[2]));
        } else {
            assert_unavailable("delete", deleted);
        }
        if folder_deleted.is_ok() {
            assert!(test.list("job/chk-1").is_empty(), "a folder was reported as deleted and is there");
        } else {
            assert_unavailable("delete a folder", folder_deleted);
        }
    });
}
