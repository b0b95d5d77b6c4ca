//! What it means to be a backend, a storage or a sink, as tests anyone can run on theirs.
//!
//! * [`backend_conformance!`] runs every case of [`keyed`] on a state backend.
//! * [`storage_conformance!`] runs every case of [`storage`] on a checkpoint storage.
//! * [`transactional_sink_conformance!`] runs every case of [`sink`] on a sink with two-phase commit.
//! * [`FaultyStorage`] and [`FaultyBackend`] fail on command, [`RecordingStorage`] tells what was asked of a storage.
//! * [`ReferenceBackend`], [`ReferenceStorage`] and [`ReferenceSink`] are the shortest right ones; [`wrong`] has many that
//!   are not, and names the case that catches each.
//!
//! A case is a plain function with a sentence for a name; it panics when the sentence is not true. Each suite has one
//! list of its cases, from which the macro makes one `#[test]` each.
//!
//! # For authors of backends
//!
//! This crate and `highwater-state-api` are all that it takes:
//!
//! ```toml
//! [dependencies]
//! highwater-state-api = { path = "../highwater/crates/state-api" } # where you have cloned it
//!
//! [dev-dependencies]
//! highwater-conformance = { path = "../highwater/crates/conformance" }
//! ```
//!
//! A file in `tests/`:
//!
//! ```
//! use highwater_conformance::keyed::BackendUnderTest;
//! use highwater_conformance::{ReferenceBackend, backend_conformance};
//!
//! // In the place of the reference: a new backend of yours.
//! backend_conformance!(|| BackendUnderTest::behind_faults(ReferenceBackend));
//! ```
//!
//! A failure must never pass for emptiness. The cases about that need a backend that fails on command: here a wrapper does
//! it in the place of yours. Without that, as in `backend_conformance!(ReferenceBackend::default)`, they do not apply, and
//! the test harness, which knows no other end of a test that has begun, counts them as passed. Run as values, they say so:
//! [`Verdict::PassedBy`]. The best outage is one of your own, such as a disk that is taken away:
//!
//! ```
//! use highwater_conformance::keyed::{self, BackendUnderTest};
//! use highwater_conformance::{FaultyBackend, Outage, ReferenceBackend, Verdict};
//!
//! fn backend() -> BackendUnderTest {
//!     let outage = Outage::default();
//!     let backend = FaultyBackend::new(ReferenceBackend, outage.clone());
//!     BackendUnderTest::from(backend).with_outage(move |lasts| outage.set(lasts))
//! }
//!
//! for trial in keyed::run_all(&backend) {
//!     assert_eq!(trial.verdict, Verdict::Passed, "{trial}");
//! }
//! ```
//!
//! The macro takes the same function: `backend_conformance!(backend)`. Storages are handed over in the same way, as a
//! [`StorageUnderTest`](storage::StorageUnderTest).
//!
//! # For authors of sinks
//!
//! The same with `highwater-stream-api`. What is handed over makes a new sink for the same target at each call, as a
//! restarted process would, and says what a reader of the target sees. An outage of the target, and a count of what is
//! left behind, make the last cases possible:
//!
//! ```
//! use highwater_conformance::sink::SinkUnderTest;
//! use highwater_conformance::{ReferenceSink, ReferenceTarget, transactional_sink_conformance};
//!
//! fn sink() -> SinkUnderTest {
//!     let target = ReferenceTarget::default(); // an empty directory, a topic of its own, …
//!     let (visible, uncommitted, outage) = (target.clone(), target.clone(), target.clone());
//!     SinkUnderTest::new(move || ReferenceSink::on(&target), move || visible.visible())
//!         .with_uncommitted(move || uncommitted.uncommitted())
//!         .with_outage(move |lasts| outage.set_outage(lasts))
//! }
//!
//! transactional_sink_conformance!(sink);
//! ```

mod faulty_backend;
mod faulty_storage;
pub mod keyed;
mod operation;
mod recording;
mod reference;
mod reference_sink;
mod reference_storage;
pub mod sink;
pub mod storage;
mod threads;
mod trial;
pub mod wrong;

pub use faulty_backend::{FaultyBackend, Outage};
pub use faulty_storage::{Fault, Faults, FaultyStorage, When};
pub use operation::Operation;
pub use recording::{RecordedCall, Recording, RecordingStorage};
pub use reference::ReferenceBackend;
pub use reference_sink::{ReferenceSink, ReferenceTarget, ReferenceTransaction, ReferenceWriter};
pub use reference_storage::{ReferenceDisk, ReferenceStorage};
pub use trial::{Trial, Verdict};
