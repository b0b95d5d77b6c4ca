//! The operations of a checkpoint storage, as a name for each.

use std::fmt;

/// An operation of a checkpoint storage or of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `CheckpointStorage::initialize_location`.
    InitializeLocation,
    /// `CheckpointStorage::create`.
    Create,
    /// `StateUpload::write`.
    Write,
    /// `StateUpload::finish`.
    Finish,
    /// An upload was dropped before it was finished. Never fails.
    Abandon,
    /// `CheckpointStorage::create_if_absent`.
    CreateIfAbsent,
    /// `CheckpointStorage::read`.
    Read,
    /// `CheckpointStorage::read_range`.
    ReadRange,
    /// `CheckpointStorage::list`.
    List,
    /// `CheckpointStorage::list_folders`.
    ListFolders,
    /// `CheckpointStorage::delete`.
    Delete,
    /// `CheckpointStorage::delete_folder`.
    DeleteFolder,
}

impl Operation {
    /// Every operation.
    pub const ALL: &[Self] = &[
        Self::InitializeLocation,
        Self::Create,
        Self::Write,
        Self::Finish,
        Self::Abandon,
        Self::CreateIfAbsent,
        Self::Read,
        Self::ReadRange,
        Self::List,
        Self::ListFolders,
        Self::Delete,
        Self::DeleteFolder,
    ];

    /// The operation as a verb.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InitializeLocation => "initialize location",
            Self::Create => "create",
            Self::Write => "write",
            Self::Finish => "finish",
            Self::Abandon => "abandon",
            Self::CreateIfAbsent => "create if absent",
            Self::Read => "read",
            Self::ReadRange => "read range",
            Self::List => "list",
            Self::ListFolders => "list folders",
            Self::Delete => "delete",
            Self::DeleteFolder => "delete folder",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
