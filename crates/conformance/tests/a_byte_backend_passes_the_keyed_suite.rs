//! A sorted map of bytes is a state backend.

mod support;

use highwater_conformance::backend_conformance;
use support::byte_backend::ByteBackend;

backend_conformance!(ByteBackend::default);
