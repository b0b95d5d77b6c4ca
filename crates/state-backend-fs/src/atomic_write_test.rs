//! Tests of the order of writes and of what a failure leaves.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use highwater_state_api::{CheckpointStorage, ObjectPath, StorageError};
use pollster::block_on;
use tempfile::TempDir;

use crate::FileSystemCheckpointStorage;
use crate::file_system::{FileSystem, HostFileSystem};

/// The file system of the host; tells what was done, and says that the disk is full when it is told to.
#[derive(Debug)]
struct Watched {
    root: PathBuf,
    steps: Mutex<Vec<String>>,
    /// The step, by the beginning of its text, that fails from now on, and whether it happens all the same.
    full: Mutex<Option<(&'static str, bool)>>,
}

impl Watched {
    fn step<T>(&self, text: String, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let text = text.replace(&format!("-{}-", std::process::id()), "-PID-");
        let full = self.full.lock().unwrap().filter(|(step, _)| text.starts_with(step));
        self.steps.lock().unwrap().push(text);
        match full {
            Some((_, happens)) => {
                if happens {
                    work()?;
                }
                Err(io::ErrorKind::StorageFull.into())
            }
            None => work(),
        }
    }

    /// A path under the root, with a star for the number of a temporary file.
    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.root).map_or(".".into(), |path| path.display().to_string());
        match name.split_once(".tmp-") {
            Some((folder, _)) => format!("{folder}.tmp-*"),
            None if name.is_empty() => "/".into(),
            None => name,
        }
    }
}

impl FileSystem for Watched {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.step(format!("create folder {}", self.name(folder)), || HostFileSystem.create_folder(folder))
    }
    fn create_temporary(&self, path: &Path) -> io::Result<File> {
        self.step(format!("create {}", self.name(path)), || HostFileSystem.create_temporary(path))
    }
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        self.step(format!("write {} bytes", bytes.len()), || HostFileSystem.write(file, bytes))
    }
    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.step("flush file".into(), || HostFileSystem.sync_file(file))
    }
    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.step(format!("link {} {}", self.name(file), self.name(name)), || HostFileSystem.link(file, name))
    }
    fn unlink(&self, name: &Path) -> io::Result<()> {
        self.step(format!("unlink {}", self.name(name)), || HostFileSystem.unlink(name))
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step(format!("flush folder {}", self.name(folder)), || HostFileSystem.sync_folder(folder))
    }
    fn remove_left_overs(&self, folder: &Path) -> io::Result<()> {
        self.step(format!("clean {}", self.name(folder)), || HostFileSystem.remove_left_overs(folder))
    }
}

struct World {
    folder: TempDir,
    watched: Arc<Watched>,
    storage: FileSystemCheckpointStorage,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkpoints");
        let watched = Arc::new(Watched { root: root.clone(), steps: Mutex::default(), full: Mutex::default() });
        let storage = FileSystemCheckpointStorage::with_file_system(&root, watched.clone()).unwrap();
        Self { folder, watched, storage }
    }

    fn create(&self, path: &str) -> Result<(), StorageError> {
        block_on(self.storage.create_if_absent(&object(path), "content".into()))
    }

    fn steps(&self) -> Vec<String> {
        std::mem::take(&mut self.watched.steps.lock().unwrap())
    }

    fn full_at(&self, step: &'static str, happens: bool) {
        *self.watched.full.lock().unwrap() = Some((step, happens));
    }

    fn full_no_more(&self) {
        *self.watched.full.lock().unwrap() = None;
    }

    /// The files under the root that are no objects.
    fn left_overs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.storage.root().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().unwrap().to_string_lossy().starts_with('.') {
                    found.push(path);
                }
            }
        }
        found
    }
}

fn object(path: &str) -> ObjectPath {
    ObjectPath::parse(path).unwrap()
}

/// Field case: R45.
#[test]
fn everything_is_flushed_before_it_is_named() {
    let world = World::new();
    assert_eq!(world.steps(), ["create folder /", "flush folder ."]);
    world.create("job/chk-1/a").unwrap();
    assert_eq!(
        world.steps(),
        [
            "clean /",
            "create folder job",
            "flush folder /",
            "clean job",
            "create folder job/chk-1",
            "flush folder job",
            "clean job/chk-1",
            "create job/chk-1/.tmp-*",
            "write 7 bytes",
            "flush file",
            "link job/chk-1/.tmp-* job/chk-1/a",
            "unlink job/chk-1/.tmp-*",
            "flush folder job/chk-1",
        ]
    );
    world.create("job/chk-1/b").unwrap();
    assert_eq!(
        world.steps(),
        [
            "create job/chk-1/.tmp-*",
            "write 7 bytes",
            "flush file",
            "link job/chk-1/.tmp-* job/chk-1/b",
            "unlink job/chk-1/.tmp-*",
            "flush folder job/chk-1",
        ]
    );
}

#[test]
fn a_folder_that_somebody_else_made_is_flushed_too() {
    let world = World::new();
    fs::create_dir_all(world.storage.root().join("job")).unwrap();
    world.steps();
    world.create("job/a").unwrap();
    assert_eq!(world.steps()[..3], ["clean /", "create folder job", "flush folder /"]);
}

#[test]
fn the_folders_above_a_new_root_are_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let watched =
        Arc::new(Watched { root: folder.path().to_path_buf(), steps: Mutex::default(), full: Mutex::default() });
    let root = folder.path().join("a/b");
    FileSystemCheckpointStorage::with_file_system(&root, watched.clone()).unwrap();
    assert_eq!(
        *watched.steps.lock().unwrap(),
        ["create folder a", "flush folder /", "create folder a/b", "flush folder a"]
    );
}

/// Contract: T340.
#[test]
fn on_a_full_disk_nothing_is_left_and_what_was_there_is_unharmed() {
    for step in ["create folder", "flush folder job", "create job/chk-2/.tmp", "write", "flush file", "link"] {
        let world = World::new();
        world.create("job/chk-1/metadata").unwrap();
        world.full_at(step, false);
        match world.create("job/chk-2/metadata") {
            Err(error @ StorageError::Unavailable { .. }) => {
                let source = std::error::Error::source(&error).unwrap().downcast_ref::<io::Error>().unwrap();
                assert_eq!(source.kind(), io::ErrorKind::StorageFull, "{step}");
            }
            other => panic!("{step}: {other:?}"),
        }
        assert!(world.left_overs().is_empty(), "{step}");
        assert_eq!(block_on(world.storage.list(&object("job"))).unwrap(), [object("job/chk-1/metadata")], "{step}");
        assert_eq!(block_on(world.storage.read(&object("job/chk-1/metadata"))).unwrap(), "content", "{step}");
        world.full_no_more();
        world.create("job/chk-2/metadata").unwrap();
    }
}

/// Contract: T340.
#[test]
fn an_upload_that_cannot_be_written_is_given_up_without_a_trace() {
    let world = World::new();
    let mut upload = block_on(world.storage.create(&object("job/state"))).unwrap();
    world.full_at("write", true);
    assert!(block_on(upload.write("half".into())).is_err());
    assert_eq!(world.left_overs().len(), 1);
    drop(upload);
    assert!(world.left_overs().is_empty());
}

/// Contract: T340.
#[test]
fn an_upload_that_may_have_a_part_of_a_piece_does_not_finish() {
    let world = World::new();
    let path = object("job/state");
    let mut upload = block_on(world.storage.create(&path)).unwrap();
    world.full_at("write", true);
    assert!(block_on(upload.write("piece".into())).is_err());
    world.full_no_more();
    let again = block_on(upload.write("piece".into())).unwrap_err();
    assert!(again.is_transient(), "{again}");
    assert!(block_on(upload.finish()).is_err());
    assert!(matches!(block_on(world.storage.read(&path)), Err(StorageError::NotFound { .. })));
    assert!(world.left_overs().is_empty());
}

#[test]
fn an_object_whose_folder_was_not_flushed_is_not_shown_before_it_is() {
    let world = World::new();
    world.create("job/log/1").unwrap();
    world.full_at("flush folder job/log", false);
    let path = object("job/log/2");
    assert!(matches!(world.create("job/log/2"), Err(StorageError::Unavailable { .. })));
    assert!(matches!(block_on(world.storage.read(&path)), Err(StorageError::Unavailable { .. })));
    world.full_no_more();
    world.steps();
    assert_eq!(block_on(world.storage.read(&path)).unwrap(), "content");
    assert_eq!(world.steps(), ["flush folder job/log"]);
    block_on(world.storage.read(&path)).unwrap();
    assert!(world.steps().is_empty());
}

#[test]
fn a_temporary_name_that_cannot_be_removed_does_no_harm() {
    let world = World::new();
    world.full_at("unlink", false);
    world.create("job/a").unwrap();
    assert_eq!(world.left_overs().len(), 1);
    assert_eq!(block_on(world.storage.list(&object("job"))).unwrap(), [object("job/a")]);
    world.full_no_more();
    let next = FileSystemCheckpointStorage::new(world.storage.root()).unwrap();
    block_on(next.create_if_absent(&object("job/b"), "content".into())).unwrap();
    assert!(world.left_overs().is_empty());
    drop(world.folder);
}
