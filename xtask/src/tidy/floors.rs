//! The floors of the house: which crate may import which, read from `cargo metadata`.
//!
//! The table says what ARCHITECTURE.md draws; a wall is moved in both, in one commit that says why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Finding;

/// A crate, its floor, and what it never imports besides everything on a higher floor. `*` ends a beginning of names.
struct Place {
    package: &'static str,
    floor: u8,
    never: &'static [&'static str],
}

const fn place(package: &'static str, floor: u8, never: &'static [&'static str]) -> Place {
    Place { package, floor, never }
}

const HOUSE: &[Place] = &[
    place("highwater-state-api", 0, &["tokio*", "highwater*"]),
    place("highwater-stream-api", 1, &["tokio*", "highwater-runtime"]),
    place("highwater-state-kit", 1, &["tokio*", "highwater-checkpoint"]),
    place("highwater-checkpoint", 1, &["tokio*", "rand*", "getrandom", "uuid", "highwater-state-kit"]),
    place("highwater-state-backend-memory", 2, &["highwater-state-backend-*"]),
    place("highwater-state-backend-fs", 2, &["highwater-state-backend-*"]),
    place("highwater-state-backend-rocksdb", 2, &["highwater-state-backend-*"]),
    place("highwater-conformance", 2, &["highwater-runtime", "highwater-state-backend-*"]),
    place("highwater-runtime", 3, &["highwater-state-backend-*", "highwater-connectors"]),
    place("highwater-sim", 3, &["rocksdb", "highwater-state-backend-rocksdb"]),
    place("highwater-connectors", 4, &["highwater-state-backend-*", "highwater-runtime"]),
    place("highwater", 5, &[]),
];

/// A crate of the workspace, as far as floors are concerned.
pub(super) struct Package {
    name: String,
    manifest_path: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// For tests only: floors do not bind it.
    dev: bool,
}

pub(super) fn read(root: &Path) -> Result<Vec<Package>> {
    let mut command = MetadataCommand::new();
    command.cargo_path(crate::cargo::program()).current_dir(root).no_deps().other_options(vec!["--locked".to_owned()]);
    let metadata = command.exec().context("cargo metadata")?;
    let mut packages = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest_path =
            package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap_or(&package.manifest_path);
        let dependencies = package.dependencies.iter();
        packages.push(Package {
            name: package.name.to_string(),
            manifest_path: manifest_path.to_string(),
            manifest: fs::read_to_string(&package.manifest_path)?,
            dependencies: dependencies
                .map(|it| Dependency { name: it.name.clone(), dev: it.kind == DependencyKind::Development })
                .collect(),
        });
    }
    Ok(packages)
}

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| !package.stands_outside()) {
        check_package(package, packages, &mut findings);
    }
    findings.extend(circle(packages));
    findings
}

fn check_package(package: &Package, packages: &[Package], findings: &mut Vec<Finding>) {
    let Some(place) = find(&package.name) else {
        let what = format!("`{}` has no floor", package.name);
        findings.push(Finding::new(
            &package.manifest_path,
            1,
            what,
            "give it one in xtask/src/tidy/floors.rs and ARCHITECTURE.md",
        ));
        return;
    };
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
        let name = &dependency.name;
        let higher = find(name).filter(|other| other.floor > place.floor);
        let (what, instead) = if let Some(other) = higher {
            let what = format!("`{}` (floor {}) imports `{name}` (floor {})", package.name, place.floor, other.floor);
            (what, "define a trait below and implement it above")
        } else if place.never.iter().any(|never| matches(never, name)) {
            (format!("`{}` imports `{name}`, which it never may", package.name), "let the caller pass in what it needs")
        } else if packages.iter().any(|other| other.name == *name && other.stands_outside()) {
            (
                format!("`{}` imports `{name}`, which stands outside", package.name),
                "move what both need into a crate of the house",
            )
        } else {
            continue;
        };
        findings.push(Finding::new(&package.manifest_path, package.line_of(name), what, instead));
    }
}

fn find(package: &str) -> Option<&'static Place> {
    HOUSE.iter().find(|place| place.package == package)
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

/// A circle among the crates, tests included: cargo forbids one without tests, and one with tests builds crates twice.
fn circle(packages: &[Package]) -> Option<Finding> {
    let by_name: BTreeMap<&str, &Package> = packages.iter().map(|package| (package.name.as_str(), package)).collect();
    let mut done = Vec::new();
    packages.iter().find_map(|package| circle_from(package, &by_name, &mut Vec::new(), &mut done))
}

fn circle_from<'a>(
    package: &'a Package,
    by_name: &BTreeMap<&str, &'a Package>,
    path: &mut Vec<&'a str>,
    done: &mut Vec<&'a str>,
) -> Option<Finding> {
    if done.contains(&package.name.as_str()) {
        return None;
    }
    path.push(&package.name);
    for dependency in &package.dependencies {
        if let Some(start) = path.iter().position(|name| *name == dependency.name) {
            let what = format!("a circle: {} → {}", path[start..].join(" → "), dependency.name);
            let line = package.line_of(&dependency.name);
            let instead = "move the test that closes it to the crate that stands higher";
            return Some(Finding::new(&package.manifest_path, line, what, instead));
        }
        if let Some(next) = by_name.get(dependency.name.as_str())
            && let Some(finding) = circle_from(next, by_name, path, done)
        {
            return Some(finding);
        }
    }
    path.pop();
    done.push(&package.name);
    None
}

impl Package {
    /// `xtask`, benchmarks and the like import what they want, and nobody imports them.
    fn stands_outside(&self) -> bool {
        !self.manifest_path.starts_with("crates/") && self.manifest_path != "Cargo.toml"
    }

    /// The line of the manifest that names the dependency.
    fn line_of(&self, dependency: &str) -> usize {
        let names = |line: &str| {
            line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
                || line.contains(&format!("package = \"{dependency}\""))
                || (line.starts_with('[') && line.ends_with(&format!(".{dependency}]")))
        };
        self.manifest.lines().position(names).map_or(1, |index| index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "a: b c +d" is a crate `a` that imports `b` and `c`, and `d` for its tests.
    fn findings(house: &[&str]) -> Vec<String> {
        let packages: Vec<Package> = house.iter().map(|line| package(line)).collect();
        check(&packages).iter().map(Finding::to_string).collect()
    }

    fn package(line: &str) -> Package {
        let (name, dependencies) = line.split_once(':').unwrap();
        let dependencies: Vec<Dependency> = dependencies
            .split_whitespace()
            .map(|name| Dependency { name: name.trim_start_matches('+').to_owned(), dev: name.starts_with('+') })
            .collect();
        let lines = dependencies.iter().map(|dependency| format!("{}.workspace = true\n", dependency.name));
        Package {
            name: name.to_owned(),
            manifest_path: if name == "xtask" {
                "xtask/Cargo.toml".into()
            } else {
                format!("crates/{name}/Cargo.toml")
            },
            manifest: lines.collect(),
            dependencies,
        }
    }

    #[test]
    fn downward_and_sideways_imports_pass() {
        let house = [
            "highwater-state-api: serde",
            "highwater-runtime: tokio highwater-checkpoint +highwater-state-backend-memory +highwater-connectors",
            "highwater-sim: highwater-runtime highwater-state-backend-memory",
            "highwater-checkpoint: highwater-state-api +tokio",
            "xtask: highwater-sim",
        ];
        assert!(findings(&house).is_empty(), "{:?}", findings(&house));
    }

    #[test]
    fn an_upward_import_is_found_at_its_line() {
        assert_eq!(
            findings(&["highwater-state-kit: serde highwater-runtime"]),
            [
                "crates/highwater-state-kit/Cargo.toml:2: `highwater-state-kit` (floor 1) imports `highwater-runtime` (floor 3) — \
              define a trait below and implement it above"
            ]
        );
    }

    #[test]
    fn what_a_crate_never_imports_is_found() {
        for line in [
            "highwater-state-api: tokio",
            "highwater-state-api: highwater-checkpoint",
            "highwater-stream-api: tokio-util",
            "highwater-state-kit: highwater-checkpoint",
            "highwater-checkpoint: highwater-state-kit",
            "highwater-checkpoint: rand",
            "highwater-state-backend-fs: highwater-state-backend-memory",
            "highwater-conformance: highwater-state-backend-memory",
            "highwater-runtime: highwater-state-backend-fs",
            "highwater-runtime: highwater-connectors",
            "highwater-connectors: highwater-runtime",
            "highwater-sim: rocksdb",
        ] {
            assert_eq!(findings(&[line]).len(), 1, "{line}");
        }
    }

    #[test]
    fn nobody_imports_what_stands_outside() {
        let findings = findings(&["highwater-sim: xtask", "xtask: clap"]);
        assert!(findings[0].contains("`highwater-sim` imports `xtask`, which stands outside"), "{findings:?}");
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert!(findings(&["highwater-attic:"])[0].contains("`highwater-attic` has no floor"));
    }

    #[test]
    fn a_circle_is_found_even_through_tests() {
        let house = [
            "highwater-state-api: +highwater-conformance",
            "highwater-conformance: highwater-stream-api",
            "highwater-stream-api: highwater-state-api",
        ];
        let findings = findings(&house);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains(
            "a circle: highwater-state-api → highwater-conformance → highwater-stream-api → highwater-state-api"
        ));
    }

    #[test]
    fn the_house_itself_is_read() {
        let packages = read(&crate::cargo::root()).unwrap();
        assert!(packages.iter().any(|package| package.name == "highwater-state-api"));
    }
}
