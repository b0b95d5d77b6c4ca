//! Channels: the queue between one subtask and another.
//!
//! A queue with one lock, taken once a batch. Batches are bounded by estimated bytes; what drives the protocol
//! (barriers, watermarks, end markers) travels in the same order but does not count. Sending never fails and never
//! waits: the sender looks at the bound between records.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use highwater_state_api::CheckpointId;
use highwater_stream_api::Timestamp;

use crate::TaskError;
use crate::batch::AnyBatch;

/// A checkpoint barrier: everything before it belongs to the checkpoint, nothing after it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// When the checkpoint was triggered, on the wall clock, in milliseconds since the epoch.
    pub triggered_at_ms: u64,
}

/// What travels through a channel.
pub enum Element {
    /// Records.
    Batch(Box<dyn AnyBatch>),
    /// Event time has come this far.
    Watermark(Timestamp),
    /// A checkpoint barrier.
    Barrier(Barrier),
    /// The sender has given a checkpoint up: its barrier will not come.
    CancelMarker(CheckpointId),
    /// There will be no more records and watermarks; barriers still come.
    End,
}

struct Queue {
    elements: VecDeque<Element>,
    /// Estimated bytes of the batches in `elements`.
    bytes: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    bytes_max: usize,
    receiver: Waker,
    sender: Waker,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic while the lock is held cannot leave the queue half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a channel that elements are put into.
pub struct ChannelSender(Arc<Shared>);

/// The end of a channel that elements are taken from.
pub struct ChannelReceiver(Arc<Shared>);

/// Makes a channel that holds up to about `bytes_max` bytes of records. `receiver` is woken when there is something
/// to take, `sender` when the channel is down to half of that: for less room it would be woken for every batch.
pub fn channel(bytes_max: usize, receiver: Waker, sender: Waker) -> (ChannelSender, ChannelReceiver) {
    let queue = Mutex::new(Queue { elements: VecDeque::new(), bytes: 0 });
    let shared = Arc::new(Shared { queue, bytes_max, receiver, sender });
    (ChannelSender(shared.clone()), ChannelReceiver(shared))
}

impl ChannelSender {
    /// Puts an element at the end, whatever the bound says.
    pub fn send(&self, element: Element) {
        let mut queue = self.0.lock();
        if let Element::Batch(batch) = &element {
            queue.bytes += batch.estimated_bytes();
        }
        queue.elements.push_back(element);
        let was_empty = queue.elements.len() == 1;
        drop(queue);
        if was_empty {
            self.0.receiver.wake_by_ref();
        }
    }

    /// Whether the channel holds as much as it should: then the next record has to wait.
    pub fn is_full(&self) -> bool {
        self.0.lock().bytes >= self.0.bytes_max
    }
}

impl ChannelReceiver {
    /// Takes the next element, if there is one.
    pub fn receive(&self) -> Option<Element> {
        let mut queue = self.0.lock();
        let element = queue.elements.pop_front()?;
        if let Element::Batch(batch) = &element {
            let half = self.0.bytes_max / 2;
            let was_over = queue.bytes > half;
            queue.bytes -= batch.estimated_bytes();
            let is_over = queue.bytes > half;
            drop(queue);
            if was_over && !is_over {
                self.0.sender.wake_by_ref();
            }
        }
        Some(element)
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.0.lock().elements.is_empty()
    }

    /// The records that are in flight ahead of the first barrier of `checkpoint`, sharing their content: what an
    /// unaligned checkpoint has to keep. The records stay in the channel.
    pub fn capture_ahead_of(&self, checkpoint: CheckpointId) -> Vec<Box<dyn AnyBatch>> {
        let queue = self.0.lock();
        let ahead = queue
            .elements
            .iter()
            .take_while(|element| !matches!(element, Element::Barrier(barrier) if barrier.checkpoint >= checkpoint));
        let batches = ahead.filter_map(|element| match element {
            Element::Batch(batch) => Some(batch.share()),
            _ => None,
        });
        batches.collect()
    }
}

/// Reads batches of one type back from bytes; belongs to an edge of the job.
pub type BatchDecoder = fn(&[u8]) -> Result<Box<dyn AnyBatch>, TaskError>;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::batch::{Batch, decode};

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn batch(records: &[&str]) -> Element {
        let records: Vec<String> = records.iter().map(|record| (*record).to_owned()).collect();
        let timestamps = (0..records.len() as i64).map(Timestamp::from_millis).collect();
        Element::Batch(Box::new(Batch::new(records, timestamps)))
    }

    fn records(batch: Box<dyn AnyBatch>) -> Vec<String> {
        crate::batch::downcast::<String>(batch).unwrap().into_content().records
    }

    #[test]
    fn a_typed_queue_in_flight_becomes_bytes_and_records_again() {
        let (sender, receiver) = channel(1 << 20, Waker::noop().clone(), Waker::noop().clone());
        sender.send(batch(&["a", ""]));
        sender.send(Element::Watermark(Timestamp::from_millis(7)));
        sender.send(batch(&["ä, b"]));
        sender.send(Element::Barrier(Barrier { checkpoint: CheckpointId(3), triggered_at_ms: 0 }));
        sender.send(batch(&["behind the barrier"]));

        let captured = receiver.capture_ahead_of(CheckpointId(3));
        // The captured records are the job's: they are processed, and changed, while the capture is still held.
        let Some(Element::Batch(live)) = receiver.receive() else { panic!("the first batch is still in the queue") };
        assert_eq!(records(live), ["a", ""]);

        let decoder: BatchDecoder = decode::<String>;
        let mut restored = Vec::new();
        for batch in captured {
            let mut bytes = Vec::new();
            batch.encode(&mut bytes).unwrap();
            let batch = decoder(&bytes).unwrap();
            restored.extend(records(batch));
            for cut in 0..bytes.len() {
                assert!(decoder(&bytes[..cut]).is_err(), "{cut} of {} bytes were taken", bytes.len());
            }
        }
        assert_eq!(restored, ["a", "", "ä, b"]);
    }

    #[test]
    fn a_sender_is_woken_when_a_full_channel_is_down_to_half() {
        let wakes = Arc::new(Wakes::default());
        let size = Batch::new(vec![0u64], vec![Timestamp::MIN]).estimated_bytes();
        let (sender, receiver) = channel(4 * size, Waker::noop().clone(), wakes.clone().into());
        for _ in 0..4 {
            assert!(!sender.is_full());
            sender.send(Element::Batch(Box::new(Batch::new(vec![0u64], vec![Timestamp::MIN]))));
        }
        assert!(sender.is_full());
        for expected in [0, 1, 1, 1] {
            receiver.receive();
            assert_eq!(wakes.0.load(Ordering::Relaxed), expected);
        }
    }

    #[test]
    fn the_bound_counts_records_and_lets_barriers_pass() {
        let (sender, receiver) = channel(1, Waker::noop().clone(), Waker::noop().clone());
        sender.send(Element::Barrier(Barrier { checkpoint: CheckpointId(1), triggered_at_ms: 0 }));
        sender.send(Element::End);
        assert!(!sender.is_full());
        sender.send(batch(&["x"]));
        assert!(sender.is_full());
        assert!(matches!(receiver.receive(), Some(Element::Barrier(_))));
        assert!(matches!(receiver.receive(), Some(Element::End)));
        assert!(matches!(receiver.receive(), Some(Element::Batch(_))));
        assert!(!sender.is_full());
        assert!(receiver.receive().is_none());
    }
}
