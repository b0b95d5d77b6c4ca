//! A hook of the application in the coordinator: its state is in every checkpoint and comes back with it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::FileSystemCheckpointStorage;
use highwater::connectors::CollectedRecords;
use highwater::prelude::*;
use highwater::runtime::{CheckpointFailureReason, MasterHookError};
use highwater::state::{CheckpointStorage, ObjectPath};
use pollster::block_on;

use crate::pace::{Grants, Pace};
use crate::support::{assert_counted, count, environment, storage, wait_until};

const NUMBERS: u64 = 400;

/// Counts the checkpoints that it took part in, in its state.
#[derive(Clone, Default)]
struct Session {
    identifier: &'static str,
    taken: u8,
    log: Arc<Mutex<Vec<String>>>,
    /// Held while a trigger is to wait.
    gate: Arc<Mutex<()>>,
    fails: Arc<Mutex<bool>>,
}

impl MasterTriggerRestoreHook for Session {
    fn identifier(&self) -> &str {
        self.identifier
    }

    fn trigger_checkpoint(&mut self, checkpoint: CheckpointId, _: u64) -> Result<Option<Vec<u8>>> {
        self.log.lock().unwrap().push(format!("begins {checkpoint}"));
        drop(self.gate.lock().unwrap());
        if *self.fails.lock().unwrap() {
            return Err("the session is gone".into());
        }
        self.taken += 1;
        Ok(Some(vec![self.taken]))
    }

    fn restore_checkpoint(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<()> {
        self.taken = state.map_or(0, |state| state[0]);
        self.log.lock().unwrap().push(format!("restored from {checkpoint} with {state:?}"));
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.log.lock().unwrap().push("begins from nothing".to_owned());
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.log.lock().unwrap().push("closed".to_owned());
        Ok(())
    }
}

fn session(identifier: &'static str) -> Session {
    Session { identifier, ..Session::default() }
}

fn env(storage: Arc<dyn CheckpointStorage>) -> StreamExecutionEnvironment {
    let env = environment("hooked", storage);
    env.enable_checkpointing(Duration::from_secs(3_600)).set_tolerable_checkpoint_failures(0);
    env
}

fn start(env: &StreamExecutionEnvironment, grants: &Grants, records: &CollectedRecords<(u64, u64)>) -> JobHandle {
    count(env, NUMBERS, Some(Pace::Granted(grants.clone())), records, |_| Ok(()));
    env.execute_async().unwrap()
}

fn log(session: &Session) -> Vec<String> {
    session.log.lock().unwrap().clone()
}

/// Contract: J212.
#[test]
fn and_gets_its_state_back() {
    let (storage, records) = (storage(), CollectedRecords::default());
    let first = session("session");
    let env1 = env(storage.clone());
    env1.add_master_hook(first.clone()).unwrap();
    let grants = Grants::new(NUMBERS / 2);
    let handle = start(&env1, &grants, &records);
    handle.trigger_checkpoint().wait().unwrap();
    handle.trigger_checkpoint().wait().unwrap();
    handle.cancel();
    assert!(matches!(handle.wait(), Err(JobError::Cancelled)));
    assert_eq!(log(&first), ["begins from nothing", "begins 1", "begins 2", "closed"]);

    // Without the hook its state is not lost by mistake.
    let env2 = env(storage.clone());
    env2.set_restart_strategy(RestartStrategy::None);
    let error = start(&env2, &grants, &records).wait().unwrap_err();
    assert!(matches!(error.cause(), JobError::Restore { .. }), "{error:?}");

    let second = session("session");
    let env3 = env(storage.clone());
    env3.add_master_hook(second.clone()).unwrap();
    grants.add_all();
    start(&env3, &grants, &records).wait().unwrap();
    assert_counted(&records, NUMBERS);
    assert_eq!(log(&second), ["restored from 2 with Some([2])", "begins 3", "closed"]);
}

/// Whether the damage shows in the metadata, before the claim, or in the state, after it.
///
/// Contract: M246.
#[test]
fn of_the_older_checkpoint_when_the_newest_is_damaged() {
    for part in ["_metadata", "counter-"] {
        let folder = tempfile::tempdir().unwrap();
        let files = FileSystemCheckpointStorage::new(folder.path()).unwrap().with_inline_bytes_max(0).unwrap();
        let (storage, records) = (Arc::new(files), CollectedRecords::default());
        let env1 = env(storage.clone());
        env1.set_max_retained_checkpoints(2).add_master_hook(session("session")).unwrap();
        let grants = Grants::new(NUMBERS / 2);
        let handle = start(&env1, &grants, &records);
        let newest = [1, 2].map(|_| handle.trigger_checkpoint().wait().unwrap())[1];
        handle.cancel();
        handle.wait().unwrap_err();
        let objects = block_on(storage.list(&ObjectPath::new(["hooked"]))).unwrap();
        let is_hit =
            |path: &&ObjectPath| path.as_str().contains(&format!("chk-{newest}-")) && path.name().starts_with(part);
        let damaged: Vec<_> = objects.iter().filter(is_hit).collect();
        assert!(!damaged.is_empty(), "{objects:?}");
        damaged.into_iter().for_each(|path| block_on(storage.delete(path)).unwrap());

        let hook = session("session");
        let env2 = env(storage);
        env2.set_max_retained_checkpoints(2).set_fall_back_to_older_checkpoint(true);
        env2.add_master_hook(hook.clone()).unwrap();
        grants.add_all();
        start(&env2, &grants, &records).wait().unwrap();
        assert_eq!(log(&hook)[0], "restored from 1 with Some([1])", "{part}");
        assert_eq!(log(&hook).iter().filter(|line| line.starts_with("restored")).count(), 1, "{part}");
    }
}

/// Contract: J212.
#[test]
fn whose_state_may_be_given_up() {
    let (storage, records) = (storage(), CollectedRecords::default());
    let env1 = env(storage.clone());
    env1.add_master_hook(session("gone")).unwrap();
    let grants = Grants::new(NUMBERS / 2);
    let handle = start(&env1, &grants, &records);
    handle.trigger_checkpoint().wait().unwrap();
    handle.cancel();
    handle.wait().unwrap_err();
    let env2 = env(storage);
    env2.configure(Configuration::from([("execution.state-recovery.ignore-unclaimed-state", "true")]));
    grants.add_all();
    start(&env2, &grants, &records).wait().unwrap();
    assert_counted(&records, NUMBERS);
}

/// Contract: J212.
#[test]
fn and_one_that_is_slow_delays_the_trigger_and_one_that_fails_aborts_the_checkpoint() {
    let records = CollectedRecords::default();
    let hook = session("slow");
    let env = env(storage());
    env.add_master_hook(hook.clone()).unwrap();
    assert_eq!(env.add_master_hook(session(" ")).err(), Some(MasterHookError::BlankIdentifier));
    let taken = MasterHookError::DuplicateIdentifier { identifier: "slow".to_owned() };
    assert_eq!(env.add_master_hook(session("slow")).err(), Some(taken));
    let grants = Grants::new(NUMBERS / 2);
    let handle = start(&env, &grants, &records);
    let held = hook.gate.lock().unwrap();
    let pending = handle.trigger_checkpoint();
    wait_until("the hook is asked", || log(&hook).contains(&"begins 1".to_owned()));
    let stats = handle.checkpoint_stats();
    assert_eq!((stats.pending.len(), stats.pending[0].is_begun), (1, false), "no subtask is asked meanwhile: {stats}");
    drop(held);
    pending.wait().unwrap();

    *hook.fails.lock().unwrap() = true;
    let failure = handle.trigger_checkpoint().wait().unwrap_err();
    assert_eq!(failure.reason, CheckpointFailureReason::TriggerCheckpointFailure);
    assert_eq!(failure.message, "the hook \"slow\" failed: the session is gone");
    *hook.fails.lock().unwrap() = false;
    grants.add_all();
    assert_eq!(handle.wait().unwrap().status.checkpoints_failed, 1);
    assert_counted(&records, NUMBERS);
}
