//! Bricks for backend authors: heap state, operator state and timers.
