//! All backends are used at random, and state moves from one to another: they behave like plain maps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

#[path = "../examples/custom_backend/backend.rs"]
mod backend;

use backend::BTreeStateBackend;
use highwater::{FsStateBackend, MemoryStateBackend};
use highwater_conformance::keyed::{BackendUnderTest, check_against_plain_maps};

/// Contract: A6, A9, A15, A30, B47, F128.
#[test]
fn every_backend_behaves_like_plain_maps() {
    let folder = tempfile::tempdir().unwrap();
    let memory = || BackendUnderTest::of(MemoryStateBackend::new());
    let synchronous = || BackendUnderTest::of(MemoryStateBackend::new().with_asynchronous_snapshots(false));
    let fs = || BackendUnderTest::of(FsStateBackend::new(folder.path()).unwrap());
    let bytes = || BackendUnderTest::from(BTreeStateBackend);
    check_against_plain_maps(&[&memory, &synchronous, &fs, &bytes], 10_000, 1);
}
