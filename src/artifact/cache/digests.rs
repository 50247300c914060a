//! A digest is computed once for a file, and remembered as long as path, size, time of change and inode are
//! the same.

use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{Cache, DIGESTS, Kind, key, write_whole};
use crate::Stamp;
use crate::digest::{Algorithm, Digest, Hasher};
use crate::overlap::{ReadAhead, WORTH_A_THREAD};
use base::{Error, Result};

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
        self.learn(&stamp, begun, &digest, None);
        Ok(digest)
    }

    /// Remembers what was found in a file that has been read since `begun` and had this stamp then. One that changed
    /// while it was read, or might change without its time doing so, is not remembered.
    pub(super) fn learn(&self, stamp: &Stamp, begun: SystemTime, digest: &Digest, artifact: Option<Named>) {
        if Stamp::of(&stamp.path).is_ok_and(|after| after == *stamp) && is_settled(stamp, begun) {
            let known = self.recall(stamp);
            let all = known.as_ref().map_or(Ok(digest.clone()), |known| digest.and(&known.digest));
            if let Ok(digest) = all {
                let artifact = artifact.or(known.and_then(|known| known.artifact));
                self.remember(&Known { stamp: stamp.clone(), digest, artifact });
            }
        }
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
) -> io::Result<Digest> {
    let mut file = fs::File::open(path)?;
    let mut algorithms = algorithms.to_vec();
    algorithms.sort_unstable();
    algorithms.dedup();
    if total < WORTH_A_THREAD {
        let mut hasher = Hasher::new(&algorithms);
        io::copy(&mut file, &mut hasher)?;
        return Ok(hasher.finish());
    }
    // One of several functions is computed here, the others where the file is read.
    let (here, there) = algorithms.split_at(usize::from(algorithms.len() > 1));
    let mut hasher = (!here.is_empty()).then(|| Hasher::new(here));
    std::thread::scope(|scope| {
        let mut ahead = ReadAhead::start(scope, file, Hasher::new(there))?;
        let (mut done, mut told) = (0, 0);
        loop {
            let bytes = ahead.fill_buf()?;
            let count = bytes.len();
            if count == 0 {
                let digest = ahead.stop().1.finish();
                let other = hasher.map(Hasher::finish);
                return other
                    .map_or(Ok(digest.clone()), |other| digest.and(&other))
                    .map_err(io::Error::other);
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            ahead.consume(count);
            done += count as u64;
            if done - told >= 8 << 20 {
                told = done;
                progress(done, total);
            }
        }
    })
}
