//! Every reason why a checkpoint fails, as a story each: what happens, what the coordinator does, what the owner of the job
//! sees of it.

use crate::CheckpointFailureReason::{self, *};
use crate::request::WAITING_MAX;
use crate::script_test::{ATTEMPT, config, now, run, run_observed, start};
use crate::{CheckpointStatsTracker, Coordinator, CoordinatorConfig};

struct Story {
    reason: CheckpointFailureReason,
    /// What happens, for people.
    plot: &'static str,
    /// What is different from the usual configuration.
    config: CoordinatorConfig,
    script: String,
}

/// The reasons that the coordinator never hears of.
const OF_SENDERS: [CheckpointFailureReason; 2] = [BlockingOutputExist, UnknownTaskCheckpointNotificationFailure];

fn story(reason: CheckpointFailureReason, plot: &'static str, script: &str) -> Story {
    // One failure is tolerated, so that the second one in a row shows whether the reason counts.
    let config = CoordinatorConfig { tolerable_failures: 1, ..config() };
    Story { reason, plot, config, script: script.to_owned() }
}

/// A subtask declines two checkpoints in a row.
fn declined(reason: CheckpointFailureReason, plot: &'static str, message: &str) -> Story {
    let name = reason.name();
    let script = format!(
        "@0 running\n@1000 enumerated 1\n ack-only 1 0/0\n @1100 decline 1 1/0 {name} {message}\n ack-only 1 1/1\n\
         @2000 enumerated 2\n @2100 decline 2 1/0 {name} {message}\n @3000"
    );
    story(reason, plot, &script)
}

fn stories() -> Vec<Story> {
    let without_interval =
        |story: Story| Story { config: CoordinatorConfig { interval_ms: None, ..story.config }, ..story };
    let requests = (1..=WAITING_MAX + 1).map(|id| format!("request {id}\n")).collect::<String>();
    vec![
        story(
            PeriodicSchedulerShutdown,
            "Somebody makes a tick of the periodic trigger while periodic checkpoints are stopped.",
            "@0 running\n stop-scheduler\n @500 request 1 periodic\n @5000",
        ),
        without_interval(Story {
            script: format!("@0\n {requests} request 2000 forced"),
            ..story(
                TooManyCheckpointRequests,
                "More is asked for than may wait; the least and youngest request goes.",
                "",
            )
        }),
        Story {
            config: CoordinatorConfig { min_pause_ms: 1_500, tolerable_failures: 0, ..config() },
            ..story(
                MinimumTimeBetweenCheckpoints,
                "Somebody makes a tick of the periodic trigger within the minimum pause.",
                "@0 running\n @1500 enumerated 1\n ack 1\n written 1\n appended 6\n @2000 request 1 periodic\n @2999\n @3000",
            )
        },
        story(
            NotAllRequiredTasksRunning,
            "A periodic checkpoint is asked for before the last subtask runs. Another request waits.",
            "@0 running-only 0/0\n running-only 0/1\n running-only 1/0\n request 1 periodic\n request 2\n \
             @10 running-only 1/1",
        ),
        story(
            IoException,
            "The storage is away when a checkpoint begins, twice. No subtask hears of it before.",
            "by-hand\n @0 running\n @1000\n location-failed 1 no such disk\n @2000\n location-failed 2 no such disk\n @3000",
        ),
        declined(
            DeclinedTaskNotReady,
            "A subtask is still committing what it was restored with.",
            "1 transaction is open",
        ),
        declined(DeclinedTaskClosing, "A subtask has been told to stop.", "it stops"),
        declined(DeclinedSubsumed, "The barrier of a newer checkpoint came first.", "2 came first"),
        declined(
            DeclinedTimeOut,
            "One barrier does not come to a subtask that has not heard that it expired.",
            "1 of 2 came",
        ),
        declined(DeclinedOnCancellationBarrier, "A source has given it up and says so downstream.", "said upstream"),
        declined(
            DeclinedInputEndOfStream,
            "An input ends before its barrier has come, and checkpoints after the end of tasks are turned off.",
            "source (0 of 2) has ended",
        ),
        declined(Declined, "A function cannot write its state.", "counter: the cache is away"),
        declined(AsyncException, "The disk is full.", "disk full"),
        story(
            Expired,
            "A counter is late, twice. What it sends afterwards is deleted.",
            "@0 running\n @1000 enumerated 1\n ack-only 1 0/0\n ack-only 1 0/1\n @1200 ack-only 1 1/0\n @1600\n \
             @1700 ack-only 1 1/1\n @2000 enumerated 2\n ack-only 2 0/0\n @2600",
        ),
        Story {
            config: CoordinatorConfig { max_concurrent: 2, timeout_ms: 60_000, tolerable_failures: 0, ..config() },
            ..story(
                Subsumed,
                "The second checkpoint is complete before the first.",
                "@0 running\n @1000 enumerated 1\n ack-only 1 0/0\n @2000 enumerated 2\n ack 2\n written 2\n appended 6\n \
                 @2100 ack-only 1 1/0",
            )
        },
        story(
            CoordinatorShutdown,
            "The job is cancelled while a checkpoint is pending and a request waits.",
            "@0 running\n @1000 enumerated 1\n request 1\n shutdown\n request 2\n ack 1",
        ),
        story(
            CoordinatorSuspend,
            "Periodic checkpoints are stopped while one is pending and a request waits.",
            "@0 running\n @1000 enumerated 1\n request 1\n stop-scheduler\n @5000",
        ),
        story(
            JobFailoverRegion,
            "A task fails of which only the region is restarted, while a checkpoint is pending and a request waits.",
            "@0 running\n @1000 enumerated 1\n ack-only 1 0/0\n request 1\n region-failed 1/0 index out of bounds\n \
             request 2\n @2000 ack 1",
        ),
        declined(
            TaskCheckpointFailure,
            "A subtask that is not there was asked to take part.",
            "there is no subtask 1/0",
        ),
        story(
            TaskFailure,
            "A task fails while a checkpoint is pending and a request waits.",
            "@0 running\n @1000 enumerated 1\n ack-only 1 0/0\n request 1\n task-failed 1/0 index out of bounds\n ack 1",
        ),
        story(
            TriggerCheckpointFailure,
            "A split enumerator cannot be snapshotted, twice. No source is told; the third checkpoint completes.",
            "@0 running\n @1000\n enumerator-failed 1 cannot list the topic\n @2000\n enumerator-failed 2 cannot list the \
             topic\n @3000 enumerated 3\n ack 3\n written 3\n appended 6",
        ),
        story(
            FinalizeCheckpointFailure,
            "The metadata cannot be written, twice.",
            "@0 running\n @1000 enumerated 1\n ack 1\n write-failed 1\n @2000 enumerated 2\n ack 2\n write-failed 2\n @3000",
        ),
    ]
}

/// Contract: J212.
#[test]
fn hooks_take_part_before_the_sources_are_told_and_one_that_fails_or_is_slow_fails_the_checkpoint() {
    let config = CoordinatorConfig { tolerable_failures: 1, ..config() };
    let mut coordinator = Coordinator::new(config, start()).with_hooks();
    insta::assert_snapshot!(run(
        &mut coordinator,
        "
        @0 running
        @1000 enumerated 1
        @1300 hooks 1 session cache
        ack 1
        written 1
        appended 6
        @2000 enumerated 2
        hook-failed 2 no session
        @3000 enumerated 3
        @3600
        hooks 3 session
        @4000 enumerated 4
        hooks 4
        ack 4
        written 4
        appended 7
        @5000 enumerated 5
        hooks-not-called 5 the log cannot be read
        "
    ));
}

/// Contract: J199, J204, J206, J208, J209, J210, J213, K223, K224, L226, L230, L235, O275.
#[test]
fn every_reason_that_can_be_raised_is_a_story() {
    let mut told = Vec::new();
    for Story { reason, plot, config, script } in stories() {
        let mut tracker = CheckpointStatsTracker::new(10);
        tracker.begin_attempt(now(0), ATTEMPT, None, &config);
        let transcript = run_observed(&mut Coordinator::new(config, start()), &script, |now, event, actions| {
            tracker.on_event(now, event);
            actions.iter().for_each(|action| tracker.on_action(now, action));
        });
        // A thousand requests tell nothing that the last ones do not.
        let lines: Vec<&str> = transcript.lines().collect();
        let transcript = if lines.len() > 100 { lines[lines.len() - 8..].join("\n") + "\n" } else { transcript };
        let counts = if reason.counts() { "counts" } else { "does not count" };
        let text = format!(
            "{}, {counts}: {reason}\n{plot}\n\n{transcript}\nwhat the owner of the job sees:\n{}",
            reason.name(),
            tracker.snapshot()
        );
        let is_seen = tracker.snapshot().to_string().contains(reason.name());
        assert!(is_seen || transcript.contains(reason.name()), "{text}");
        insta::assert_snapshot!(reason.name().to_ascii_lowercase(), text);
        told.push(reason);
    }
    let raised = CheckpointFailureReason::all().filter(|reason| reason.comes_with().is_none());
    let expected: Vec<_> = raised.filter(|reason| !OF_SENDERS.contains(reason)).collect();
    told.sort();
    assert_eq!(told, expected);
}
