//! The input gate of a subtask: its channels, and which of them may be taken from.

use highwater_stream_api::Timestamp;

use crate::channel::{ChannelReceiver, Element};

/// The input channels of a subtask.
pub struct Gate {
    inputs: Vec<Input>,
    /// The channel that is looked at first: they take turns.
    next: usize,
}

struct Input {
    channel: ChannelReceiver,
    blocked: bool,
    ended: bool,
    watermark: Timestamp,
}

impl Gate {
    /// A gate over these channels.
    pub fn new(channels: Vec<ChannelReceiver>) -> Self {
        let input = |channel| Input { channel, blocked: false, ended: false, watermark: Timestamp::MIN };
        Self { inputs: channels.into_iter().map(input).collect(), next: 0 }
    }

    /// Number of channels.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Whether there are no channels: then the subtask is a source.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// The next element and the channel it came from; `None` when nothing may be taken now.
    pub fn receive(&mut self) -> Option<(usize, Element)> {
        for offset in 0..self.inputs.len() {
            let index = (self.next + offset) % self.inputs.len();
            let input = &self.inputs[index];
            if !input.blocked
                && let Some(element) = input.channel.receive()
            {
                self.next = (index + 1) % self.inputs.len();
                return Some((index, element));
            }
        }
        None
    }

    /// Takes nothing more from a channel, until it is unblocked.
    pub fn block(&mut self, channel: usize) {
        self.inputs[channel].blocked = true;
    }

    /// Takes from a channel again.
    pub fn unblock(&mut self, channel: usize) {
        self.inputs[channel].blocked = false;
    }

    /// A channel has ended: it holds no watermark back any more. Whether all have.
    pub fn end(&mut self, channel: usize) -> bool {
        self.inputs[channel].ended = true;
        self.inputs[channel].watermark = Timestamp::MAX;
        self.inputs.iter().all(|input| input.ended)
    }

    /// Event time has come to `watermark` in a channel. Returns the watermark of the gate: the least of all channels.
    pub fn advance(&mut self, channel: usize, watermark: Timestamp) -> Timestamp {
        let input = &mut self.inputs[channel];
        input.watermark = input.watermark.max(watermark);
        self.watermark()
    }

    /// The watermark of the gate.
    pub fn watermark(&self) -> Timestamp {
        self.inputs.iter().map(|input| input.watermark).min().unwrap_or(Timestamp::MIN)
    }
}
