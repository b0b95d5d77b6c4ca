//! The file system checkpoint storage: every object is a file, durable before it is named.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use highwater_state_api::{
    CheckpointStorage, ConfigError, ConfigNotices, Configuration, INLINE_BYTES_MAX, MemorySize, ObjectPath,
    RunningChecksum, StateHandle, StateUpload, StorageError, options,
};

use crate::atomic_write::{AtomicWriter, TemporaryFile};
use crate::file_system::{FileSystem, HostFileSystem};
use crate::layout::{child_of, file_of};
use crate::uri::{LocationError, path_of};

/// A checkpoint storage in a directory of the file system, for every job whose checkpoints outlive the process.
///
/// Names, order of writes and what a crash leaves: `docs/format/file-system-storage.md`. The file system needs hard
/// links. Every method blocks.
///
/// ```
/// use highwater_state_api::{CheckpointStorage, ObjectPath};
/// use highwater_state_backend_fs::FileSystemCheckpointStorage;
///
/// # pollster::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let checkpoints = folder.path().join("checkpoints");
/// let storage = FileSystemCheckpointStorage::new(&checkpoints)?;
/// let path = ObjectPath::new(["job", "chk-1-1", "_metadata"]);
/// storage.create_if_absent(&path, "content".into()).await?;
/// assert_eq!(storage.read(&path).await?, "content");
/// assert!(checkpoints.join("job/chk-1-1/_metadata").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct FileSystemCheckpointStorage {
    writer: Arc<AtomicWriter>,
    /// `None` is left open for the configuration of the cluster.
    inline_bytes_max: Option<u64>,
}

impl FileSystemCheckpointStorage {
    /// A storage in the directory at `location`: a path, taken byte for byte, or a `file` URI, percent-decoded.
    ///
    /// A relative path is relative to the current directory at this moment. The directory is made when it is not
    /// there; from then on its absence is an error and never taken for an empty storage.
    ///
    /// # Errors
    /// [`LocationError`] says what is wrong with the location, or why the directory cannot be used.
    pub fn new(location: impl AsRef<Path>) -> Result<Self, LocationError> {
        Self::with_file_system(location.as_ref(), Arc::new(HostFileSystem))
    }

    pub(crate) fn with_file_system(location: &Path, file_system: Arc<dyn FileSystem>) -> Result<Self, LocationError> {
        let path = path_of(location)?;
        match AtomicWriter::open(path.clone(), file_system) {
            Ok(writer) => Ok(Self { writer: Arc::new(writer), inline_bytes_max: None }),
            Err(source) => Err(LocationError::Unusable { path, source }),
        }
    }

    /// Keeps state of up to this many bytes inside the metadata of its checkpoint. Not set, the configuration of the
    /// cluster decides, or else it is [`INLINE_BYTES_MAX`].
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when it is more than 1 MiB: metadata is read as a whole.
    pub fn with_inline_bytes_max(self, inline_bytes_max: u64) -> Result<Self, ConfigError> {
        let size = MemorySize::from_bytes(inline_bytes_max);
        let size = options::DATA_INLINE_THRESHOLD.check(size, &size.to_string())?;
        Ok(Self { inline_bytes_max: Some(size.bytes), ..self })
    }

    /// The directory, as an absolute path.
    pub fn root(&self) -> &Path {
        self.writer.root()
    }

    fn upload(&self, path: &ObjectPath) -> Result<FileUpload, StorageError> {
        let target = file_of(self.root(), path);
        // Not a guarantee, only an early answer: the guarantee is the link.
        if fs::symlink_metadata(&target).is_ok() {
            return Err(StorageError::AlreadyExists { path: path.clone() });
        }
        let file = self.writer.begin(target).map_err(|error| unavailable(self.root(), "create", path, error))?;
        let writer = self.writer.clone();
        let checksum = RunningChecksum::default();
        Ok(FileUpload { writer, path: path.clone(), file, length: 0, checksum, is_broken: false })
    }

    fn open(&self, path: &ObjectPath) -> Result<File, StorageError> {
        let file = file_of(self.root(), path);
        if let Some(folder) = file.parent() {
            self.writer.settle(folder).map_err(|error| unavailable(self.root(), "read", path, error))?;
        }
        let opened = File::open(&file).and_then(|file| {
            // A folder is no object.
            if file.metadata()?.is_dir() { Err(io::ErrorKind::NotFound.into()) } else { Ok(file) }
        });
        opened.map_err(|error| self.read_error(path, error))
    }

    /// A file or folder is absent only when the file system says so and the root is still there.
    fn is_absent(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::NotFound && self.root().is_dir()
    }

    fn read_error(&self, path: &ObjectPath, error: io::Error) -> StorageError {
        if self.is_absent(&error) {
            StorageError::NotFound { path: path.clone() }
        } else {
            unavailable(self.root(), "read", path, error)
        }
    }

    fn collect(&self, folder: &ObjectPath, objects: &mut BTreeSet<ObjectPath>) -> io::Result<()> {
        for (child, is_folder) in self.children(folder)? {
            if is_folder {
                self.collect(&child, objects)?;
            } else {
                objects.insert(child);
            }
        }
        Ok(())
    }

    fn subfolders(&self, folder: &ObjectPath) -> io::Result<BTreeSet<ObjectPath>> {
        let children = self.children(folder)?.into_iter();
        Ok(children.filter(|(_, is_folder)| *is_folder).map(|(child, _)| child).collect())
    }

    /// What is directly in a folder under a name that an object or a folder of objects can have, and whether it is a
    /// folder. A folder that does not exist is empty.
    fn children(&self, folder: &ObjectPath) -> io::Result<Vec<(ObjectPath, bool)>> {
        let entries = match fs::read_dir(file_of(self.root(), folder)) {
            Err(error) if self.is_absent(&error) => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut children = Vec::new();
        for entry in entries {
            let Some(child) = child_of(folder, &entry?.file_name()) else { continue };
            match fs::metadata(file_of(self.root(), &child)) {
                Ok(metadata) => children.push((child, metadata.is_dir())),
                // Deleted a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(children)
    }
}

#[async_trait]
impl CheckpointStorage for FileSystemCheckpointStorage {
    async fn initialize_location(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let made = self.writer.make_folder(&file_of(self.root(), folder));
        made.map_err(|error| unavailable(self.root(), "initialize", folder, error))
    }

    async fn create(&self, path: &ObjectPath) -> Result<Box<dyn StateUpload>, StorageError> {
        Ok(Box::new(self.upload(path)?))
    }

    async fn create_if_absent(&self, path: &ObjectPath, content: Bytes) -> Result<(), StorageError> {
        let mut upload = self.upload(path)?;
        upload.append(&content)?;
        upload.publish().map(drop)
    }

    async fn read(&self, path: &ObjectPath) -> Result<Bytes, StorageError> {
        let mut content = Vec::new();
        self.open(path)?.read_to_end(&mut content).map_err(|error| self.read_error(path, error))?;
        Ok(content.into())
    }

    async fn read_range(&self, path: &ObjectPath, offset: u64, length: u64) -> Result<Bytes, StorageError> {
        let mut file = self.open(path)?;
        let read = |file: &mut File| {
            let found = file.metadata()?.len();
            // Before anything is allocated: the range may come from damaged metadata.
            if offset.checked_add(length).is_none_or(|end| end > found) {
                return Ok(Err(found));
            }
            file.seek(SeekFrom::Start(offset))?;
            let mut content = Vec::new();
            file.take(length).read_to_end(&mut content)?;
            Ok(if content.len() as u64 == length { Ok(content) } else { Err(offset + content.len() as u64) })
        };
        match read(&mut file).map_err(|error| self.read_error(path, error))? {
            Ok(content) => Ok(content.into()),
            Err(found) => Err(StorageError::Corrupt {
                path: path.clone(),
                expected: format!("{length} bytes from byte {offset}"),
                found: format!("{found} bytes in all"),
            }),
        }
    }

    async fn list(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let mut objects = BTreeSet::new();
        self.collect(folder, &mut objects).map_err(|error| unavailable(self.root(), "list", folder, error))?;
        Ok(objects.into_iter().collect())
    }

    /// Also empty folders and those with nothing but temporary files: what a writer that was killed left.
    async fn list_folders(&self, folder: &ObjectPath) -> Result<Vec<ObjectPath>, StorageError> {
        let folders = self.subfolders(folder).map_err(|error| unavailable(self.root(), "list", folder, error))?;
        Ok(folders.into_iter().collect())
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), StorageError> {
        let file = file_of(self.root(), path);
        match fs::remove_file(&file) {
            Err(error) if self.is_absent(&error) => Ok(()),
            // A folder is no object: there is nothing to delete.
            Err(_) if fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_dir()) => Ok(()),
            result => result.map_err(|error| unavailable(self.root(), "delete", path, error)),
        }
    }

    async fn delete_folder(&self, folder: &ObjectPath) -> Result<(), StorageError> {
        let path = file_of(self.root(), folder);
        let removed = match fs::remove_dir_all(&path) {
            Err(error) if self.is_absent(&error) => Ok(()),
            result => result.map_err(|error| unavailable(self.root(), "delete", folder, error)),
        };
        self.writer.forget(&path);
        removed
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn inline_bytes_max(&self) -> u64 {
        self.inline_bytes_max.unwrap_or(INLINE_BYTES_MAX)
    }

    fn configure(
        &self,
        cluster: &Configuration,
        notices: &mut ConfigNotices,
    ) -> Result<Option<Arc<dyn CheckpointStorage>>, ConfigError> {
        if self.inline_bytes_max.is_some() {
            return Ok(None);
        }
        let configured = cluster.get_optional(&options::DATA_INLINE_THRESHOLD, notices)?;
        Ok(configured.map(|size| Arc::new(Self { inline_bytes_max: Some(size.bytes), ..self.clone() }) as _))
    }
}

/// The error of an operation, with the directory in its text: whoever reads it knows no other place.
fn unavailable(root: &Path, operation: &'static str, path: &ObjectPath, error: io::Error) -> StorageError {
    let source = io::Error::new(error.kind(), format!("in {}: {error}", root.display()));
    StorageError::unavailable(operation, path, source)
}

/// An object being written, under a temporary name.
#[derive(Debug)]
struct FileUpload {
    writer: Arc<AtomicWriter>,
    path: ObjectPath,
    file: TemporaryFile,
    length: u64,
    checksum: RunningChecksum,
    /// A piece could not be written, and nobody knows how much of it is in the file.
    is_broken: bool,
}

impl FileUpload {
    fn check(&self, operation: &'static str) -> Result<(), StorageError> {
        if self.is_broken {
            let source = io::Error::other("a piece could not be written before, or only in part");
            return Err(StorageError::unavailable(operation, &self.path, source));
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.check("write")?;
        if let Err(error) = self.file.write(bytes) {
            self.is_broken = true;
            return Err(unavailable(self.writer.root(), "write", &self.path, error));
        }
        self.checksum.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn publish(self) -> Result<StateHandle, StorageError> {
        self.check("publish")?;
        let Self { writer, path, file, length, checksum, .. } = self;
        match writer.publish(file) {
            Ok(()) => Ok(StateHandle::Object { path, length, checksum: checksum.finish() }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StorageError::AlreadyExists { path }),
            Err(error) => Err(unavailable(writer.root(), "publish", &path, error)),
        }
    }
}

#[async_trait]
impl StateUpload for FileUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.append(&bytes)
    }

    async fn finish(self: Box<Self>) -> Result<StateHandle, StorageError> {
        self.publish()
    }
}
