//! A run of the flights job over the month, as processes of a built example, and the golden rows it must give.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a process may take: many times what it needs.
const DEADLINE: Duration = Duration::from_secs(120);

/// One run of the job, over as many processes as it takes.
pub(crate) struct FlightsRun {
    example: PathBuf,
    /// The flights and the names of the carriers.
    pub(crate) input: PathBuf,
    pub(crate) airlines: PathBuf,
    directory: TempDir,
}

impl FlightsRun {
    /// A run of the example `name`, with directories of its own.
    pub(crate) fn of_example(name: &str) -> Self {
        Self {
            example: built_example(name),
            input: data("flights-2013-01.csv.gz"),
            airlines: data("airlines.csv"),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// The same run, gone on with by another example.
    pub(crate) fn with_example(self, name: &str) -> Self {
        Self { example: built_example(name), ..self }
    }

    /// A directory for whatever the run needs; goes with it.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where the results go.
    pub(crate) fn output(&self) -> PathBuf {
        self.directory().join("output")
    }

    /// Where the checkpoints are.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.directory().join("checkpoints")
    }

    /// The command of a process, with `options` beside the directories.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.example);
        command
            .arg("--input")
            .arg(&self.input)
            .arg("--airlines")
            .arg(&self.airlines)
            .arg("--output")
            .arg(self.output())
            .arg("--checkpoints")
            .arg(self.checkpoints())
            .args(options)
            .stdin(Stdio::null());
        command
    }

    /// Runs a process to its end, and returns what it printed. Fails when it does.
    pub(crate) fn finish(&self, options: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(options).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{options:?} ended with {status}\n{stdout}{stderr}");
        stdout.into_owned()
    }

    /// Runs a process that is to fail, and returns what it said.
    pub(crate) fn fail(&self, options: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(options).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert_eq!(status.code(), Some(1), "{options:?} ended with {status}\n{stdout}{stderr}");
        assert_eq!(stdout, "", "what went wrong is said on standard error");
        stderr.into_owned()
    }

    /// Starts a process and kills it once it has completed `checkpoints` checkpoints. Returns its trace.
    ///
    /// The options must make it slow enough that it has not finished by then.
    pub(crate) fn kill_after(&self, checkpoints: usize, options: &[&str]) -> String {
        self.kill_when(options, |trace| completed(trace) >= checkpoints)
    }

    /// Starts a process, and kills it once the state per hour has files of its own in a complete checkpoint.
    pub(crate) fn kill_with_state_files(&self, options: &[&str]) {
        // Folders come and go meanwhile.
        let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let is_one = |file: DirEntry| file.file_name().to_string_lossy().starts_with("hourly-by-origin-");
        let job = self.checkpoints().join("flights");
        let has_one = || entries(&job).any(|checkpoint| entries(&checkpoint.path()).any(is_one));
        let mut before = None;
        self.kill_when(options, |trace| {
            let completed = completed(trace);
            if before.is_none() && has_one() {
                before = Some(completed);
            }
            // The first of these may be the one before it.
            before.is_some_and(|before| completed >= before + 2)
        });
    }

    /// Starts a process, and kills it once `is_time` says so of its trace. Returns its trace.
    ///
    /// The options must make it slow enough that it has not finished by then.
    pub(crate) fn kill_when(&self, options: &[&str], mut is_time: impl FnMut(&str) -> bool) -> String {
        let trace = self.directory().join("trace.txt");
        let _ = std::fs::remove_file(&trace);
        let mut command = self.command(options);
        let mut process = KilledOnDrop(command.arg("--trace").arg(&trace).stdout(Stdio::null()).spawn().unwrap());
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(&trace).unwrap_or_default();
            if is_time(&text) {
                // SIGKILL on Unix: the process cannot do anything about it.
                process.0.kill().unwrap();
                let status = process.0.wait().unwrap();
                assert!(!status.success(), "{options:?} had finished before it was killed");
                return std::fs::read_to_string(&trace).unwrap();
            }
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{options:?} ended before it was to be killed\n{text}");
            assert!(started.elapsed() < DEADLINE, "{options:?} does not come to where it is to be killed\n{text}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The committed rows in one of the output folders, sorted.
    pub(crate) fn rows(&self, folder: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for entry in std::fs::read_dir(self.output().join(folder)).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_name().to_string_lossy().starts_with('.') {
                rows.extend(std::fs::read_to_string(entry.path()).unwrap().lines().map(str::to_owned));
            }
        }
        rows.sort();
        rows
    }

    /// Fails unless the committed rows are exactly those of the golden files.
    pub(crate) fn assert_golden(&self) {
        self.assert_golden_in("per_carrier");
        self.assert_golden_in("hourly_by_origin");
    }

    /// The same for one of the folders.
    pub(crate) fn assert_golden_in(&self, folder: &str) {
        let golden = std::fs::read_to_string(data(&format!("golden_{folder}-2013-01.csv"))).unwrap();
        let mut expected: Vec<&str> = golden.lines().skip(1).collect();
        expected.sort_unstable();
        let rows = self.rows(folder);
        let wrong: Vec<&String> = rows.iter().filter(|row| !expected.contains(&row.as_str())).take(5).collect();
        assert!(wrong.is_empty(), "{folder} has rows that the golden file has not, such as {wrong:?}");
        assert_eq!(rows, expected, "{folder} lacks rows of the golden file, or has some twice");
    }
}

/// How many checkpoints a process has completed, as its trace says.
pub(crate) fn completed(trace: &str) -> usize {
    trace.lines().filter(|line| line.contains("highwater::checkpoint: complete")).count()
}

/// Every file below a directory with its content.
pub(crate) fn files_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// The number at the end of a line of the summary.
pub(crate) fn number_of(summary: &str, what: &str) -> u64 {
    let line = summary.lines().find(|line| line.trim_start().starts_with(what));
    let number = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    number.unwrap_or_else(|| panic!("the summary has no number of {what:?}\n{summary}"))
}

/// A file of the repository's data.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

/// A process that does not outlive a test that fails.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The executable of an example: `cargo test` builds examples into the folder beside that of the tests.
fn built_example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let example = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        example.exists(),
        "{} is not built: a test that is run alone needs `cargo build --example {name}` first",
        example.display()
    );
    example
}
