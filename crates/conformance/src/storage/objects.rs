//! Cases: what is written is read, what is not there is not found.

use bytes::{Bytes, BytesMut};
use highwater_state_api::{Checksum, StateHandle, StorageError, read_state};

use super::{Factory, assert_not_found, block_on, content_of, object};

/// What is written under a path is read from it.
pub fn an_object_is_read_as_it_was_written(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/chk-1/state");
    test.create(&path, &b"\0\xff two \r\n lines"[..]).unwrap();
    assert_eq!(test.read(&path).unwrap(), &b"\0\xff two \r\n lines"[..]);
}

/// An object without content is there.
pub fn an_empty_object_is_an_object(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/empty");
    let upload = block_on(test.storage.create(&path)).unwrap();
    let handle = block_on(upload.finish()).unwrap();
    assert_eq!(handle.length(), 0);
    assert_eq!(test.read(&path).unwrap(), Bytes::new());
    assert_eq!(test.read_range(&path, 0, 0).unwrap(), Bytes::new());
    let whole = object("job/whole");
    test.create_if_absent(&whole, Bytes::new()).unwrap();
    assert_eq!(test.read(&whole).unwrap(), Bytes::new());
    assert_eq!(test.list("job"), ["job/empty", "job/whole"]);
}

/// Three mebibytes in pieces of odd sizes come back whole.
pub fn a_large_object_is_read_as_it_was_written(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/large");
    let mut content = BytesMut::with_capacity(3 << 20);
    content.extend((0..3u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8));
    let content = content.freeze();
    let handle = block_on(async {
        let mut upload = test.storage.create(&path).await?;
        let mut rest = content.clone();
        let mut size = 1;
        while !rest.is_empty() {
            upload.write(rest.split_to(size.min(rest.len()))).await?;
            size = size * 3 + 1;
        }
        upload.finish().await
    });
    let handle = handle.unwrap();
    assert_eq!(handle.length(), 3 << 20);
    assert!(test.read(&path).unwrap() == content, "the content differs");
    assert!(block_on(read_state(&*test.storage, &handle)).unwrap() == content, "the content differs");
}

/// The handle names the path, and its length and checksum are those of all pieces; or it carries the content.
pub fn a_handle_has_the_length_and_checksum_of_its_object(factory: Factory<'_>) {
    let test = factory();
    for content in ["", "one byte less than", "another"] {
        let path = object("job/chk-1").join(&format!("state-{}", content.len()));
        let handle = block_on(async {
            let mut upload = test.storage.create(&path).await?;
            for piece in content.as_bytes().chunks(5) {
                upload.write(Bytes::from(piece)).await?;
            }
            upload.finish().await
        });
        let handle = handle.unwrap();
        match &handle {
            StateHandle::Object { path: named, length, checksum } => {
                assert_eq!(*named, path);
                assert_eq!(*length, content.len() as u64);
                assert_eq!(*checksum, Checksum::of(content.as_bytes()));
            }
            other => assert_eq!(*other, StateHandle::Inline(Bytes::from(content))),
        }
        assert_eq!(block_on(read_state(&*test.storage, &handle)).unwrap(), content);
    }
}

/// `create_if_absent` makes the same kind of object as an upload.
pub fn an_object_created_whole_is_an_object_like_any_other(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/log/00000000000000000001");
    test.create_if_absent(&path, "claim").unwrap();
    assert_eq!(test.read(&path).unwrap(), "claim");
    assert_eq!(test.read_range(&path, 1, 3).unwrap(), "lai");
    assert_eq!(test.list("job"), ["job/log/00000000000000000001"]);
    test.delete(&path).unwrap();
    assert_not_found(&path, test.read(&path));
}

/// An absent object is `NotFound`, which names it; whatever of the path is absent.
pub fn reading_an_absent_object_is_not_found(factory: Factory<'_>) {
    let test = factory();
    let absent = ["job/chk-1/absent", "job/chk-1/sta", "job/chk-1/state-2", "job/chk-2/state", "other"];
    for path in absent.map(object) {
        assert_not_found(&path, test.read(&path));
    }
    test.created("job/chk-1/state");
    for path in absent.map(object) {
        assert_not_found(&path, test.read(&path));
        assert_not_found(&path, test.read_range(&path, 0, 1));
    }
}

/// The path of a folder is neither read nor deleted as an object.
pub fn a_folder_is_not_an_object(factory: Factory<'_>) {
    let test = factory();
    let inside = test.created("job/chk-1/state");
    for folder in ["job", "job/chk-1"].map(object) {
        assert_not_found(&folder, test.read(&folder));
        assert_not_found(&folder, test.read_range(&folder, 0, 0));
        test.delete(&folder).unwrap();
        assert_eq!(test.read(&inside).unwrap(), content_of(&inside));
    }
}

/// Ranges at the beginning, in the middle and at the end of an object, and empty ones.
pub fn a_range_inside_an_object_is_read(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/digits");
    test.create(&path, "0123456789").unwrap();
    for (offset, length, expected) in
        [(0, 10, "0123456789"), (0, 1, "0"), (3, 4, "3456"), (9, 1, "9"), (0, 0, ""), (5, 0, ""), (10, 0, "")]
    {
        assert_eq!(test.read_range(&path, offset, length).unwrap(), expected, "{length} bytes from byte {offset}");
    }
}

/// A range of which a part is outside the object is `Corrupt`: there are never fewer bytes than asked for.
pub fn a_range_that_reaches_outside_an_object_is_refused(factory: Factory<'_>) {
    let test = factory();
    let path = object("job/digits");
    test.create(&path, "0123456789").unwrap();
    for (offset, length) in
        [(0, 11), (9, 2), (10, 1), (11, 1), (1 << 40, 1), (u64::MAX, 1), (0, u64::MAX), (1, u64::MAX)]
    {
        match test.read_range(&path, offset, length) {
            Err(StorageError::Corrupt { path: named, .. }) => assert_eq!(named, path),
            other => panic!("{length} bytes from byte {offset}: expected a refusal, got {other:?}"),
        }
    }
}

/// Names that some storage could mistake for something else.
const ODD_NAMES: &[&str] = &[
    " ",
    "with space",
    " before",
    "after ",
    "dot.",
    ".hidden",
    "...",
    ".tmp-1-1",
    "metadata.tmp",
    "a%20b",
    "a b",
    "%",
    "%25",
    "%2F",
    "~",
    "-rf",
    "#?&=+;",
    "a:b",
    "'\"`$(x)",
    "*",
    "[a]",
    "{a}",
    "ä",
    "ä-ö-ü",
    "流れ",
    "🌊",
    "0",
    "00",
    "NaN",
    "None",
];

/// Every name is an object of its own, and listed as it was given.
pub fn names_of_any_kind_are_kept_apart(factory: Factory<'_>) {
    let test = factory();
    let long = "x".repeat(200);
    let names = || ODD_NAMES.iter().copied().chain([long.as_str()]);
    let paths =
        || names().flat_map(|name| [object("odd").join(name), object("odd").join(&format!("in-{name}")).join(name)]);
    let mut expected = Vec::new();
    for path in paths() {
        let created = test.create(&path, content_of(&path));
        assert!(created.is_ok(), "{path:?}: {created:?}");
        expected.push(path.to_string());
    }
    for path in paths() {
        assert_eq!(test.read(&path).unwrap(), content_of(&path));
    }
    expected.sort_unstable();
    assert_eq!(test.list("odd"), expected);
    for path in paths() {
        test.delete(&path).unwrap();
        assert_not_found(&path, test.read(&path));
    }
    assert!(test.list("odd").is_empty());
}

/// A delete is of one object.
pub fn deleting_an_object_leaves_its_neighbours(factory: Factory<'_>) {
    let test = factory();
    let [gone, longer, shorter, below] =
        ["job/state-1", "job/state-10", "job/state", "job/state-1x/state-1"].map(|path| test.created(path));
    test.delete(&gone).unwrap();
    assert_not_found(&gone, test.read(&gone));
    for path in [longer, shorter, below] {
        assert_eq!(test.read(&path).unwrap(), content_of(&path));
    }
}

/// A delete succeeds when there is nothing, also when it is repeated.
pub fn deleting_an_absent_object_succeeds(factory: Factory<'_>) {
    let test = factory();
    test.delete(&object("never/was/there")).unwrap();
    let path = test.created("job/state");
    test.delete(&path).unwrap();
    test.delete(&path).unwrap();
    test.delete(&object("job/other")).unwrap();
}

/// Deleted is absent: the path is free again.
pub fn a_path_can_be_used_again_after_it_was_deleted(factory: Factory<'_>) {
    let test = factory();
    let path = test.created("job/state");
    test.delete(&path).unwrap();
    test.create(&path, "second").unwrap();
    assert_eq!(test.read(&path).unwrap(), "second");
    test.delete(&path).unwrap();
    test.create_if_absent(&path, "third").unwrap();
    assert_eq!(test.read(&path).unwrap(), "third");
}
