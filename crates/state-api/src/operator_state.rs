//! Operator state in a snapshot: lists of elements that belong to a subtask and not to a key.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Schema;

/// How a list is handed out when the parallelism changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Redistribution {
    /// Every element goes to exactly one subtask.
    Split,
    /// Every element goes to every subtask.
    Union,
}

/// One named list of one subtask, as it stands in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorList {
    /// The name, unique within the operator.
    pub name: String,
    /// How it is handed out.
    pub redistribution: Redistribution,
    /// Schema of the elements.
    pub schema: Schema,
    /// The serialised elements, in order.
    pub elements: Vec<Bytes>,
}
