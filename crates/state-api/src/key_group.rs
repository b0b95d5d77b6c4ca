//! Key groups: the fixed partition of the key space that makes keyed state redistributable.
//!
//! A key belongs for ever to one of `max_parallelism` groups, a subtask owns one contiguous range of groups.
//! Formulas are those of Apache Flink (`KeyGroupRangeAssignment`, `MathUtils.murmurHash`), so that a job can move
//! between the two; `tests/key_group_vectors.rs` checks them against values computed by Flink.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::KeyHash;

/// Largest number of key groups a job can have.
pub const MAX_PARALLELISM_LIMIT: u32 = 32_768;

/// One key group, in `0..max_parallelism`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of key groups of a job: 1 to [`MAX_PARALLELISM_LIMIT`], fixed for the life of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MaxParallelism(u32);

/// A parallelism that the key groups cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParallelismError {
    /// The number of key groups is outside `1..=32768`.
    #[error("max parallelism {0} is outside 1..={MAX_PARALLELISM_LIMIT}")]
    MaxParallelism(u32),
    /// The parallelism is 0 or exceeds the number of key groups.
    #[error("parallelism {parallelism} is outside 1..={max_parallelism}, the job's max parallelism")]
    Parallelism {
        /// The parallelism asked for.
        parallelism: u32,
        /// The number of key groups there are.
        max_parallelism: u32,
    },
}

impl MaxParallelism {
    /// Takes the number of key groups.
    pub fn new(groups: u32) -> Result<Self, ParallelismError> {
        if (1..=MAX_PARALLELISM_LIMIT).contains(&groups) {
            Ok(Self(groups))
        } else {
            Err(ParallelismError::MaxParallelism(groups))
        }
    }

    /// Flink's default for a parallelism: the next power of two above one and a half times it, within 128 and 32768.
    pub fn default_for(parallelism: u32) -> Self {
        let wanted = u64::from(parallelism) + u64::from(parallelism) / 2;
        Self(wanted.next_power_of_two().clamp(128, u64::from(MAX_PARALLELISM_LIMIT)) as u32)
    }

    /// The number of key groups.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The group of a key with this hash.
    #[inline]
    pub fn group_of(self, hash: KeyHash) -> KeyGroup {
        let spread = murmur(hash.0);
        // The usual numbers of key groups are powers of two; for them no division is needed.
        let group = if self.0.is_power_of_two() { spread & (self.0 - 1) } else { spread % self.0 };
        KeyGroup(group as u16)
    }

    /// Checks that this many subtasks can share the groups.
    pub fn check(self, parallelism: u32) -> Result<(), ParallelismError> {
        if (1..=self.0).contains(&parallelism) {
            Ok(())
        } else {
            Err(ParallelismError::Parallelism { parallelism, max_parallelism: self.0 })
        }
    }

    /// The subtask that owns a group.
    #[inline]
    pub fn subtask_of(self, group: KeyGroup, parallelism: u32) -> u32 {
        u32::from(group.0) * parallelism / self.0
    }

    /// The groups that subtask `subtask` of `parallelism` owns. Ranges are contiguous, disjoint and complete.
    pub fn range_of(self, subtask: u32, parallelism: u32) -> KeyGroupRange {
        debug_assert!(subtask < parallelism && parallelism <= self.0);
        let start = (subtask * self.0).div_ceil(parallelism);
        let end = ((subtask + 1) * self.0 - 1) / parallelism;
        KeyGroupRange { start: start as u16, end: end as u16 }
    }

    /// Every group.
    pub fn all(self) -> KeyGroupRange {
        self.range_of(0, 1)
    }
}

/// Flink's spread of a 32-bit hash over the non-negative 31-bit numbers: murmur3 of one block.
#[inline]
pub fn murmur(hash: u32) -> u32 {
    let mut k = hash.wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593);
    k = k.rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64) ^ 4;
    k ^= k >> 16;
    k = k.wrapping_mul(0x85EB_CA6B);
    k ^= k >> 13;
    k = k.wrapping_mul(0xC2B2_AE35);
    k ^= k >> 16;
    match k as i32 {
        i32::MIN => 0,
        signed => signed.unsigned_abs(),
    }
}

/// A contiguous, never empty range of key groups, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyGroupRange {
    start: u16,
    end: u16,
}

impl KeyGroupRange {
    /// The range from `start` to `end`, both included; `None` when `end < start`.
    pub fn new(start: KeyGroup, end: KeyGroup) -> Option<Self> {
        (start.0 <= end.0).then_some(Self { start: start.0, end: end.0 })
    }

    /// First group.
    pub fn start(self) -> KeyGroup {
        KeyGroup(self.start)
    }

    /// Last group.
    pub fn end(self) -> KeyGroup {
        KeyGroup(self.end)
    }

    /// How many groups there are; at least 1.
    pub fn count(self) -> u32 {
        u32::from(self.end) - u32::from(self.start) + 1
    }

    /// Whether a group is one of them.
    #[inline]
    pub fn contains(self, group: KeyGroup) -> bool {
        self.start <= group.0 && group.0 <= self.end
    }

    /// The groups in both ranges, if there are any.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(KeyGroup(self.start.max(other.start)), KeyGroup(self.end.min(other.end)))
    }

    /// The groups in ascending order.
    pub fn iter(self) -> impl Iterator<Item = KeyGroup> {
        (self.start..=self.end).map(KeyGroup)
    }
}

impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_and_a_range_say_their_numbers() {
        assert_eq!(KeyGroup(7).to_string(), "7");
        assert_eq!(MaxParallelism::new(10).unwrap().range_of(1, 3).to_string(), "[4, 6]");
    }
}
