//! A digest is computed once for a file, and remembered as long as path, size, time of change and inode are
//! the same.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{Cache, DIGESTS, Kind, key, write_whole};
use crate::artifact::Stamp;
use crate::artifact::digest::{Algorithm, Digest, Hasher};
use crate::{Error, Result};

/// Largest entry that is read.
const MAX_ENTRY: u64 = 64 << 10;

/// What is remembered of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) stamp: Stamp,
    pub(super) digest: Digest,
    /// What `release.MF` or `stemcell.MF` in it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) artifact: Option<Named>,
}

/// Name and version of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) version: String,
}

impl Cache {
    /// What the file `path` hashes to by these functions, at least. It is read only if that is not known.
    /// `progress` gets bytes done and bytes in all.
    pub fn digest(
        &self,
        path: &Path,
        algorithms: &[Algorithm],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Digest> {
        let reading = |error| Error::io(format!("reading '{}'", path.display()), error);
        let stamp = Stamp::of(path).map_err(reading)?;
        let known = self.recall(&stamp);
        if let Some(known) = &known
            && algorithms.iter().all(|algorithm| known.digest.hex(*algorithm).is_some())
        {
            return Ok(known.digest.clone());
        }
        let begun = SystemTime::now();
        let digest = hash(path, stamp.size, algorithms, progress).map_err(reading)?;
        // One that changed while it was read, or might change without its time doing so, is not remembered.
        if Stamp::of(path).is_ok_and(|after| after == stamp) && is_settled(&stamp, begun) {
            let all = known.as_ref().map_or(Ok(digest.clone()), |known| digest.and(&known.digest));
            if let Ok(digest) = all {
                self.remember(&Known { stamp, digest, artifact: known.and_then(|known| known.artifact) });
            }
        }
        Ok(digest)
    }

    /// What is remembered of the file with this stamp.
    pub(super) fn recall(&self, stamp: &Stamp) -> Option<Known> {
        let path = self.root.join(DIGESTS).join(entry_name(&stamp.path));
        read_entry(&path).filter(|known| known.stamp == *stamp)
    }

    /// Remembers; where that fails the file is read again next time.
    pub(super) fn remember(&self, known: &Known) {
        let written = self.directory(DIGESTS).and_then(|directory| {
            let text = serde_json::to_vec(known)
                .map_err(|error| Error::environment("a digest has no JSON form").with_source(error))?;
            write_whole(&directory.join(entry_name(&known.stamp.path)), &text)
        });
        if let Err(error) = written {
            tracing::warn!(?error, path = %known.stamp.path.display(), "the digest is not remembered");
        }
    }
}

/// Reads an entry; one that is damaged counts as none.
pub(super) fn read_entry(path: &Path) -> Option<Known> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_ENTRY).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn entry_name(path: &Path) -> String {
    format!("{}.json", key(path.as_os_str().as_encoded_bytes()))
}

/// Whether a later change must give the file another time of change: clocks of file systems are coarse, and a
/// file that was written a moment ago can be written again in the same tick.
fn is_settled(stamp: &Stamp, now: SystemTime) -> bool {
    const SECOND: u64 = 1_000_000_000;
    // File systems without fractions of a second count in steps of up to two.
    let step =
        if stamp.mtime.is_multiple_of(SECOND) { Duration::from_secs(2) } else { Duration::from_millis(50) };
    let changed = UNIX_EPOCH + Duration::from_nanos(stamp.mtime);
    now.duration_since(changed).is_ok_and(|age| age > step)
}

fn hash(
    path: &Path,
    total: u64,
    algorithms: &[Algorithm],
    progress: &mut dyn FnMut(u64, u64),
) -> std::io::Result<Digest> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Hasher::new(algorithms);
    let mut buffer = vec![0; 256 << 10];
    let (mut done, mut told) = (0, 0);
    loop {
        let count = match file.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
        done += count as u64;
        if done - told >= 8 << 20 {
            told = done;
            progress(done, total);
        }
    }
}
