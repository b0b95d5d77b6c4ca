//! A sorted map of bytes is a state backend.

mod support;

use highwater_conformance::keyed_backend_conformance;
use support::byte_backend::ByteBackend;

keyed_backend_conformance!(ByteBackend::default);
