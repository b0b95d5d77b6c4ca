//! A configuration chooses backend and storage by name; what is set by code counts before it, and mistakes are refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::{HeapStateBackend, MemoryCheckpointStorage};
use tempfile::TempDir;

use crate::log::log_of;
use crate::pace::Pace;
use crate::support::{assert_counted, count, wait_for_checkpoints, wait_until};

const NUMBERS: u64 = 300;
/// What a checkpoint has when nothing is inline: the sums, that the sink has transactions, and where the source is.
const OBJECTS: [&str; 3] = ["counter-0", "sink-0.operator", "source-0.operator"];

/// An environment in which nothing is set but what can be found by name.
fn unset(name: &str) -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new(name);
    env.set_state_backend_registry(default_registry());
    env
}

/// Runs the job to its end and checks its result.
fn run(env: &StreamExecutionEnvironment) {
    let records = CollectedRecords::default();
    count(env, NUMBERS, None, &records, |_| Ok(()));
    env.execute().unwrap();
    assert_counted(&records, NUMBERS);
}

/// Runs a job until it has read nearly all of its input, and stops it with a checkpoint, which stays.
fn run_to_a_checkpoint(env: &StreamExecutionEnvironment) {
    count(env, NUMBERS, Some(Pace::up_to(NUMBERS - 1)), &CollectedRecords::default(), |_| Ok(()));
    let handle = env.execute_async().unwrap();
    wait_until("the records are counted", || {
        let status = handle.status();
        status.subtasks.iter().any(|it| it.operator.as_str() == "counter" && it.records_in == NUMBERS - 1)
    });
    handle.trigger_checkpoint().wait().unwrap();
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
}

/// What a start says that refuses the configuration. Nothing may have been done.
fn refusal(env: &StreamExecutionEnvironment) -> String {
    let records = CollectedRecords::default();
    count(env, NUMBERS, None, &records, |_| panic!("a job that is refused reads nothing"));
    let error = env.execute().unwrap_err();
    assert!(matches!(error, JobError::Configuration(_)), "{error:?}");
    assert!(records.is_empty());
    format!("{error:?}")
}

/// A directory for checkpoints that is not there yet.
fn directory() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoints").display().to_string();
    (folder, path)
}

/// The names of the files of the last checkpoint in a directory, without the metadata.
fn state_files(directory: &str, job: &str) -> Vec<String> {
    let is_checkpoint = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("chk-");
    let folders = fs::read_dir(Path::new(directory).join(job)).unwrap().map(|entry| entry.unwrap().path());
    let last = folders.filter(|path| is_checkpoint(path)).max().unwrap();
    let names = fs::read_dir(last).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "_metadata").collect();
    names.sort_unstable();
    names
}

/// Contract: U351.
#[test]
fn without_any_configuration_state_is_on_the_heap_and_checkpoints_are_in_memory() {
    let log = log_of(|| run(&unset("default")));
    assert!(log.contains("checkpoints are kept in memory and do not outlive the process"), "{log}");
}

/// Contract: U351.
#[test]
fn a_directory_alone_makes_checkpoints_files() {
    let (_folder, directory) = directory();
    let env = unset("directory");
    env.configure(Configuration::from([("execution.checkpointing.dir", &directory)]));
    let log = log_of(|| run(&env));
    assert!(Path::new(&directory).join("directory/log").is_dir());
    assert_eq!(log, "", "there is nothing to say");
}

/// Contract: U348, U349.
#[test]
fn legacy_keys_and_names_work_and_what_to_write_instead_is_logged() {
    let (_folder, directory) = directory();
    let env = unset("legacy");
    env.configure(Configuration::from([
        ("state.backend", "filesystem"),
        ("state.backend.fs.checkpointdir", &directory),
    ]));
    let log = log_of(|| run(&env));
    assert!(Path::new(&directory).join("legacy/log").is_dir());
    for notice in [
        "`state.backend: filesystem` is deprecated: write `state.backend.type: hashmap` and \
         `execution.checkpointing.storage: filesystem`",
        &format!("`state.backend.fs.checkpointdir` is deprecated: write `execution.checkpointing.dir: {directory}`"),
    ] {
        assert_eq!(log.matches(notice).count(), 1, "{notice}\n{log}");
    }
}

#[test]
fn the_configuration_is_explained_as_a_start_reads_it() {
    let (_folder, directory) = directory();
    let env = unset("explained");
    env.configure(Configuration::from([("state.backend", "filesystem"), ("state.checkpoints.dir", &directory)]));
    let explained = env.explain_configuration().unwrap();
    for notice in ["Note: `state.backend: filesystem` is deprecated", "Note: `state.checkpoints.dir` is deprecated"] {
        assert!(explained.contains(notice), "{notice}\n{explained}");
    }
    for (key, value) in [("state.backend.type", "rocksdb"), ("execution.checkpointing.data-inline-threshold", "2 mb")] {
        let env = unset("refused");
        env.configure(Configuration::from([("execution.checkpointing.dir", directory.as_str()), (key, value)]));
        let error = env.explain_configuration().unwrap_err();
        assert!(format!("{error:?}").contains(key), "{error:?}");
        assert!(format!("{error:?}").ends_with(&refusal(&env)), "{error:?}");
    }
    for (key, value) in [
        ("execution.checkpointing.storage", "filesystem"),
        ("state.backend", "filesystem"),
        ("execution.checkpointing.dir", "s3://bucket/checkpoints"),
        ("execution.checkpointing.dir", ""),
        ("execution.checkpointing.dir", "/tmp/a\0b"),
    ] {
        let env = unset("refused");
        env.configure(Configuration::from([(key, value)]));
        let error = env.explain_configuration().unwrap_err();
        assert!(format!("{error:?}").ends_with(&refusal(&env)), "{key}: {value}: {error:?}");
    }
    let env = unset("by-code");
    env.set_cluster_configuration(Configuration::from([("execution.checkpointing.data-inline-threshold", "2 mb")]));
    env.set_state_backend(FsStateBackend::new(&directory).unwrap());
    let error = env.explain_configuration().unwrap_err();
    assert!(format!("{error:?}").ends_with(&refusal(&env)), "{error:?}");
    std::fs::remove_dir(&directory).unwrap();

    let env = unset("by-code");
    env.configure(Configuration::from([("execution.checkpointing.dir", "/nowhere")]));
    assert!(!Path::new(&directory).exists(), "to explain makes nothing");
    env.set_cluster_configuration(Configuration::from([("state.backend.async", "false")]));
    env.set_state_backend(FsStateBackend::new(&directory).unwrap());
    let explained = env.explain_configuration().unwrap();
    for line in [
        "execution.checkpointing.dir: what was set with it  (code; where that leaves it open: not set, default)",
        "execution.checkpointing.data-inline-threshold: what was set with it  (code; where that leaves it open: 20 kb, default)",
        "state.backend.async: what was set with it  (code; where that leaves it open: false, cluster)",
    ] {
        assert!(explained.contains(line), "{line}\n{explained}");
    }
}

#[test]
fn a_key_of_no_option_is_noticed_with_what_was_probably_meant() {
    let env = unset("typo");
    env.configure(Configuration::from([("state.backend.typ", "hashmap")]));
    env.set_cluster_configuration(Configuration::from([
        ("parallelism.default", "2"),
        ("state.backend.type", "hashmap"),
    ]));
    let log = log_of(|| run(&env));
    for notice in [
        "`state.backend.typ` is ignored, because there is no such option: if `state.backend.type` is meant, write that",
        "`parallelism.default` is ignored, because there is no such option: call `set_parallelism` instead",
    ] {
        assert_eq!(log.matches(notice).count(), 1, "{notice}\n{log}");
    }
    assert!(!log.contains("`state.backend.type` is ignored"), "{log}");
}

/// Field case: R105.
///
/// Contract: U349.
#[test]
fn a_name_that_means_nothing_is_refused_with_the_option_and_the_valid_names() {
    let valid = "valid values: hashmap";
    for (value, what) in [("rocksdbb", "nothing is known under the name"), ("rocksdb", "is not part of this build")] {
        let env = unset("misspelled");
        env.configure(Configuration::from([("state.backend", value)]));
        let error = refusal(&env);
        assert!(error.starts_with("the configuration cannot be used: state.backend: "), "{error}");
        for part in [what, value, valid] {
            assert!(error.contains(part), "{error}");
        }
    }
}

/// Field case: R105.
#[test]
fn filesystem_without_a_directory_is_refused_with_the_missing_option() {
    let env = unset("homeless");
    env.configure(Configuration::from([("state.backend", "filesystem")]));
    assert_eq!(
        refusal(&env),
        "the configuration cannot be used: execution.checkpointing.dir is not set, and `state.backend: filesystem` needs it"
    );
}

/// Contract: U350.
#[test]
fn a_directory_that_cannot_be_used_is_refused_with_its_option_and_the_cause() {
    let env = unset("elsewhere");
    env.configure(Configuration::from([("state.checkpoints.dir", "s3://bucket/checkpoints")]));
    let error = refusal(&env);
    assert!(error.contains(r#"state.checkpoints.dir: "s3://bucket/checkpoints" cannot be used: "#), "{error}");
    assert!(error.contains(r#"has the scheme "s3""#), "{error}");
}

#[test]
fn the_configuration_of_the_job_counts_before_that_of_the_cluster() {
    let (_folder, of_cluster) = directory();
    let (_other, of_job) = directory();
    let env = unset("layered");
    env.set_cluster_configuration(Configuration::from([
        ("execution.checkpointing.dir", of_cluster.as_str()),
        ("execution.checkpointing.data-inline-threshold", "0"),
    ]));
    env.configure(Configuration::from([("state.checkpoints.dir", &of_job)]));
    run_to_a_checkpoint(&env);
    assert!(!Path::new(&of_cluster).exists());
    assert_eq!(state_files(&of_job, "layered"), OBJECTS, "the threshold is that of the cluster");
}

/// Contract: U352.
#[test]
fn a_backend_set_by_code_counts_before_every_configuration() {
    let (_folder, unused) = directory();
    let (_other, used) = directory();
    let env = unset("by-code");
    let configured = Configuration::from([("state.backend", "rocksdbb"), ("execution.checkpointing.dir", &unused)]);
    env.configure(configured.clone()).set_cluster_configuration(configured);
    env.set_state_backend(FsStateBackend::new(&used).unwrap());
    run(&env);
    assert!(Path::new(&used).join("by-code/log").is_dir());
    assert!(!Path::new(&unused).exists());
}

/// Contract: U352.
#[test]
fn what_a_backend_set_by_code_left_open_comes_from_the_cluster_alone() {
    let no_inline = Configuration::from([("state.backend.fs.memory-threshold", "0")]);
    let (_folder, directory) = directory();
    let preset = || FsStateBackend::new(&directory).unwrap();

    let env = unset("from-the-cluster");
    env.set_cluster_configuration(no_inline.clone()).set_state_backend(preset());
    run_to_a_checkpoint(&env);
    assert_eq!(state_files(&directory, "from-the-cluster"), OBJECTS);

    let env = unset("not-from-the-job");
    env.configure(no_inline.clone()).set_state_backend(preset());
    run_to_a_checkpoint(&env);
    assert!(state_files(&directory, "not-from-the-job").is_empty());

    let env = unset("not-left-open");
    env.set_cluster_configuration(no_inline);
    env.set_state_backend(preset().with_inline_bytes_max(1 << 20).unwrap());
    run_to_a_checkpoint(&env);
    assert!(state_files(&directory, "not-left-open").is_empty());

    let env = unset("refused");
    env.set_cluster_configuration(Configuration::from([("execution.checkpointing.data-inline-threshold", "2 mb")]));
    env.set_state_backend(preset());
    assert!(refusal(&env).contains("expected a size from 0 to 1 mb"));
}

#[test]
fn what_is_not_set_by_code_is_found_by_name() {
    let (_folder, directory) = directory();
    let env = unset("half-set");
    env.configure(Configuration::from([("state.backend", "rocksdb"), ("execution.checkpointing.dir", &directory)]));
    env.set_keyed_state_backend(HeapStateBackend::new());
    run(&env);
    assert!(Path::new(&directory).join("half-set/log").is_dir());

    let env = unset("other-half");
    env.configure(Configuration::from([("state.backend", "hashmap"), ("state.checkpoint-storage", "s4")]));
    env.set_checkpoint_storage(Arc::new(MemoryCheckpointStorage::new()));
    run(&env);
}

#[test]
fn a_job_with_synchronous_snapshots_goes_on() {
    let (_folder, directory) = directory();
    let records = CollectedRecords::default();
    let start = |pace| {
        let env = unset("synchronous");
        let settings = [("execution.checkpointing.dir", directory.as_str()), ("state.backend.async", "false")];
        env.configure(Configuration::from(settings));
        env.enable_checkpointing(std::time::Duration::from_millis(10));
        count(&env, 2_000, pace, &records, |_| Ok(()));
        env.execute_async().unwrap()
    };
    let handle = start(Some(Pace::up_to(1_000)));
    wait_for_checkpoints(&handle, 1);
    handle.cancel();
    assert!(handle.wait().is_err());
    let result = start(None).wait().unwrap();
    assert!(result.status.restored_from.is_some());
    assert_counted(&records, 2_000);
}
