//! A record of the job log as a file. Defined in `docs/format/job-log.md`.

use highwater_state_api::ObjectPath;
use highwater_state_api::StateHandle;

use crate::LogRecord;
use crate::envelope::{self, FileKind, FormatError};

/// The first version that has `Dropped` records. Everything else is written as version 1, so that an earlier release can go
/// on with a log in which there is none.
const VERSION_OF_DROPPED: u32 = 2;

/// The bytes of a record.
pub fn encode_log_record(record: &LogRecord) -> Result<Vec<u8>, FormatError> {
    let version = if matches!(record, LogRecord::Dropped { .. }) { VERSION_OF_DROPPED } else { 1 };
    envelope::encode_as(version, FileKind::LogRecord, record)
}

/// The record in these bytes, all of which must belong to it.
pub fn decode_log_record(file: &[u8]) -> Result<LogRecord, FormatError> {
    let file = envelope::open(FileKind::LogRecord, file)?;
    let record: LogRecord = file.payload()?;
    if matches!(record, LogRecord::Dropped { .. }) && file.version < VERSION_OF_DROPPED {
        let reason = format!("version {} has no record that drops checkpoints", file.version);
        return Err(FormatError::Invalid { kind: FileKind::LogRecord, reason });
    }
    if let LogRecord::Completed { metadata, .. } = &record {
        check_handle(metadata).map_err(|reason| FormatError::Invalid { kind: FileKind::LogRecord, reason })?;
    }
    Ok(record)
}

/// A path from outside is checked before anything is read, let alone deleted, under it.
pub(crate) fn check_handle(handle: &StateHandle) -> Result<(), String> {
    match handle.object() {
        Some(path) if ObjectPath::parse(path.as_str()).is_none() => {
            Err(format!("{:?} is no path of an object", path.as_str()))
        }
        _ => Ok(()),
    }
}
