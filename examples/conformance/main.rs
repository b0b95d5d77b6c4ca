//! Which case of the conformance suites holds for which backend and storage, and which wrong ones the cases catch.
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use backend::BTreeStateBackend;
use highwater::{FileSystemCheckpointStorage, FsStateBackend, MemoryCheckpointStorage, MemoryStateBackend};
use highwater_conformance::keyed::{self, BackendUnderTest};
use highwater_conformance::storage::{self, StorageUnderTest};
use highwater_conformance::wrong::{Cases, hunt_backends, hunt_storages};
use highwater_conformance::{Faults, FaultyStorage, ReferenceBackend, ReferenceDisk, ReferenceStorage};
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
    let wrong_backends = Hunts { title: "wrong backends", hunts: hunt_backends(Cases::All) };
    let wrong_storages = Hunts { title: "wrong storages", hunts: hunt_storages(Cases::All) };

    println!("built for {}\n", if cfg!(debug_assertions) { "development" } else { "release" });
    print!("{backends}\n{storages}\n{wrong_backends}\n{wrong_storages}");
    let is_ok = backends.is_ok() && storages.is_ok() && wrong_backends.is_ok() && wrong_storages.is_ok();
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
