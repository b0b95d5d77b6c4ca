//! Options of Flink that nothing here reads: those of capabilities that are still to come, and those of machinery that there
//! is none of. Whoever sets one is told so; a setting without which results would be others is refused.

use highwater_state_api::{ConfigNotice, ConfigNotices, Configuration};

use crate::JobError;

/// An option of Flink that has no effect here.
struct Later {
    /// The key, or the beginning of keys if it ends with a dot.
    key: &'static str,
    /// Older keys of the same option.
    old_keys: &'static [&'static str],
    /// The value with which nothing is asked for, if there is one.
    nothing: Option<&'static str>,
    /// What counts instead.
    instead: &'static str,
    /// Without it the job would begin somewhere else or compute something else: it is refused.
    is_refused: bool,
}

const ALIGNED: &str = "unaligned checkpoints are still to come: barriers wait for the records before them";
const WHOLE: &str = "every checkpoint is whole";
const NO_LOCAL_COPIES: &str = "state is always read from the checkpoint storage";
const NO_MERGING: &str = "every snapshot has files of its own";
const NO_SAVEPOINTS: &str = "savepoints are still to come";
const NO_ROCKSDB: &str = "the backend for state larger than memory is still to come";
const NO_CHANGELOG: &str = "there is no changelog: state is written as a whole";
const NO_QUERIES: &str = "state cannot be asked for from outside";
const NO_LATENCY: &str = "how long accesses to state take is not measured";
const ONE_KEY: &str = "in batch mode functions always get one key after the other";
const NO_RPC: &str = "the tasks of a job are in one process and call each other";

const LATER: &[Later] = &[
    Later::effect("execution.checkpointing.unaligned.enabled", Some("false"), ALIGNED)
        .with_old_keys(&["execution.checkpointing.unaligned"]),
    Later::effect("execution.checkpointing.aligned-checkpoint-timeout", Some("0"), ALIGNED)
        .with_old_keys(&["execution.checkpointing.alignment-timeout"]),
    Later::effect("execution.checkpointing.unaligned.", None, ALIGNED),
    Later::effect("execution.checkpointing.during-recovery.enabled", Some("false"), ALIGNED),
    Later::effect("execution.state-recovery.without-channel-state.checkpoint-id", Some("-1"), ALIGNED)
        .with_old_keys(&["execution.checkpointing.recover-without-channel-state.checkpoint-id"]),
    Later::effect(
        "execution.state-recovery.approximate-local-recovery",
        Some("false"),
        "a restart takes every task of a region back to the checkpoint",
    ),
    Later::effect("execution.checkpointing.incremental", Some("false"), WHOLE)
        .with_old_keys(&["state.backend.incremental"]),
    Later::effect("execution.checkpointing.savepoint-dir", None, NO_SAVEPOINTS)
        .with_old_keys(&["state.savepoints.dir", "savepoints.state.backend.fs.dir"]),
    Later::effect("execution.checkpointing.create-subdir", Some("true"), "every job has a folder of its own")
        .with_old_keys(&["state.checkpoints.create-subdir"]),
    Later::effect(
        "execution.checkpointing.write-buffer-size",
        None,
        "what is written is collected to 64 KiB before it goes to the storage",
    )
    .with_old_keys(&["state.storage.fs.write-buffer-size", "state.backend.fs.write-buffer-size"]),
    Later::effect("execution.checkpointing.local-backup.enabled", Some("false"), NO_LOCAL_COPIES),
    Later::effect("execution.state-recovery.from-local", Some("false"), NO_LOCAL_COPIES)
        .with_old_keys(&["state.backend.local-recovery"]),
    Later::effect("execution.checkpointing.local-backup.dirs", None, NO_LOCAL_COPIES)
        .with_old_keys(&["taskmanager.state.local.root-dirs"]),
    Later::effect("execution.checkpointing.file-merging.enabled", Some("false"), NO_MERGING),
    Later::effect("execution.checkpointing.file-merging.", None, NO_MERGING),
    Later::effect("execution.checkpointing.cleaner.parallel-mode", Some("true"), "two deletions are under way at most")
        .with_old_keys(&["state.checkpoint.cleaner.parallel-mode"]),
    Later::refused(
        "execution.state-recovery.path",
        "the job would begin somewhere else, and savepoints are still to come",
    )
    .with_old_keys(&["execution.savepoint.path"]),
    Later::effect("execution.state-recovery.claim-mode", None, NO_SAVEPOINTS)
        .with_old_keys(&["execution.savepoint-restore-mode"]),
    Later::effect("execution.sorted-inputs.enabled", Some("true"), ONE_KEY),
    Later::effect("execution.batch-state-backend.enabled", Some("true"), ONE_KEY),
    Later::effect("state.backend.rocksdb.", None, NO_ROCKSDB),
    Later::effect("state.changelog.", None, NO_CHANGELOG),
    Later::effect("state.backend.changelog.", None, NO_CHANGELOG),
    Later::effect("dstl.dfs.", None, NO_CHANGELOG),
    Later::effect("state.latency-track.", None, NO_LATENCY),
    Later::effect("state.backend.latency-track.", None, NO_LATENCY),
    Later::effect("state.size-track.", None, "sizes are in the statistics of each checkpoint"),
    Later::effect("queryable-state.", None, NO_QUERIES),
    Later::effect("query.", None, NO_QUERIES),
    Later::effect("pekko.framesize", None, NO_RPC).with_old_keys(&["akka.framesize"]),
    Later::effect(
        "task.checkpoint.alignment.max-size",
        Some("-1"),
        "a channel that waits for barriers is not read, so that nothing is buffered",
    ),
];

impl Later {
    const fn effect(key: &'static str, nothing: Option<&'static str>, instead: &'static str) -> Self {
        Self { key, old_keys: &[], nothing, instead, is_refused: false }
    }

    const fn refused(key: &'static str, instead: &'static str) -> Self {
        Self { is_refused: true, ..Self::effect(key, None, instead) }
    }

    const fn with_old_keys(self, old_keys: &'static [&'static str]) -> Self {
        Self { old_keys, ..self }
    }

    fn has(&self, key: &str) -> bool {
        let is_it = if self.key.ends_with('.') { key.starts_with(self.key) } else { key == self.key };
        is_it || self.old_keys.contains(&key)
    }

    /// Whether this value asks for nothing: a duration of 0 has many forms.
    fn is_nothing(&self, value: &str) -> bool {
        let first_word = value.split_whitespace().next().unwrap_or_default();
        self.nothing.is_some_and(|nothing| nothing.eq_ignore_ascii_case(value) || nothing == "0" && first_word == "0")
    }
}

/// Whether a key is one of these options.
pub(crate) fn is_known(key: &str) -> bool {
    LATER.iter().any(|later| later.has(key))
}

/// Notices those that are set to something.
pub(crate) fn notice(configuration: &Configuration, notices: &mut ConfigNotices) {
    for (later, key, value) in asked_for(configuration) {
        let now = if later.old_keys.contains(&key) { format!(" (today `{}`)", later.key) } else { String::new() };
        let setting = format!("{key}: {value}");
        notices.add(ConfigNotice::NoEffect { setting, reason: format!("{}{now}", later.instead) });
    }
}

/// Refuses those without which the job would be another.
pub(crate) fn check(configuration: &Configuration) -> Result<(), JobError> {
    let mut asked_for = asked_for(configuration).into_iter().filter(|(later, ..)| later.is_refused);
    asked_for.next().map_or(Ok(()), |(later, key, value)| {
        Err(JobError::Invalid(format!("`{key}: {value}` cannot be carried out: {}", later.instead)))
    })
}

fn asked_for(configuration: &Configuration) -> Vec<(&'static Later, &str, &str)> {
    let of_key = |key| {
        let later = LATER.iter().find(|later| later.has(key))?;
        let value = configuration.effective_text(key)?;
        (!later.is_nothing(value)).then_some((later, key, value))
    };
    configuration.keys().into_iter().filter_map(of_key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(settings: &[(&str, &str)]) -> Vec<String> {
        let mut notices = ConfigNotices::default();
        notice(&settings.iter().copied().collect(), &mut notices);
        notices.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_set_and_has_no_effect_is_said_with_what_counts_instead() {
        insta::assert_snapshot!(
            texts(&[
                ("execution.checkpointing.unaligned", "true"),
                ("execution.checkpointing.unaligned.forced", "true"),
                ("execution.checkpointing.aligned-checkpoint-timeout", "30 s"),
                ("state.backend.incremental", "true"),
                ("state.savepoints.dir", "file:///savepoints"),
                ("state.backend.rocksdb.memory.managed", "true"),
                ("state.backend.local-recovery", "true"),
                ("execution.checkpointing.file-merging.enabled", "true"),
                ("akka.framesize", "10485760b"),
                ("task.checkpoint.alignment.max-size", "1000000"),
            ])
            .join("\n")
        );
    }

    #[test]
    fn what_asks_for_nothing_is_not_worth_a_word() {
        let nothing = [
            ("execution.checkpointing.unaligned.enabled", "FALSE"),
            ("execution.checkpointing.aligned-checkpoint-timeout", "0 s"),
            ("execution.checkpointing.incremental", "false"),
            ("execution.checkpointing.create-subdir", "true"),
        ];
        assert_eq!(texts(&nothing), [""; 0]);
        assert!(nothing.iter().all(|(key, _)| is_known(key)));
    }

    #[test]
    fn what_would_make_another_job_is_refused() {
        for key in ["execution.state-recovery.path", "execution.savepoint.path"] {
            let error = check(&Configuration::from([(key, "file:///savepoint-1")])).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}: file:///savepoint-1` cannot be carried out")), "{error}");
        }
        check(&Configuration::from([("state.backend.incremental", "true")])).unwrap();
    }

    #[test]
    fn no_option_stands_in_both_lists() {
        let known = [highwater_state_api::options::describe(), crate::options::describe()].concat();
        let keys = known.iter().flat_map(|option| option.deprecated_keys.iter().copied().chain([option.key]));
        assert_eq!(keys.filter(|key| is_known(key)).collect::<Vec<_>>(), [""; 0]);
    }
}
