//! Digests of files, computed once and stored. A stored digest is valid until the path, size, modification
//! time or inode of the file changes.

use std::fs;
use std::io::{self, BufRead};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{ArtifactKind, Cache, DIGESTS_DIRECTORY, key};
use crate::Stamp;
use crate::digest::{Algorithm, Digest, Hasher};
use crate::read_ahead::{MIN_THREAD_BYTES, ReadAhead};
use base::Result;
use base::files::{JsonLayout, input, read_json, write_json};

/// A stored entry about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DigestEntry {
    pub(super) stamp: Stamp,
    pub(super) digest: Digest,
    /// The name and version from its `release.MF` or `stemcell.MF`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact: Option<ArtifactName>,
}

/// The name and version of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArtifactName {
    pub(super) kind: ArtifactKind,
    pub(super) name: String,
    pub(super) version: String,
}

impl Cache {
    /// Returns the digest of the file `path` with at least these algorithms. Reads the file only if the cache
    /// lacks one of them, and calls `progress` with the bytes read so far and the size of the file.
    pub fn obtain_digest(
        &self,
        path: &Path,
        algorithms: &[Algorithm],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Digest> {
        let read_error = |error| input::read_error("the file", path, error);
        let stamp = Stamp::of(path).map_err(read_error)?;
        let entry = self.lookup(&stamp);
        if let Some(entry) = &entry
            && algorithms.iter().all(|algorithm| entry.digest.hex(*algorithm).is_some())
        {
            return Ok(entry.digest.clone());
        }
        let start = SystemTime::now();
        let digest = hash(path, stamp.size, algorithms, progress).map_err(read_error)?;
        self.store_if_unchanged(&stamp, start, &digest, None);
        Ok(digest)
    }

    /// Stores the digest of a file. `start` is the time at which reading began, and `stamp` is the file's
    /// stamp at that time.
    ///
    /// Stores nothing if the stamp has changed since, or if the file could change without changing its stamp.
    pub(super) fn store_if_unchanged(
        &self,
        stamp: &Stamp,
        start: SystemTime,
        digest: &Digest,
        artifact: Option<ArtifactName>,
    ) {
        if Stamp::of(&stamp.path).is_ok_and(|current_stamp| current_stamp == *stamp)
            && is_settled(stamp, start)
        {
            let earlier_entry = self.lookup(stamp);
            let merged_digest =
                earlier_entry.as_ref().map_or(Ok(digest.clone()), |entry| digest.merged_with(&entry.digest));
            if let Ok(digest) = merged_digest {
                let artifact = artifact.or(earlier_entry.and_then(|entry| entry.artifact));
                self.store(&DigestEntry { stamp: stamp.clone(), digest, artifact });
            }
        }
    }

    /// Returns the stored entry about the file with this stamp.
    pub(super) fn lookup(&self, stamp: &Stamp) -> Option<DigestEntry> {
        let path = self.root.join(DIGESTS_DIRECTORY).join(entry_name(&stamp.path));
        read_entry(&path).filter(|entry| entry.stamp == *stamp)
    }

    /// Stores an entry. A failure is only logged: the file is then read again the next time.
    pub(super) fn store(&self, entry: &DigestEntry) {
        let result = self.create_directory(DIGESTS_DIRECTORY).and_then(|directory| {
            write_json(&directory.join(entry_name(&entry.stamp.path)), entry, JsonLayout::Compact)
        });
        if let Err(error) = result {
            let path = entry.stamp.path.display();
            tracing::warn!(?error, %path, "cannot store the digest in the cache");
        }
    }
}

/// Reads an entry. Returns `None` if it is missing or damaged.
pub(super) fn read_entry(path: &Path) -> Option<DigestEntry> {
    read_json(path).ok().flatten()
}

fn entry_name(path: &Path) -> String {
    format!("{}.json", key(path.as_os_str().as_encoded_bytes()))
}

/// Returns true if every change of the file after `start` also changes its modification time.
///
/// The clocks of file systems are coarse: a file written just before `start` could be written again in the
/// same tick.
fn is_settled(stamp: &Stamp, start: SystemTime) -> bool {
    const SECOND_NS: u64 = 1_000_000_000;
    // File systems without fractions of a second have a resolution of up to two seconds.
    let step = if stamp.mtime.is_multiple_of(SECOND_NS) {
        Duration::from_secs(2)
    } else {
        Duration::from_millis(50)
    };
    let change = UNIX_EPOCH + Duration::from_nanos(stamp.mtime);
    start.duration_since(change).is_ok_and(|age| age > step)
}

/// Computes the digests of a file. A large file is read by a second thread, and with several algorithms both
/// threads hash.
fn hash(
    path: &Path,
    total: u64,
    algorithms: &[Algorithm],
    progress: &mut dyn FnMut(u64, u64),
) -> io::Result<Digest> {
    let mut file = fs::File::open(path)?;
    let mut algorithms = algorithms.to_vec();
    algorithms.sort_unstable();
    algorithms.dedup();
    if total < MIN_THREAD_BYTES {
        let mut hasher = Hasher::new(&algorithms);
        io::copy(&mut file, &mut hasher)?;
        return Ok(hasher.finish());
    }
    // If there are several algorithms, this thread computes one and the reading thread the others.
    let (own_algorithms, other_algorithms) = algorithms.split_at(usize::from(algorithms.len() > 1));
    let mut hasher = (!own_algorithms.is_empty()).then(|| Hasher::new(own_algorithms));
    std::thread::scope(|scope| {
        let mut read_ahead = ReadAhead::start(scope, file, Hasher::new(other_algorithms))?;
        let (mut read_bytes, mut reported_bytes) = (0, 0);
        loop {
            let bytes = read_ahead.fill_buf()?;
            let count = bytes.len();
            if count == 0 {
                let digest = read_ahead.stop().1.finish();
                let other_digest = hasher.map(Hasher::finish);
                return other_digest
                    .map_or(Ok(digest.clone()), |other_digest| digest.merged_with(&other_digest))
                    .map_err(io::Error::other);
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            read_ahead.consume(count);
            read_bytes += count as u64;
            if read_bytes - reported_bytes >= 8 << 20 {
                reported_bytes = read_bytes;
                progress(read_bytes, total);
            }
        }
    })
}
