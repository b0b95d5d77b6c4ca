//! A run of the flights job over the month, as processes of a built example, and the golden rows it must give.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a process may take: many times what it needs.
const DEADLINE: Duration = Duration::from_secs(120);

/// One run of the job, over as many processes as it takes.
pub(crate) struct FlightsRun {
    example: PathBuf,
    directory: TempDir,
}

impl FlightsRun {
    /// A run of the example `name`, with directories of its own.
    pub(crate) fn of_example(name: &str) -> Self {
        Self { example: built_example(name), directory: tempfile::tempdir().unwrap() }
    }

    /// The same run, gone on with by another example.
    pub(crate) fn with_example(self, name: &str) -> Self {
        Self { example: built_example(name), ..self }
    }

    /// The command of a process, with `options` beside the directories.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let mut command = Command::new(&self.example);
        command
            .arg("--input")
            .arg(data.join("flights-2013-01.csv.gz"))
            .arg("--airlines")
            .arg(data.join("airlines.csv"))
            .arg("--output")
            .arg(self.directory.path().join("output"))
            .arg("--checkpoints")
            .arg(self.directory.path().join("checkpoints"))
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

    /// Starts a process and kills it once it has completed `checkpoints` checkpoints. Returns its trace.
    ///
    /// The options must make it slow enough that it has not finished by then.
    pub(crate) fn kill_after(&self, checkpoints: usize, options: &[&str]) -> String {
        let trace = self.directory.path().join("trace.txt");
        let _ = std::fs::remove_file(&trace);
        let mut command = self.command(options);
        let mut process = KilledOnDrop(command.arg("--trace").arg(&trace).stdout(Stdio::null()).spawn().unwrap());
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(&trace).unwrap_or_default();
            if text.lines().filter(|line| line.contains("highwater::checkpoint: complete")).count() >= checkpoints {
                // SIGKILL on Unix: the process cannot do anything about it.
                process.0.kill().unwrap();
                let status = process.0.wait().unwrap();
                assert!(!status.success(), "{options:?} had finished before it was killed");
                return std::fs::read_to_string(&trace).unwrap();
            }
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{options:?} ended before {checkpoints} checkpoints were complete\n{text}");
            assert!(started.elapsed() < DEADLINE, "{options:?} does not complete {checkpoints} checkpoints\n{text}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The committed rows in one of the output folders, sorted.
    pub(crate) fn rows(&self, folder: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for entry in std::fs::read_dir(self.directory.path().join("output").join(folder)).unwrap() {
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
        for folder in ["per_carrier", "hourly_by_origin"] {
            let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/golden_{folder}-2013-01.csv"));
            let golden = std::fs::read_to_string(golden).unwrap();
            let mut expected: Vec<&str> = golden.lines().skip(1).collect();
            expected.sort_unstable();
            let rows = self.rows(folder);
            let wrong: Vec<&String> = rows.iter().filter(|row| !expected.contains(&row.as_str())).take(5).collect();
            assert!(wrong.is_empty(), "{folder} has rows that the golden file has not, such as {wrong:?}");
            assert_eq!(rows, expected, "{folder} lacks rows of the golden file, or has some twice");
        }
    }
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
