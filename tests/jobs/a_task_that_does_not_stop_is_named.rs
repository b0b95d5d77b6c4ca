//! Code of the user that blocks for ever keeps no owner of a job from cancelling it, nor the job from going on in another attempt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use highwater::connectors::CollectedRecords;
use highwater::prelude::*;

use crate::pace::{Grants, Pace};
use crate::support::{NEVER, assert_counted, count, environment, storage, take_checkpoints, wait_until};

/// It waits as long as such code is waited for, which is half a minute.
#[test]
fn and_the_next_start_of_its_job_goes_on() {
    const NUMBERS: u64 = 1_000;
    let (storage, records) = (storage(), CollectedRecords::default());
    let env = environment("stuck", storage.clone());
    env.enable_checkpointing(NEVER);
    let (release, released) = sync_channel::<()>(0);
    let (released, is_to_block) = (Arc::new(Mutex::new(released)), Arc::new(AtomicBool::new(false)));
    let blocks = is_to_block.clone();
    let visit = move |_| {
        if blocks.swap(false, Ordering::Relaxed) {
            let _ = released.lock().unwrap().recv();
        }
        Ok(())
    };
    let grants = Grants::new(NUMBERS / 2);
    count(&env, NUMBERS, Some(Pace::Granted(grants.clone())), &records, visit);
    let handle = env.execute_async().unwrap();
    take_checkpoints(&handle, 1);
    is_to_block.store(true, Ordering::Relaxed);
    grants.add(1);
    wait_until("the code blocks", || !is_to_block.load(Ordering::Relaxed));
    handle.cancel();
    let Err(JobError::Threads(cause)) = handle.wait() else { panic!("nothing was said") };
    assert_eq!(cause, "these tasks did not stop within 30 s, their code blocks: counter -> sink (0)");

    let env = environment("stuck", storage);
    count(&env, NUMBERS, None, &records, |_| Ok(()));
    assert_eq!(env.execute().unwrap().outcome, JobOutcome::Finished);
    assert_counted(&records, NUMBERS);
    drop(release);
}

/// Blocks where it is dropped, once.
#[derive(Clone)]
struct Blocks(Arc<(Mutex<Receiver<()>>, AtomicBool)>);

impl Drop for Blocks {
    fn drop(&mut self) {
        if self.0.1.swap(false, Ordering::Relaxed) {
            let _ = self.0.0.lock().unwrap().recv();
        }
    }
}

/// The same of a function that has said that it is done. What the log says counts more.
#[test]
fn also_where_it_blocks_when_it_is_dropped_unless_the_job_has_finished() {
    let run = |name: &str, pace: Option<Pace>| {
        let (release, released) = sync_channel::<()>(0);
        let blocks = Blocks(Arc::new((Mutex::new(released), AtomicBool::new(false))));
        let is_to_block = blocks.0.clone();
        let env = environment(name, storage());
        env.enable_checkpointing(NEVER);
        let cancels = pace.is_some();
        let grants = Grants::new(500);
        count(&env, 1_000, pace.or(Some(Pace::Granted(grants.clone()))), &CollectedRecords::default(), move |_| {
            let _ = &blocks;
            Ok(())
        });
        let handle = env.execute_async().unwrap();
        take_checkpoints(&handle, 1);
        is_to_block.1.store(true, Ordering::Relaxed);
        if cancels {
            handle.cancel();
        }
        grants.add_all();
        let end = handle.wait();
        drop(release);
        end
    };
    std::thread::scope(|scope| {
        let finished = scope.spawn(|| run("finished", None));
        let Err(JobError::Threads(cause)) = run("cancelled", Some(Pace::up_to(500))) else {
            panic!("nothing was said")
        };
        assert_eq!(cause, "these tasks did not stop within 30 s, their code blocks: counter -> sink (0)");
        assert_eq!(finished.join().unwrap().unwrap().outcome, JobOutcome::Finished);
    });
}
