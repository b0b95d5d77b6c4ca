//! The golden rows of an input, and the comparison of what a job has put out with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// Rows that are shown of those that differ.
const SHOWN_MAX: usize = 5;

/// The folders of the flights job's output.
const FOLDERS: [&str; 2] = ["per_carrier", "hourly_by_origin"];

/// The file that says whose a folder is; it stays when the job is finished.
const OWNER_FILE: &str = ".highwater-sink";

/// The golden rows, by folder. No row stands twice in a folder.
pub(crate) struct Golden {
    folders: BTreeMap<&'static str, BTreeSet<String>>,
}

/// Committed files with their content.
pub(crate) type Committed = BTreeMap<PathBuf, String>;

impl Golden {
    /// The golden files of an input lie beside it: `golden_per_carrier-2013-01.csv` belongs to `flights-2013-01.csv.gz`.
    pub(crate) fn of_input(input: &Path) -> Result<Self> {
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        let suffix = stem.strip_suffix(".csv").and_then(|stem| stem.strip_prefix("flights"));
        let suffix = suffix.with_context(|| format!("{name} is not called flights….csv or flights….csv.gz"))?;
        let mut folders = BTreeMap::new();
        for folder in FOLDERS {
            let path = input.with_file_name(format!("golden_{folder}{suffix}.csv"));
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            folders.insert(folder, text.lines().skip(1).map(str::to_owned).collect());
        }
        Ok(Self { folders })
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.folders.values().map(BTreeSet::len).sum()
    }

    /// Checks what is committed so far: right rows, none of them twice, and every file of `before` as it was.
    pub(crate) fn check_committed(&self, output: &Path, before: &Committed) -> Result<Committed> {
        let mut committed = Committed::new();
        for (folder, golden) in &self.folders {
            let files = committed_files(&output.join(folder))?;
            let mut seen = BTreeSet::new();
            for (path, content) in &files {
                for row in content.lines() {
                    ensure!(golden.contains(row), "{} has a wrong row: {row}", path.display());
                    ensure!(seen.insert(row), "{} has a row that was committed before: {row}", path.display());
                }
            }
            committed.extend(files);
        }
        for (path, content) in before {
            match committed.get(path) {
                Some(now) if now == content => {}
                Some(_) => bail!("{} was committed and has changed since", path.display()),
                None => bail!("{} was committed and has vanished since", path.display()),
            }
        }
        Ok(committed)
    }

    /// Checks the output of a job that has finished: exactly the golden rows, and nothing left that is not committed.
    pub(crate) fn check_finished(&self, output: &Path, before: &Committed) -> Result<()> {
        self.check_complete(output, before)?;
        for folder in self.folders.keys() {
            let directory = output.join(folder);
            for entry in fs::read_dir(&directory)? {
                let name = entry?.file_name();
                let may_stay = !is_hidden(&name) || name == OWNER_FILE;
                ensure!(may_stay, "{} is left, and the job is finished", directory.join(&name).display());
            }
        }
        Ok(())
    }

    /// Checks the committed output of a job that has finished: exactly the golden rows.
    pub(crate) fn check_complete(&self, output: &Path, before: &Committed) -> Result<()> {
        let committed = self.check_committed(output, before)?;
        for (folder, golden) in &self.folders {
            let directory = output.join(folder);
            let in_folder = committed.iter().filter(|(path, _)| path.starts_with(&directory));
            let found: BTreeSet<&str> = in_folder.flat_map(|(_, content)| content.lines()).collect();
            let missing: Vec<&String> = golden.iter().filter(|row| !found.contains(row.as_str())).collect();
            if !missing.is_empty() {
                let some: Vec<_> = missing.iter().take(SHOWN_MAX).collect();
                bail!("{} lacks {} golden rows, such as {some:?}", directory.display(), missing.len());
            }
        }
        Ok(())
    }
}

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with('.')
}

/// The committed files of a folder; a folder that is not there yet has none.
fn committed_files(directory: &Path) -> Result<Committed> {
    let mut files = Committed::new();
    if !directory.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        if !is_hidden(&entry.file_name()) {
            let path = entry.path();
            let content = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            files.insert(path, content);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        directory: PathBuf,
        golden: Golden,
    }

    impl Case {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("highwater-xtask-{name}-{}", std::process::id()));
            for folder in FOLDERS {
                fs::create_dir_all(directory.join(folder)).unwrap();
            }
            let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect();
            let folders = BTreeMap::from([(FOLDERS[0], rows(&["a,1", "b,2"])), (FOLDERS[1], rows(&["c,3"]))]);
            Self { directory, golden: Golden { folders } }
        }

        fn write(&self, path: &str, content: &str) -> &Self {
            fs::write(self.directory.join(path), content).unwrap();
            self
        }

        fn check(&self, before: &Committed) -> String {
            let checked = self.golden.check_finished(&self.directory, before);
            checked.map_or_else(
                |error| error.to_string().replace(&*self.directory.to_string_lossy(), "OUT"),
                |()| "ok".into(),
            )
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn exactly_the_golden_rows_pass_and_every_difference_is_named() {
        let case = Case::new("golden");
        case.write("per_carrier/part-1", "b,2\n");
        case.write("hourly_by_origin/part-1", "c,3\n");
        assert_eq!(case.check(&Committed::new()), r#"OUT/per_carrier lacks 1 golden rows, such as ["a,1"]"#);
        case.write("per_carrier/part-2", "a,1\n");
        assert_eq!(case.check(&Committed::new()), "ok");
        case.write("per_carrier/.highwater-sink", "flights\nper_carrier\n");
        assert_eq!(case.check(&Committed::new()), "ok");
        case.write("per_carrier/.part-3", "");
        assert_eq!(case.check(&Committed::new()), "OUT/per_carrier/.part-3 is left, and the job is finished");
        case.write("per_carrier/part-4", "a,1\n");
        assert_eq!(case.check(&Committed::new()), "OUT/per_carrier/part-4 has a row that was committed before: a,1");
        case.write("per_carrier/part-4", "a,2\n");
        assert_eq!(case.check(&Committed::new()), "OUT/per_carrier/part-4 has a wrong row: a,2");
    }

    #[test]
    fn a_committed_file_neither_changes_nor_vanishes() {
        let case = Case::new("committed");
        case.write("per_carrier/part-1", "a,1\nb,2\n").write("hourly_by_origin/part-1", "c,3\n");
        let before = case.golden.check_committed(&case.directory, &Committed::new()).unwrap();
        case.write("per_carrier/part-1", "b,2\na,1\n");
        assert_eq!(case.check(&before), "OUT/per_carrier/part-1 was committed and has changed since");
        fs::remove_file(case.directory.join("per_carrier/part-1")).unwrap();
        case.write("per_carrier/part-2", "a,1\nb,2\n");
        assert_eq!(case.check(&before), "OUT/per_carrier/part-1 was committed and has vanished since");
    }
}
