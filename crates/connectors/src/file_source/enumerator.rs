//! Finding the input files, once, at the first start; and checking, at every later one, that they are the same.

use std::path::{Path, PathBuf};

use super::open::InputFile;
use super::{FilePosition, FileSourceError, FileSplit, pattern};

/// The files of a path or pattern as splits that begin at their start, in the order of their paths.
pub(super) fn find(pattern: &Path) -> Result<Vec<FileSplit>, FileSourceError> {
    find_paths(pattern)?
        .into_iter()
        .map(|path| {
            let identity = InputFile::open(&path)?.identity();
            Ok(FileSplit { path, identity, position: FilePosition::default() })
        })
        .collect()
}

/// Looks at the files of splits that wait to be read, so that a change is found before hours of work and not after.
pub(super) fn check_unchanged<'a>(splits: impl Iterator<Item = &'a FileSplit>) -> Result<(), FileSourceError> {
    for split in splits {
        InputFile::open_unchanged(&split.path, split.identity)?;
    }
    Ok(())
}

fn find_paths(pattern: &Path) -> Result<Vec<String>, FileSourceError> {
    let text = utf8(pattern)?;
    // A file may have `[` in its name: what exists is a path.
    if pattern.is_dir() {
        return Err(FileSourceError::Directory { path: pattern.to_owned() });
    }
    if pattern.exists() {
        return Ok(vec![text]);
    }
    let mut paths = pattern::files(&text)?.iter().map(|path| utf8(path)).collect::<Result<Vec<_>, _>>()?;
    if paths.is_empty() {
        return Err(FileSourceError::NoMatch { pattern: pattern.to_owned() });
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn utf8(path: &Path) -> Result<String, FileSourceError> {
    path.to_str().map(str::to_owned).ok_or_else(|| FileSourceError::NotUtf8 { path: PathBuf::from(path) })
}
