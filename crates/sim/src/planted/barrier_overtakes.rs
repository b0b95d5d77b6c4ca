//! Planted bug: a barrier overtakes a record that was sent before it.

use highwater_runtime::TaskError;
use highwater_runtime::batch::{AnyBatch, Batch};
use highwater_runtime::channel::ChannelSender;
use highwater_runtime::output::Output;

use crate::record::Record;

/// Holds the last record back for one flush, which may be the flush before a barrier.
pub(crate) struct BarrierOvertakes {
    inner: Box<dyn Output>,
    held: Option<Box<dyn AnyBatch>>,
    flushed: bool,
}

impl BarrierOvertakes {
    /// Around this output.
    pub(crate) fn new(inner: Box<dyn Output>) -> Self {
        Self { inner, held: None, flushed: false }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Output for BarrierOvertakes {
    fn records(&mut self, batch: Box<dyn AnyBatch>) -> Result<(), TaskError> {
        if let Some(held) = self.held.take() {
            self.inner.records(held)?;
        }
        match batch.into_any().downcast::<Batch<Record>>() {
            Ok(batch) => {
                let mut content = batch.into_content();
                let (Some(record), Some(time)) = (content.records.pop(), content.timestamps.pop()) else {
                    return Ok(());
                };
                self.held = Some(Box::new(Batch::new(vec![record], vec![time])));
                self.flushed = false;
                self.inner.records(Box::new(Batch::new(content.records, content.timestamps)))
            }
            Err(_) => unreachable!("it is planted where records of the source pass"),
        }
    }

    fn flush(&mut self) {
        if self.flushed
            && let Some(held) = self.held.take()
        {
            // A record of the right type, as before: it is not refused.
            let _ = self.inner.records(held);
        }
        self.flushed = true;
        self.inner.flush();
    }

    fn channels(&self) -> &[ChannelSender] {
        self.inner.channels()
    }
}
