//! Artifacts on this machine: the file or directory that a `url` names, its stamp and its identity.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::http_url::HttpUrl;
use super::image_url::ImageUrl;
use base::files::input;
use base::{Error, Result};

/// The tarball or directory of an artifact on this machine.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tarball or the directory.
    pub path: PathBuf,
    /// True for a directory in source form, which is packed while it is read.
    pub is_directory: bool,
    /// The other files of an OCI image, whose index or manifest is `path`. `None` if it is no image.
    pub image: Option<Vec<ImageBlob>>,
    /// Path or URL for messages.
    display_name: String,
}

impl Source {
    /// Returns the file or directory `path` as a source. Fails if `path` does not exist or is neither.
    pub fn local(path: &Path) -> Result<Self> {
        Self::from_command_line("the file", path, path.to_owned())
    }

    /// Like [`Self::local`], for a path on the command line. Messages call it `kind`, and show the path as it
    /// was typed.
    pub fn from_command_line(kind: &str, typed_path: &Path, path: PathBuf) -> Result<Self> {
        let metadata = fs::metadata(&path).map_err(|error| input::read_error(kind, typed_path, error))?;
        let display_name = typed_path.display().to_string();
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(Error::invalid(format!("'{display_name}' is neither a file nor a directory")));
        }
        Ok(Source { path, is_directory: metadata.is_dir(), image: None, display_name })
    }

    /// Returns the file `path`, which was downloaded from `url`, as a source.
    pub(super) fn from_download(path: &Path, url: &HttpUrl) -> Result<Self> {
        Ok(Source { display_name: url.to_string(), ..Source::local(path)? })
    }

    /// Returns the image that was downloaded from `url` as a source. `path` is its index or its manifest.
    pub(super) fn from_image(path: &Path, url: &ImageUrl, blobs: Vec<ImageBlob>) -> Result<Self> {
        Ok(Source { display_name: url.to_string(), image: Some(blobs), ..Source::local(path)? })
    }

    /// Returns the name of the source in messages, such as `the release '/x/hello.tgz'`.
    pub(super) fn describe(&self, kind: &str) -> String {
        format!("the {kind} '{}'", self.display_name)
    }

    /// Returns an error if `expected` is given for a directory: the digest of a directory cannot be checked.
    pub(super) fn refuse_digest(&self, kind: &str, expected: Option<&Digest>) -> Result<()> {
        match expected {
            Some(_) => Err(Error::invalid(format!(
                "a sha1 is given for {}, but it is a directory in source form",
                self.describe(kind)
            ))
            .with_hint("remove the sha1 from the manifest, or set `url` to a tarball")),
            None => Ok(()),
        }
    }

    /// Returns the stamp of a tarball. Returns `None` for a directory, whose modification time does not
    /// change with its content.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        if self.is_directory { None } else { Stamp::of(&self.path).ok() }
    }
}

/// A verified file of an OCI image.
#[derive(Debug, Clone)]
pub struct ImageBlob {
    /// The digest by which the image names it.
    pub digest: Digest,
    /// The file in the cache.
    pub path: PathBuf,
    /// True for a layer, false for a manifest.
    pub is_layer: bool,
}

/// Path, size, inode and modification time of a file. As long as they stay the same, the file counts as
/// unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime: u64,
    /// The number of its inode.
    pub inode: u64,
}

impl Stamp {
    /// Returns the current stamp of the file `path`.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let time_since_1970 = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        let mtime = u64::try_from(time_since_1970.as_nanos()).unwrap_or(u64::MAX);
        Ok(Stamp { path: path.to_owned(), size: metadata.len(), mtime, inode })
    }
}

/// Name, version and digest of an artifact, found without unpacking it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactIdentity {
    /// The name in `release.MF` or `stemcell.MF`.
    pub name: String,
    /// The version there, or the one computed for a directory in source form.
    pub version: String,
    /// SHA-256 of the tarball, or of the content of a directory in source form.
    pub digest: Digest,
    /// Stamp of the tarball. As long as it stays the same, `digest` is valid. `None` for a directory.
    pub stamp: Option<Stamp>,
}

impl ArtifactIdentity {
    /// Returns true if name, version and digest are the same. Stamps are not compared.
    pub fn has_same_content(&self, other: &ArtifactIdentity) -> bool {
        (&self.name, &self.version, &self.digest) == (&other.name, &other.version, &other.digest)
    }
}
