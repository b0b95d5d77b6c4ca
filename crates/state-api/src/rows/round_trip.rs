//! The guard against values that do not survive being written and read again.

use crate::{Serializer, StateError};

/// Of this many writes one is checked.
const WRITES_A_CHECK: u32 = 4096;

/// Where a check costs little beside the write (a new key or namespace, an element of operator state), the first ones are
/// all checked: what is wrong with a type often shows in some of its values only.
const FIRST_CHECKED: u32 = 1024;

/// Decides which writes of one state are checked: the first, and then one in 4,096.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    writes: u32,
}

impl RoundTrip {
    /// Whether the next write is to be checked.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.writes.is_multiple_of(WRITES_A_CHECK)
    }

    /// Whether the next write is to be checked where the first ones all are.
    pub(crate) fn is_due_or_early(&self) -> bool {
        self.writes < FIRST_CHECKED || self.is_due()
    }

    /// Counts a write. A write that failed its check is not counted, so that the next is checked as well.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.writes = self.writes.wrapping_add(1);
    }
}

/// Where it often comes from that a value is not read as it was written.
const UNREADABLE: &str = "every field has to be written: is there a `skip_serializing_if` in it?";

/// Where it often comes from that a value is written in two ways.
const UNEQUAL: &str =
    "equal values must write equal bytes: is there a HashMap or HashSet in it, or a `skip_serializing_if`?";

/// Writes, reads and writes a value of state `state`, and compares the bytes.
pub(crate) fn check_round_trip<T>(state: &str, serializer: &dyn Serializer<T>, value: &T) -> Result<(), StateError> {
    let error = |source| StateError::Serializer { state: state.to_owned(), source };
    let differs = |reason: String| StateError::NotRoundTrip { state: state.to_owned(), reason };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    serializer.serialize(value, &mut first).map_err(error)?;
    let read = serializer.deserialize(&first);
    let read = read.map_err(|cause| differs(format!("what was written cannot be read: {cause}; {UNREADABLE}")))?;
    serializer.serialize(&read, &mut second).map_err(error)?;
    if first == second {
        return Ok(());
    }
    let equal = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
    Err(differs(format!(
        "written again after reading, its {} bytes become {} and differ from byte {equal} on; {UNEQUAL}",
        first.len(),
        second.len()
    )))
}

/// Both checks of a map key of state `state`.
pub(crate) fn check_map_key<K: PartialEq>(
    state: &str,
    serializer: &dyn Serializer<K>,
    map_key: &K,
) -> Result<(), StateError> {
    check_round_trip(state, serializer, map_key)?;
    let checked = check_key(serializer, map_key);
    checked.map_err(|reason| StateError::NotRoundTrip { state: state.to_owned(), reason })
}

/// Writes and reads a key, and compares the two; an error says what is wrong. Behind byte tables a key is its bytes: two
/// keys that write the same would be one.
pub(crate) fn check_key<K: PartialEq>(serializer: &dyn Serializer<K>, key: &K) -> Result<(), String> {
    let mut bytes = Vec::new();
    serializer.serialize(key, &mut bytes).map_err(|cause| format!("it cannot be written: {cause}"))?;
    let read = serializer.deserialize(&bytes);
    let read = read.map_err(|cause| format!("what was written cannot be read: {cause}; {UNREADABLE}"))?;
    if read == *key { Ok(()) } else { Err("what was written is read as another one".to_owned()) }
}
