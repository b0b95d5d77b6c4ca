//! Workload A `value_rmw`: the key stream, the key hash, the key group, and the key and value types.

/// Step of the splitmix64 generator.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
/// Seed of the keys themselves.
pub(crate) const SEED_KEYS: u64 = 0x5EED;
/// Seed of the choice of a key for each operation.
pub(crate) const SEED_PICK: u64 = 0xACCE55;
/// Records resolved together; the batch of the data plane.
pub(crate) const BATCH: usize = 1024;
/// Key groups of the job.
pub(crate) const KEY_GROUPS: usize = 128;

/// The `(i + 1)`-th output of splitmix64 started at `seed`.
pub(crate) fn u(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A key id below `n`, uniform.
pub(crate) fn pick(seed: u64, i: u64, n: u64) -> u64 {
    (u(seed, i) >> 1) % n
}

/// Multiplies to 128 bits and folds the halves together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Flink's key group of a 32-bit key hash: murmur, modulo the number of key groups.
#[inline]
pub(crate) fn key_group(hash: u32) -> usize {
    let mut code = hash.wrapping_mul(0xCC9E_2D51);
    code = code.rotate_left(15).wrapping_mul(0x1B87_3593);
    code = code.rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
    code ^= 4;
    code = (code ^ (code >> 16)).wrapping_mul(0x85EB_CA6B);
    code = (code ^ (code >> 13)).wrapping_mul(0xC2B2_AE35);
    code ^= code >> 16;
    let code = code as i32;
    let code = if code == i32::MIN { 0 } else { code.unsigned_abs() };
    code as usize % KEY_GROUPS
}

/// A key type of the experiment.
pub(crate) trait Key: Clone + Eq + std::hash::Hash + Default + Send + Sync + 'static {
    /// The key of id `j`, written over `self` so that a buffer is used again.
    fn set(&mut self, j: u64);
    /// The 32-bit key hash, a stand-in for the hash over the canonical encoding.
    fn hash32(&self) -> u32;
}

impl Key for u64 {
    fn set(&mut self, j: u64) {
        *self = u(SEED_KEYS, j);
    }

    #[inline]
    fn hash32(&self) -> u32 {
        fold(*self ^ 0x243F_6A88_85A3_08D3, 0xA409_3822_299F_31D1) as u32
    }
}

impl Key for String {
    fn set(&mut self, j: u64) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bits = u(SEED_KEYS, j);
        self.clear();
        for at in (0..16).rev() {
            self.push(char::from(DIGITS[(bits >> (4 * at)) as usize & 15]));
        }
    }

    #[inline]
    fn hash32(&self) -> u32 {
        let (words, rest) = self.as_bytes().as_chunks::<8>();
        let mut state = 0x243F_6A88_85A3_08D3 ^ self.len() as u64;
        for word in words {
            state = fold(state ^ u64::from_le_bytes(*word), 0xA409_3822_299F_31D1);
        }
        for byte in rest {
            state = fold(state ^ u64::from(*byte), 0xA409_3822_299F_31D1);
        }
        (state ^ (state >> 32)) as u32
    }
}

/// A value type of the experiment.
pub(crate) trait Value: Clone + Default + Send + Sync + 'static {
    /// The value with which key id `j` starts.
    fn first(j: u64) -> Self;
    /// Adds one, in place.
    fn bump(&mut self);
    /// The value as a number, for the checksum.
    fn number(&self) -> u64;
}

impl Value for u64 {
    fn first(j: u64) -> Self {
        j
    }

    #[inline]
    fn bump(&mut self) {
        *self = self.wrapping_add(1);
    }

    fn number(&self) -> u64 {
        *self
    }
}

/// Sixteen decimal digits; adding one is an odometer over the same bytes, without an allocation.
impl Value for String {
    fn first(j: u64) -> Self {
        format!("{j:016}")
    }

    #[inline]
    fn bump(&mut self) {
        let mut bytes = std::mem::take(self).into_bytes();
        for digit in bytes.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                break;
            }
            *digit = b'0';
        }
        *self = String::from_utf8(bytes).unwrap_or_default();
    }

    fn number(&self) -> u64 {
        self.parse().unwrap_or(0)
    }
}

/// One design under test. Every method takes a whole batch, so that the virtual call is paid once a batch.
pub(crate) trait Contender<K, V> {
    /// Inserts `keys[i]` with the value of key id `first + i`.
    fn fill(&mut self, keys: &[K], first: u64);
    /// Adds one to the value of each key, one call at a time.
    fn each(&mut self, keys: &[K]);
    /// Adds one to the value of each key, the batch resolved first.
    fn batch(&mut self, keys: &[K]);
    /// A consistent reader of the present contents; `None` where the design has no such thing.
    fn freeze(&mut self) -> Option<Box<dyn Frozen>>;
    /// The sum of all values.
    fn sum(&self) -> u64;
    /// What the design wants to say about itself: capacity, load, bytes by arithmetic.
    fn describe(&self) -> String;
}

/// What the asynchronous half of a snapshot reads.
pub(crate) trait Frozen: Send {
    /// The sum of all values at the time of the freeze.
    fn sum(&self) -> u64;
}
