//! The key stream of the workloads: uniformly random choices from keys that look random, the same in every program.

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
const SEED_KEYS: u64 = 0x5EED;
const SEED_PICK: u64 = 0xACC_E55;

/// The `(i + 1)`-th output of splitmix64 with state `seed`.
#[inline]
fn u(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The key with number `id`.
#[inline]
pub(crate) fn key(id: u64) -> u64 {
    u(SEED_KEYS, id)
}

/// The number of the key of event `i` in a stream over `keys` keys.
#[inline]
fn pick(i: u64, keys: u64) -> u64 {
    (u(SEED_PICK, i) >> 1) % keys
}

/// The key of event `i` in a stream over `keys` keys.
#[inline]
pub(crate) fn event(i: u64, keys: u64) -> u64 {
    key(pick(i, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_one_that_was_defined() {
        assert_eq!(u(0, 0), 0xE220_A839_7B1D_CDAF);
        assert_eq!([0, 1, 2].map(key), [0x09f1_fd9d_03f0_a9b4, 0x5532_7416_1bbf_8475, 0x5d5b_ca46_96b3_43b3]);
        assert_eq!([0, 1, 2, 3, 4].map(|i| pick(i, 1_000_000)), [93_487, 257_382, 150_538, 254_380, 828_623]);
    }
}
