//! Where the files of a job are: names of log records, checkpoint folders and state objects, made and read back.
//!
//! The layout is defined in `docs/format/README.md`. A checkpoint's folder carries the attempt beside the id: a process
//! that does not know yet that it is fenced may go on with the same ids as its successor, and what it writes or deletes
//! must never be the successor's.

use highwater_state_api::{Attempt, CheckpointId, JobName, ObjectPath, OperatorUid};

const LOG: &str = "log";
const LEASE: &str = "lease";
const CHECKPOINT_PREFIX: &str = "chk-";
/// Decimal digits of a record's number: enough for every `u64`, so that names sort as numbers do.
const SEQUENCE_DIGITS: usize = 20;
/// Name of the metadata within the folder of its checkpoint. No operator can have it: see [`StateObject`].
pub const METADATA_NAME: &str = "_metadata";

/// The folder of everything that a job keeps.
pub fn job_folder(job: &JobName) -> ObjectPath {
    ObjectPath::new([job.as_str()])
}

/// The folder of the job log.
pub fn log_folder(job: &JobName) -> ObjectPath {
    ObjectPath::new([job.as_str(), LOG])
}

/// The record of the job log with this number.
pub fn log_record(job: &JobName, sequence: u64) -> ObjectPath {
    log_folder(job).join(&format!("{sequence:0SEQUENCE_DIGITS$}"))
}

/// The folder of the renewals of leases.
pub fn lease_folder(job: &JobName) -> ObjectPath {
    ObjectPath::new([job.as_str(), LEASE])
}

/// The renewal with this number of an attempt's lease.
pub fn lease_renewal(job: &JobName, attempt: Attempt, renewal: u64) -> ObjectPath {
    lease_folder(job).join(&format!("{:0SEQUENCE_DIGITS$}-{renewal:0SEQUENCE_DIGITS$}", attempt.0))
}

/// The attempt whose lease `path` renews; `None` when it is no renewal.
pub fn renewing_attempt(job: &JobName, path: &ObjectPath) -> Option<Attempt> {
    let (attempt, renewal) = below(&lease_folder(job), path)?.split_once('-')?;
    let is_number = |digits: &str| digits.len() == SEQUENCE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(attempt) && is_number(renewal)).then(|| attempt.parse().ok().map(Attempt))?
}

/// The folder of a checkpoint.
pub fn checkpoint_folder(job: &JobName, attempt: Attempt, checkpoint: CheckpointId) -> ObjectPath {
    job_folder(job).join(&format!("{CHECKPOINT_PREFIX}{checkpoint}-{attempt}"))
}

/// The metadata of a checkpoint.
pub fn checkpoint_metadata(job: &JobName, attempt: Attempt, checkpoint: CheckpointId) -> ObjectPath {
    checkpoint_folder(job, attempt, checkpoint).join(METADATA_NAME)
}

/// The keyed state that one operator of one subtask writes for a checkpoint.
pub fn state_object(
    job: &JobName,
    attempt: Attempt,
    checkpoint: CheckpointId,
    operator: &OperatorUid,
    subtask: u32,
) -> ObjectPath {
    checkpoint_folder(job, attempt, checkpoint).join(&StateObject::Keyed.name(operator, subtask))
}

/// What one operator of one subtask writes for a checkpoint: each an object of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateObject {
    /// Keyed state.
    Keyed,
    /// Raw keyed state.
    RawKeyed,
    /// Operator state.
    Operator,
}

impl StateObject {
    /// The object's name within the folder of its checkpoint.
    ///
    /// The last `-` in it divides the uid from the rest; the metadata's name has none.
    pub fn name(self, operator: &OperatorUid, subtask: u32) -> String {
        match self {
            Self::Keyed => format!("{operator}-{subtask}"),
            Self::RawKeyed => format!("{operator}-{subtask}.raw"),
            Self::Operator => format!("{operator}-{subtask}.operator"),
        }
    }
}

/// The number of a record of the job log; `None` when `path` is not one.
pub fn sequence_of(job: &JobName, path: &ObjectPath) -> Option<u64> {
    let name = below(&log_folder(job), path)?;
    let is_name = name.len() == SEQUENCE_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    is_name.then(|| name.parse().ok())?
}

/// The checkpoint in whose folder `path` lies, or which has `path` as its folder; `None` when there is none.
pub fn checkpoint_of(job: &JobName, path: &ObjectPath) -> Option<(CheckpointId, Attempt)> {
    let folder = below(&job_folder(job), path)?.split('/').next()?;
    let (checkpoint, attempt) = folder.strip_prefix(CHECKPOINT_PREFIX)?.split_once('-')?;
    Some((CheckpointId(number(checkpoint)?), Attempt(number(attempt)?)))
}

/// The largest id of which a folder is among `paths`, be the checkpoint complete, failed or unfinished.
pub fn highest_checkpoint<'a>(job: &JobName, paths: impl IntoIterator<Item = &'a ObjectPath>) -> Option<CheckpointId> {
    paths.into_iter().filter_map(|path| checkpoint_of(job, path)).map(|(checkpoint, _)| checkpoint).max()
}

fn below<'a>(folder: &ObjectPath, path: &'a ObjectPath) -> Option<&'a str> {
    path.is_under(folder).then(|| &path.as_str()[folder.as_str().len() + 1..])
}

/// A number exactly as we write it: no sign, no leading zero.
fn number(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobName {
        JobName::new("flights").unwrap()
    }

    fn path(text: &str) -> ObjectPath {
        ObjectPath::parse(text).unwrap()
    }

    /// Contract: T337.
    #[test]
    fn paths_are_those_of_the_format_text() {
        let uid = OperatorUid::new("per-carrier").unwrap();
        let (attempt, checkpoint) = (Attempt(4), CheckpointId(17));
        assert_eq!(log_record(&job(), 23).as_str(), "flights/log/00000000000000000023");
        assert_eq!(log_record(&job(), u64::MAX).as_str(), "flights/log/18446744073709551615");
        let renewal = "flights/lease/00000000000000000004-00000000000000000009";
        assert_eq!(lease_renewal(&job(), attempt, 9).as_str(), renewal);
        assert_eq!(checkpoint_folder(&job(), attempt, checkpoint).as_str(), "flights/chk-17-4");
        assert_eq!(checkpoint_metadata(&job(), attempt, checkpoint).as_str(), "flights/chk-17-4/_metadata");
        assert_eq!(state_object(&job(), attempt, checkpoint, &uid, 3).as_str(), "flights/chk-17-4/per-carrier-3");
        assert_eq!(StateObject::RawKeyed.name(&uid, 3), "per-carrier-3.raw");
        assert_eq!(StateObject::Operator.name(&uid, 3), "per-carrier-3.operator");
    }

    #[test]
    fn what_was_made_can_be_read_back() {
        for sequence in [0, 1, 23, u64::MAX] {
            assert_eq!(sequence_of(&job(), &log_record(&job(), sequence)), Some(sequence));
        }
        let id = (CheckpointId(17), Attempt(4));
        assert_eq!(checkpoint_of(&job(), &checkpoint_folder(&job(), id.1, id.0)), Some(id));
        assert_eq!(checkpoint_of(&job(), &checkpoint_metadata(&job(), id.1, id.0)), Some(id));
        assert_eq!(renewing_attempt(&job(), &lease_renewal(&job(), id.1, 7)), Some(id.1));
        assert_eq!(renewing_attempt(&job(), &log_record(&job(), 7)), None);
        assert_eq!(renewing_attempt(&job(), &path("flights/lease/4-7")), None);
        assert_eq!(highest_checkpoint(&job(), []), None);
        let listed = [path("flights/chk-9-1/_metadata"), path("flights/chk-10-1/a-0"), path("flights/log/x")];
        assert_eq!(highest_checkpoint(&job(), &listed), Some(CheckpointId(10)));
    }

    #[test]
    fn foreign_names_are_not_taken_for_ours() {
        for text in [
            "flights/log/23",
            "flights/log/0000000000000000002x",
            "flights/log/99999999999999999999",
            "flights/log/00000000000000000023/deeper",
            "flights/log",
            "other/log/00000000000000000023",
        ] {
            assert_eq!(sequence_of(&job(), &path(text)), None, "{text}");
        }
        for text in [
            "flights",
            "flights/chk-",
            "flights/chk-17",
            "flights/chk-17-",
            "flights/chk-017-4",
            "flights/chk-+17-4",
            "flights/chk-17-4-1",
            "flights/chk-x-4",
            "other/chk-17-4",
        ] {
            assert_eq!(checkpoint_of(&job(), &path(text)), None, "{text}");
        }
    }
}
