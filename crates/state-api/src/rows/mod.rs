//! The row tier: typed state in rows and columns.

pub(crate) mod column;

/// The typed rows of one keyed state.
pub struct TypedRows {}
