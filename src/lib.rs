//! Highwater: stateful stream processing that survives anything.
