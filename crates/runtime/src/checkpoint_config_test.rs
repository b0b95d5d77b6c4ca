//! Tests of how the numbers for checkpoints are chosen.

use super::*;

fn configured(settings: &[(&str, &str)]) -> Result<CheckpointConfig, ConfigError> {
    let configuration = settings.iter().copied().collect();
    choose_with(&CheckpointSettings::default(), &configuration, &mut ConfigNotices::default())
}

#[test]
fn the_defaults_are_those_of_flink_but_that_checkpoints_outlive_their_job() {
    let defaults = CheckpointConfig {
        interval: None,
        interval_during_backlog: None,
        pause_sources: false,
        mode: CheckpointingMode::ExactlyOnce,
        timeout: Duration::from_secs(600),
        min_pause: Duration::ZERO,
        max_concurrent: 1,
        tolerable_failures: 0,
        after_tasks_finish: true,
        retain: 1,
        externalized_retention: ExternalizedCheckpointRetention::RetainOnCancellation,
        fall_back: false,
        ignores_unclaimed: false,
        history: 10,
    };
    assert_eq!(configured(&[]).unwrap(), defaults);
}

/// Contract: L231.
#[test]
fn every_option_is_read() {
    let found = configured(&[
        ("execution.checkpointing.interval", "30 s"),
        ("execution.checkpointing.interval-during-backlog", "1 h"),
        ("pipeline.sources.pause-until-first-checkpoint", "true"),
        ("web.checkpoints.history", "3"),
        ("execution.state-recovery.ignore-unclaimed-state", "true"),
        ("execution.checkpointing.mode", "AT_LEAST_ONCE"),
        ("execution.checkpointing.timeout", "2 min"),
        ("execution.checkpointing.min-pause", "500"),
        ("execution.checkpointing.max-concurrent-checkpoints", "3"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "2147483647"),
        ("execution.checkpointing.checkpoints-after-tasks-finish", "false"),
        ("execution.checkpointing.num-retained", "4"),
        ("execution.checkpointing.externalized-checkpoint-retention", "NO_EXTERNALIZED_CHECKPOINTS"),
        ("execution.state-recovery.fall-back-to-older-checkpoint", "true"),
    ]);
    let expected = CheckpointConfig {
        interval: Some(Duration::from_secs(30)),
        interval_during_backlog: Some(Duration::from_secs(3600)),
        pause_sources: true,
        mode: CheckpointingMode::AtLeastOnce,
        timeout: Duration::from_secs(120),
        min_pause: Duration::from_millis(500),
        max_concurrent: 3,
        tolerable_failures: u32::MAX,
        after_tasks_finish: false,
        retain: 4,
        externalized_retention: ExternalizedCheckpointRetention::NoExternalizedCheckpoints,
        fall_back: true,
        ignores_unclaimed: true,
        history: 3,
    };
    assert_eq!(found.unwrap(), expected);
}

/// Contract: M240.
#[test]
fn fewer_than_one_retained_checkpoint_is_one() {
    for number in ["0", "-7"] {
        let mut notices = ConfigNotices::default();
        let configuration = Configuration::from([("execution.checkpointing.num-retained", number)]);
        assert_eq!(choose_with(&CheckpointSettings::default(), &configuration, &mut notices).unwrap().retain, 1);
        let notice = notices.iter().next().unwrap().to_string();
        assert!(notice.contains("num-retained` is out of range and counts as 1"), "{notice}");
    }
    let by_code = CheckpointSettings { retain: Some(0), ..Default::default() };
    let configuration = Configuration::default();
    assert_eq!(choose_with(&by_code, &configuration, &mut ConfigNotices::default()).unwrap().retain, 1);
}

/// Contract: U348.
#[test]
fn the_legacy_key_is_read_and_the_current_one_wins() {
    let mut notices = ConfigNotices::default();
    let legacy = Configuration::from([("state.checkpoints.num-retained", "3")]);
    assert_eq!(choose_with(&CheckpointSettings::default(), &legacy, &mut notices).unwrap().retain, 3);
    let notice = notices.iter().next().unwrap().to_string();
    assert!(notice.ends_with("write `execution.checkpointing.num-retained: 3`"), "{notice}");
    let both = [("state.checkpoints.num-retained", "3"), ("execution.checkpointing.num-retained", "5")];
    assert_eq!(configured(&both).unwrap().retain, 5);
}

/// Contract: U348.
#[test]
fn checkpoints_after_the_end_of_tasks_have_a_legacy_key_too_and_code_counts_first() {
    const LEGACY: (&str, &str) = ("execution.checkpointing.checkpoints-after-tasks-finish.enabled", "false");
    assert!(!configured(&[LEGACY]).unwrap().after_tasks_finish);
    assert!(configured(&[LEGACY, (AFTER_TASKS_FINISH.key(), "true")]).unwrap().after_tasks_finish);
    let set = CheckpointSettings { after_tasks_finish: Some(true), ..Default::default() };
    let chosen = choose_with(&set, &Configuration::from([LEGACY]), &mut ConfigNotices::default()).unwrap();
    assert!(chosen.after_tasks_finish);
    assert!(remarks(&configured(&[LEGACY, ("execution.checkpointing.interval", "1 s")]).unwrap())[0].contains("ended"));
}

#[test]
fn what_code_sets_counts_and_is_held_against_the_same_bounds() {
    let configuration = Configuration::from([("execution.checkpointing.interval", "30 s")]);
    let choose = |interval_ms| {
        let set = CheckpointSettings { interval: Some(Duration::from_millis(interval_ms)), ..Default::default() };
        choose_with(&set, &configuration, &mut ConfigNotices::default())
    };
    assert_eq!(choose(10).unwrap().interval, Some(Duration::from_millis(10)));
    assert_eq!(
        choose(9).unwrap_err().to_string(),
        "execution.checkpointing.interval: \"9ms\" is not valid; expected a duration of at least 10 ms, such as 10 min, \
         30 s or 500 (milliseconds)"
    );
    let set = CheckpointSettings { max_concurrent: Some(0), ..Default::default() };
    let error = choose_with(&set, &configuration, &mut ConfigNotices::default()).unwrap_err().to_string();
    assert!(error.starts_with("execution.checkpointing.max-concurrent-checkpoints: \"0\""), "{error}");
}

#[test]
fn what_the_numbers_mean_together_is_said() {
    let usual = configured(&[("execution.checkpointing.interval", "1 s")]).unwrap();
    assert_eq!(remarks(&usual), [""; 0]);
    let odd = CheckpointConfig { min_pause: Duration::from_secs(5), max_concurrent: 3, ..usual.clone() };
    let texts = remarks(&odd).join("\n");
    assert!(texts.contains("raised to the minimum pause of 5s") && texts.contains("3 checkpoints may"), "{texts}");
    assert_eq!(remarks(&CheckpointConfig { interval: None, ..usual }).len(), 1);
}

/// Contract: U347, U357.
#[test]
fn intervals_that_exclude_each_other_are_refused_with_both_names() {
    let check = |settings: &[(&str, &str)]| check_together(&configured(settings).unwrap());
    let interval = ("execution.checkpointing.interval", "1 s");
    let backlog = |value| ("execution.checkpointing.interval-during-backlog", value);
    let pause = ("pipeline.sources.pause-until-first-checkpoint", "true");
    for accepted in
        [&[interval, backlog("0")][..], &[interval, backlog("1 s")], &[interval, pause], &[backlog("500"), pause]]
    {
        check(accepted).unwrap();
    }
    let errors = [check(&[interval, backlog("999")]), check(&[interval, backlog("0"), pause])];
    let errors: Vec<String> = errors.into_iter().map(|error| error.unwrap_err().to_string()).collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn failing_on_the_first_error_is_a_number_and_a_number_that_is_set_counts_before_it() {
    let chosen = |fail_on_errors, tolerable_failures| {
        let set = CheckpointSettings { fail_on_errors, tolerable_failures, ..Default::default() };
        choose_with(&set, &Configuration::default(), &mut ConfigNotices::default()).unwrap().tolerable_failures
    };
    assert_eq!([chosen(Some(true), None), chosen(Some(false), None), chosen(Some(false), Some(3))], [0, u32::MAX, 3]);
}
