//! What hooks of the application are told, and what follows when one does not do its part.

use std::sync::mpsc;
use std::time::Duration;

use highwater_checkpoint::{AttemptStart, LogRecord, Now, encode_log_record, paths};
use highwater_conformance::{Fault, Faults, FaultyStorage, Operation, When};
use highwater_state_api::{Attempt, CheckpointStorage, JobName};
use highwater_state_backend_memory::MemoryCheckpointStorage;
use pollster::block_on;

use super::*;
use crate::fence::FenceSetup;

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it is told.
struct Noting {
    identifier: &'static str,
    log: Log,
    /// What it answers to a trigger; an error without it.
    state: Option<&'static [u8]>,
    fails: bool,
}

impl Noting {
    fn new(identifier: &'static str, log: &Log) -> Self {
        Self { identifier, log: log.clone(), state: Some(b"state"), fails: false }
    }

    fn note(&self, what: String) {
        self.log.lock().unwrap().push(format!("{} {what}", self.identifier));
    }
}

impl MasterTriggerRestoreHook for Noting {
    fn identifier(&self) -> &str {
        self.identifier
    }

    fn trigger_checkpoint(&mut self, checkpoint: CheckpointId, at_ms: u64) -> Result<Option<Vec<u8>>, BoxedError> {
        self.note(format!("takes part in {checkpoint} of {at_ms}"));
        assert!(self.identifier != "panics", "boom");
        if self.fails { Err("no session".into()) } else { Ok(self.state.map(<[u8]>::to_vec)) }
    }

    fn restore_checkpoint(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), BoxedError> {
        self.note(format!("is restored from {checkpoint} with {:?}", state.map(String::from_utf8_lossy)));
        if self.fails { Err("no session".into()) } else { Ok(()) }
    }

    fn reset(&mut self) -> Result<(), BoxedError> {
        self.note("begins from nothing".to_owned());
        Ok(())
    }

    fn close(&mut self) -> Result<(), BoxedError> {
        self.note("is closed".to_owned());
        Err("the session is gone".into())
    }
}

fn hooks(all: impl IntoIterator<Item = Noting>) -> MasterHooks {
    let mut hooks = MasterHooks::default();
    all.into_iter().for_each(|hook| hooks.add(hook).unwrap());
    hooks
}

fn job() -> JobName {
    JobName::new("job").unwrap()
}

fn trigger(hooks: &MasterHooks, checkpoint: u64, triggered_at_ms: u64) -> Event {
    block_on(hooks.trigger(&Fence::default(), CheckpointId(checkpoint), triggered_at_ms))
}

fn done(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

/// Contract: J212.
#[test]
fn a_blank_identifier_and_one_that_is_taken_are_refused() {
    let log = Log::default();
    let mut hooks = hooks([Noting::new("session", &log)]);
    for blank in ["", " \t"] {
        assert_eq!(hooks.add(Noting::new(blank, &log)), Err(MasterHookError::BlankIdentifier));
    }
    let taken = MasterHookError::DuplicateIdentifier { identifier: "session".to_owned() };
    assert_eq!(hooks.add(Noting::new("session", &log)), Err(taken));
    assert_eq!(hooks.identifiers(), ["session"]);
}

/// Contract: J212.
#[test]
fn every_hook_takes_part_in_its_order_and_gets_its_own_state_back() {
    let log = Log::default();
    let stateless = Noting { state: None, ..Noting::new("b", &log) };
    let hooks = hooks([Noting::new("a", &log), stateless, Noting { state: Some(b"c's"), ..Noting::new("c", &log) }]);
    let Event::HooksTriggered { checkpoint, states } = trigger(&hooks, 7, 42) else { panic!() };
    assert_eq!(checkpoint, CheckpointId(7));
    assert_eq!(done(&log), ["a takes part in 7 of 42", "b takes part in 7 of 42", "c takes part in 7 of 42"]);
    hooks.check(&job(), checkpoint, &states, false).unwrap();
    block_on(hooks.restore(&job(), checkpoint, &states)).unwrap();
    let expected = [
        "a is restored from 7 with Some(\"state\")",
        "b is restored from 7 with None",
        "c is restored from 7 with Some(\"c's\")",
    ];
    assert_eq!(done(&log), expected);
    block_on(hooks.reset(&job())).unwrap();
    hooks.close(&job());
    assert_eq!(done(&log).len(), 6, "the error of one hook keeps no other one from being closed");
}

/// Contract: J212.
#[test]
fn a_hook_that_fails_or_panics_fails_the_checkpoint_and_is_named() {
    let log = Log::default();
    let failing = hooks([Noting { fails: true, ..Noting::new("fails", &log) }, Noting::new("later", &log)]);
    let panicking = hooks([Noting::new("panics", &log)]);
    for _ in 0..2 {
        for (hooks, name, cause) in [(&failing, "fails", "no session"), (&panicking, "panics", "panicked: boom")] {
            let Event::HookFailed { identifier, cause: found, .. } = trigger(hooks, 1, 0) else { panic!() };
            assert_eq!((identifier.as_deref(), found.as_str()), (Some(name), cause));
        }
    }
    assert!(!done(&log).iter().any(|text| text.starts_with("later")));
}

/// Contract: J212.
#[test]
fn state_of_a_hook_that_is_not_there_is_an_error_unless_it_may_be_lost() {
    let log = Log::default();
    let hooks = hooks([Noting::new("here", &log)]);
    let states = [HookState { identifier: "gone".to_owned(), state: Bytes::from_static(b"x") }];
    let JobError::Restore { source, .. } = hooks.check(&job(), CheckpointId(3), &states, false).unwrap_err() else {
        panic!()
    };
    insta::assert_snapshot!(source.to_string());
    hooks.check(&job(), CheckpointId(3), &states, true).unwrap();
    block_on(hooks.restore(&job(), CheckpointId(3), &states)).unwrap();
    assert_eq!(done(&log), ["here is restored from 3 with None"]);
}

#[test]
fn a_hook_that_cannot_be_restored_fails_the_attempt_and_is_named() {
    let log = Log::default();
    let hooks = hooks([Noting { fails: true, ..Noting::new("session", &log) }]);
    let error = block_on(hooks.restore(&job(), CheckpointId(3), &[])).unwrap_err();
    assert_eq!(format!("{error:?}"), "hook \"session\" cannot start: no session");
}

/// Is at work until it is told to go on.
struct Slow {
    begun: mpsc::SyncSender<()>,
    goes_on: mpsc::Receiver<()>,
}

impl MasterTriggerRestoreHook for Slow {
    fn identifier(&self) -> &str {
        "slow"
    }

    fn trigger_checkpoint(&mut self, _: CheckpointId, _: u64) -> Result<Option<Vec<u8>>, BoxedError> {
        self.begun.send(())?;
        self.goes_on.recv()?;
        Ok(None)
    }

    fn restore_checkpoint(&mut self, _: CheckpointId, _: Option<&[u8]>) -> Result<(), BoxedError> {
        Ok(())
    }
}

/// Contract: J212.
#[test]
fn nobody_waits_for_a_hook_that_is_still_at_work_on_an_earlier_checkpoint() {
    let (begun, has_begun) = mpsc::sync_channel(1);
    let (go_on, goes_on) = mpsc::sync_channel(1);
    let mut hooks = MasterHooks::default();
    hooks.add(Slow { begun, goes_on }).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| trigger(&hooks, 1, 0));
        has_begun.recv().unwrap();
        let identifier = Some("slow".to_owned());
        let cause = "it is still at work on an earlier checkpoint".to_owned();
        assert_eq!(trigger(&hooks, 2, 0), Event::HookFailed { checkpoint: CheckpointId(2), identifier, cause });
        hooks.close(&job());
        go_on.send(()).unwrap();
        let triggered = Event::HooksTriggered { checkpoint: CheckpointId(1), states: Vec::new() };
        assert_eq!(first.join().unwrap(), triggered);
    });
}

/// Says that something was logged.
#[derive(Clone)]
struct Told(mpsc::SyncSender<String>);

impl std::io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.try_send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_start_of_an_attempt_waits_for_a_hook_that_is_still_at_work_and_says_so() {
    let (begun, has_begun) = mpsc::sync_channel(1);
    let (go_on, goes_on) = mpsc::sync_channel(1);
    let (tell, told) = mpsc::sync_channel(16);
    let mut hooks = MasterHooks::default();
    hooks.add(Slow { begun, goes_on }).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| trigger(&hooks, 1, 0));
        has_begun.recv().unwrap();
        let owner = scope.spawn(move || {
            let told = told.recv_timeout(Duration::from_secs(30));
            go_on.send(()).unwrap();
            told.unwrap()
        });
        let tell = Told(tell);
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || tell.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            block_on(hooks.restore(&job(), CheckpointId(1), &[])).unwrap()
        });
        let told = owner.join().unwrap();
        assert!(
            told.contains("still at work on an earlier checkpoint")
                && told.contains("slow")
                && told.contains("job=job"),
            "{told}"
        );
        first.join().unwrap();
    });
}

#[test]
fn a_hook_of_an_attempt_that_is_fenced_or_may_be_is_not_called() {
    let faults = Faults::default();
    let storage = Arc::new(FaultyStorage::new(Arc::new(MemoryCheckpointStorage::new()), faults.clone()));
    let job = JobName::new("job").unwrap();
    let start =
        AttemptStart { attempt: Attempt(2), first_checkpoint: CheckpointId(7), next_sequence: 3, retained: Vec::new() };
    let setup = FenceSetup {
        storage: storage.clone(),
        job: job.clone(),
        now: Box::new(Now::default),
        lease_ms: 0,
        runtime: None,
    };
    let fence = Fence::new(setup, &start, Now::default());
    let log = Log::default();
    let hooks = hooks([Noting::new("session", &log)]);
    let triggered = block_on(hooks.trigger(&fence, CheckpointId(7), 0));
    assert!(matches!(triggered, Event::HooksTriggered { .. }), "{triggered:?}");
    assert_eq!(done(&log).len(), 1);

    faults.arm(When::next(Operation::Read), Fault::FailBefore);
    let Event::HookFailed { identifier, cause, .. } = block_on(hooks.trigger(&fence, CheckpointId(7), 0)) else {
        panic!()
    };
    assert_eq!(identifier, None, "it is not the hook that has failed");
    assert!(cause.contains("the job log cannot be read"), "{cause}");
    assert_eq!(done(&log), [""; 0]);

    let claim = encode_log_record(&LogRecord::Claim { nonce: 5, first_checkpoint: CheckpointId(20) }).unwrap();
    block_on(storage.create_if_absent(&paths::log_record(&job, 3), Bytes::from(claim))).unwrap();
    assert_eq!(block_on(hooks.trigger(&fence, CheckpointId(8), 0)), Event::Fenced { sequence: 3 });
    assert_eq!(done(&log), [""; 0]);
}
