//! What tests of whole jobs share: processes of the flights job, killed and started again.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod flights;
