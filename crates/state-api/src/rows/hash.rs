//! The hash of map keys: seeded, in memory only, never written anywhere.

use std::hash::{Hash, Hasher};

use super::index::spread;

/// Hashes words by multiplying them into the state and folding the 128-bit product. What keeps prepared keys from
/// colliding is the seed, which is injected and stays secret.
#[derive(Clone, Copy)]
pub(crate) struct FoldingHasher {
    state: u64,
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl FoldingHasher {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: spread(seed) }
    }

    /// The 32-bit hash of a map key of one row.
    #[inline]
    pub(crate) fn hash(mut self, row: u32, map_key: &impl Hash) -> u32 {
        self.write_u32(row);
        map_key.hash(&mut self);
        (self.state >> 32) as u32 ^ self.state as u32
    }
}

impl Hasher for FoldingHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word).wrapping_mul(u128::from(FACTOR));
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(u64::from_le_bytes(word.try_into().expect("the chunks have eight bytes")));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.state = self.state.rotate_left(23).wrapping_add(bytes.len() as u64);
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}
