//! Storage work in flight: the production's own futures, polled by hand, one storage operation at a time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use highwater_checkpoint::{Action, Discard, Event, LogRecord};
use highwater_runtime::control::Report;
use highwater_runtime::{AsyncSnapshot, Fence, Renewals, carry_out};
use highwater_state_api::{Attempt, JobName};

use crate::planted::Planted;
use crate::process::Process;
use crate::storage::SimStorage;

/// What storage work is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The asynchronous half of a snapshot.
    Snapshot,
    /// The metadata of a checkpoint.
    Metadata,
    /// The record that makes a checkpoint complete.
    Publication,
    /// Another record of the log, or reading it.
    Log,
    /// Something is deleted.
    Discard,
    /// The lease is renewed.
    Lease,
}

/// What storage work results in.
pub(crate) enum Outcome {
    /// The answer to an action; discarding has none.
    Answer(Option<Event>),
    /// What is reported of a snapshot.
    Report(Report),
    /// The lease was renewed; or the attempt hears that it has lost the job.
    Renewed(Renewals, Option<Event>),
}

/// Storage work in flight.
pub(crate) struct Work {
    /// The attempt that began it.
    pub attempt: Attempt,
    /// What it is about.
    pub kind: Kind,
    /// What it is about, for the trace.
    pub name: String,
    /// Whether another attempt had claimed the job when it was begun; `None` until then.
    pub begun_fenced: Option<bool>,
    /// Whether it stands still, for a long time or for ever.
    pub hangs: bool,
    future: Pin<Box<dyn Future<Output = Outcome>>>,
}

impl Work {
    /// An action is carried out.
    pub(crate) fn action(
        storage: &SimStorage,
        job: &JobName,
        process: &Process,
        action: Action,
        planted: Option<Planted>,
    ) -> Self {
        let (kind, name) = describe(&action);
        let (storage, job, mut fence) = (storage.clone(), job.clone(), process.fence.clone());
        if planted == Some(Planted::FencedAttemptDeletes) && kind == Kind::Discard {
            fence = Fence::default();
        }
        let future = async move { Outcome::Answer(carry_out(&storage, &job, &fence, action).await) };
        Self { attempt: process.attempt, kind, name, begun_fenced: None, hangs: false, future: Box::pin(future) }
    }

    /// The lease of an attempt is renewed.
    pub(crate) fn renewal(attempt: Attempt, mut renewals: Renewals) -> Self {
        let future = async move {
            let event = renewals.renew().await;
            Outcome::Renewed(renewals, event)
        };
        let name = "renew the lease".to_owned();
        Self { attempt, kind: Kind::Lease, name, begun_fenced: None, hangs: false, future: Box::pin(future) }
    }

    /// A snapshot is written.
    pub(crate) fn snapshot(storage: SimStorage, snapshot: AsyncSnapshot) -> Self {
        let attempt = snapshot.attempt;
        let name = format!("write the snapshot of {} for checkpoint {}", snapshot.subtask, snapshot.checkpoint);
        let future = async move { Outcome::Report(snapshot.write(&storage).await) };
        Self { attempt, kind: Kind::Snapshot, name, begun_fenced: None, hangs: false, future: Box::pin(future) }
    }

    /// Goes on by one storage operation. Returns what it results in, once it is done.
    pub(crate) fn go_on(&mut self) -> Option<Outcome> {
        poll_once(self.future.as_mut())
    }
}

/// Polls a future by hand. Nobody wakes it: where it gives way, it goes on when it is polled again.
pub(crate) fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn describe(action: &Action) -> (Kind, String) {
    match action {
        Action::InitializeLocation { checkpoint, .. } => {
            (Kind::Metadata, format!("make the place of checkpoint {checkpoint} ready"))
        }
        Action::WriteMetadata { checkpoint, .. } => {
            (Kind::Metadata, format!("write the metadata of checkpoint {checkpoint}"))
        }
        Action::AppendLog { sequence, record: LogRecord::Completed { checkpoint, .. } } => {
            (Kind::Publication, format!("log {sequence}: checkpoint {checkpoint} is complete"))
        }
        Action::AppendLog { sequence, record } => (Kind::Log, format!("log {sequence}: {record:?}")),
        Action::ReadLog { sequence } => (Kind::Log, format!("read log {sequence}")),
        Action::Discard { discard: Discard::Folder(folder), .. } => (Kind::Discard, format!("discard {folder}")),
        Action::Discard { discard: Discard::Objects(paths), .. } => {
            let paths: Vec<_> = paths.iter().map(|path| path.as_str()).collect();
            (Kind::Discard, format!("discard {}", paths.join(", ")))
        }
        other => unreachable!("{other:?} is not storage work"),
    }
}
