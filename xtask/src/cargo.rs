//! Running cargo, and other programs, from the root of the workspace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the workspace that this run is about.
///
/// The variable is set by `cargo run`; what was compiled in may name another clone that shares the target directory.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest_dir = Path::new(&manifest_dir);
    manifest_dir.parent().unwrap_or(manifest_dir).to_path_buf()
}

/// The path of the cargo that runs us.
pub(crate) fn program() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Says what is about to be built, on standard error: a silent build of some minutes looks like a command that hangs.
pub(crate) fn announce(what: &str) {
    eprintln!("building {what}, which may take some minutes ...");
}

/// A cargo command at the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.current_dir(root()).args(arguments);
    // What cargo tells xtask about xtask is not for the children: build scripts that watch these variables would run
    // again at every change between `cargo xtask test` and `cargo test`.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs the command with our own output, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// The command as one would type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_named_as_one_would_type_it() {
        let error = run(cargo(&["no-such-command"]).stderr(std::process::Stdio::null())).unwrap_err();
        assert!(error.to_string().starts_with("cargo no-such-command ended with"), "{error}");
    }
}
