//! The flights job gives exactly the golden rows: on every backend, at every parallelism, after kills, in any order of files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod support;

use std::fs;
use std::io::{BufWriter, Read, Write};

use flate2::read::GzDecoder;
use support::flights::{FlightsRun, files_below, number_of};

/// So slow that no process comes to the end before it has completed the few checkpoints after which it is killed.
const SLOW: [&str; 4] = ["--throttle", "2000", "--interval-ms", "60"];
/// How many checkpoints are many.
const MANY: u64 = 20;
/// Flights a second. On a busy machine fewer checkpoints are complete by the time that all flights are read: then they are
/// read again, and more slowly.
const THROTTLES: [&str; 3] = ["9000", "3000", "1000"];
/// Flights of the month.
const FLIGHTS: u64 = 26_865;
/// Hours in the month: more than any order of its flights needs.
const ALL_HOURS: [&str; 2] = ["--out-of-orderness", "744"];

/// A run with many checkpoints, and its summary.
fn finish_with_many_checkpoints(options: &[&str]) -> (FlightsRun, String) {
    for throttle in THROTTLES {
        let run = FlightsRun::of_example("flights");
        let summary = run.finish(&[&["--throttle", throttle, "--interval-ms", "30"], options].concat());
        run.assert_golden();
        if number_of(&summary, "checkpoints completed") >= MANY {
            return (run, summary);
        }
    }
    panic!("{options:?} never completes {MANY} checkpoints, however slowly the flights are read");
}

fn golden_with_many_checkpoints(backend: &str, parallelism: u32) {
    let number = parallelism.to_string();
    let options = ["--backend", backend, "--parallelism", &number];
    let (run, summary) = finish_with_many_checkpoints(&options);
    assert!(summary.contains("started from nothing"), "{summary}");
    assert_eq!(number_of(&summary, "checkpoints failed"), 0, "{summary}");
    assert_eq!(number_of(&summary, "flights read by this process"), FLIGHTS, "{summary}");
    assert_eq!(number_of(&summary, "of them too late"), 0, "{summary}");
    for task in ["per-carrier", "hourly-by-origin"] {
        let records: Vec<u64> = (0..parallelism).map(|index| number_of(&summary, &format!("{task} {index}"))).collect();
        assert!(records.iter().all(|records| *records > 0), "a subtask of {task} had nothing to do\n{summary}");
        assert_eq!(records.iter().sum::<u64>(), FLIGHTS, "{summary}");
    }

    let before = files_below(run.directory());
    let summary = run.finish(&options);
    assert!(summary.contains("The job has finished already"), "{summary}");
    assert!(files_below(run.directory()) == before, "a start of the finished job changed a file");
}

#[test]
fn memory_at_parallelism_1() {
    golden_with_many_checkpoints("memory", 1);
}

#[test]
fn memory_at_parallelism_2() {
    golden_with_many_checkpoints("memory", 2);
}

#[test]
fn memory_at_parallelism_4() {
    golden_with_many_checkpoints("memory", 4);
}

#[test]
fn fs_at_parallelism_1() {
    golden_with_many_checkpoints("fs", 1);
}

#[test]
fn fs_at_parallelism_2() {
    golden_with_many_checkpoints("fs", 2);
}

#[test]
fn fs_at_parallelism_4() {
    golden_with_many_checkpoints("fs", 4);
}

/// Contract: R326.
#[test]
fn a_killed_job_goes_on_at_another_parallelism() {
    let run = FlightsRun::of_example("flights");
    run.kill_after(8, &[&SLOW[..], &["--parallelism", "2"]].concat());
    let trace = run.kill_after(8, &[&SLOW[..], &["--parallelism", "4"]].concat());
    assert!(trace.contains("highwater::job: restoring"), "{trace}");

    let summary = run.finish(&["--parallelism", "1"]);
    assert!(summary.contains("resumed from checkpoint"), "{summary}");
    assert!(number_of(&summary, "flights read by this process") < FLIGHTS, "{summary}");
    run.assert_golden();
}

/// A process may run several jobs, and their log lines are mixed.
#[test]
fn every_line_of_the_log_names_its_job() {
    let run = FlightsRun::of_example("flights");
    run.kill_after(3, &[&SLOW[..], &["--parallelism", "2"]].concat());
    let trace = run.kill_after(3, &[&SLOW[..], &["--parallelism", "4"]].concat());
    let whole_lines = trace.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    // What a connector has to say of its files is said without.
    let lines: Vec<&str> = whole_lines.filter(|line| !line.contains("highwater::effect: linked")).collect();
    for said in [
        "job: restoring",
        "checkpoint: triggered",
        "checkpoint: metadata written",
        "checkpoint: complete",
        "commit: committed",
    ] {
        assert!(lines.iter().any(|line| line.contains(said)), "{said} is missing\n{trace}");
    }
    for line in lines {
        assert!(line.contains(" job=flights"), "{line}");
    }
}

/// The number behind `name=` in the last line of a trace that has it.
fn last_number(trace: &str, name: &str) -> Option<u64> {
    let words = trace.split_whitespace().rev();
    words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok()).next()
}

/// The files that an attempt has open.
fn open_files(run: &FlightsRun, attempt: u64) -> Vec<std::path::PathBuf> {
    let prefix = format!(".part-{attempt:08}-");
    let is_open = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".inprogress")
    };
    // Files come and go meanwhile.
    let folders = fs::read_dir(run.output()).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).filter(is_open).collect()
}

/// Field case: R101.
#[test]
fn the_same_checkpoint_is_restored_twice_and_what_is_behind_it_in_the_output_is_not_read() {
    let run = FlightsRun::of_example("flights");
    run.kill_after(6, &SLOW);
    let mut restored = Vec::new();
    for _ in 0..2 {
        // It restores, opens files, and completes no checkpoint.
        let options = ["--throttle", "200", "--interval-ms", "3600000"];
        let trace = run.kill_when(&options, |trace| {
            last_number(trace, "attempt").is_some_and(|attempt| open_files(&run, attempt).len() >= 2)
        });
        restored.push(last_number(&trace, "checkpoint").unwrap());
        let open = open_files(&run, last_number(&trace, "attempt").unwrap());
        assert!(!open.is_empty(), "{trace}");
        for path in open {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(&[b'x'; 100]).unwrap();
        }
    }
    assert_eq!(restored[0], restored[1], "both went on from the same checkpoint");
    let summary = run.finish(&[]);
    assert!(summary.contains("resumed from checkpoint"), "{summary}");
    run.assert_golden();
}

#[test]
fn shuffled_files_are_golden_when_the_bound_allows_for_them() {
    let run = in_shuffled_files();
    run.kill_after(8, &[&SLOW[..], &ALL_HOURS, &["--parallelism", "2"]].concat());
    let summary = run.finish(&[&ALL_HOURS[..], &["--parallelism", "3"]].concat());
    assert_eq!(number_of(&summary, "of them too late"), 0, "{summary}");
    run.assert_golden();
}

#[test]
fn what_comes_too_late_is_counted() {
    let run = in_shuffled_files();
    let summary = run.finish(&["--out-of-orderness", "1", "--parallelism", "2"]);
    let late = number_of(&summary, "of them too late");
    assert!(late > 0, "{summary}");
    let hours = run.rows("hourly_by_origin");
    let in_hours: u64 = hours.iter().map(|row| row.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(late + in_hours, FLIGHTS, "{summary}");
    // Totals without windows do not ask for the time.
    run.assert_golden_in("per_carrier");
}

/// The month, cut into twelve plain files whose names are in another order than their flights.
fn in_shuffled_files() -> FlightsRun {
    let mut run = FlightsRun::of_example("flights");
    let mut month = String::new();
    GzDecoder::new(fs::File::open(&run.input).unwrap()).read_to_string(&mut month).unwrap();
    let (header, flights) = month.split_once('\n').unwrap();
    let flights: Vec<&str> = flights.lines().collect();
    let directory = run.directory().join("input");
    fs::create_dir(&directory).unwrap();
    for (part, flights) in flights.chunks(flights.len().div_ceil(12)).enumerate() {
        // 5 and 12 have no common divisor: 0, 5, 10, 3, 8, …
        let name = directory.join(format!("flights-{:02}.csv", part * 5 % 12));
        let mut file = BufWriter::new(fs::File::create_new(name).unwrap());
        writeln!(file, "{header}").unwrap();
        flights.iter().for_each(|flight| writeln!(file, "{flight}").unwrap());
        file.flush().unwrap();
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 12);
    run.input = directory.join("flights-*.csv");
    run
}
