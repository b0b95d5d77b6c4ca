//! Tests of which restart strategy a job gets, and of what is refused.

use super::*;

const FIXED: RestartStrategy = RestartStrategy::FixedDelay { attempts: 7, delay_ms: 70 };

fn configured<const N: usize>(settings: [(&str, &str); N]) -> Result<RestartStrategy, ConfigError> {
    let chosen = choose_with(None, &Configuration::from(settings), true, &mut ConfigNotices::default());
    chosen.map(|settings| settings.strategy)
}

fn refusal<const N: usize>(settings: [(&str, &str); N]) -> String {
    configured(settings).unwrap_err().to_string()
}

fn set(strategy: impl Into<RestartStrategy>) -> Result<RestartStrategy, ConfigError> {
    let chosen = choose_with(Some(strategy.into()), &Configuration::new(), false, &mut ConfigNotices::default());
    chosen.map(|settings| settings.strategy)
}

/// Contract: O281.
#[test]
fn a_job_with_checkpoints_has_exponential_delay_and_one_without_is_not_restarted() {
    let by_default = |has_checkpoints| {
        choose_with(None, &Configuration::new(), has_checkpoints, &mut ConfigNotices::default()).unwrap()
    };
    assert_eq!(by_default(true).strategy, ExponentialDelay::default().into());
    assert_eq!(by_default(false).strategy, RestartStrategy::None);
    for settings in [by_default(true), by_default(false)] {
        assert_eq!((settings.poison_record_repeats, settings.poison_record_action), (3, PoisonRecordAction::Report));
    }
}

/// Contract: O281.
#[test]
fn code_counts_before_the_job_and_the_job_before_the_cluster() {
    let cluster = Configuration::from([("restart-strategy.type", "fixed-delay")]);
    let job = Configuration::from([("restart-strategy", "failure-rate")]).with_fallback(cluster.clone());
    let of = |code, configuration: &Configuration, has_checkpoints| {
        choose_with(code, configuration, has_checkpoints, &mut ConfigNotices::default()).unwrap().strategy
    };
    for has_checkpoints in [true, false] {
        assert_eq!(of(Some(FIXED), &job, has_checkpoints), FIXED);
        assert_eq!(of(None, &job, has_checkpoints).name(), "failure-rate");
        assert_eq!(of(None, &cluster, has_checkpoints).name(), "fixed-delay");
    }
}

#[test]
fn every_name_is_understood_in_every_spelling() {
    for (spellings, name) in [
        (vec!["none", "off", "disable", "NONE"], "none"),
        (vec!["fixed-delay", "fixeddelay", "FixedDelay"], "fixed-delay"),
        (vec!["failure-rate", "failurerate"], "failure-rate"),
        (vec!["exponential-delay", "exponentialdelay"], "exponential-delay"),
    ] {
        assert!(NAMES.contains(&name));
        for spelling in spellings {
            for key in ["restart-strategy.type", "restart-strategy"] {
                assert_eq!(configured([(key, spelling)]).unwrap().name(), name, "{key}: {spelling}");
            }
        }
    }
}

#[test]
fn the_deprecated_key_is_named_with_its_replacement() {
    let mut notices = ConfigNotices::default();
    choose_with(None, &Configuration::from([("restart-strategy", "off")]), true, &mut notices).unwrap();
    let texts: Vec<String> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["`restart-strategy` is deprecated: write `restart-strategy.type: off`"]);
}

#[test]
fn the_defaults_of_the_parameters_are_those_of_flink() {
    assert_eq!(
        configured([("restart-strategy.type", "fixed-delay")]).unwrap(),
        RestartStrategy::FixedDelay { attempts: 1, delay_ms: 1_000 }
    );
    assert_eq!(
        configured([("restart-strategy.type", "failure-rate")]).unwrap(),
        RestartStrategy::FailureRate { max_failures_per_interval: 1, interval_ms: 60_000, delay_ms: 1_000 }
    );
    assert_eq!(
        configured([("restart-strategy.type", "exponential-delay")]).unwrap(),
        ExponentialDelay::default().into()
    );
}

#[test]
fn every_parameter_is_read() {
    assert_eq!(
        configured([
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "7"),
            ("restart-strategy.fixed-delay.delay", "70"),
        ])
        .unwrap(),
        FIXED
    );
    assert_eq!(
        configured([
            ("restart-strategy.type", "failure-rate"),
            ("restart-strategy.failure-rate.max-failures-per-interval", "3"),
            ("restart-strategy.failure-rate.failure-rate-interval", "5 min"),
            ("restart-strategy.failure-rate.delay", "10 s"),
        ])
        .unwrap(),
        RestartStrategy::FailureRate { max_failures_per_interval: 3, interval_ms: 300_000, delay_ms: 10_000 }
    );
    // Also without a name, since it is the default.
    assert_eq!(
        configured([
            ("restart-strategy.exponential-delay.initial-backoff", "10 s"),
            ("restart-strategy.exponential-delay.max-backoff", "2 min"),
            ("restart-strategy.exponential-delay.backoff-multiplier", "1.4"),
            ("restart-strategy.exponential-delay.reset-backoff-threshold", "10 min"),
            ("restart-strategy.exponential-delay.jitter-factor", "0"),
            ("restart-strategy.exponential-delay.attempts-before-reset-backoff", "8"),
        ])
        .unwrap(),
        RestartStrategy::ExponentialDelay(ExponentialDelay {
            initial_backoff_ms: 10_000,
            max_backoff_ms: 120_000,
            backoff_multiplier: 1.4,
            reset_backoff_threshold_ms: 600_000,
            jitter_factor: 0.0,
            attempts_before_reset_backoff: 8,
        })
    );
    let configuration = Configuration::from([
        ("restart-strategy.poison-record.repeats", "5"),
        ("restart-strategy.poison-record.action", "Fail"),
    ]);
    let settings = choose_with(Some(FIXED), &configuration, true, &mut ConfigNotices::default()).unwrap();
    assert_eq!((settings.poison_record_repeats, settings.poison_record_action), (5, PoisonRecordAction::Fail));
}

/// Contract: O281.
#[test]
fn an_unknown_name_is_refused_with_the_names_that_there_are() {
    assert_eq!(
        refusal([("restart-strategy", "exponential")]),
        "restart-strategy: nothing is known under the name \"exponential\"; valid values: none, fixed-delay, \
         failure-rate, exponential-delay"
    );
}

#[test]
fn a_parameter_out_of_its_bounds_is_refused_with_its_key_and_the_bounds() {
    for (key, values, expected) in [
        ("fixed-delay.attempts", vec!["-1", "many"], "a whole number from 0 to 4294967295"),
        ("failure-rate.max-failures-per-interval", vec!["0", "-1"], "a whole number from 1 to 4294967295"),
        ("failure-rate.failure-rate-interval", vec!["0", "5 us", "-1 s"], "a duration of at least 1 ms"),
        ("exponential-delay.initial-backoff", vec!["0 s", "x"], "a duration of at least 1 ms"),
        ("exponential-delay.max-backoff", vec!["0"], "a duration of at least 1 ms"),
        ("exponential-delay.backoff-multiplier", vec!["1", "1.0", "0.5", "-2", "NaN", "inf"], "a number above 1"),
        ("exponential-delay.reset-backoff-threshold", vec!["0"], "a duration of at least 1 ms"),
        ("exponential-delay.jitter-factor", vec!["-0.1", "1.01", "NaN"], "a number from 0 to 1"),
        ("exponential-delay.attempts-before-reset-backoff", vec!["0"], "a whole number from 1 to 4294967295"),
        ("poison-record.repeats", vec!["0", "1"], "a whole number from 2 to 4294967295"),
        ("poison-record.action", vec!["skip"], "report or fail"),
    ] {
        let (kind, _) = key.split_once('.').unwrap();
        let kind = if kind == "poison-record" { "none" } else { kind };
        let key = format!("restart-strategy.{key}");
        for value in values {
            let text = refusal([("restart-strategy.type", kind), (&key, value)]);
            assert!(text.starts_with(&format!("{key}: {value:?} is not valid; expected {expected}")), "{text}");
        }
    }
}

#[test]
fn the_first_delay_is_not_longer_than_the_longest() {
    let initial = "restart-strategy.exponential-delay.initial-backoff";
    let max = "restart-strategy.exponential-delay.max-backoff";
    let too_long = "expected at most the 60000 ms of `restart-strategy.exponential-delay.max-backoff`, which is the longest \
                    delay";
    assert_eq!(refusal([(initial, "2 min")]), format!("{initial}: \"2 min\" is not valid; {too_long}"));
    assert_eq!(refusal([(initial, "2 min"), (max, "60 s")]), format!("{initial}: \"2 min\" is not valid; {too_long}"));
    assert_eq!(
        refusal([(max, "500")]),
        format!("{max}: \"500\" is not valid; expected at least the 1000 ms of `{initial}`, which is the first delay")
    );
    let by_code = ExponentialDelay { initial_backoff_ms: 60_001, ..ExponentialDelay::default() };
    assert_eq!(set(by_code).unwrap_err().to_string(), format!("{initial}: \"60001 ms\" is not valid; {too_long}"));
    assert!(configured([(initial, "60 s")]).is_ok());
}

#[test]
fn what_code_sets_is_held_against_the_same_bounds() {
    let failure_rate = |max_failures_per_interval, interval_ms| RestartStrategy::FailureRate {
        max_failures_per_interval,
        interval_ms,
        delay_ms: 0,
    };
    let default = ExponentialDelay::default();
    for (strategy, parameter) in [
        (failure_rate(0, 1), "failure-rate.max-failures-per-interval"),
        (failure_rate(1, 0), "failure-rate.failure-rate-interval"),
        (ExponentialDelay { initial_backoff_ms: 0, ..default }.into(), "exponential-delay.initial-backoff"),
        (ExponentialDelay { max_backoff_ms: 0, ..default }.into(), "exponential-delay.max-backoff"),
        (ExponentialDelay { backoff_multiplier: 1.0, ..default }.into(), "exponential-delay.backoff-multiplier"),
        (ExponentialDelay { backoff_multiplier: f64::NAN, ..default }.into(), "exponential-delay.backoff-multiplier"),
        (
            ExponentialDelay { backoff_multiplier: f64::INFINITY, ..default }.into(),
            "exponential-delay.backoff-multiplier",
        ),
        (
            ExponentialDelay { reset_backoff_threshold_ms: 0, ..default }.into(),
            "exponential-delay.reset-backoff-threshold",
        ),
        (ExponentialDelay { jitter_factor: 1.5, ..default }.into(), "exponential-delay.jitter-factor"),
        (
            ExponentialDelay { attempts_before_reset_backoff: 0, ..default }.into(),
            "exponential-delay.attempts-before-reset-backoff",
        ),
    ] {
        let text = set(strategy).unwrap_err().to_string();
        assert!(text.starts_with(&format!("restart-strategy.{parameter}: ")), "{text}");
    }
    for valid in [RestartStrategy::None, FIXED, failure_rate(1, 1), default.into()] {
        assert_eq!(set(valid).unwrap(), valid);
    }
}

#[test]
fn parameters_of_another_strategy_are_not_looked_at() {
    let wrong = ("restart-strategy.failure-rate.max-failures-per-interval", "0");
    assert!(configured([("restart-strategy.type", "fixed-delay"), wrong]).is_ok());
}
