//! What the flights job refuses, it refuses with a reason, and leaves everything as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::flights::{FlightsRun, files_below};

/// Every hour stays in the state, which grows so large that it gets files of its own long before the end.
const SLOW_WITH_MUCH_STATE: [&str; 8] =
    ["--throttle", "6000", "--interval-ms", "100", "--out-of-orderness", "744", "--parallelism", "1"];

#[test]
fn memory_refuses_what_an_unfinished_run_left() {
    let run = FlightsRun::of_example("flights");
    run.kill_after(8, &["--backend", "memory", "--throttle", "2000", "--interval-ms", "60"]);
    let before = files_below(&run.output());
    assert!(!before.is_empty());
    let error = run.fail(&["--backend", "memory"]);
    assert!(
        error.starts_with("error: ") && error.contains("holds the output of a run that has not finished"),
        "{error}"
    );
    assert!(error.contains("cannot be continued"), "{error}");
    assert!(files_below(&run.output()) == before);
}

#[test]
fn output_of_another_run_is_refused() {
    let run = FlightsRun::of_example("flights");
    run.finish(&[]);
    fs::remove_dir_all(run.checkpoints()).unwrap();
    let before = files_below(&run.output());
    let error = run.fail(&[]);
    assert!(error.contains("per-carrier-files") && error.contains("another run"), "{error}");
    assert!(files_below(&run.output()) == before);
    run.assert_golden();
}

/// Files that a start has to read; `is_one` is told the path below the checkpoints.
fn assert_damage_is_refused(is_one: impl Fn(&str) -> bool) {
    let run = FlightsRun::of_example("flights");
    run.kill_with_state_files(&SLOW_WITH_MUCH_STATE);
    let last_start = ["--parallelism", "2", "--out-of-orderness", "744"];
    let output = files_below(&run.output());
    let path = newest(&run, is_one);
    let whole = fs::read(&path).unwrap();
    let checkpoint = checkpoint_of(&path);

    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let cut = &whole[..whole.len() - 1];
    for damaged in [&flipped[..], cut, &[]] {
        fs::write(&path, damaged).unwrap();
        let error = run.fail(&last_start);
        assert!(error.starts_with(&format!("error: checkpoint {checkpoint} cannot be restored: ")), "{error}");
        assert!(error.contains("expected") || error.contains("checksum"), "{error}");
        assert!(files_below(&run.output()) == output, "the output was touched\n{error}");
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    fs::remove_file(&path).unwrap();
    let error = run.fail(&last_start);
    assert!(error.starts_with(&format!("error: checkpoint {checkpoint} cannot be restored: ")), "{error}");

    fs::write(&path, whole).unwrap();
    let summary = run.finish(&last_start);
    assert!(summary.contains(&format!("resumed from checkpoint {checkpoint}")), "{summary}");
    run.assert_golden();
}

#[test]
fn damaged_metadata_is_refused() {
    assert_damage_is_refused(|name| name.ends_with("/_metadata"));
}

#[test]
fn a_damaged_state_file_is_refused() {
    assert_damage_is_refused(|name| name.contains("/hourly-by-origin-"));
}

/// A file of the checkpoint that a start would go on from.
fn newest(run: &FlightsRun, is_one: impl Fn(&str) -> bool) -> PathBuf {
    // The job itself says which it is, when it is started in a way that cannot be.
    let error = run.fail(&["--parallelism", "129"]);
    let checkpoint = error.split_whitespace().nth(2).unwrap();
    let files = files_below(&run.checkpoints()).into_keys().filter(|path| checkpoint_of(path) == checkpoint);
    let mut found = files.filter(|path| is_one(&path.to_string_lossy()));
    found.next().unwrap_or_else(|| panic!("checkpoint {checkpoint} has no such file\n{error}"))
}

/// "5" of `…/chk-5-1/_metadata`.
fn checkpoint_of(path: &Path) -> String {
    let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    folder.split('-').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn input_that_is_not_there_is_named() {
    let mut run = FlightsRun::of_example("flights");
    run.input = run.directory().join("no-such-*.csv");
    let error = run.fail(&[]);
    assert!(error.starts_with("error: operator \"flights\" cannot start: no file matches"), "{error}");
    assert!(error.contains("no-such-*.csv"), "{error}");

    let mut run = FlightsRun::of_example("flights");
    run.airlines = run.directory().join("no-airlines.csv");
    let error = run.fail(&[]);
    assert!(error.starts_with("error: cannot read ") && error.contains("no-airlines.csv"), "{error}");
    assert!(!run.output().exists());
}

#[test]
fn a_parallelism_that_cannot_be_is_refused() {
    for (parallelism, limits) in [("0", "1..=128"), ("40000", "1..=32768")] {
        let run = FlightsRun::of_example("flights");
        let error = run.fail(&["--parallelism", parallelism]);
        let expected = format!("parallelism {parallelism} is outside {limits}, the job's max parallelism");
        assert!(error.contains(&expected), "{error}");
        assert!(!run.output().exists());
    }
    // Beyond what the state was split into at the first start.
    let run = FlightsRun::of_example("flights");
    run.kill_after(2, &["--throttle", "2000", "--interval-ms", "60", "--parallelism", "2"]);
    let before = files_below(&run.output());
    let error = run.fail(&["--parallelism", "129"]);
    assert!(error.contains("cannot be restored") && error.contains("129") && error.contains("128"), "{error}");
    assert!(files_below(&run.output()) == before);
    run.finish(&["--parallelism", "3"]);
    run.assert_golden();
}
