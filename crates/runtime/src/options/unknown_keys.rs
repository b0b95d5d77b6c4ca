//! Keys of a configuration that no option has: a misspelled one would have no effect and nobody would know.

use std::collections::BTreeSet;

use super::later;
use highwater_state_api::{ConfigNotice, ConfigNotices, Configuration, OptionDescription};

/// What Flink sets by these keys and we by a method of the environment. An option of the same key counts before this list.
const SET_BY_CODE: [(&str, &str); 3] = [
    ("parallelism.default", "set_parallelism"),
    ("pipeline.max-parallelism", "set_max_parallelism"),
    ("pipeline.name", "StreamExecutionEnvironment::new"),
];

/// Up to so many letters may be wrong in a key that is taken for a misspelled one.
const WRONG_LETTERS_MAX: usize = 3;

/// Notices the keys that are of none of these options.
pub(crate) fn notice_unknown_keys(
    configuration: &Configuration,
    options: &[OptionDescription],
    notices: &mut ConfigNotices,
) {
    let known = options.iter().flat_map(|option| option.deprecated_keys.iter().copied().chain([option.key]));
    let known: BTreeSet<&str> = known.collect();
    for key in configuration.keys() {
        if !known.contains(key) && !later::is_known(key) {
            notices.add(ConfigNotice::UnknownKey { key: key.to_owned(), advice: advice(key, options) });
        }
    }
}

fn advice(key: &str, options: &[OptionDescription]) -> Option<String> {
    if let Some((_, method)) = SET_BY_CODE.iter().find(|(known, _)| *known == key) {
        return Some(format!("call `{method}` instead"));
    }
    let methods = SET_BY_CODE.iter().map(|(known, method)| (*known, format!("call `{method}` instead of that")));
    let options = options.iter().map(|option| (option.key, "write that".to_owned()));
    let distance = |known: &str| strsim::damerau_levenshtein(key, known);
    let nearest = options.chain(methods).min_by_key(|(known, _)| distance(known));
    let (known, what) = nearest.filter(|(known, _)| distance(known) <= WRONG_LETTERS_MAX)?;
    Some(format!("if `{known}` is meant, {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(keys: &[&str]) -> Vec<String> {
        let mut options = highwater_state_api::options::describe();
        options.extend(crate::options::describe());
        let mut notices = ConfigNotices::default();
        notice_unknown_keys(&keys.iter().map(|key| (*key, "1")).collect(), &options, &mut notices);
        notices.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_key_of_an_option_is_known() {
        assert!(notices(&["state.backend.type", "state.backend", "restart-strategy.fixed-delay.delay"]).is_empty());
    }

    #[test]
    fn a_misspelled_key_is_noticed_with_the_nearest_one() {
        assert_eq!(
            notices(&["state.backend.typ", "paralelism.default", "something.else"]),
            [
                "`paralelism.default` is ignored, because there is no such option: \
                 if `parallelism.default` is meant, call `set_parallelism` instead of that",
                "`something.else` is ignored, because there is no such option",
                "`state.backend.typ` is ignored, because there is no such option: \
                 if `state.backend.type` is meant, write that",
            ]
        );
    }

    #[test]
    fn a_key_of_flink_is_noticed_with_the_method_that_does_the_same() {
        assert_eq!(
            notices(&["pipeline.max-parallelism"]),
            [
                "`pipeline.max-parallelism` is ignored, because there is no such option: call `set_max_parallelism` instead"
            ]
        );
    }

    #[test]
    fn a_key_of_an_option_that_stands_in_the_list_of_methods_too_is_known() {
        let option = OptionDescription {
            key: "parallelism.default",
            deprecated_keys: &[],
            default: None,
            expected: "a number",
            description: "",
        };
        let mut notices = ConfigNotices::default();
        notice_unknown_keys(&Configuration::from([("parallelism.default", "2")]), &[option], &mut notices);
        assert!(notices.is_empty());
    }
}
