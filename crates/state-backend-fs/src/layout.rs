//! Which file an object is: the names of `docs/format/file-system-storage.md`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use highwater_state_api::ObjectPath;

/// What the name of every temporary file starts with. The dot keeps it from ever being an object.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// The file of an object, or the folder of a folder.
pub(crate) fn file_of(root: &Path, object: &ObjectPath) -> PathBuf {
    let mut file = root.to_path_buf();
    for segment in object.as_str().split('/') {
        if segment.starts_with(['.', '%']) {
            file.push(format!("%{segment}"));
        } else {
            file.push(segment);
        }
    }
    file
}

/// The object or folder `name` in `folder`; `None` when a file of that name is no object.
pub(crate) fn child_of(folder: &ObjectPath, name: &OsStr) -> Option<ObjectPath> {
    let name = name.to_str()?;
    let segment = match name.strip_prefix('%') {
        Some(rest) if rest.starts_with(['.', '%']) => rest,
        Some(_) => return None,
        None if name.starts_with('.') => return None,
        None => name,
    };
    ObjectPath::parse(segment).map(|_| folder.join(segment))
}

/// The name of the temporary file with a number.
pub(crate) fn temporary_name(number: u64) -> String {
    format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_has_a_file_name_of_its_own_and_comes_back() {
        let folder = ObjectPath::new(["job"]);
        for (segment, file) in [
            ("metadata", "metadata"),
            ("a%20b", "a%20b"),
            ("a b", "a b"),
            ("ä", "ä"),
            (".tmp-1-2", "%.tmp-1-2"),
            ("%a", "%%a"),
            ("%.a", "%%.a"),
            ("...", "%..."),
        ] {
            let object = folder.join(segment);
            let path = file_of(Path::new("/base"), &object);
            assert_eq!(path, Path::new("/base/job").join(file));
            assert_eq!(child_of(&folder, path.file_name().unwrap()), Some(object));
        }
    }

    #[test]
    fn other_names_are_no_objects() {
        let folder = ObjectPath::new(["job"]);
        for name in [".hidden", ".tmp-1-2", "%a", "%", "a\nb", "a\\b"] {
            assert_eq!(child_of(&folder, OsStr::new(name)), None, "{name:?}");
        }
        assert!(temporary_name(7).starts_with('.'));
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_text_is_no_object() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(child_of(&ObjectPath::new(["job"]), OsStr::from_bytes(b"a\xff")), None);
    }
}
