//! Downloads in the cache, found by their digest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::digests::DigestEntry;
use super::{Cache, DOWNLOADS_DIRECTORY, PARTIAL_DOWNLOADS_DIRECTORY, key};
use crate::Stamp;
use crate::digest::{Algorithm, Digest};
use base::files::{JsonLayout, read_json, write_json};
use base::{Error, Result};

/// The record beside a download.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DownloadRecord {
    /// The URL of its last download, without credentials.
    pub(super) url: String,
    pub(super) digest: Digest,
}

impl DownloadRecord {
    pub(super) fn read(path: &Path) -> Option<Self> {
        read_json(path).ok().flatten()
    }
}

impl Cache {
    /// Returns the path of the download that is recorded with this digest. Verify it before use.
    pub(crate) fn find(&self, expected: &Digest) -> Option<PathBuf> {
        let directory = self.root.join(DOWNLOADS_DIRECTORY);
        let algorithm = expected.strongest();
        let digits = expected.hex(algorithm)?;
        if algorithm == Algorithm::Sha256 {
            let path = directory.join(format!("{digits}.tgz"));
            return path.is_file().then_some(path);
        }
        let entries = fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .filter(|path| {
                DownloadRecord::read(path).is_some_and(|record| record.digest.hex(algorithm) == Some(digits))
            })
            .map(|path| path.with_extension("tgz"))
            .find(|path| path.is_file())
    }

    /// Returns the path for the unfinished download that `key_text` identifies, and creates its directory.
    pub(crate) fn create_partial_path(&self, key_text: &str) -> Result<PathBuf> {
        Ok(self.create_directory(PARTIAL_DOWNLOADS_DIRECTORY)?.join(key(key_text.as_bytes())))
    }

    /// Moves the complete download `body_path` into the cache and returns its new path. `digest` must be
    /// verified and include SHA-256.
    pub(crate) fn keep_download(&self, body_path: &Path, digest: &Digest, url: &str) -> Result<PathBuf> {
        let digits = digest
            .hex(Algorithm::Sha256)
            .ok_or_else(|| Error::failure("the digest of a download lacks SHA-256"))?;
        let path = self.create_directory(DOWNLOADS_DIRECTORY)?.join(format!("{digits}.tgz"));
        let record_path = path.with_extension("json");
        // The same content may be recorded with another algorithm.
        let digest = match DownloadRecord::read(&record_path) {
            Some(existing_record) => digest.merged_with(&existing_record.digest)?,
            None => digest.clone(),
        };
        let record = DownloadRecord { url: url.to_owned(), digest: digest.clone() };
        // The record is written first. A process that waits for the lock on `body_path` then finds the
        // download by its record as soon as `body_path` is gone.
        write_json(&record_path, &record, JsonLayout::Compact)?;
        fs::rename(body_path, &path)
            .map_err(|error| Error::io(format!("moving a download to '{}'", path.display()), error))?;
        // Only the cache writes this file, so its digest is still valid.
        if let Ok(stamp) = Stamp::of(&path) {
            self.store(&DigestEntry { stamp, digest, artifact: None });
        }
        Ok(path)
    }

    /// Moves a verified file from elsewhere into the cache. `digest` must include SHA-256.
    pub(crate) fn import(&self, path: &Path, digest: &Digest) -> Result<()> {
        let body_path = self.create_partial_path(&format!("{} {}", path.display(), std::process::id()))?;
        // The file may be on another file system.
        fs::rename(path, &body_path)
            .or_else(|_| fs::copy(path, &body_path).map(drop))
            .map_err(|error| Error::io(format!("copying '{}' into the cache", path.display()), error))?;
        self.keep_download(&body_path, digest, "a bundle").map(drop)
    }

    /// Records the current time as the last use of a download.
    pub(crate) fn touch(&self, path: &Path) {
        let record_file = File::options().append(true).open(path.with_extension("json"));
        // If this fails, the only effect is that the download is pruned too early.
        let _ = record_file.and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Removes a damaged download and its record.
    pub(crate) fn discard(&self, path: &Path) {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(path.with_extension("json"));
    }
}
