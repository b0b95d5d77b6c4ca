//! All backends are used at random, and state moves from one to another: they behave like plain maps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

#[path = "../examples/custom_backend/backend.rs"]
mod backend;

use backend::BTreeStateBackend;
use highwater::state::BackendPairing;
use highwater::{FsStateBackend, MemoryStateBackend};
use highwater_conformance::keyed::check_against_plain_maps;

/// Contract: B47.
#[test]
fn every_backend_behaves_like_plain_maps() {
    let folder = tempfile::tempdir().unwrap();
    let memory = || BackendPairing::from(MemoryStateBackend::new()).state_backend;
    let fs = || BackendPairing::from(FsStateBackend::new(folder.path()).unwrap()).state_backend;
    check_against_plain_maps(&[&|| Box::new(memory()), &|| Box::new(fs()), &|| Box::new(BTreeStateBackend)], 10_000, 1);
}
