//! No text names a place that exists on one machine only.

use super::Finding;

/// Folders at the root of a file system that only the writer's machine has. In two parts, so that this file passes.
const PLACES: &[&str] = &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "farm/")];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for place in PLACES {
            // At the beginning of a path only, also after `file://`: further inside it is somebody's folder.
            let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}*)~".contains(c));
            if line.match_indices(place).any(|(at, _)| begins(at)) {
                let what = format!("`{place}` exists on one machine only");
                findings.push(Finding::new(path, index + 1, what, "name the file relative to the repository"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found() {
        for place in PLACES {
            for text in [format!("see\n{place}x"), format!("see\nfile://{place}x")] {
                let findings = check("README.md", &text);
                assert_eq!(findings.len(), 1, "{text}");
                assert_eq!(findings[0].line, 2);
            }
        }
    }

    #[test]
    fn a_folder_of_that_name_elsewhere_is_not() {
        assert!(PLACES.iter().all(|place| check("README.md", &format!("net{place}x {{dir}}{place}")).is_empty()));
    }
}
