//! The options that concern how a job is executed: as a stream or as a batch.

use std::path::PathBuf;

use highwater_state_api::{ConfigOption, MemorySize, OptionDescription};

use crate::RuntimeExecutionMode;

/// The least memory that input is sorted with, in KiB.
const SORT_MEMORY_MIN: u64 = 64 * 1024;
/// The most: what a machine of any kind can address.
const SORT_MEMORY_MAX: u64 = isize::MAX as u64;

/// Whether the job is run as a stream or as a batch.
pub const RUNTIME_MODE: ConfigOption<RuntimeExecutionMode> = ConfigOption::new(
    "execution.runtime-mode",
    "Whether input is processed as a stream (STREAMING) or as a batch (BATCH), in which all sources end, keyed functions \
     get one key after the other, no checkpoints are taken and everything becomes visible at the end; AUTOMATIC: as a batch if \
     all sources end.",
)
.with_default("STREAMING");

/// How much memory input is sorted with.
pub const SORTED_INPUTS_MEMORY: ConfigOption<MemorySize> = ConfigOption::new(
    "execution.sorted-inputs.memory",
    "In batch mode, how much memory each subtask with a key sorts its input with. What does not fit goes to a temporary file.",
)
.with_default("128 mb")
.with_check("a size of at least 64 kb, such as 128 mb", |size| (SORT_MEMORY_MIN..=SORT_MEMORY_MAX).contains(&size.bytes));

/// Where temporary files are.
pub const TMP_DIRS: ConfigOption<String> = ConfigOption::new(
    "io.tmp.dirs",
    "Where input that is being sorted goes when it does not fit into memory: one folder or several, with commas or as in \
     `PATH` between them, of which each subtask uses one. Not set: where the system has its temporary files.",
);

/// The folders in a value of [`TMP_DIRS`].
pub(crate) fn folders(text: &str) -> Vec<PathBuf> {
    let is_named = |folder: &PathBuf| !folder.as_os_str().is_empty();
    if text.contains(',') {
        text.split(',').map(|folder| PathBuf::from(folder.trim())).filter(is_named).collect()
    } else {
        std::env::split_paths(text).filter(is_named).collect()
    }
}

/// All of them in words, for tables and help texts.
pub fn describe() -> Vec<OptionDescription> {
    vec![RUNTIME_MODE.describe(), SORTED_INPUTS_MEMORY.describe(), TMP_DIRS.describe()]
}

#[cfg(test)]
mod tests {
    use highwater_state_api::{ConfigNotices, Configuration};

    use super::*;

    #[test]
    fn the_memory_has_a_least_size() {
        let read = |text: &str| {
            let configuration = Configuration::from([(SORTED_INPUTS_MEMORY.key(), text)]);
            configuration.get(&SORTED_INPUTS_MEMORY, &mut ConfigNotices::default()).map(|size| size.map(|it| it.bytes))
        };
        assert_eq!(read("64 kb").unwrap(), Some(64 * 1024));
        assert!(read("63 kb").unwrap_err().to_string().contains("at least 64 kb"));
        assert_eq!(SORTED_INPUTS_MEMORY.default_value().unwrap().bytes, 128 << 20);
    }

    #[test]
    fn folders_are_named_with_commas_or_like_a_path() {
        assert_eq!(folders("/a"), [PathBuf::from("/a")]);
        assert_eq!(folders("/a, /b,"), [PathBuf::from("/a"), PathBuf::from("/b")]);
        let joined = std::env::join_paths(["/a", "/b"]).unwrap();
        assert_eq!(folders(joined.to_str().unwrap()), [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}
