//! The fence of an attempt: asked before everything that the attempt does outside itself, and closed for ever when another
//! process has claimed the job.
//!
//! As long as the lease is valid nobody looks anywhere. Afterwards the job log is read before each effect: a successor's
//! claim lies exactly where the attempt's own next record would. What may happen between the look and the effect is
//! described in ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use highwater_checkpoint::{AttemptFailure, AttemptStart, Lease, LogRecord, Now, decode_log_record, paths};
use highwater_state_api::{Attempt, CheckpointStorage, JobName, StorageError};
use tokio::runtime::Handle;

use crate::error::chain_of;
use crate::{JobError, failpoint};

/// Why an effect must not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// Another process has claimed the job: this attempt does nothing any more, for ever.
    #[error("another attempt has claimed the job in log record {sequence}: this one is fenced")]
    Fenced {
        /// Number of its claim.
        sequence: u64,
    },
    /// The lease has run out and the job log does not tell who has the job. May be asked again.
    #[error("the lease of {lease_ms} ms has run out, and the job log cannot be read: {cause}")]
    Unknown {
        /// How long the lease is.
        lease_ms: u64,
        /// Why, for people.
        cause: String,
    },
}

/// The fence of one attempt. Cheap to clone. The default is open for ever: it belongs to nobody who could be fenced.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<Inner>>);

/// What a fence looks at.
pub struct FenceSetup {
    /// Where the job log is.
    pub storage: Arc<dyn CheckpointStorage>,
    /// The job.
    pub job: JobName,
    /// Tells the time.
    pub now: Box<dyn Fn() -> Now + Send + Sync>,
    /// How long a lease is.
    pub lease_ms: u64,
    /// Waits for the storage where a thread of the attempt may be blocked; `None` where futures are polled until they are
    /// ready, as in a simulation.
    pub runtime: Option<Handle>,
}

struct Inner {
    setup: FenceSetup,
    state: Mutex<State>,
}

struct State {
    /// `None` when the attempt is over, whatever time is left.
    lease: Option<Lease>,
    /// The first number of the log that is not known to hold a record of this attempt.
    next_sequence: u64,
    fenced_by: Option<u64>,
    /// The attempt, and those that it has taken subtasks over from.
    attempts: BTreeSet<Attempt>,
    /// What a claim of the attempt has that is going to take subtasks over, while one may come.
    successor_nonce: Option<u64>,
}

impl Fence {
    /// The fence of an attempt that has claimed the job by an append that began at `begun`, or later.
    pub fn new(setup: FenceSetup, start: &AttemptStart, begun: Now) -> Self {
        let lease = Lease::new(setup.lease_ms, begun);
        let state = State {
            lease: Some(lease),
            next_sequence: start.next_sequence,
            fenced_by: None,
            attempts: BTreeSet::from([start.attempt]),
            successor_nonce: None,
        };
        Self(Some(Arc::new(Inner { setup, state: Mutex::new(state) })))
    }

    /// The same process is going to claim the job, with this nonce, for an attempt that takes subtasks over. These go on while
    /// it does: its claim does not fence them.
    pub(crate) fn expect_successor(&self, nonce: u64) {
        if let Some(inner) = &self.0 {
            inner.lock().successor_nonce = Some(nonce);
        }
    }

    /// The attempt has claimed the job by an append that began at `begun`, or later: whoever has this fence is of it.
    pub(crate) fn succeed(&self, start: &AttemptStart, begun: Now) {
        if let Some(inner) = &self.0 {
            let mut state = inner.lock();
            state.attempts.insert(start.attempt);
            state.successor_nonce = None;
            state.passed(start.next_sequence);
            state.appended(begun);
        }
    }

    /// No attempt takes anything over any more: the next claim fences whoever has this fence, be it of the same process.
    pub fn expect_nobody(&self) {
        if let Some(inner) = &self.0 {
            inner.lock().successor_nonce = None;
        }
    }

    /// Whether an effect may happen now.
    pub async fn check(&self) -> Result<(), FenceError> {
        let Some(inner) = &self.0 else { return Ok(()) };
        if failpoint::is_on(failpoint::IGNORE_FENCE) {
            return Ok(());
        }
        let mut sequence = {
            let state = inner.lock();
            if let Some(sequence) = state.fenced_by {
                return Err(FenceError::Fenced { sequence });
            }
            if state.has_lease((inner.setup.now)()) {
                return Ok(());
            }
            state.next_sequence
        };
        loop {
            match inner.read(sequence).await? {
                None => return Ok(()),
                Some(record) if inner.lock().is_own(sequence, &record) => {
                    sequence += 1;
                    inner.lock().passed(sequence);
                }
                Some(_) => {
                    inner.lock().fenced_by = Some(sequence);
                    return Err(FenceError::Fenced { sequence });
                }
            }
        }
    }

    /// As [`Fence::check`], for a thread that may be blocked: that of a subtask.
    pub fn check_blocking(&self) -> Result<(), FenceError> {
        let Some(inner) = &self.0 else { return Ok(()) };
        match &inner.setup.runtime {
            Some(runtime) => runtime.block_on(self.check()),
            None => poll_until_ready(self.check()),
        }
    }

    /// The attempt is over: from now on the log is asked before each effect that is still to come.
    pub(crate) fn end_lease(&self) {
        if let Some(inner) = &self.0 {
            inner.lock().lease = None;
        }
    }

    /// Who is known to have claimed the job, which the log is asked for unless the lease is valid. `None` also when the log does
    /// not tell.
    pub(crate) async fn foreign_claim(&self) -> Option<u64> {
        match self.check().await {
            Err(FenceError::Fenced { sequence }) => Some(sequence),
            Ok(()) | Err(FenceError::Unknown { .. }) => None,
        }
    }

    /// The time, to be remembered before something begins that may prolong the lease.
    pub(crate) fn now(&self) -> Now {
        self.0.as_ref().map(|inner| (inner.setup.now)()).unwrap_or_default()
    }

    /// A record of this attempt was created by an append that began at `begun`.
    pub(crate) fn appended(&self, sequence: u64, begun: Now) {
        if let Some(inner) = &self.0 {
            let mut state = inner.lock();
            state.passed(sequence + 1);
            state.appended(begun);
        }
    }

    /// The coordinator has found this record in the log. If it is another process's, the fence is closed, though the lease may
    /// be valid: who does not wait for the lease of others claims at once.
    pub(crate) fn found(&self, sequence: u64, record: &LogRecord) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.lock();
        // A late answer may be about the hole that a deleted record has left: a claim in there is void.
        if sequence < state.next_sequence {
            return;
        }
        if state.is_own(sequence, record) {
            state.passed(sequence + 1);
        } else {
            state.fenced_by.get_or_insert(sequence);
        }
    }

    /// A renewal of the lease that began at `begun` was written.
    pub(crate) fn renewed(&self, begun: Now) {
        if let Some(inner) = &self.0
            && let Some(lease) = &mut inner.lock().lease
        {
            lease.renewed(begun, (inner.setup.now)());
        }
    }

    /// Whether the lease is valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.lock().has_lease((inner.setup.now)()))
    }

    /// Whether the attempt is over, so that it does not go by its lease any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.lock().lease.is_none())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of it is complete at once.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, sequence: u64) -> Result<Option<LogRecord>, FenceError> {
        let unknown = |cause| FenceError::Unknown { lease_ms: self.setup.lease_ms, cause };
        match self.setup.storage.read(&paths::log_record(&self.setup.job, sequence)).await {
            Ok(bytes) => decode_log_record(&bytes).map(Some).map_err(|error| unknown(chain_of(&error))),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(unknown(chain_of(&error))),
        }
    }
}

impl State {
    fn is_own(&self, sequence: u64, record: &LogRecord) -> bool {
        match record {
            LogRecord::Claim { nonce, .. } => {
                self.attempts.contains(&Attempt(sequence)) || self.successor_nonce == Some(*nonce)
            }
            LogRecord::Completed { attempt, .. }
            | LogRecord::Dropped { attempt, .. }
            | LogRecord::Finished { attempt } => self.attempts.contains(attempt),
        }
    }

    fn has_lease(&self, now: Now) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.is_valid(now))
    }

    fn appended(&mut self, begun: Now) {
        if let Some(lease) = &mut self.lease {
            lease.appended(begun);
        }
    }

    fn passed(&mut self, next_sequence: u64) {
        self.next_sequence = self.next_sequence.max(next_sequence);
    }
}

/// What it means to an attempt that cannot go on without the effect.
impl From<FenceError> for AttemptFailure {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::Fenced { sequence } => Self::Fenced { sequence },
            FenceError::Unknown { lease_ms, cause } => Self::LeaseExpired { lease_ms, cause },
        }
    }
}

impl From<FenceError> for JobError {
    fn from(error: FenceError) -> Self {
        Self::Coordinator(error.into())
    }
}

fn poll_until_ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(ready) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return ready;
        }
    }
}

#[cfg(test)]
#[path = "fence_test.rs"]
mod fence_test;
