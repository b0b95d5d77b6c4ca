//! Requests for checkpoints, and which of those that wait is next. Flink's `CheckpointRequestDecider`.

use crate::{CheckpointFailure, CheckpointFailureReason};

/// How many requests may wait.
pub(crate) const WAITING_MAX: usize = 1_000;

/// Identifies a request. Whoever asks draws it, and uses none twice within an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointRequest {
    /// Is begun even while as many checkpoints are pending as may be.
    pub forced: bool,
    /// Stands for a tick of the periodic trigger: fails while periodic checkpoints are stopped and within the minimum
    /// pause, for which other requests do not wait.
    pub periodic: bool,
}

impl CheckpointRequest {
    /// What is first: the smaller, the sooner. The greatest makes room when the queue is full.
    fn rank(&self) -> (bool, bool) {
        (!self.forced, self.periodic)
    }
}

#[derive(Debug, Clone)]
struct Waiting {
    id: RequestId,
    request: CheckpointRequest,
}

/// The requests that wait, the next one first.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestQueue {
    waiting: Vec<Waiting>,
}

impl RequestQueue {
    /// Takes a request. Returns one that has to fail for it, which may be the same, when the queue is full.
    pub(crate) fn push(&mut self, id: RequestId, request: CheckpointRequest) -> Option<(RequestId, CheckpointFailure)> {
        let after = |waiting: &Waiting| waiting.request.rank() <= request.rank();
        let index = self.waiting.partition_point(after);
        self.waiting.insert(index, Waiting { id, request });
        if self.waiting.len() <= WAITING_MAX {
            return None;
        }
        let victim = self.waiting.pop()?;
        let message = format!("{WAITING_MAX} others of at least its worth wait");
        Some((victim.id, CheckpointFailure::new(CheckpointFailureReason::TooManyCheckpointRequests, message)))
    }

    /// The next request, without taking it.
    pub(crate) fn next(&self) -> Option<CheckpointRequest> {
        self.waiting.first().map(|waiting| waiting.request)
    }

    /// Takes the next request.
    pub(crate) fn pop(&mut self) -> Option<RequestId> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0).id)
    }

    /// Takes all requests.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = RequestId> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: CheckpointRequest = CheckpointRequest { forced: false, periodic: false };
    const FORCED: CheckpointRequest = CheckpointRequest { forced: true, periodic: false };
    const PERIODIC: CheckpointRequest = CheckpointRequest { forced: false, periodic: true };

    fn drained(queue: &mut RequestQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|id| id.0).collect()
    }

    /// Contract: K222.
    #[test]
    fn what_is_forced_comes_first_then_what_was_asked_for_then_what_is_periodic_each_in_its_order() {
        let mut queue = RequestQueue::default();
        for (id, request) in (0..).zip([PERIODIC, USUAL, FORCED, PERIODIC, USUAL, FORCED]) {
            assert_eq!(queue.push(RequestId(id), request), None);
        }
        assert_eq!(queue.next(), Some(FORCED));
        assert_eq!(drained(&mut queue), [2, 5, 1, 4, 0, 3]);
    }

    /// Contract: K223.
    #[test]
    fn when_the_queue_is_full_the_request_of_the_least_worth_fails() {
        let mut queue = RequestQueue::default();
        let full = WAITING_MAX as u64;
        for id in 0..full {
            assert_eq!(queue.push(RequestId(id), if id == 7 { PERIODIC } else { USUAL }), None);
        }
        let (victim, failure) = queue.push(RequestId(full), USUAL).unwrap();
        assert_eq!((victim, failure.reason), (RequestId(7), CheckpointFailureReason::TooManyCheckpointRequests));
        let victim = queue.push(RequestId(full + 1), PERIODIC).map(|(victim, _)| victim);
        assert_eq!(victim, Some(RequestId(full + 1)), "the newcomer, if it is of the least worth itself");
        let victim = queue.push(RequestId(full + 2), FORCED).map(|(victim, _)| victim);
        assert_eq!(victim, Some(RequestId(full)), "a usual one makes room for a forced one: the youngest");
        assert_eq!(queue.waiting.len(), WAITING_MAX);
        assert_eq!(queue.drain().next(), Some(RequestId(full + 2)));
        assert_eq!(queue.next(), None);
    }
}
