//! Watermark strategies: how event time is read from records and how far behind them the watermark stays.

use std::time::Duration;

/// How long the watermark waits for records that are out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatermarkStrategy {
    out_of_orderness_ms: i64,
}

impl WatermarkStrategy {
    /// Records of one source reader come in the order of their times.
    pub fn monotonous_timestamps() -> Self {
        Self { out_of_orderness_ms: 0 }
    }

    /// A record may come up to `bound` of event time after a later one. Whatever comes later than that is late.
    pub fn bounded_out_of_orderness(bound: Duration) -> Self {
        Self { out_of_orderness_ms: i64::try_from(bound.as_millis()).unwrap_or(i64::MAX) }
    }

    /// The bound in milliseconds.
    pub fn out_of_orderness_ms(&self) -> i64 {
        self.out_of_orderness_ms
    }
}
