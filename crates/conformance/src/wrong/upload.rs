//! Uploads with a defect.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use highwater_state_api::{Checksum, ObjectPath, StateHandle, StateUpload, StorageError};

use super::storage::{Memory, StorageDefect};

/// An upload with a defect, around a right one.
pub(super) struct WrongUpload {
    memory: Arc<Memory>,
    path: ObjectPath,
    /// `None` once finished.
    right: Option<Box<dyn StateUpload>>,
    /// What was written so far.
    content: BytesMut,
    first_piece: Option<Bytes>,
    /// A piece that is still to be written.
    waiting: Option<Bytes>,
}

const FINISHED: &str = "an upload is finished only once, by value";

impl WrongUpload {
    pub(super) fn new(memory: Arc<Memory>, path: ObjectPath, right: Box<dyn StateUpload>) -> Self {
        let upload =
            Self { memory, path, right: Some(right), content: BytesMut::new(), first_piece: None, waiting: None };
        upload.show();
        upload
    }

    fn is(&self, defect: StorageDefect) -> bool {
        self.memory.defect == defect
    }

    /// Shows what there is so far.
    fn show(&self) {
        if self.is(StorageDefect::ShowsUnfinishedUploads) {
            self.memory.disk.contents().objects.insert(self.path.clone(), self.content.clone().freeze());
        }
    }

    async fn pass_on(&mut self, piece: Bytes) -> Result<(), StorageError> {
        self.right.as_mut().expect(FINISHED).write(piece).await
    }
}

#[async_trait]
impl StateUpload for WrongUpload {
    async fn write(&mut self, piece: Bytes) -> Result<(), StorageError> {
        self.first_piece.get_or_insert_with(|| piece.clone());
        self.content.extend_from_slice(&piece);
        self.show();
        match self.memory.defect {
            StorageDefect::KeepsTheLastPiece => {
                self.waiting = Some(piece);
                Ok(())
            }
            StorageDefect::RepeatsFailedPieces => {
                if let Some(failed) = self.waiting.take() {
                    self.pass_on(failed).await?;
                }
                let written = self.pass_on(piece.clone()).await;
                self.waiting = written.is_err().then_some(piece);
                written
            }
            _ => self.pass_on(piece).await,
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<StateHandle, StorageError> {
        if let Some(piece) = self.waiting.take() {
            self.pass_on(piece).await?;
        }
        if self.is(StorageDefect::DropsEmptyObjects) && self.content.is_empty() {
            self.right = None;
            return Ok(StateHandle::Object { path: self.path.clone(), length: 0, checksum: Checksum::of(b"") });
        }
        if self.is(StorageDefect::FinishOverwrites) || self.is(StorageDefect::ShowsUnfinishedUploads) {
            self.memory.disk.contents().objects.remove(&self.path);
        }
        let handle = self.right.take().expect(FINISHED).finish().await?;
        self.memory.published(&self.path);
        match handle {
            StateHandle::Object { path, length, .. } if self.is(StorageDefect::SumsUpTheFirstPiece) => {
                let checksum = Checksum::of(&self.first_piece.take().unwrap_or_default());
                Ok(StateHandle::Object { path, length, checksum })
            }
            handle => Ok(handle),
        }
    }
}

impl Drop for WrongUpload {
    fn drop(&mut self) {
        if self.is(StorageDefect::FinishesDroppedUploads) && self.right.is_some() {
            // When the path is taken, there is nobody left to tell.
            let _ = self.memory.disk.contents().insert(&self.path, self.content.split().freeze());
        }
    }
}
