//! The README against the code: every option and every setter is there, and nothing that is not.

use crate::{runtime, state};

#[test]
fn the_readme_lists_every_option_with_its_keys_and_its_default() {
    let readme = include_str!("../README.md");
    for option in state::options::describe().into_iter().chain(runtime::options::describe()) {
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{}` |", option.key)));
        let row = row.unwrap_or_else(|| panic!("the README has no row for {}", option.key));
        for text in option.deprecated_keys.iter().chain(&option.default) {
            assert!(row.contains(&format!("`{text}`")), "{row} does not name {text}");
        }
    }
}

const SETTERS: &str = concat!(
    include_str!("../crates/runtime/src/environment.rs"),
    include_str!("../crates/state-backend-fs/src/backend.rs"),
    include_str!("../crates/checkpoint/src/restart/mod.rs"),
    include_str!("../crates/checkpoint/src/restart/exponential_delay.rs"),
);

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[test]
fn what_the_readme_says_sets_an_option_in_code_is_in_the_code() {
    let rows = include_str!("../README.md").lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let keys: Vec<&str> =
        (state::options::describe().iter().chain(&runtime::options::describe())).map(|option| option.key).collect();
    let is_code = |line: &&str| !["//", "#["].iter().any(|start| line.trim_start().starts_with(start));
    let code = SETTERS.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let mut names = 0;
    for (key, rest) in rows.filter(|(key, _)| keys.contains(key)) {
        let cell = rest.split('|').next().unwrap_or_default();
        for name in cell.split(|character| !is_name(character)).filter(|name| !name.is_empty()) {
            let is_there = code.match_indices(name).any(|(at, _)| {
                let before = code[..at].trim_end();
                let declares = ["pub", "pub fn", "pub struct", "{", ",", "}"].iter().any(|end| before.ends_with(end));
                declares && !code[at + name.len()..].starts_with(is_name)
            });
            assert!(is_there, "{key}: the README names {name}, which is not in the code");
            names += 1;
        }
    }
    assert!(names > 40, "{names} names were found");
}

#[test]
fn the_readme_names_every_setter_of_the_environment() {
    let readme = include_str!("../README.md");
    let environment = include_str!("../crates/runtime/src/environment.rs");
    let methods = environment.lines().filter_map(|line| line.trim().strip_prefix("pub fn ")?.split('(').next());
    let setters: Vec<&str> =
        methods.filter(|name| ["set_", "enable_", "add_"].iter().any(|verb| name.starts_with(verb))).collect();
    assert!(setters.len() > 20, "{setters:?}");
    for setter in setters {
        assert!(readme.split(|character| !is_name(character)).any(|name| name == setter), "{setter} is missing");
    }
}
