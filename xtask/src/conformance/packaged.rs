//! The suites from outside: a crate that has nothing but the files of three packages runs them on a backend of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::cargo::{cargo, describe, program, root, run};

/// What an author of a backend or a sink depends on.
const PACKAGES: &[&str] = &["highwater-state-api", "highwater-stream-api", "highwater-conformance"];

/// The backend of the crate outside: the reference is a file to begin a backend of one's own with, so it has to work
/// where it is copied to.
const BACKEND: &str = "crates/conformance/src/reference.rs";

const MANIFEST: &str = r#"[package]
name = "backend-from-outside"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
highwater-state-api = { path = "../highwater-state-api" }

[dev-dependencies]
highwater-conformance = { path = "../highwater-conformance" }
"#;

const TEST: &str = r#"//! The suites on a backend of this crate, on a storage and on a sink.

mod backend {
    highwater_conformance::backend_conformance!(backend_from_outside::ReferenceBackend::default);
}

mod backend_that_fails {
    use highwater_conformance::keyed::BackendUnderTest;

    highwater_conformance::backend_conformance!(|| BackendUnderTest::behind_faults(
        backend_from_outside::ReferenceBackend
    ));
}

mod storage {
    use highwater_conformance::storage::StorageUnderTest;
    use highwater_conformance::{ReferenceDisk, ReferenceStorage};

    highwater_conformance::storage_conformance!(|| {
        let disk = ReferenceDisk::default();
        StorageUnderTest::reopened_by(move || ReferenceStorage::on(&disk))
    });
}

mod sink {
    use highwater_conformance::sink::SinkUnderTest;
    use highwater_conformance::{ReferenceSink, ReferenceTarget};

    highwater_conformance::transactional_sink_conformance!(|| {
        let target = ReferenceTarget::default();
        let visible = target.clone();
        SinkUnderTest::new(move || ReferenceSink::on(&target), move || visible.visible())
    });
}
"#;

/// Copies the packages and the crate outside to a new folder and runs the tests there, without the network.
pub(super) fn check() -> Result<()> {
    let mut command = MetadataCommand::new();
    command.cargo_path(program()).current_dir(root()).no_deps().other_options(vec!["--locked".to_owned()]);
    let metadata = command.exec().context("cargo metadata")?;
    // Not below the workspace: a crate there would be taken for a part of it.
    let folder = std::env::temp_dir().join(format!("highwater-packaged-{}", process::id()));
    for name in PACKAGES {
        copy(&metadata, name, &folder.join(name))?;
    }
    let outside = folder.join("backend-from-outside");
    write(&outside.join("Cargo.toml"), MANIFEST)?;
    write(&outside.join("src/lib.rs"), &fs::read_to_string(root().join(BACKEND)).context(BACKEND)?)?;
    write(&outside.join("tests/suites.rs"), TEST)?;
    // The versions that the workspace is tested with; cargo leaves out what is not needed.
    fs::copy(root().join("Cargo.lock"), outside.join("Cargo.lock")).context("Cargo.lock")?;

    let mut test = cargo(&["test", "--offline"]);
    test.current_dir(&outside).env("CARGO_TARGET_DIR", metadata.target_directory.join("packaged"));
    run(&mut test).with_context(|| format!("everything is kept in {}", folder.display()))?;
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())
}

/// Copies the files that the package would be published with, with a manifest that stands for itself.
fn copy(metadata: &Metadata, name: &str, to: &Path) -> Result<()> {
    let package = metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == name);
    let package = package.with_context(|| format!("there is no package {name}"))?;
    let from = package.manifest_path.parent().context("a manifest lies in a folder")?;
    for file in files(name)? {
        // What cargo makes anew for a package is not there to be copied.
        if from.join(&file).is_file() && file != "Cargo.toml" {
            let target = to.join(&file);
            create_folder_of(&target)?;
            fs::copy(from.join(&file), &target).with_context(|| target.display().to_string())?;
        }
    }
    write(&to.join("Cargo.toml"), &manifest(package))
}

fn files(package: &str) -> Result<Vec<String>> {
    let mut list = cargo(&["package", "--list", "--allow-dirty", "--package", package]);
    let output = list.output().with_context(|| describe(&list))?;
    if !output.status.success() {
        bail!("{} ended with {}: {}", describe(&list), output.status, String::from_utf8_lossy(&output.stderr));
    }
    let files = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(files.lines().map(|file| file.replace('\\', "/")).collect())
}

/// The manifest with all that it has from the workspace written out, as far as it takes to use the package.
fn manifest(package: &Package) -> String {
    let rust_version = package.rust_version.as_ref().map(|version| format!("rust-version = \"{version}\"\n"));
    let mut manifest = format!(
        "[package]\nname = \"{}\"\nversion = \"{}\"\nedition = \"{}\"\n{}\n[dependencies]\n",
        package.name,
        package.version,
        package.edition,
        rust_version.unwrap_or_default(),
    );
    for dependency in package.dependencies.iter().filter(|it| it.kind == DependencyKind::Normal) {
        let path = dependency.path.as_ref().map(|_| format!("path = \"../{}\", ", dependency.name));
        let features: Vec<String> = dependency.features.iter().map(|feature| format!("{feature:?}")).collect();
        manifest.push_str(&format!(
            "{} = {{ {}version = \"{}\", default-features = {}, features = [{}] }}\n",
            dependency.name,
            path.unwrap_or_default(),
            dependency.req,
            dependency.uses_default_features,
            features.join(", "),
        ));
    }
    manifest
}

fn write(path: &Path, text: &str) -> Result<()> {
    create_folder_of(path)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn create_folder_of(path: &Path) -> Result<()> {
    let folder: PathBuf = path.parent().map(Path::to_path_buf).unwrap_or_default();
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())
}
