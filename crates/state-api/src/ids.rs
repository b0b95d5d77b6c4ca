//! Identities. None of them is a bare number or a bare name where it could be mistaken for another.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a checkpoint within a job. First is 1.
///
/// The ids of complete checkpoints strictly increase over all attempts of the job. An attempt that dies may have used
/// ids of which nothing is left, and its successor may use them again: attempt and id together are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId(pub u64);

impl CheckpointId {
    /// The id that follows.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of one execution of a job: every start and every restart is a new attempt.
///
/// It is the sequence number of the attempt's claim in the job log, so no two attempts of a job ever share it and a
/// later attempt always has the larger number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt(pub u64);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The name under which a job resumes.
///
/// Letters, digits, `-`, `_` and `.`, 1 to 128 bytes, not starting with a dot: the name is a path segment in every
/// checkpoint storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobName(String);

/// A name that a path segment or an identity cannot be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} is not usable: expected 1 to 128 of the characters A-Z a-z 0-9 - _ . and no dot at the start")]
pub struct InvalidName {
    what: &'static str,
    name: String,
}

fn checked(what: &'static str, name: String) -> Result<String, InvalidName> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 128 || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(InvalidName { what, name });
    }
    Ok(name)
}

impl JobName {
    /// Takes a name, or says why it cannot be one.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
        checked("job name", name.into()).map(Self)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The stable identity of an operator within a job: what the user gave to `.uid(...)`.
///
/// State finds its operator through it after any change of the job. Same characters as [`JobName`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperatorUid(String);

impl OperatorUid {
    /// Takes a uid, or says why it cannot be one.
    pub fn new(uid: impl Into<String>) -> Result<Self, InvalidName> {
        checked("operator uid", uid.into()).map(Self)
    }

    /// The uid as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! name_conversions {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    )*};
}
name_conversions!(JobName, OperatorUid);

/// One parallel instance of a task: the task's index in the job graph and the subtask's index within it, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubtaskId {
    /// Index of the task in the job graph.
    pub task: u32,
    /// Index of the subtask within the task, from 0.
    pub subtask: u32,
}

impl fmt::Display for SubtaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.task, self.subtask)
    }
}

/// Which of the subtasks of its operator a function runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskInfo {
    /// The subtask, from 0.
    pub subtask: u32,
    /// How many subtasks the operator has.
    pub parallelism: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_safe_path_segment() {
        for good in ["job", "large-spenders", "a.b_c-9"] {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\0", &"x".repeat(129)] {
            assert!(JobName::new(bad).is_err(), "{bad:?} was taken");
            assert!(OperatorUid::new(bad).is_err(), "{bad:?} was taken");
        }
    }
}
