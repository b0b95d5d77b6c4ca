//! Calls that library sources do not make, each with what to do instead: determinism and bounds as a rule.

use super::Finding;
use super::allowed::Allowed;
use crate::code::Code;

/// A call, under one name, in all its spellings.
struct Rule {
    name: &'static str,
    spellings: &'static [&'static str],
    /// The crates in which it is banned; empty: all.
    crates: &'static [&'static str],
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        name: "SystemTime::now",
        spellings: &["SystemTime::now"],
        crates: &[],
        instead: "take `now` as an argument; the runtime reads its clock in clock.rs",
    },
    Rule {
        name: "Instant::now",
        spellings: &["Instant::now"],
        crates: &[],
        instead: "take `now` as an argument; the runtime reads its clock in clock.rs",
    },
    Rule {
        name: "thread::spawn",
        spellings: &["thread::spawn", "thread::scope", "thread::Builder"],
        crates: &[],
        instead: "return work to the caller; the runtime starts its threads in threads.rs",
    },
    Rule {
        name: "tokio::spawn",
        spellings: &["tokio::spawn", "task::spawn", "task::spawn_blocking", "task::spawn_local"],
        crates: &[],
        instead: "return work to the caller; the runtime spawns on the runtime that it owns",
    },
    Rule {
        name: "unbounded channel",
        spellings: &["unbounded_channel", "mpsc::channel()", "channel::unbounded"],
        crates: &[],
        instead: "use a bounded queue and name its bound: `sync_channel(n)` or `tokio::sync::mpsc::channel(n)`",
    },
    Rule {
        name: "random numbers",
        spellings: &["rand::rng", "rand::random", "thread_rng", "getrandom", "from_os_rng", "from_entropy"],
        crates: &[],
        instead: "take a seeded generator as an argument: one seed reproduces everything",
    },
    Rule {
        name: "RandomState",
        spellings: &["RandomState"],
        crates: &[],
        instead: "use BTreeMap, or a hasher with an injected seed",
    },
    Rule {
        name: "HashMap",
        spellings: &["HashMap", "HashSet"],
        crates: &["checkpoint", "sim"],
        instead: "use BTreeMap or BTreeSet: what a machine does must not depend on the order of iteration",
    },
    Rule {
        name: "thread id",
        spellings: &["thread::current().id()", "ThreadId"],
        crates: &[],
        instead: "use the subtask's own id: threads differ from run to run",
    },
    Rule {
        name: "Uuid::new_v4",
        spellings: &["Uuid::new_v4"],
        crates: &[],
        instead: "name things after job, attempt, operator and checkpoint",
    },
    Rule {
        name: "process::exit",
        spellings: &["process::exit"],
        crates: &[],
        instead: "return an error: the process belongs to the user, and destructors must run",
    },
];

/// Adds the banned calls of one file to the findings, and those that are allowed there, as (path, rule), to `uses`.
pub(super) fn check(
    path: &str,
    code: &Code,
    allowed: &[Allowed],
    findings: &mut Vec<Finding>,
    uses: &mut Vec<(String, &'static str)>,
) {
    let Some(package) = library_of(path) else { return };
    let code = code.without_tests();
    for rule in RULES {
        if !rule.crates.is_empty() && !rule.crates.contains(&package) {
            continue;
        }
        let is_allowed = allowed.iter().any(|place| place.path == path && place.call == rule.name);
        for spelling in rule.spellings {
            for line in code.find(spelling) {
                if is_allowed {
                    uses.push((path.to_owned(), rule.name));
                } else {
                    findings.push(Finding::new(path, line, format!("`{spelling}` in a library"), rule.instead));
                }
            }
        }
    }
}

/// The list of allowed places is itself held to account: known rules, a reason, and no place that needs none any more.
pub(super) fn check_allowed(allowed: &[Allowed], files: &[String], uses: &[(String, &'static str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let own_path = "xtask/src/tidy/allowed.rs";
    for Allowed { path, call, reason } in allowed {
        if !RULES.iter().any(|rule| rule.name == *call) {
            findings.push(Finding::new(
                own_path,
                1,
                format!("no rule is named `{call}`"),
                "see the names in banned.rs",
            ));
        } else if reason.trim().is_empty() {
            findings.push(Finding::new(own_path, 1, format!("`{call}` in {path} has no reason"), "give one"));
        } else if files.iter().any(|file| file == path) && !uses.iter().any(|(file, name)| file == path && name == call)
        {
            let what = format!("{path} no longer uses `{call}`");
            findings.push(Finding::new(own_path, 1, what, "remove the entry"));
        }
    }
    findings
}

/// The folder of the crate whose library the file belongs to; none for tests, benches, examples and xtask.
fn library_of(path: &str) -> Option<&str> {
    let (package, file) = match path.strip_prefix("crates/") {
        Some(path) => path.split_once('/')?,
        None => ("highwater", path),
    };
    let file = file.strip_prefix("src/")?;
    let mut parts = file.rsplit('/');
    let is_test = parts.next().is_some_and(|name| name == "tests.rs" || name.ends_with("_test.rs"));
    (!is_test && !parts.any(|folder| folder == "tests")).then_some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, source: &str, allowed: &[Allowed]) -> Vec<String> {
        let mut findings = Vec::new();
        check(path, &Code::of(source), allowed, &mut findings, &mut Vec::new());
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn every_banned_call_is_found_with_its_replacement() {
        let sources = [
            "let now = std::time::SystemTime::now();",
            "let now = Instant::now();",
            "std::thread::spawn(|| ());",
            "thread::Builder::new().spawn(f);",
            "tokio::spawn(async {});",
            "tokio::task::spawn_blocking(f);",
            "let (a, b) = mpsc::unbounded_channel();",
            "let (a, b) = std::sync::mpsc::channel();",
            "use rand::rng;",
            "let mut r = rand::thread_rng();",
            "getrandom::fill(&mut seed);",
            "let h = std::hash::RandomState::new();",
            "let id = std::thread::current().id();",
            "let id = Uuid::new_v4();",
            "std::process::exit(1);",
        ];
        for source in sources {
            let findings = findings("crates/connectors/src/file.rs", source, &[]);
            assert_eq!(findings.len(), 1, "{source}: {findings:?}");
            assert!(findings[0].starts_with("crates/connectors/src/file.rs:1: `"), "{findings:?}");
            assert!(findings[0].contains(" — "), "{findings:?}");
        }
    }

    #[test]
    fn maps_without_order_are_banned_where_order_decides() {
        let source = "let m: HashMap<u64, u64> = Default::default();";
        for package in ["checkpoint", "sim"] {
            assert_eq!(findings(&format!("crates/{package}/src/lib.rs"), source, &[]).len(), 1);
        }
        assert!(findings("crates/runtime/src/lib.rs", source, &[]).is_empty());
    }

    #[test]
    fn a_bounded_queue_is_welcome() {
        assert!(findings("crates/runtime/src/lib.rs", "mpsc::channel(64); mpsc::sync_channel(8);", &[]).is_empty());
    }

    #[test]
    fn only_library_sources_are_read() {
        let source = "Instant::now()";
        for path in ["src/lib.rs", "crates/sim/src/world.rs", "crates/sim/src/faults/testing.rs"] {
            assert_eq!(findings(path, source, &[]).len(), 1, "{path}");
        }
        for path in [
            "benches/rows.rs",
            "examples/flights.rs",
            "xtask/src/ci.rs",
            "crates/checkpoint/src/aligner_test.rs",
            "crates/checkpoint/src/aligner/tests.rs",
            "crates/checkpoint/src/tests/late.rs",
            "crates/checkpoint/tests/late.rs",
        ] {
            assert!(findings(path, source, &[]).is_empty(), "{path}");
        }
        assert!(findings("src/lib.rs", "#[cfg(test)]\nmod tests { fn t() { Instant::now(); } }", &[]).is_empty());
    }

    #[test]
    fn a_call_is_allowed_only_in_its_place() {
        let allowed = [Allowed { path: "crates/runtime/src/clock.rs", call: "Instant::now", reason: "the clock" }];
        assert!(findings("crates/runtime/src/clock.rs", "Instant::now()", &allowed).is_empty());
        assert_eq!(findings("crates/runtime/src/gate.rs", "Instant::now()", &allowed).len(), 1);
        assert_eq!(findings("crates/runtime/src/clock.rs", "SystemTime::now()", &allowed).len(), 1);
    }

    #[test]
    fn a_place_that_needs_no_exception_loses_it() {
        let entry = |call, reason| [Allowed { path: "src/a.rs", call, reason }];
        let files = ["src/a.rs".to_owned()];
        let uses = [("src/a.rs".to_owned(), "Instant::now")];
        assert!(check_allowed(&entry("Instant::now", "the clock"), &files, &uses).is_empty());
        assert!(check_allowed(&entry("Instant::now", "the clock"), &files, &[])[0].what.contains("no longer uses"));
        assert!(check_allowed(&entry("Instant::now", ""), &files, &uses)[0].what.contains("has no reason"));
        assert!(check_allowed(&entry("Instant::new", "a slip"), &files, &uses)[0].what.contains("no rule is named"));
    }
}
