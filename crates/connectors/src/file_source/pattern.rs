//! Patterns of paths. The names in a directory are matched by the `glob` crate; the way down to them is taken here,
//! because there a name that is not Unicode is passed over in silence, and an input file must not be.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::FileSourceError;

/// `*` does not find hidden files: among them are the part files that a sink has not committed.
const MATCH_OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
const ANY_DEPTH: &str = "**";

/// The files that match `pattern`, in no particular order, each perhaps more than once.
pub(super) fn files(pattern: &str) -> Result<Vec<PathBuf>, FileSourceError> {
    let mut paths = vec![PathBuf::new()];
    for component in Path::new(pattern).components() {
        let text = component.as_os_str().to_str().unwrap_or_default();
        if !matches!(component, Component::Normal(_)) || !text.contains(['*', '?', '[']) {
            paths.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let matcher =
            Pattern::new(text).map_err(|source| FileSourceError::Pattern { pattern: pattern.to_owned(), source })?;
        let mut below = Vec::new();
        for path in &paths {
            if text == ANY_DEPTH {
                directories(path, &mut below)?;
            } else {
                children(path, &matcher, &mut below)?;
            }
        }
        paths = below;
    }
    paths.retain(|path| path.is_file());
    Ok(paths)
}

/// The entries of a directory whose names match.
fn children(directory: &Path, matcher: &Pattern, out: &mut Vec<PathBuf>) -> Result<(), FileSourceError> {
    for path in entries(directory)? {
        // A name that is not Unicode is matched as it is shown, so that the error comes where the file would.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if matcher.matches_with(&name, MATCH_OPTIONS) {
            out.push(path);
        }
    }
    Ok(())
}

/// A directory and all below it, but no hidden ones, and none behind a symbolic link, which may lead in a circle.
fn directories(directory: &Path, out: &mut Vec<PathBuf>) -> Result<(), FileSourceError> {
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for path in entries(&directory)? {
            let hidden = path.file_name().unwrap_or_default().as_encoded_bytes().starts_with(b".");
            if !hidden && path.is_dir() && !path.is_symlink() {
                left.push(path);
            }
        }
        out.push(directory);
    }
    Ok(())
}

/// What is in a directory; nothing where there is none.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, FileSourceError> {
    let is_here = directory.as_os_str().is_empty();
    let failed = |source| FileSourceError::Read { path: directory.to_owned(), source };
    let found = match fs::read_dir(if is_here { Path::new(".") } else { directory }) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    found.map(|entry| entry.map(|entry| directory.join(entry.file_name())).map_err(failed)).collect()
}
