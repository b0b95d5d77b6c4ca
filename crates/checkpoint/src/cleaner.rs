//! Clean-up: what nothing can need any more is deleted beside the checkpoints, a few things at a time, until it is gone.
//!
//! Neither a checkpoint nor a start waits for clean-up, and the end of a job not for long. A storage that deletes slowly, or not at all for a while, costs space and no checkpoint; what
//! could not be deleted in this attempt is found by the next one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use highwater_state_api::ObjectPath;

use crate::Action;
use crate::backoff::wait_ms;

/// How many pieces are under way at the same time while the attempt lasts.
const UNDER_WAY_MAX: usize = 2;
/// How much may wait to be deleted. What is beyond it is left to the next attempt, which lists the storage.
const WAITING_MAX: usize = 10_000;
/// How many pieces are tried once more at the end of an attempt: the end of a job waits for them, though not for long.
const TRIED_AT_END_MAX: usize = 64;

/// How many objects are in one piece: between two of them the process may stop for good.
const OBJECTS_MAX: usize = 64;

/// Identifies a deletion within its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiscardId(pub u64);

/// What is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discard {
    /// The folder of a checkpoint, with everything in it.
    Folder(ObjectPath),
    /// Objects: state that came too late to be part of a checkpoint, records of the job log that no start needs, renewals of leases.
    Objects(Vec<ObjectPath>),
}

impl Discard {
    /// So many objects, in pieces that are not too large.
    pub fn of_objects(objects: &[ObjectPath]) -> impl Iterator<Item = Self> {
        objects.chunks(OBJECTS_MAX).map(|objects| Self::Objects(objects.to_vec()))
    }

    /// What is to be deleted, one after the other.
    pub fn each(&self) -> Vec<Self> {
        match self {
            Self::Folder(_) => vec![self.clone()],
            Self::Objects(paths) => paths.iter().map(|path| Self::Objects(vec![path.clone()])).collect(),
        }
    }
}

impl fmt::Display for Discard {
    /// For people: a folder, or how many objects and the first of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{folder}"),
            Self::Objects(paths) => match paths.as_slice() {
                [] => write!(f, "nothing"),
                [path] => write!(f, "{path}"),
                [path, others @ ..] => write!(f, "{path} and {} more", others.len()),
            },
        }
    }
}

#[derive(Debug, Clone)]
struct Waiting {
    discard: Discard,
    tries: u32,
    at_ms: u64,
}

/// The deletions of one attempt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cleaner {
    next_id: u64,
    /// In the order in which they are due, but for those that are tried again.
    waiting: VecDeque<Waiting>,
    under_way: BTreeMap<DiscardId, Waiting>,
}

impl Cleaner {
    /// How much is not deleted yet.
    pub(crate) fn backlog(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Something is to be deleted.
    pub(crate) fn push(&mut self, discard: Discard) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Waiting { discard, tries: 0, at_ms: 0 });
        }
    }

    /// What dead attempts have left. It leaves room for what this one leaves, and the rest to the next one.
    pub(crate) fn push_left_overs(&mut self, left_overs: Vec<Discard>) {
        left_overs.into_iter().take(WAITING_MAX / 2).for_each(|discard| self.push(discard));
    }

    /// It is gone.
    pub(crate) fn discarded(&mut self, id: DiscardId) {
        self.under_way.remove(&id);
    }

    /// It may still be there: it is tried again, later and later, behind what waits.
    pub(crate) fn failed(&mut self, now_ms: u64, id: DiscardId) {
        if let Some(mut waiting) = self.under_way.remove(&id) {
            waiting.tries = waiting.tries.saturating_add(1);
            waiting.at_ms = now_ms.saturating_add(wait_ms(waiting.tries));
            self.waiting.push_back(waiting);
        }
    }

    /// When something that failed is to be tried again, if there is room for it.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.under_way.len() == UNDER_WAY_MAX {
            return None;
        }
        self.waiting.iter().map(|waiting| waiting.at_ms).min()
    }

    /// Begins what is due, as far as there is room.
    pub(crate) fn on_time(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        while self.under_way.len() < UNDER_WAY_MAX
            && let Some(index) = self.waiting.iter().position(|waiting| waiting.at_ms <= now_ms)
            && let Some(waiting) = self.waiting.remove(index)
        {
            self.begin(waiting, actions);
        }
    }

    /// The attempt ends: what waits is tried once more, as far as that is not too much, and nobody asks what became of it.
    pub(crate) fn end(&mut self, actions: &mut Vec<Action>) {
        self.waiting.truncate(TRIED_AT_END_MAX);
        while let Some(waiting) = self.waiting.pop_front() {
            self.begin(waiting, actions);
        }
    }

    fn begin(&mut self, waiting: Waiting, actions: &mut Vec<Action>) {
        let id = DiscardId(self.next_id);
        self.next_id += 1;
        actions.push(Action::Discard { id, discard: waiting.discard.clone() });
        self.under_way.insert(id, waiting);
    }
}

#[cfg(test)]
mod tests {
    use highwater_state_api::{Attempt, CheckpointId, JobName};

    use super::*;
    use crate::paths;

    fn folder(number: u64) -> Discard {
        let (job, attempt) = (JobName::new("job").unwrap(), Attempt(1));
        Discard::Folder(paths::checkpoint_folder(&job, attempt, CheckpointId(number)))
    }

    fn begun(cleaner: &mut Cleaner, now_ms: u64) -> Vec<(DiscardId, Discard)> {
        let mut actions = Vec::new();
        cleaner.on_time(now_ms, &mut actions);
        let discard = |action| match action {
            Action::Discard { id, discard } => (id, discard),
            other => panic!("{other:?}"),
        };
        actions.into_iter().map(discard).collect()
    }

    #[test]
    fn few_are_under_way_at_a_time_and_in_order() {
        let mut cleaner = Cleaner::default();
        (0..5).for_each(|number| cleaner.push(folder(number)));
        let first = begun(&mut cleaner, 0);
        assert_eq!(first, [(DiscardId(0), folder(0)), (DiscardId(1), folder(1))]);
        assert_eq!(begun(&mut cleaner, 9), []);
        assert_eq!(cleaner.next_deadline(), None, "there is no room before one is gone");
        cleaner.discarded(DiscardId(1));
        assert_eq!(begun(&mut cleaner, 9), [(DiscardId(2), folder(2))]);
        assert_eq!(cleaner.backlog(), 4);
    }

    /// Contract: M243.
    #[test]
    fn what_cannot_be_deleted_is_tried_later_and_later_and_holds_nothing_up() {
        let mut cleaner = Cleaner::default();
        cleaner.push(folder(0));
        let mut waits = Vec::new();
        let mut now_ms = 0;
        for _ in 0..9 {
            let (id, discard) = begun(&mut cleaner, now_ms).pop().unwrap();
            assert_eq!(discard, folder(0));
            cleaner.failed(now_ms, id);
            let at_ms = cleaner.next_deadline().unwrap();
            assert_eq!(begun(&mut cleaner, at_ms - 1), []);
            waits.push(at_ms - now_ms);
            now_ms = at_ms;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        cleaner.push(folder(1));
        assert_eq!(begun(&mut cleaner, now_ms - 1), [(DiscardId(9), folder(1))], "others do not wait for it");
    }

    #[test]
    fn a_repeated_answer_changes_nothing() {
        let mut cleaner = Cleaner::default();
        cleaner.push(folder(0));
        begun(&mut cleaner, 0);
        cleaner.discarded(DiscardId(0));
        cleaner.failed(5, DiscardId(0));
        cleaner.discarded(DiscardId(0));
        assert_eq!((cleaner.backlog(), cleaner.next_deadline()), (0, None));
    }

    #[test]
    fn at_the_end_everything_that_waits_is_tried_once_more() {
        let mut cleaner = Cleaner::default();
        (0..9).for_each(|number| cleaner.push(folder(number)));
        begun(&mut cleaner, 0);
        cleaner.failed(0, DiscardId(0));
        let mut actions = Vec::new();
        cleaner.end(&mut actions);
        assert_eq!(actions.len(), 8);
    }

    /// With a storage that deletes slowly the job would end only when all of it is done.
    #[test]
    fn at_the_end_no_more_is_tried_than_a_job_can_wait_for() {
        let mut cleaner = Cleaner::default();
        (0..1_000).for_each(|number| cleaner.push(folder(number)));
        let mut actions = Vec::new();
        cleaner.end(&mut actions);
        assert_eq!(actions.len(), TRIED_AT_END_MAX);
    }

    #[test]
    fn what_waits_has_a_bound() {
        let mut cleaner = Cleaner::default();
        (0..WAITING_MAX as u64 + 100).for_each(|number| cleaner.push(folder(number)));
        assert_eq!(cleaner.backlog(), WAITING_MAX);
    }
}
