//! Sources with replay positions and sinks with two-phase commit.
