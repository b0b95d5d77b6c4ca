//! The guard against values that do not survive being written and read again.

use crate::{Serializer, StateError};

/// The first writes are all checked: what is wrong with a type often shows in some of its values only.
const FIRST_CHECKED: u32 = 1024;

/// Fewer of them where the values are large, so that a task with large values is not held up when it starts.
const FIRST_CHECKED_BYTES: usize = 16 << 20;

/// Of this many later writes one is checked.
const WRITES_A_CHECK: u32 = 4096;

/// Decides which of many writes of one kind are checked, whether what was written can be read again: the first 1,024, fewer
/// if they are large, and then one in 4,096. Elements and values of state are guarded by it, and whatever else a runtime
/// writes and reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundTrip {
    /// So many writes pass by before the next check.
    unchecked: u32,
    checked: u32,
    checked_bytes: usize,
}

impl RoundTrip {
    /// Whether the next write is to be checked.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.unchecked == 0
    }

    /// Counts a write, and checks it if it is its turn. A write that fails its check is not counted, so that the next is
    /// checked as well. `check` returns how many bytes were written.
    ///
    /// # Errors
    /// That of `check`.
    #[inline]
    pub fn check<E>(&mut self, check: impl FnOnce() -> Result<usize, E>) -> Result<(), E> {
        if self.is_due() {
            let bytes = check()?;
            self.count_checked(bytes);
        } else {
            self.pass();
        }
        Ok(())
    }

    /// Counts a write that is not due.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.unchecked -= 1;
    }

    #[cold]
    fn count_checked(&mut self, bytes: usize) {
        self.checked = self.checked.saturating_add(1);
        self.checked_bytes = self.checked_bytes.saturating_add(bytes);
        let is_early = self.checked < FIRST_CHECKED && self.checked_bytes < FIRST_CHECKED_BYTES;
        self.unchecked = if is_early { 0 } else { WRITES_A_CHECK - 1 };
    }
}

/// Where it often comes from that a value is not read as it was written.
const UNREADABLE: &str = "every field has to be written: is there a `skip_serializing_if` in it?";

/// Where it often comes from that a value is written in two ways.
const UNEQUAL: &str =
    "equal values must write equal bytes: is there a HashMap or HashSet in it, or a `skip_serializing_if`?";

/// Where it often comes from that two keys are written as one.
const LEFT_OUT: &str = "are two keys written as the same bytes, as with a `serde(skip)` in them?";

/// Writes, reads and writes a value of state `state`, and compares the bytes. Returns how many they are.
pub(crate) fn check_round_trip<T>(state: &str, serializer: &dyn Serializer<T>, value: &T) -> Result<usize, StateError> {
    let error = |source| StateError::Serializer { state: state.to_owned(), source };
    let differs = |reason: String| StateError::NotRoundTrip { state: state.to_owned(), reason };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    serializer.serialize(value, &mut first).map_err(error)?;
    let read = serializer.deserialize(&first);
    let read = read.map_err(|cause| differs(format!("what was written cannot be read: {cause}; {UNREADABLE}")))?;
    serializer.serialize(&read, &mut second).map_err(error)?;
    if first == second {
        return Ok(first.len());
    }
    let equal = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
    Err(differs(format!(
        "written again after reading, its {} bytes become {} and differ from byte {equal} on; {UNEQUAL}",
        first.len(),
        second.len()
    )))
}

/// Both checks of a map key of state `state`. Returns how many bytes it has.
pub(crate) fn check_map_key<K: PartialEq>(
    state: &str,
    serializer: &dyn Serializer<K>,
    map_key: &K,
) -> Result<usize, StateError> {
    check_round_trip(state, serializer, map_key)?;
    check_key(serializer, map_key).map_err(map_key_error(state))
}

/// Names the state in what is wrong with a map key.
pub(crate) fn map_key_error(state: &str) -> impl FnOnce(String) -> StateError {
    |reason| StateError::NotRoundTrip { state: state.to_owned(), reason: format!("a map key: {reason}") }
}

/// Says of what something is wrong with: a key, or a namespace.
pub(crate) fn key_error(what: &'static str) -> impl FnOnce(String) -> StateError {
    move |reason| StateError::KeyNotRoundTrip { what, reason }
}

/// Writes and reads a key, and compares the two; an error says what is wrong. Returns how many bytes it has.
pub(crate) fn check_key<K: PartialEq>(serializer: &dyn Serializer<K>, key: &K) -> Result<usize, String> {
    let mut bytes = Vec::new();
    serializer.serialize(key, &mut bytes).map_err(|cause| format!("it cannot be written: {cause}"))?;
    check_written_key(serializer, key, &bytes)?;
    Ok(bytes.len())
}

/// Reads a key that was written as `bytes`, and compares the two. In a snapshot and behind byte tables a key is its bytes.
/// Where every key is read as itself, no two of them are written as the same bytes: they would be read as one.
pub(crate) fn check_written_key<K: PartialEq>(
    serializer: &dyn Serializer<K>,
    key: &K,
    bytes: &[u8],
) -> Result<(), String> {
    let read = serializer.deserialize(bytes);
    let read = read.map_err(|cause| format!("what was written cannot be read: {cause}; {UNREADABLE}"))?;
    if read == *key { Ok(()) } else { Err(format!("what was written is read as another one; {LEFT_OUT}")) }
}

#[cfg(test)]
#[path = "round_trip_test.rs"]
mod round_trip_test;
