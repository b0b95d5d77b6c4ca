//! A record of the job log as a file. Defined in `docs/format/job-log.md`.

use highwater_state_api::ObjectPath;
use highwater_state_api::StateHandle;

use crate::LogRecord;
use crate::envelope::{self, FileKind, FormatError};

/// The bytes of a record.
pub fn encode_log_record(record: &LogRecord) -> Result<Vec<u8>, FormatError> {
    envelope::encode(FileKind::LogRecord, record)
}

/// The record in these bytes, all of which must belong to it.
pub fn decode_log_record(file: &[u8]) -> Result<LogRecord, FormatError> {
    let record: LogRecord = envelope::open(FileKind::LogRecord, file)?.payload()?;
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
