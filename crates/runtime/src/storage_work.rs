//! Storage work: the coordinator's actions that are nothing but calls of the storage, as plain asynchronous code.

use bytes::Bytes;
use highwater_checkpoint::{
    Action, CheckpointMetadata, Discard, DiscardId, Event, HookState, decode_log_record, encode_log_record,
    encode_metadata_with_hooks, paths,
};
use highwater_state_api::{
    BoxedError, CheckpointId, CheckpointStorage, JobName, ObjectPath, StateHandle, StorageError,
};

use crate::error::chain_of;
use crate::failpoint;
use crate::fence::{Fence, FenceError};

/// Carries out an action that [`crate::Order::Store`] named, unless the fence says that another process has the job. Returns
/// the event that answers it, if it has an answer.
///
/// # Panics
/// When the action is not storage work.
pub async fn carry_out(storage: &dyn CheckpointStorage, job: &JobName, fence: &Fence, action: Action) -> Option<Event> {
    match action {
        Action::InitializeLocation { checkpoint, folder } => Some(match storage.initialize_location(&folder).await {
            Ok(()) => Event::LocationInitialized { checkpoint },
            Err(error) => Event::LocationFailed { checkpoint, cause: chain_of(&error) },
        }),
        Action::WriteMetadata { checkpoint, path, metadata, hooks } => {
            Some(match write_metadata(storage, &path, &metadata, &hooks).await {
                Ok(metadata) => {
                    tracing::info!(target: "highwater::checkpoint", %job, %checkpoint, "metadata written");
                    Event::MetadataWritten { checkpoint, metadata }
                }
                Err(error) => Event::MetadataFailed { checkpoint, cause: chain_of(&*error) },
            })
        }
        Action::AppendLog { sequence, record } => {
            failpoint::hit(failpoint::BEFORE_LOG_APPEND);
            let unknown = |cause| warned(job, Event::LogUnknown { sequence, cause });
            let content = match encode_log_record(&record) {
                Ok(content) => Bytes::from(content),
                Err(error) => return Some(unknown(chain_of(&error))),
            };
            // The fence is not asked: the number is the question, and creating the record answers it.
            let begun = fence.now();
            Some(match storage.create_if_absent(&paths::log_record(job, sequence), content).await {
                Ok(()) => {
                    fence.appended(sequence, begun);
                    Event::LogAppended { sequence }
                }
                Err(StorageError::AlreadyExists { .. }) => Event::LogTaken { sequence },
                Err(error) => unknown(chain_of(&error)),
            })
        }
        Action::ReadLog { sequence } => {
            let failed = |cause| warned(job, Event::LogReadFailed { sequence, cause });
            Some(match storage.read(&paths::log_record(job, sequence)).await {
                Ok(bytes) => match decode_log_record(&bytes) {
                    Ok(record) => {
                        fence.found(sequence, &record);
                        Event::LogRead { sequence, record: Some(record) }
                    }
                    Err(error) => failed(chain_of(&error)),
                },
                Err(StorageError::NotFound { .. }) => Event::LogRead { sequence, record: None },
                Err(error) => failed(chain_of(&error)),
            })
        }
        Action::Discard { id, discard } => Some(match delete_if_allowed(storage, job, fence, &discard).await {
            Ok(()) => Event::Discarded { id },
            Err(NotDeleted::Fence(FenceError::Fenced { sequence })) => Event::Fenced { sequence },
            Err(error) => {
                let error = chain_of(&error);
                tracing::warn!(target: "highwater::checkpoint", %job, %discard, error, "a clean-up failed and will be tried again");
                Event::DiscardFailed { id }
            }
        }),
        other => unreachable!("{other:?} is not storage work"),
    }
}

/// Why something is not known to be deleted.
#[derive(Debug, thiserror::Error)]
enum NotDeleted {
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

async fn delete_if_allowed(
    storage: &dyn CheckpointStorage,
    job: &JobName,
    fence: &Fence,
    discard: &Discard,
) -> Result<(), NotDeleted> {
    let mut result = Ok(());
    for discard in discard.each() {
        tracing::debug!(target: "highwater::effect", %job, %discard, "about to delete");
        fence.check().await?;
        match delete(storage, &discard).await {
            Ok(()) => tracing::debug!(target: "highwater::effect", %job, %discard, "deleted"),
            // One that cannot be deleted does not keep the others.
            Err(error) => result = result.and(Err(error.into())),
        }
    }
    result
}

/// Deletes what is there of it, up to the first that cannot be deleted. What is not there was deleted before.
pub(crate) async fn delete(storage: &dyn CheckpointStorage, discard: &Discard) -> Result<(), StorageError> {
    match discard {
        Discard::Folder(folder) => storage.delete_folder(folder).await,
        Discard::Objects(paths) => {
            for path in paths {
                storage.delete(path).await?;
            }
            Ok(())
        }
    }
}

/// Makes the event that answers an action whose work came to an unexpected end, if the action has an answer.
pub(crate) fn answer_of_failure(job: &JobName, action: &Action) -> impl FnOnce(String) -> Option<Event> + Send + use<> {
    enum Failed {
        Location(CheckpointId),
        Metadata(CheckpointId),
        Append(u64),
        Read(u64),
        Discard(DiscardId),
    }
    let failed = match action {
        Action::InitializeLocation { checkpoint, .. } => Some(Failed::Location(*checkpoint)),
        Action::WriteMetadata { checkpoint, .. } => Some(Failed::Metadata(*checkpoint)),
        Action::AppendLog { sequence, .. } => Some(Failed::Append(*sequence)),
        Action::ReadLog { sequence } => Some(Failed::Read(*sequence)),
        Action::Discard { id, .. } => Some(Failed::Discard(*id)),
        _ => None,
    };
    let job = job.clone();
    move |cause| {
        let job = &job;
        Some(match failed? {
            Failed::Location(checkpoint) => Event::LocationFailed { checkpoint, cause },
            Failed::Metadata(checkpoint) => Event::MetadataFailed { checkpoint, cause },
            Failed::Append(sequence) => warned(job, Event::LogUnknown { sequence, cause }),
            Failed::Discard(id) => Event::DiscardFailed { id },
            Failed::Read(sequence) => warned(job, Event::LogReadFailed { sequence, cause }),
        })
    }
}

async fn write_metadata(
    storage: &dyn CheckpointStorage,
    path: &ObjectPath,
    metadata: &CheckpointMetadata,
    hooks: &[HookState],
) -> Result<StateHandle, BoxedError> {
    let content = encode_metadata_with_hooks(metadata, hooks)?;
    let mut upload = storage.create(path).await?;
    upload.write(Bytes::from(content)).await?;
    Ok(upload.finish().await?)
}

/// Tells people that the job log does not work. It is tried again, and nobody else says why nothing completes meanwhile.
fn warned(job: &JobName, event: Event) -> Event {
    match &event {
        Event::LogUnknown { sequence, cause } => {
            tracing::warn!(target: "highwater::checkpoint", %job, sequence, cause, "whether a log record was appended is unknown");
        }
        Event::LogReadFailed { sequence, cause } => {
            tracing::warn!(target: "highwater::checkpoint", %job, sequence, cause, "a log record cannot be read");
        }
        _ => {}
    }
    event
}

#[cfg(test)]
#[path = "storage_work_test.rs"]
mod storage_work_test;
