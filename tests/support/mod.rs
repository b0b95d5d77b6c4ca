//! What tests of whole jobs share: processes of the flights job, killed and started again.

pub(crate) mod flights;
