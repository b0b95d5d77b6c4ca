//! The output directory: whose is it, can it be written to, and what did dead attempts leave in it.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{ErrorKind, Write};
use std::path::Path;

use highwater_state_api::Attempt;
use highwater_stream_api::SinkStart;

use super::error::{FileSinkError, SinkOfJob};
use super::flush::sync_directory;
use super::layout::FoundPart;
use super::transaction::link_or_rename;

/// The file that is written to find out whether one can be. Not a part file.
pub(super) const WRITE_CHECK: &str = ".write-check.inprogress";

/// The file that says whose the directory is: the name of the job and the uid of the sink, each in a line.
pub(super) const OWNER_FILE: &str = ".highwater-sink";

/// How often a draft of the owner file is written while other starts remove it. Each of them takes the directory.
const TAKE_TRIES_MAX: u32 = 100;

/// Creates the directory with those above it, so that they survive a crash of the machine.
pub(super) fn create(directory: &Path) -> Result<(), FileSinkError> {
    let missing = directory.ancestors().take_while(|above| !is_here(above) && !above.exists()).count();
    fs::create_dir_all(directory).map_err(|source| not_writable(directory, source))?;
    for (depth, created) in directory.ancestors().enumerate() {
        let Some(above) = created.parent() else { break };
        let flushed = sync_directory(if is_here(above) { Path::new(".") } else { above });
        // What was there before is flushed too, because who made it may have died before that; but it need not be ours.
        if depth < missing {
            flushed?;
        }
    }
    Ok(())
}

/// The last ancestor of a relative path is the empty path.
fn is_here(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// A job that starts from nothing must not add its rows to those of another run.
///
/// Uncommitted files of attempts before this one are its own: an attempt that failed before its first checkpoint left
/// them, and had there been one the job would not start from nothing. A run whose attempts are counted anew, because
/// its checkpoints were only in memory, finds files of an attempt that it cannot have had, and is refused.
pub(super) fn refuse_other_run(directory: &Path, attempt: Attempt) -> Result<(), FileSinkError> {
    let mut foreign = parts(directory)?;
    foreign.retain(|(found, _)| found.committed || found.part.attempt >= attempt);
    let committed = foreign.iter().filter(|(found, _)| found.committed).count();
    match foreign.first() {
        None => Ok(()),
        Some((_, example)) => Err(FileSinkError::OtherRun {
            directory: directory.to_owned(),
            committed,
            uncommitted: foreign.len() - committed,
            example: example.clone(),
        }),
    }
}

/// Takes the directory for a sink of a job, or refuses one that is another's: the names of part files are unique only
/// among the attempts of one sink.
pub(super) fn take(directory: &Path, start: &SinkStart<'_>) -> Result<(), FileSinkError> {
    remove_drafts(directory, start)?;
    for _ in 0..TAKE_TRIES_MAX {
        if try_to_take(directory, start)? {
            break;
        }
    }
    sync_directory(directory)?;
    check_owner(directory, start)
}

/// Writes the owner file if there is none. Whether there is one now: another start of the sink may have removed the draft, to
/// take the directory itself.
fn try_to_take(directory: &Path, start: &SinkStart<'_>) -> Result<bool, FileSinkError> {
    let path = directory.join(OWNER_FILE);
    let owner = owner_of(start);
    // Whole under a name that no other start has before it has its own: whoever finds it can read it.
    let draft = directory.join(format!("{}{}-{}", draft_prefix(start), start.attempt, RandomState::new().hash_one(())));
    let written = File::create_new(&draft)
        .and_then(|mut file| file.write_all(owner.as_bytes()).and_then(|()| file.sync_all()))
        // A rename would replace it. Without links whoever renames last is the owner, and the other finds out when it looks whose the
        // directory is, or at its next start if both have begun at the same instant.
        .and_then(|()| if path.try_exists()? { Ok(()) } else { link_or_rename(&draft, &path) });
    let removed = match fs::remove_file(&draft) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    };
    let has_owner = match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    has_owner.and_then(|has_owner| removed.map(|()| has_owner)).map_err(|source| not_writable(directory, source))
}

/// Removes the drafts of this sink that killed starts left, of an attempt of the same number too.
fn remove_drafts(directory: &Path, start: &SinkStart<'_>) -> Result<(), FileSinkError> {
    for entry in fs::read_dir(directory).map_err(FileSinkError::io("list", directory))? {
        let entry = entry.map_err(FileSinkError::io("list", directory))?;
        let name = entry.file_name();
        let attempt = name
            .to_str()
            .and_then(|name| name.strip_prefix(&draft_prefix(start))?.split('-').next()?.parse::<u64>().ok());
        if attempt.is_some_and(|attempt| attempt <= start.attempt.0) {
            remove_if_there(&entry.path())?;
        }
    }
    Ok(())
}

fn draft_prefix(start: &SinkStart<'_>) -> String {
    format!("{OWNER_FILE}-{}-{}-", start.job, start.operator)
}

/// Checks that the directory is the one that this sink took at its first start: a job that goes on must find what it has
/// committed so far, and not an empty directory in its place.
pub(super) fn check_owner(directory: &Path, start: &SinkStart<'_>) -> Result<(), FileSinkError> {
    let path = directory.join(OWNER_FILE);
    let found = match fs::read_to_string(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(FileSinkError::NotOurs { directory: directory.to_owned(), owner_file: path });
        }
        Err(error) => return Err(FileSinkError::io("read", &path)(error)),
    };
    if found == owner_of(start) {
        return Ok(());
    }
    let mut lines = found.lines().map(str::to_owned);
    let owner = SinkOfJob { job: lines.next().unwrap_or_default(), uid: lines.next().unwrap_or_default() };
    let sink = SinkOfJob { job: start.job.to_string(), uid: start.operator.to_string() };
    let (owner, sink, directory) = (Box::new(owner), Box::new(sink), directory.to_owned());
    Err(FileSinkError::OtherOwner { directory, owner, sink, owner_file: path })
}

fn owner_of(start: &SinkStart<'_>) -> String {
    format!("{}\n{}\n", start.job, start.operator)
}

/// Writes a file and removes it again: better to fail now than at the first record.
pub(super) fn check_writable(directory: &Path) -> Result<(), FileSinkError> {
    let path = directory.join(WRITE_CHECK);
    let removed = |()| match fs::remove_file(&path) {
        // Another attempt that starts at the same time was faster.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    };
    File::create(&path)
        .and_then(|mut file| file.write_all(b"\n"))
        .and_then(removed)
        .map_err(|source| not_writable(directory, source))
}

/// Removes the hidden files of attempts before `attempt`; every transaction that a checkpoint holds is committed.
pub(super) fn remove_uncommitted_before(directory: &Path, attempt: Attempt) -> Result<(), FileSinkError> {
    for (found, name) in parts(directory)? {
        if !found.committed && found.part.attempt < attempt {
            remove_if_there(&directory.join(name))?;
        }
    }
    Ok(())
}

/// Removes a file; another attempt that does the same may have been faster.
fn remove_if_there(path: &Path) -> Result<(), FileSinkError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(FileSinkError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// The part files of a directory with their names, in order; whatever else is there is left alone.
fn parts(directory: &Path) -> Result<Vec<(FoundPart, String)>, FileSinkError> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(directory).map_err(FileSinkError::io("list", directory))? {
        let name = entry.map_err(FileSinkError::io("list", directory))?.file_name();
        if let Ok(name) = name.into_string()
            && let Some(found) = FoundPart::parse(&name)
        {
            parts.push((found, name));
        }
    }
    parts.sort();
    Ok(parts)
}

fn not_writable(directory: &Path, source: std::io::Error) -> FileSinkError {
    FileSinkError::NotWritable { directory: directory.to_owned(), source }
}
