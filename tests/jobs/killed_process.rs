//! A test that starts itself anew as another process, and kills that.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::wait_until;

/// Tells the process that is to be killed where to work.
const DIRECTORY: &str = "HIGHWATER_TEST_DIRECTORY";

/// Where to work, in a process that was started by [`kill_when`]; `None` in the test itself.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Starts the test `name` anew as a process that works in `directory`, and kills it once `is_time`.
///
/// The process must not end by itself.
pub(crate) fn kill_when(name: &str, directory: &Path, what: &str, mut is_time: impl FnMut() -> bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name]).env(DIRECTORY, directory);
    let mut process = KilledOnDrop(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    wait_until(what, || {
        assert!(process.0.try_wait().unwrap().is_none(), "the process ended by itself");
        is_time()
    });
    // SIGKILL on Unix: the process cannot do anything about it.
    process.0.kill().unwrap();
    let status = process.0.wait().unwrap();
    assert_eq!(status.code(), None, "the process ended by itself");
}

/// A process that does not outlive a test that fails.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
