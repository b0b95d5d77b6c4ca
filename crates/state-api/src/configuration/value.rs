//! How values are written: texts, numbers, truth values, sizes and durations, in Flink's notation.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A type that an option can have.
pub trait ConfigValue: Sized {
    /// What a value looks like, to be read after the word "expected".
    const EXPECTED: &'static str;

    /// Reads a value; `None` when the text is none. Blanks around the text do not matter.
    fn parse(text: &str) -> Option<Self>;
}

impl ConfigValue for String {
    const EXPECTED: &'static str = "a text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.trim().to_owned())
    }
}

impl ConfigValue for bool {
    const EXPECTED: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        text.trim().to_ascii_lowercase().parse().ok()
    }
}

/// Whole numbers, each with its range.
macro_rules! whole_numbers {
    ($($number:ty: $expected:literal),* $(,)?) => {$(
        impl ConfigValue for $number {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<Self> {
                text.trim().parse().ok()
            }
        }
    )*};
}

whole_numbers! {
    u32: "a whole number from 0 to 4294967295",
    u64: "a whole number that is not negative",
    i64: "a whole number",
}

impl ConfigValue for f64 {
    const EXPECTED: &'static str = "a number such as 1.5";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number: &Self| number.is_finite())
    }
}

/// A number of bytes, written `20 kb`, `5 MiB` or `4096`.
///
/// A unit is a multiple of 1,024 of the one before, however it is spelled, as in Flink: `1 kb` are 1,024 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemorySize {
    /// The bytes.
    pub bytes: u64,
}

impl MemorySize {
    /// A size in bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self { bytes }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl ConfigValue for MemorySize {
    const EXPECTED: &'static str = "a size such as 20 kb, 5 MiB or 4096 (bytes)";

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = number_and_unit(text)?;
        let shift = match unit.as_str() {
            "" | "b" | "bytes" => 0,
            "k" | "kb" | "kib" | "kibibytes" => 10,
            "m" | "mb" | "mib" | "mebibytes" => 20,
            "g" | "gb" | "gib" | "gibibytes" => 30,
            "t" | "tb" | "tib" | "tebibytes" => 40,
            _ => return None,
        };
        number.checked_mul(1 << shift).map(Self::from_bytes)
    }
}

impl ConfigValue for Duration {
    const EXPECTED: &'static str = "a duration such as 10 min, 30 s or 500 (milliseconds)";

    fn parse(text: &str) -> Option<Self> {
        const NANOS_PER_SECOND: u64 = 1_000_000_000;
        let (number, unit) = number_and_unit(text)?;
        let nanos = match unit.as_str() {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => NANOS_PER_SECOND,
            "m" | "min" | "mins" | "minute" | "minutes" => 60 * NANOS_PER_SECOND,
            "h" | "hour" | "hours" => 3_600 * NANOS_PER_SECOND,
            "d" | "day" | "days" => 86_400 * NANOS_PER_SECOND,
            _ => return None,
        };
        if nanos < NANOS_PER_SECOND {
            let per_second = NANOS_PER_SECOND / nanos;
            return Some(Duration::new(number / per_second, (number % per_second * nanos) as u32));
        }
        number.checked_mul(nanos / NANOS_PER_SECOND).map(Duration::from_secs)
    }
}

/// Splits `20 kb` into 20 and `kb`, in lower case. A number has nothing but digits: no sign, no fraction.
fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((u64::from_str(number).ok()?, unit.trim().to_lowercase()))
}
