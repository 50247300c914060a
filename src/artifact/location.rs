//! Where an artifact is: what a manifest's `url` means, and what stands there.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::url::HttpUrl;
use base::{Error, Result};

/// The `url` of a stemcell or release. Displays without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A tarball, or a directory in source form, on this machine.
    Local(PathBuf),
    /// To be downloaded.
    Http(HttpUrl),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => write!(f, "{}", path.display()),
            Location::Http(url) => url.fmt(f),
        }
    }
}

impl Location {
    /// What `url` means in a manifest that lies in `manifest_dir` (absolute): `file://` and plain paths,
    /// absolute or relative to the manifest, `~` for `home`; `http://` and `https://`.
    pub fn parse(url: &str, manifest_dir: &Path, home: Option<&Path>) -> Result<Self> {
        let url = url.trim();
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let path = match scheme.as_deref() {
            Some("http" | "https") => return Ok(Location::Http(HttpUrl::new(url))),
            Some("file") => &url["file://".len()..],
            Some(other) => {
                return Err(Error::invalid(format!("'{other}://' URLs are not supported"))
                    .with_hint("use file://, a path, http:// or https://"));
            }
            None => url,
        };
        if path.is_empty() {
            return Err(Error::invalid("the URL of an artifact is empty"));
        }
        let path = match (path.strip_prefix("~/"), path, home) {
            (Some(rest), _, Some(home)) => home.join(rest),
            (None, "~", Some(home)) => home.to_owned(),
            (Some(_), _, None) | (None, "~", None) => {
                return Err(Error::invalid(format!(
                    "'{path}' is below the home directory, which is not known"
                )));
            }
            // `join` keeps an absolute path as it is.
            (None, path, _) => manifest_dir.join(path),
        };
        Ok(Location::Local(path))
    }

    /// What in it must not be shown.
    pub fn secrets(&self) -> Vec<String> {
        match self {
            Location::Local(_) => Vec::new(),
            Location::Http(url) => url.secrets(),
        }
    }
}

/// An artifact on this machine.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tarball or the directory.
    pub path: PathBuf,
    /// A directory in source form, to be packed on the fly.
    pub is_dir: bool,
    /// Where it came from, for messages.
    shown: String,
}

impl Source {
    /// The file or directory `path`; an error if it is neither.
    pub fn local(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::invalid(format!("there is no file '{}'", path.display())),
            _ => Error::io(format!("reading '{}'", path.display()), error),
        })?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(Error::invalid(format!("'{}' is neither a file nor a directory", path.display())));
        }
        Ok(Source { path: path.to_owned(), is_dir: metadata.is_dir(), shown: path.display().to_string() })
    }

    /// What was downloaded from `url` to `path`.
    pub(super) fn downloaded(path: &Path, url: &HttpUrl) -> Result<Self> {
        Ok(Source { shown: url.to_string(), ..Source::local(path)? })
    }

    /// How messages call it: `the release '/x/hello.tgz'`.
    pub(super) fn describe(&self, what: &str) -> String {
        format!("the {what} '{}'", self.shown)
    }

    /// A directory has no digest to be checked.
    pub(super) fn refuse_digest(&self, what: &str, expected: Option<&Digest>) -> Result<()> {
        match expected {
            Some(_) => Err(Error::invalid(format!(
                "a sha1 is given for {}, but it is a directory in source form",
                self.describe(what)
            ))
            .with_hint("remove the sha1, or give the URL of a tarball")),
            None => Ok(()),
        }
    }

    /// The stamp of a tarball; none for a directory, whose time says nothing about its content.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        if self.is_dir { None } else { Stamp::of(&self.path).ok() }
    }
}

/// What tells a file from a changed one without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970 of its last change.
    pub mtime: u64,
    /// Its inode; 0 where there is none.
    pub inode: u64,
}

impl Stamp {
    /// Looks at the file `path`.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        let mtime = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Ok(Stamp { path: path.to_owned(), size: metadata.len(), mtime, inode })
    }
}

/// What an artifact is, without having unpacked it. Two artifacts with the same identity (stamps aside)
/// have the same content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the tarball, or of the content of a directory in source form.
    pub digest: Digest,
    /// Of the tarball: as long as it is the same, `digest` need not be computed again.
    pub stamp: Option<Stamp>,
}

impl Identity {
    /// Whether this is the same artifact with the same content.
    pub fn same_content(&self, other: &Identity) -> bool {
        (&self.name, &self.version, &self.digest) == (&other.name, &other.version, &other.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Location> {
        Location::parse(url, Path::new("/m"), Some(Path::new("/home/u")))
    }

    #[test]
    fn paths_are_relative_to_the_manifest() {
        for (url, path) in [
            ("file:///a/b.tgz", "/a/b.tgz"),
            ("file://b.tgz", "/m/b.tgz"),
            ("file://./b.tgz", "/m/./b.tgz"),
            ("file://../b.tgz", "/m/../b.tgz"),
            ("FILE://b.tgz", "/m/b.tgz"),
            ("file://~/b.tgz", "/home/u/b.tgz"),
            ("~/b.tgz", "/home/u/b.tgz"),
            ("b.tgz", "/m/b.tgz"),
            ("/a/b.tgz", "/a/b.tgz"),
        ] {
            assert_eq!(parse(url).unwrap(), Location::Local(path.into()), "{url}");
        }
        assert!(Location::parse("file://~/x", Path::new("/m"), None).is_err());
        assert!(parse("file://").is_err());
        assert!(parse("").is_err());
        let error = parse("s3://bucket/x").unwrap_err();
        assert!(error.to_string().contains("s3://"), "{error}");
    }
}
