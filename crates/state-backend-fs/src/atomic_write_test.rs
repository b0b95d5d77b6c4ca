//! Tests of the order of writes and of what a failure leaves.
