//! The hooks of the application in the coordinator: registered once, called for every checkpoint and every attempt.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytes::Bytes;
use highwater_checkpoint::{Event, HookState};
use highwater_state_api::{BoxedError, CheckpointId, JobName};
use highwater_stream_api::MasterTriggerRestoreHook;
use tokio::task::yield_now;

use crate::JobError;
use crate::error::chain_of;
use crate::fence::{Fence, FenceError};
use crate::options::checkpointing::IGNORE_UNCLAIMED_STATE;
use crate::threads::message_of;

/// The hooks of a job, in the order in which they were registered. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MasterHooks(Vec<Registered>);

#[derive(Clone)]
struct Registered {
    identifier: String,
    hook: Arc<Mutex<dyn MasterTriggerRestoreHook>>,
}

/// A hook cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MasterHookError {
    /// The identifier of a hook is blank.
    #[error("the identifier of a hook is blank: its state could not be found again")]
    BlankIdentifier,
    /// Two hooks have the same identifier.
    #[error("two hooks have the identifier {identifier:?}: they would get each other's state")]
    DuplicateIdentifier {
        /// The identifier.
        identifier: String,
    },
}

impl MasterHooks {
    /// Registers a hook. An error changes nothing.
    pub(crate) fn add(&mut self, hook: impl MasterTriggerRestoreHook) -> Result<(), MasterHookError> {
        let identifier = hook.identifier().to_owned();
        if identifier.trim().is_empty() {
            return Err(MasterHookError::BlankIdentifier);
        }
        if self.0.iter().any(|other| other.identifier == identifier) {
            return Err(MasterHookError::DuplicateIdentifier { identifier });
        }
        self.0.push(Registered { identifier, hook: Arc::new(Mutex::new(hook)) });
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(test)]
    fn identifiers(&self) -> Vec<String> {
        self.0.iter().map(|registered| registered.identifier.clone()).collect()
    }

    /// Takes part in a checkpoint, unless the fence says that another process has the job; the answer is for the coordinator.
    /// May wait. The first error counts, and the hooks behind it are not called.
    pub(crate) async fn trigger(&self, fence: &Fence, checkpoint: CheckpointId, triggered_at_ms: u64) -> Event {
        let mut states = Vec::new();
        for registered in &self.0 {
            let identifier = registered.identifier.clone();
            match fence.check().await {
                Ok(()) => {}
                Err(FenceError::Fenced { sequence }) => return Event::Fenced { sequence },
                Err(unknown @ FenceError::Unknown { .. }) => {
                    return Event::HookFailed { checkpoint, identifier: None, cause: chain_of(&unknown) };
                }
            }
            match registered.trigger(checkpoint, triggered_at_ms) {
                Ok(Some(state)) => states.push(HookState { identifier, state: Bytes::from(state) }),
                Ok(None) => {}
                Err(error) => {
                    let (identifier, cause) = (Some(identifier), chain_of(&*error));
                    return Event::HookFailed { checkpoint, identifier, cause };
                }
            }
        }
        Event::HooksTriggered { checkpoint, states }
    }

    /// Whether every hook that has state in a checkpoint is there.
    ///
    /// # Errors
    /// When one is not, unless that is ignored.
    pub(crate) fn check(
        &self,
        job: &JobName,
        checkpoint: CheckpointId,
        states: &[HookState],
        ignores_unclaimed: bool,
    ) -> Result<(), JobError> {
        let is_unclaimed = |state: &&HookState| !self.0.iter().any(|hook| hook.identifier == state.identifier);
        let Some(HookState { identifier, .. }) = states.iter().find(is_unclaimed) else { return Ok(()) };
        if ignores_unclaimed {
            tracing::warn!(target: "highwater::job", %job, hook = identifier, %checkpoint, "the state of a hook is lost");
            return Ok(());
        }
        let option = IGNORE_UNCLAIMED_STATE.key();
        let source = format!(
            "there is state of the hook {identifier:?}, which the job does not have: register it, or set `{option}: true` to \
             lose its state"
        );
        Err(JobError::Restore { checkpoint, source: source.into() })
    }

    /// Gives every hook what it had in a checkpoint. May wait.
    ///
    /// # Errors
    /// When a hook fails.
    pub(crate) async fn restore(
        &self,
        job: &JobName,
        checkpoint: CheckpointId,
        states: &[HookState],
    ) -> Result<(), JobError> {
        for registered in &self.0 {
            let own = states.iter().find(|state| state.identifier == registered.identifier);
            yield_now().await;
            registered
                .call(job, |hook| hook.restore_checkpoint(checkpoint, own.map(|own| &own.state[..])))
                .map_err(|error| registered.cannot_start(error))?;
        }
        Ok(())
    }

    /// Begins from nothing. May wait.
    pub(crate) async fn reset(&self, job: &JobName) -> Result<(), JobError> {
        for registered in &self.0 {
            yield_now().await;
            registered.call(job, |hook| hook.reset()).map_err(|error| registered.cannot_start(error))?;
        }
        Ok(())
    }

    /// The job has ended. One that is still at work on a checkpoint is not waited for: the owner of the job must hear how it
    /// has ended.
    pub(crate) fn close(&self, job: &JobName) {
        for registered in &self.0 {
            if let Err(error) = registered.call_unless_at_work(|hook| hook.close()) {
                let (hook, error) = (&registered.identifier, chain_of(&*error));
                tracing::warn!(target: "highwater::job", %job, hook, error, "a hook could not be closed");
            }
        }
    }
}

/// The hook of a [`Registered`], for one call.
type Locked<'a> = MutexGuard<'a, dyn MasterTriggerRestoreHook>;

impl Registered {
    /// A checkpoint that expires does not stop its hook. The next one does not wait for it: each would keep a thread from the
    /// storage.
    fn trigger(&self, checkpoint: CheckpointId, triggered_at_ms: u64) -> Result<Option<Vec<u8>>, BoxedError> {
        self.call_unless_at_work(|hook| hook.trigger_checkpoint(checkpoint, triggered_at_ms))
    }

    /// Calls the hook, once it is not at work any more. If it never comes back, only the log says what the job waits for.
    fn call<T>(
        &self,
        job: &JobName,
        call: impl FnOnce(&mut dyn MasterTriggerRestoreHook) -> Result<T, BoxedError>,
    ) -> Result<T, BoxedError> {
        if let Err(TryLockError::WouldBlock) = self.hook.try_lock() {
            let hook = &self.identifier;
            tracing::warn!(
                target: "highwater::job",
                %job,
                hook,
                "the start of the attempt waits for a hook that is still at work on an earlier checkpoint"
            );
        }
        Self::call_locked(self.hook.lock().unwrap_or_else(PoisonError::into_inner), call)
    }

    /// Calls the hook; an error if it is at work.
    fn call_unless_at_work<T>(
        &self,
        call: impl FnOnce(&mut dyn MasterTriggerRestoreHook) -> Result<T, BoxedError>,
    ) -> Result<T, BoxedError> {
        match self.hook.try_lock() {
            Ok(hook) => Self::call_locked(hook, call),
            Err(TryLockError::Poisoned(poisoned)) => Self::call_locked(poisoned.into_inner(), call),
            Err(TryLockError::WouldBlock) => Err("it is still at work on an earlier checkpoint".into()),
        }
    }

    /// Calls user code that must not take the coordinator down with it.
    fn call_locked<T>(
        mut hook: Locked<'_>,
        call: impl FnOnce(&mut dyn MasterTriggerRestoreHook) -> Result<T, BoxedError>,
    ) -> Result<T, BoxedError> {
        // A panic is an error of the hook, and whether the hook goes on after it is the hook's to decide.
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut *hook)));
        called.unwrap_or_else(|panic| Err(format!("panicked: {}", message_of(panic)).into()))
    }

    /// The checkpoint may be whole and fit the job: another attempt may succeed.
    fn cannot_start(&self, source: BoxedError) -> JobError {
        JobError::HookStart { hook: self.identifier.clone(), source }
    }
}

#[cfg(test)]
#[path = "master_hooks_test.rs"]
mod master_hooks_test;
