//! The newest checkpoint is damaged while an older one is kept: a start goes back to that one, and says so in the log.
//!
//! What is promised then: nothing of what the older checkpoint holds is lost or comes twice; what followed it outside the job
//! stays there and comes once more. So from the record on, what was committed after the older checkpoint is set aside, and
//! everything else has to be as if the job had never got further: all invariants go on with that.

use highwater_checkpoint::paths;
use highwater_state_api::CheckpointId;

use crate::invariants::{Violation, consistency};
use crate::view::{CheckpointView, read_durable};
use crate::world::World;

impl World {
    /// Damages the newest complete checkpoint, if an older one is whole. Whether it did.
    pub(crate) fn damage(&mut self) -> bool {
        let Some((attempt, checkpoint)) = self.completed.may_be_damaged() else { return false };
        let paths = self.storage.peek_paths();
        let is_of_it = |path: &&_| paths::checkpoint_of(&self.job, path) == Some((checkpoint, attempt));
        let objects: Vec<_> = paths.iter().filter(is_of_it).collect();
        if objects.is_empty() {
            return false;
        }
        let path = objects[self.dice.below(objects.len() as u64) as usize];
        let place = self.dice.chance(600).then(|| self.dice.next());
        self.storage.damage(path, place);
        self.completed.damaged(attempt, checkpoint);
        let how = if place.is_some() { "a byte of it is another one" } else { "it is gone" };
        self.trace.write(self.now_ms, "storage", format_args!("{path} is damaged: {how}"));
        self.coverage.count(if place.is_some() {
            "damage: a byte is another one"
        } else {
            "damage: an object is gone"
        });
        self.tempt_fate();
        true
    }

    /// The log says that the job has gone back to this checkpoint.
    pub(crate) fn note_fell_back(&mut self, newest: CheckpointId) -> Result<(), Violation> {
        self.coverage.count("damage: a start has fallen back");
        // What it has passed over is deleted by the next start.
        self.may_leave_behind = true;
        let went_back = self.surroundings.pipelines.iter().map(|pipeline| pipeline.outside.go_back_to(Some(newest)));
        if went_back.sum::<usize>() > 0 {
            self.coverage.count("damage: a start has fallen back behind what was committed");
        }
        // A checkpoint may be damaged where nobody has to look.
        let [(attempt, checkpoint, metadata)] = self.completed.newest(1) else { return Ok(()) };
        if *checkpoint != newest {
            let found = format!("the job goes back to checkpoint {newest}, the newest that is left is {checkpoint}");
            return Err(Violation::new("starts go on from the newest", found));
        }
        if self.completed.is_damaged(*attempt, *checkpoint) {
            return Ok(());
        }
        let violation = |error| Violation::new("I1 consistency", format!("the job goes back to {newest}: {error}"));
        let metadata = read_durable(&self.storage, metadata).map_err(violation)?;
        for pipeline in &self.surroundings.pipelines {
            let view = CheckpointView::read(&self.storage, &metadata, pipeline.uids).map_err(violation)?;
            consistency::check(pipeline, &view)?;
        }
        Ok(())
    }
}
