//! Downloads by their content.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::digests::Known;
use super::{Cache, DOWNLOADS, PARTIAL, key, write_whole};
use crate::Stamp;
use crate::digest::{Algorithm, Digest};
use base::{Error, Result};

/// What stands beside a download.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    /// Where it came from, without credentials.
    pub(super) url: String,
    pub(super) digest: Digest,
}

impl About {
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}

impl Cache {
    /// The download that is said to have this digest. It must be verified before it is used.
    pub(crate) fn find(&self, expected: &Digest) -> Option<PathBuf> {
        let directory = self.root.join(DOWNLOADS);
        let algorithm = expected.strongest();
        let digits = expected.hex(algorithm)?;
        if algorithm == Algorithm::Sha256 {
            let path = directory.join(format!("{digits}.tgz"));
            return path.is_file().then_some(path);
        }
        let entries = fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .filter(|path| About::read(path).is_some_and(|about| about.digest.hex(algorithm) == Some(digits)))
            .map(|path| path.with_extension("tgz"))
            .find(|path| path.is_file())
    }

    /// Where a download that `key_text` identifies is put while it is incomplete.
    pub(crate) fn partial(&self, key_text: &str) -> Result<PathBuf> {
        Ok(self.directory(PARTIAL)?.join(key(key_text.as_bytes())))
    }

    /// Takes a complete download, with this verified digest that has SHA-256 in it, into the cache.
    pub(crate) fn adopt(&self, body: &Path, digest: &Digest, url: &str) -> Result<PathBuf> {
        let digits = digest
            .hex(Algorithm::Sha256)
            .ok_or_else(|| Error::environment("a download was not hashed by SHA-256"))?;
        let path = self.directory(DOWNLOADS)?.join(format!("{digits}.tgz"));
        let about_path = path.with_extension("json");
        // The same content may have come with another digest before.
        let digest = match About::read(&about_path) {
            Some(before) => digest.and(&before.digest)?,
            None => digest.clone(),
        };
        let about = serde_json::to_vec(&About { url: url.to_owned(), digest: digest.clone() })
            .map_err(|error| Error::environment("a download's record has no JSON form").with_source(error))?;
        // The record goes first: whoever finds the body gone, and its lock with it, must find the download.
        write_whole(&about_path, &about)?;
        fs::rename(body, &path)
            .map_err(|error| Error::io(format!("moving a download to '{}'", path.display()), error))?;
        // Nobody but this cache writes it: its digest needs no second reading.
        if let Ok(stamp) = Stamp::of(&path) {
            self.remember(&Known { stamp, digest, artifact: None });
        }
        Ok(path)
    }

    /// Notes that a download was used.
    pub(crate) fn touch(&self, path: &Path) {
        let about = File::options().append(true).open(path.with_extension("json"));
        // Otherwise it is pruned earlier than it need be.
        let _ = about.and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Removes a download that is not what it should be.
    pub(crate) fn discard(&self, path: &Path) {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(path.with_extension("json"));
    }
}
