//! Which case of the conformance suites holds for which backend, storage and sink, and which wrong ones the cases catch.
//!
//! ```text
//! cargo run --release --example conformance
//! ```
//!
//! The tables come from running the cases as values; tests are made of the same cases by macros. The exit code says
//! whether every right implementation passes and every wrong one is caught by the case that is meant to.

#![allow(clippy::print_stdout, reason = "the tables are for the person who ran it")]

#[path = "../custom_backend/backend.rs"]
mod backend;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use backend::BTreeStateBackend;
use highwater::connectors::{CollectSink, CollectedRecords, FileSink};
use highwater::{FileSystemCheckpointStorage, FsStateBackend, MemoryCheckpointStorage, MemoryStateBackend};
use highwater_conformance::keyed::{self, BackendUnderTest};
use highwater_conformance::sink::{self, SinkUnderTest};
use highwater_conformance::storage::{self, StorageUnderTest};
use highwater_conformance::wrong::{Cases, hunt_backends, hunt_sinks, hunt_storages};
use highwater_conformance::{
    Faults, FaultyStorage, ReferenceBackend, ReferenceDisk, ReferenceSink, ReferenceStorage, ReferenceTarget,
};
use table::{Column, Hunts, Table};

fn main() -> Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let heap_with_files = FsStateBackend::new(folder.path())?;
    let backends = Table {
        title: "state backends",
        columns: vec![
            Column::of("memory", keyed::run_all(&|| BackendUnderTest::of(MemoryStateBackend::new()))),
            Column::of("fs", keyed::run_all(&|| BackendUnderTest::of(heap_with_files.clone()))),
            Column::of("custom", keyed::run_all(&|| BTreeStateBackend.into())),
            Column::of("custom/faults", keyed::run_all(&|| BackendUnderTest::behind_faults(BTreeStateBackend))),
            Column::of("reference", keyed::run_all(&|| BackendUnderTest::behind_faults(ReferenceBackend))),
        ],
    };
    let storages = Table {
        title: "checkpoint storages",
        columns: vec![
            Column::of("memory", storage::run_all(&|| StorageUnderTest::new(MemoryCheckpointStorage::new()))),
            Column::of("memory/faults", storage::run_all(&memory_behind_faults)),
            Column::of("fs", storage::run_all(&|| files(folder.path().join("storage")))),
            Column::of("reference", storage::run_all(&reference)),
        ],
    };
    let sinks = Table {
        title: "sinks",
        columns: vec![
            Column::of("file", sink::run_all(&file_sink)),
            Column::of("collect", sink::run_all(&collect_sink)),
            Column::of("reference", sink::run_all(&reference_sink)),
        ],
    };
    let wrong_backends = Hunts { title: "wrong backends", hunts: hunt_backends(Cases::All) };
    let wrong_storages = Hunts { title: "wrong storages", hunts: hunt_storages(Cases::All) };
    let wrong_sinks = Hunts { title: "wrong sinks", hunts: hunt_sinks(Cases::All) };

    println!("built for {}\n", if cfg!(debug_assertions) { "development" } else { "release" });
    print!("{backends}\n{storages}\n{sinks}\n{wrong_backends}\n{wrong_storages}\n{wrong_sinks}");
    let is_ok = [&backends, &storages, &sinks].into_iter().all(Table::is_ok)
        && [&wrong_backends, &wrong_storages, &wrong_sinks].into_iter().all(Hunts::is_ok);
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The memory storage has nothing beneath it that could fail: the faults are before it.
fn memory_behind_faults() -> StorageUnderTest {
    let faults = Faults::default();
    StorageUnderTest::new(FaultyStorage::new(Arc::new(MemoryCheckpointStorage::new()), faults.clone()))
        .with_outage(move |lasts| faults.set_outage(lasts))
}

/// Files in an empty folder, which is gone during an outage.
fn files(folder: PathBuf) -> StorageUnderTest {
    let gone = folder.with_extension("gone");
    for old in [&folder, &gone] {
        if old.exists() {
            fs::remove_dir_all(old).expect("what a case has written can be removed");
        }
    }
    let root = folder.clone();
    let open = move || FileSystemCheckpointStorage::new(&root).expect("a folder of our own can be used");
    StorageUnderTest::reopened_by(open).with_outage(move |lasts| {
        let (from, to) = if lasts { (&folder, &gone) } else { (&gone, &folder) };
        fs::rename(from, to).expect("a folder of our own can be renamed");
    })
}

fn reference() -> StorageUnderTest {
    let (disk, faults) = (ReferenceDisk::default(), Faults::default());
    let set_outage = faults.clone();
    StorageUnderTest::reopened_by(move || FaultyStorage::new(Arc::new(ReferenceStorage::on(&disk)), faults.clone()))
        .with_outage(move |lasts| set_outage.set_outage(lasts))
}

/// Files in a directory of their own, which is gone during an outage.
fn file_sink() -> SinkUnderTest {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (out, gone) = (folder.path().join("out"), folder.path().join("gone"));
    let (visible, uncommitted, taken) = (out.clone(), out.clone(), out.clone());
    SinkUnderTest::new(move || FileSink::lines::<String>(&out), move || lines_of(&names(&visible, "part-")))
        .with_uncommitted(move || names(&uncommitted, ".part-").len())
        .with_outage(move |lasts| {
            let (from, to) = if lasts { (&taken, &gone) } else { (&gone, &taken) };
            fs::rename(from, to).expect("a folder of our own can be renamed");
        })
        .keeping(folder)
}

fn names(folder: &Path, beginning: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the sink has made its directory");
    let paths = entries.map(|entry| entry.expect("a folder of our own can be read").path());
    let begins = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    paths.filter(begins).collect()
}

fn lines_of(files: &[PathBuf]) -> Vec<String> {
    let texts = files.iter().map(|file| fs::read_to_string(file).expect("what is committed can be read"));
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Its target is its own memory, which never fails, and it leaves nothing behind.
fn collect_sink() -> SinkUnderTest {
    let records = CollectedRecords::<String>::default();
    let visible = records.clone();
    SinkUnderTest::new(move || CollectSink::new(records.clone()), move || visible.to_vec())
}

fn reference_sink() -> SinkUnderTest {
    let target = ReferenceTarget::default();
    let (visible, uncommitted, outage) = (target.clone(), target.clone(), target.clone());
    SinkUnderTest::new(move || ReferenceSink::on(&target), move || visible.visible())
        .with_uncommitted(move || uncommitted.uncommitted())
        .with_outage(move |lasts| outage.set_outage(lasts))
}
