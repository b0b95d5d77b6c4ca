//! Write, list, restore and delete agree in every directory that a user can name, or the start refuses it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs;
use std::path::Path;

use highwater_state_api::{CheckpointStorage, ObjectPath, StorageError, read_state};
use highwater_state_backend_fs::{FileSystemCheckpointStorage, LocationError};
use pollster::block_on;

fn object(path: &str) -> ObjectPath {
    ObjectPath::parse(path).unwrap()
}

/// Everything a job does with a storage at `location`, whose files are then under `folder`.
fn use_storage(location: &Path, folder: &Path) {
    let storage = FileSystemCheckpointStorage::new(location).unwrap();
    assert!(storage.root().is_absolute());
    block_on(async {
        let mut upload = storage.create(&object("job/chk-1/state")).await?;
        upload.write("state".into()).await?;
        let handle = upload.finish().await?;
        storage.create_if_absent(&object("job2/chk-1/metadata"), "metadata".into()).await?;
        assert_eq!(fs::read(folder.join("job/chk-1/state")).unwrap(), b"state");

        let again = FileSystemCheckpointStorage::new(location).unwrap();
        assert_eq!(again.list(&object("job")).await?, [object("job/chk-1/state")]);
        assert_eq!(read_state(&again, &handle).await?, "state");
        again.delete_folder(&object("job")).await?;
        assert!(!folder.join("job").exists());
        assert_eq!(storage.list(&object("job2")).await?, [object("job2/chk-1/metadata")]);
        storage.delete(&object("job2/chk-1/metadata")).await
    })
    .unwrap();
}

/// Field case: R107.
#[test]
fn a_plain_path_is_taken_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["with space", "ümläut", "a%20b", "a:b", "?#", "new/and/deep"] {
        let path = folder.path().join(name);
        use_storage(&path, &path);
    }
    let path = folder.path().join("trailing");
    use_storage(Path::new(&format!("{}/", path.display())), &path);
}

/// Field case: R107.
#[test]
fn a_relative_path_means_the_current_directory_of_the_start() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let name = folder.path().file_name().unwrap();
    for location in [Path::new(name).join("a"), Path::new(".").join(name).join("b")] {
        use_storage(&location, &location);
    }
}

/// Field case: R107.
#[test]
fn a_file_uri_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("file://{}/with%20space/a%2520b", folder.path().display());
    use_storage(Path::new(&uri), &folder.path().join("with space/a%20b"));
    use_storage(Path::new(&format!("{uri}/trailing/")), &folder.path().join("with space/a%20b/trailing"));
}

/// Field case: R107.
#[cfg(unix)]
#[test]
fn a_path_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"not \xff text"));
    use_storage(&path, &path);
}

/// Field case: R107.
#[cfg(unix)]
#[test]
fn symbolic_links_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    use_storage(&link, &real);
    // A job of which the folder was moved to another disk.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, real.join("moved")).unwrap();
    let storage = FileSystemCheckpointStorage::new(&link).unwrap();
    block_on(storage.create_if_absent(&object("moved/a"), "a".into())).unwrap();
    assert_eq!(block_on(storage.list(&object("moved"))).unwrap(), [object("moved/a")]);
    assert!(elsewhere.join("a").exists());
}

/// Field case: R107.
#[test]
fn what_cannot_be_a_directory_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = FileSystemCheckpointStorage::new(&path).unwrap_err();
        assert!(matches!(&error, LocationError::Unusable { path: named, .. } if *named == path), "{error:?}");
    }
    assert!(matches!(FileSystemCheckpointStorage::new(""), Err(LocationError::Empty)));
    let error = FileSystemCheckpointStorage::new("s3://bucket/checkpoints").unwrap_err();
    assert!(matches!(&error, LocationError::UnsupportedScheme { scheme, .. } if scheme == "s3"), "{error:?}");
}

#[test]
fn a_directory_that_has_gone_is_an_error_and_not_an_empty_storage() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("checkpoints");
    let storage = FileSystemCheckpointStorage::new(&root).unwrap();
    block_on(storage.create_if_absent(&object("job/a"), "a".into())).unwrap();
    fs::rename(&root, folder.path().join("unmounted")).unwrap();
    let unavailable = |error: StorageError| matches!(error, StorageError::Unavailable { .. });
    assert!(unavailable(block_on(storage.list(&object("job"))).unwrap_err()));
    assert!(unavailable(block_on(storage.read(&object("job/a"))).unwrap_err()));
    assert!(unavailable(block_on(storage.create_if_absent(&object("job/b"), "b".into())).unwrap_err()));
    assert!(!root.exists());
}

#[test]
fn an_object_that_cannot_be_read_is_not_absent() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileSystemCheckpointStorage::new(folder.path()).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for path in ["file/below", "file/below/further"] {
        let result = block_on(storage.read(&object(path)));
        assert!(matches!(result, Err(StorageError::Unavailable { .. })), "{path}: {result:?}");
    }
    let listed = block_on(storage.list(&object("file")));
    assert!(matches!(listed, Err(StorageError::Unavailable { .. })), "{listed:?}");
}
