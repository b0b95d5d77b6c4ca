//! What the tests of the file sink share: a sink of lines in a directory, and a look at the directory.

use std::fs;
use std::path::{Path, PathBuf};

use highwater_state_api::{Attempt, CheckpointId, JobName, OperatorUid};
use highwater_stream_api::{BoxedError, CommitError, Sink, SinkContext, SinkStart, SinkWriter, Timestamp};
use tempfile::TempDir;

use super::{FileSink, FileSinkError, FileSinkWriter, FileTransaction, Lines};

/// The lines of the files that are not hidden, sorted.
pub(super) fn visible(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for name in names(directory).iter().filter(|name| !name.starts_with('.')) {
        lines.extend(fs::read_to_string(directory.join(name)).unwrap().lines().map(str::to_owned));
    }
    lines.sort();
    lines
}

/// All names in a directory, sorted.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != super::directory::OWNER_FILE);
    names.sort();
    names
}

/// A directory that goes when the test ends.
pub(super) struct Fixture {
    _directory: TempDir,
    pub(super) out: PathBuf,
    pub(super) sink: FileSink<Lines<String>>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let out = directory.path().join("out");
        let sink = FileSink::lines(&out);
        Self { _directory: directory, out, sink }
    }

    pub(super) fn start(&self, attempt: u64, restored: Option<u64>) -> Result<(), BoxedError> {
        let job = JobName::new("job").unwrap();
        let operator = &OperatorUid::new("sink").unwrap();
        self.sink.start(&SinkStart {
            job: &job,
            operator,
            attempt: Attempt(attempt),
            restored: restored.map(CheckpointId),
        })
    }

    pub(super) fn writer(&self, attempt: u64, subtask: u32) -> FileSinkWriter<Lines<String>> {
        self.sink.create_writer(&context(attempt, subtask, 4)).unwrap()
    }

    /// One prepared transaction of a fresh attempt.
    pub(super) fn prepared(&self, attempt: u64, records: &[&str]) -> FileTransaction {
        self.start(attempt, None).unwrap();
        let mut writer = self.writer(attempt, 0);
        write(&mut writer, records);
        writer.prepare_commit(CheckpointId(1)).unwrap().unwrap()
    }

    pub(super) fn names(&self) -> Vec<String> {
        names(&self.out)
    }

    pub(super) fn visible(&self) -> Vec<String> {
        visible(&self.out)
    }
}

pub(super) fn write<W: SinkWriter<In = String>>(writer: &mut W, records: &[&str]) {
    for record in records {
        writer.write((*record).to_owned(), Timestamp::NONE).unwrap();
    }
}

pub(super) fn sink_error(error: BoxedError) -> FileSinkError {
    *error.downcast().unwrap()
}

/// The cause of a commit that will never work.
pub(super) fn lost(result: Result<(), CommitError>) -> FileSinkError {
    match result {
        Err(CommitError::Lost(error)) => sink_error(error),
        other => panic!("expected a lost transaction, found {other:?}"),
    }
}

/// Whom a writer is made for that goes on from nothing.
pub(super) fn context(attempt: u64, subtask: u32, parallelism: u32) -> SinkContext {
    SinkContext {
        job: JobName::new("job").unwrap(),
        operator: OperatorUid::new("sink").unwrap(),
        attempt: Attempt(attempt),
        subtask,
        parallelism,
        restored: None,
    }
}
