//! The guard against values that do not survive being written and read again.

use crate::{Serializer, StateError};

/// Of this many writes one is checked.
const WRITES_A_CHECK: u32 = 4096;

/// Decides which writes of one state are checked: the first, and then one in 4,096.
#[derive(Default)]
pub(crate) struct RoundTrip {
    writes: u32,
}

impl RoundTrip {
    /// Whether the next write is to be checked.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.writes.is_multiple_of(WRITES_A_CHECK)
    }

    /// Counts a write. A write that failed its check is not counted, so that the next is checked as well.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.writes = self.writes.wrapping_add(1);
    }
}

/// Writes, reads and writes a value of state `state`, and compares the bytes.
pub(crate) fn check_round_trip<T>(state: &str, serializer: &dyn Serializer<T>, value: &T) -> Result<(), StateError> {
    let error = |source| StateError::Serializer { state: state.to_owned(), source };
    let differs = |reason: String| StateError::NotRoundTrip { state: state.to_owned(), reason };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    serializer.serialize(value, &mut first).map_err(error)?;
    let read = serializer.deserialize(&first);
    let read = read.map_err(|cause| differs(format!("what was written cannot be read: {cause}")))?;
    serializer.serialize(&read, &mut second).map_err(error)?;
    if first == second {
        return Ok(());
    }
    let equal = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
    Err(differs(format!(
        "written again after reading, its {} bytes become {} and differ from byte {equal} on",
        first.len(),
        second.len()
    )))
}
