//! Where a storage is: a path, or a `file` URI, as the user wrote it.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A location that cannot be the root of a file system checkpoint storage.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// There is no location.
    #[error(
        "the checkpoint directory is empty; expected a path such as checkpoints, or a URI such as file:///checkpoints"
    )]
    Empty,
    /// A URI of a scheme that this storage does not serve.
    #[error(
        "the checkpoint directory {location:?} has the scheme {scheme:?}; expected file:///PATH or a path without a \
         scheme (a relative path that looks like a URI is written ./{location})"
    )]
    UnsupportedScheme {
        /// The location.
        location: String,
        /// Its scheme.
        scheme: String,
    },
    /// A `file` URI that is not the name of a local directory.
    #[error("the checkpoint directory {location:?} is not usable: {reason}")]
    Malformed {
        /// The location.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory is not there and cannot be made, or is not a directory.
    #[error("the checkpoint directory {} cannot be used", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The error and its causes in one line, not the fields: `fn main() -> Result<()>` prints `Debug`, and what a user sees
/// there has to say what went wrong.
impl fmt::Debug for LocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = self.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

/// The absolute path of a location. A plain path is taken byte for byte; only a URI is percent-decoded.
pub(crate) fn path_of(location: &Path) -> Result<PathBuf, LocationError> {
    if location.as_os_str().is_empty() {
        return Err(LocationError::Empty);
    }
    let path = match location.to_str().and_then(|text| Some((text, scheme_of(text)?))) {
        None => location.to_path_buf(),
        Some((text, scheme)) if scheme.eq_ignore_ascii_case("file") => {
            path_of_file_uri(text, &text[scheme.len() + 1..])?
        }
        Some((text, scheme)) => {
            return Err(LocationError::UnsupportedScheme { location: text.to_owned(), scheme: scheme.to_owned() });
        }
    };
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "there is a NUL in it");
        return Err(LocationError::Unusable { path, source });
    }
    std::path::absolute(&path).map_err(|source| LocationError::Unusable { path, source })
}

/// The scheme of a URI with a path. One letter is no scheme but a drive.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (is_scheme && rest.starts_with('/')).then_some(scheme)
}

fn path_of_file_uri(location: &str, rest: &str) -> Result<PathBuf, LocationError> {
    let malformed =
        |reason: &str| Err(LocationError::Malformed { location: location.to_owned(), reason: reason.to_owned() });
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let (host, _) = rest.split_once('/').unwrap_or((rest, ""));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return malformed(&format!("{host:?} would be a host; a path after file:// begins with a third slash"));
            }
            &rest[host.len()..]
        }
    };
    if path.is_empty() {
        return malformed("it has no path");
    }
    if path.contains(['?', '#']) {
        return malformed("a URI of a directory has no `?` and no `#`; in a name they are written %3F and %23");
    }
    match percent_decoded(path) {
        Some(bytes) if bytes.contains(&0) => malformed("a path has no zero byte"),
        Some(bytes) => match path_from_bytes(bytes) {
            Some(path) => Ok(path),
            None => malformed("its bytes are no path on this system"),
        },
        None => malformed("a `%` in a URI is followed by two hexadecimal digits; itself it is written %25"),
    }
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    Some(decoded)
}

#[cfg(unix)]
fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(OsStr::from_bytes(&bytes)))
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    let text = String::from_utf8(bytes).ok()?;
    Some(PathBuf::from(OsStr::new(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(location: &str) -> String {
        path_of(Path::new(location)).map_or_else(|error| error.to_string(), |path| path.display().to_string())
    }

    #[test]
    fn a_plain_path_means_itself() {
        for plain in ["/a b/ä", "/a%20b", "/a:b/c", "/x/http:/y", "/a?b#c"] {
            assert_eq!(path(plain), plain);
        }
        let relative = std::env::current_dir().unwrap().join("checkpoints");
        assert_eq!(path("checkpoints"), relative.display().to_string());
        assert_eq!(path("./checkpoints"), relative.display().to_string());
    }

    #[test]
    fn a_file_uri_is_decoded() {
        assert_eq!(path("file:///a%20b/%C3%A4"), "/a b/ä");
        assert_eq!(path("FILE://localhost/a%2520b"), "/a%20b");
        assert_eq!(path("file:/a"), "/a");
        assert_eq!(path("file:///a/"), "/a/");
    }

    #[test]
    fn what_is_wrong_with_a_location_is_said() {
        for (location, words) in [
            ("", "is empty"),
            ("s3://bucket/a", "has the scheme \"s3\"; expected file:///PATH"),
            ("hdfs:/a", "has the scheme \"hdfs\""),
            ("file://a/b", "\"a\" would be a host"),
            ("file://", "it has no path"),
            ("file:///a%2", "two hexadecimal digits"),
            ("file:///a%zz", "two hexadecimal digits"),
            ("file:///a%+1", "two hexadecimal digits"),
            ("file:///a%00", "no zero byte"),
            ("file:///a?b", "no `?`"),
        ] {
            assert!(path(location).contains(words), "{location:?}: {}", path(location));
        }
    }

    #[test]
    fn debug_of_a_location_error_is_its_chain() {
        let source = io::Error::other("the disk is gone");
        let error = LocationError::Unusable { path: PathBuf::from("/a"), source };
        assert_eq!(format!("{error:?}"), "the checkpoint directory /a cannot be used: the disk is gone");
        assert_eq!(format!("{:?}", LocationError::Empty), LocationError::Empty.to_string());
    }

    #[cfg(unix)]
    #[test]
    fn a_path_need_not_be_text() {
        use std::os::unix::ffi::OsStrExt;
        let odd = Path::new(OsStr::from_bytes(b"/a\xffb"));
        assert_eq!(path_of(odd).unwrap(), odd);
        assert_eq!(path_of(Path::new("file:///a%ffb")).unwrap(), odd);
    }
}
