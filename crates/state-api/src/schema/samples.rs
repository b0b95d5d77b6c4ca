//! Sample values that the tracer hands out, the most often accepted first.

/// One value of every kind.
#[derive(Debug)]
pub(super) struct Sample {
    /// For every kind of number; odd is also `true`.
    pub(super) number: u8,
    /// Its first character, or a space, is the sample of `char`.
    pub(super) text: &'static str,
    pub(super) bytes: &'static [u8],
    /// Options, sequences and maps hold something even where nothing is to be learned from it.
    pub(super) filled: bool,
}

impl Sample {
    pub(super) fn character(&self) -> char {
        self.text.chars().next().unwrap_or(' ')
    }
}

/// A part of a type that refuses one sample is shown the next; the end of the list is the end of the trace.
///
/// Texts and lengths are those that widely used types take: times, addresses, versions, ids and hashes.
pub(super) const SAMPLES: &[Sample] = &[
    Sample { number: 1, text: "a", bytes: &[1], filled: false },
    Sample { number: 1, text: "1", bytes: &[1; 16], filled: true },
    Sample { number: 0, text: "", bytes: &[], filled: false },
    Sample { number: 2, text: "1970-01-01T00:00:00Z", bytes: &[1; 32], filled: true },
    Sample { number: 4, text: "1970-01-01", bytes: &[1; 20], filled: true },
    Sample { number: 8, text: "00:00:00", bytes: &[1; 8], filled: true },
    Sample { number: 10, text: "http://localhost/", bytes: &[1; 4], filled: true },
    Sample { number: 16, text: "1.0.0", bytes: &[1; 12], filled: true },
    Sample { number: 32, text: "127.0.0.1", bytes: &[1; 64], filled: true },
    Sample { number: 64, text: "a@b.example", bytes: &[1; 24], filled: true },
    Sample { number: 100, text: "/", bytes: &[1; 33], filled: true },
    Sample { number: 127, text: "en", bytes: &[1; 6], filled: true },
];
