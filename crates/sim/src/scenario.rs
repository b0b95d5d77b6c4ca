//! A scenario: what a seed decides before the first step, from the input to how often things go wrong.

use crate::dice::Dice;
use crate::record::Input;

/// How many subtasks each task has in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Subtasks of the source.
    pub sources: u32,
    /// Subtasks of the counter.
    pub counters: u32,
    /// Subtasks of the sink; as many as counters puts both into one task.
    pub sinks: u32,
}

/// Of 1,000 cases, how many go wrong, until the world is healed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FaultRates {
    /// A storage operation fails without effect.
    pub storage_before: u32,
    /// A storage operation fails after it has happened.
    pub storage_after: u32,
    /// A commit fails without effect.
    pub commit_before: u32,
    /// A commit fails after it has happened.
    pub commit_after: u32,
    /// A trigger is lost on its way.
    pub lost_trigger: u32,
    /// A notification is lost on its way.
    pub lost_notice: u32,
    /// An acknowledgement or a decline is lost on its way.
    pub lost_answer: u32,
    /// `Settled` is lost on its way.
    pub lost_settled: u32,
    /// The process is killed, in each step.
    pub kill: u32,
    /// The process stands still and is taken for dead, in each step.
    pub pause: u32,
    /// The newest checkpoint is damaged, in each step in which an older one is kept.
    pub damage: u32,
    /// The job is cancelled, in each step.
    pub cancel: u32,
    /// A function fails, in each step.
    pub task_failure: u32,
    /// A function fails to snapshot its state the next time, in each step.
    pub decline: u32,
    /// Storage work stands still, before any of its operations.
    pub hang: u32,
}

/// How likely each kind of step is, relative to the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// A subtask steps.
    pub subtask: u32,
    /// A message reaches a subtask.
    pub control: u32,
    /// A report reaches the master.
    pub report: u32,
    /// Storage work goes on by one operation.
    pub storage: u32,
    /// Time goes on.
    pub time: u32,
}

/// The numbers of the protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol {
    /// Time between two checkpoints.
    pub interval_ms: u64,
    /// Time within which a checkpoint must be taken.
    pub timeout_ms: u64,
    /// Least time between two checkpoints.
    pub min_pause_ms: u64,
    /// How many may be taken at the same time.
    pub max_concurrent: u32,
    /// How many may fail in a row.
    pub tolerable_failures: u32,
    /// How many are retained.
    pub retain: usize,
}

/// What a seed decides before the first step.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// What is read.
    pub input: Input,
    /// What another pipeline reads, if there is one: then each pipeline is a region that is restarted alone.
    pub other_input: Option<Input>,
    /// Whether event time is read from the records, by a second operator in the source's chain.
    pub with_timestamps: bool,
    /// Number of key groups.
    pub max_parallelism: u32,
    /// Whether that number is set again after a restart, or adopted from the checkpoint.
    pub sets_max_parallelism: bool,
    /// Bytes of ballast in the state of each key: much of it makes state too large for the metadata.
    pub ballast_bytes: usize,
    /// Bound of each channel.
    pub channel_bytes_max: usize,
    /// How many records a source emits before it pauses; 0: it never does.
    pub source_burst: u32,
    /// The numbers of the protocol.
    pub protocol: Protocol,
    /// How often things go wrong.
    pub faults: FaultRates,
    /// How many kills there are at most.
    pub kills_max: u32,
    /// How often a process stands still at most.
    pub pauses_max: u32,
    /// How often the newest checkpoint is damaged at most. Where it may be, a start goes on from an older one.
    pub damages_max: u32,
    /// How often the owner cancels the job, whose checkpoints are dropped then, and starts it again.
    pub cancels_max: u32,
    /// How long a lease is: 0 has the log read before each effect.
    pub lease_ms: u64,
    /// Whether a process waits until whoever has the job is silent for a lease; then whoever has it renews its lease.
    pub stands_by: bool,
    /// How likely each kind of step is.
    pub pace: Pace,
    /// In how many steps things go wrong; then the world is healed.
    pub chaos_steps: u64,
    /// Whether the healing begins with a new process, or in the middle of a running one.
    pub heals_with_restart: bool,
}

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let input = Input::draw(dice);
        // One seed in six is calm: whatever goes wrong there cannot be excused by a fault.
        let is_calm = dice.chance(160);
        let mut faults = if is_calm { FaultRates::default() } else { FaultRates::draw(dice) };
        let other_input = dice.chance(160).then(|| Input::draw_short(dice));
        if other_input.is_some() && !is_calm {
            faults.task_failure = dice.pick(&[1, 2, 5]);
        }
        let speed = |dice: &mut Dice| dice.pick(&[1, 3, 10, 10]);
        let interval_ms = dice.pick(&[2, 5, 10, 20]);
        let lease_ms = dice.pick(&[0, 0, 20, 60]);
        let stands_by = lease_ms > 0 && dice.chance(750);
        // Who does not wait for the lease of others may begin anew while one of them still commits.
        let may_cancel = lease_ms == 0 || stands_by;
        if !is_calm && may_cancel && dice.chance(150) {
            faults.cancel = dice.pick(&[1, 2, 5]);
        }
        let mut retain = dice.pick(&[1, 1, 2, 3]);
        if !is_calm && may_cancel && dice.chance(150) {
            faults.damage = dice.pick(&[10, 50]);
            // Otherwise hardly two checkpoints are complete before the world is healed.
            faults.storage_before = faults.storage_before.min(20);
            faults.kill = faults.kill.min(2);
            retain = dice.pick(&[2, 3]);
        }
        Self {
            input,
            other_input,
            with_timestamps: dice.chance(400),
            max_parallelism: dice.pick(&[3, 4, 8, 16]),
            sets_max_parallelism: dice.chance(500),
            ballast_bytes: dice.pick(&[0, 0, 4_000, 8_000]),
            channel_bytes_max: dice.pick(&[1, 100, 400, 100_000]),
            source_burst: dice.pick(&[0, 0, 1, 5]),
            protocol: Protocol {
                interval_ms,
                timeout_ms: dice.pick(&[50, 200, 800]),
                min_pause_ms: dice.pick(&[0, 0, 7]),
                max_concurrent: dice.pick(&[1, 1, 2, 3]),
                tolerable_failures: dice.pick(&[0, 3, u32::MAX, u32::MAX]),
                retain,
            },
            faults,
            kills_max: dice.pick(&[1, 2, 3, 5]),
            pauses_max: dice.pick(&[1, 2, 3]),
            damages_max: dice.pick(&[1, 2]),
            cancels_max: dice.pick(&[1, 1, 2]),
            lease_ms,
            stands_by,
            pace: Pace {
                subtask: speed(dice),
                control: speed(dice),
                report: speed(dice),
                storage: speed(dice),
                time: dice.pick(&[1, 3, 5]),
            },
            chaos_steps: dice.between(100, 3_000),
            heals_with_restart: dice.chance(500),
        }
    }

    /// How many subtasks there are in the next process.
    pub(crate) fn topology(dice: &mut Dice) -> Topology {
        let (sources, counters, sinks) =
            dice.pick(&[(2, 2, 1), (2, 2, 1), (2, 2, 2), (1, 3, 1), (1, 3, 3), (3, 1, 1), (2, 3, 2), (1, 1, 1)]);
        Topology { sources, counters, sinks }
    }
}

impl FaultRates {
    /// Most seeds have a few kinds of fault, so that no kind hides behind another.
    fn draw(dice: &mut Dice) -> Self {
        Self {
            storage_before: dice.pick(&[0, 0, 20, 100]),
            storage_after: dice.pick(&[0, 0, 20, 100]),
            commit_before: dice.pick(&[0, 0, 100, 500]),
            commit_after: dice.pick(&[0, 0, 100, 500]),
            lost_trigger: dice.pick(&[0, 0, 50, 200]),
            lost_notice: dice.pick(&[0, 0, 50, 300]),
            lost_answer: dice.pick(&[0, 0, 20, 100]),
            lost_settled: dice.pick(&[0, 0, 100, 300]),
            kill: dice.pick(&[0, 1, 2, 4]),
            pause: dice.pick(&[0, 0, 2, 6]),
            damage: 0,
            cancel: 0,
            task_failure: dice.pick(&[0, 0, 0, 2]),
            decline: dice.pick(&[0, 0, 5, 20]),
            hang: dice.pick(&[0, 0, 0, 5, 20]),
        }
    }

    /// No fault at all: the world is healed.
    pub(crate) fn none() -> Self {
        Self::default()
    }
}

impl Pace {
    /// Everything is equally fast, and time hardly passes.
    pub(crate) fn even() -> Self {
        Self { subtask: 10, control: 10, report: 10, storage: 10, time: 1 }
    }
}
