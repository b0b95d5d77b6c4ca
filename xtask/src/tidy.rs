//! `cargo xtask tidy`: the rules of the house that no compiler knows. Each finding says what to do instead.

mod allowed;
mod banned;
mod floors;
mod names;
mod places;
mod shape;

use std::fs;
use std::path::Path;
use std::process::{Command as Process, ExitCode};

use anyhow::{Context, Result};

use crate::Command;
use crate::cargo::root;
use crate::code::Code;
use crate::finding::{self, Finding};

/// Check floors, file shape, banned calls and machine-bound paths
#[derive(clap::Args)]
pub(crate) struct Tidy {}

impl Command for Tidy {
    fn run(self) -> Result<ExitCode> {
        tidy()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints every finding, and fails if there is one.
pub(crate) fn tidy() -> Result<()> {
    let root = root();
    let mut findings = floors::check(&floors::read(&root)?);
    let mut uses = Vec::new();
    let files = files(&root)?;
    for path in &files {
        let Ok(bytes) = fs::read(root.join(path)) else { continue }; // deleted, but not yet in the index
        let Ok(text) = String::from_utf8(bytes) else { continue }; // not a text
        findings.extend(places::check(path, &text));
        if path.ends_with(".rs") {
            let code = Code::of(&text);
            findings.extend(shape::check(path, &text, &code));
            banned::check(path, &code, allowed::ALLOWED, &mut findings, &mut uses);
        }
    }
    findings.extend(banned::check_allowed(allowed::ALLOWED, &files, &uses));
    let read = |path| fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read"));
    findings.extend(names::check(&read(names::LIST)?, &read(names::TABLES)?));

    finding::report(findings)
}

/// The files of the project, also those not yet added, with `/` between folders.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    // A clone may belong to another user than the one who runs this; listing its files is harmless.
    let listing = Process::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let mut files = Vec::new();
    match listing {
        Ok(listing) if listing.status.success() => {
            let names = String::from_utf8(listing.stdout).context("a file name is not UTF-8")?;
            files.extend(names.split_terminator('\0').map(str::to_owned));
        }
        // No git, or no repository: an unpacked archive holds nothing but the project, and what was built in it.
        _ => walk(root, "", &mut files)?,
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !entry.file_type()?.is_dir() {
            files.push(format!("{prefix}{name}"));
        } else if name != "target" && name != ".git" {
            walk(&entry.path(), &format!("{prefix}{name}/"), files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_without_git_is_walked_without_what_was_built() {
        let mut files = Vec::new();
        walk(&root(), "", &mut files).unwrap();
        assert!(files.iter().any(|path| path == "xtask/src/tidy.rs"));
        assert!(!files.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
    }
}
