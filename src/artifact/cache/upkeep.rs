//! What is in a cache, and making it smaller.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use walkdir::WalkDir;

use super::downloads::About;
use super::{DIGESTS, digests, lock_exclusively};
use crate::Stamp;
use base::encoding::rfc3339;
use base::{Error, Result, files};

/// What stands beside something and goes with it: what is known of it, and its lock.
const BESIDE: [&str; 3] = ["json", "etag", "lock"];
/// Scratch space of runs, which looks after itself.
const SCRATCH: &str = "tmp";

/// One thing in a cache.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The part of the cache it belongs to: `downloads`, `partial`, or what another module keeps.
    pub kind: String,
    /// Its file name.
    pub name: String,
    /// Bytes on disk.
    pub size: u64,
    /// When it was used last, RFC 3339; for what is not a download, when it was made.
    pub used: String,
    /// Of a download, where it came from, without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    time: SystemTime,
}

/// What pruning did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// How many things were removed. Remembered digests do not count.
    pub removed: usize,
    /// Bytes freed.
    pub bytes: u64,
    /// How many things are left.
    pub kept: usize,
}

/// What is in the cache `root`, by kind and name. Nothing, if there is no cache.
pub fn list(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for part in children(root)? {
        let kind = file_name(&part);
        if !part.is_dir() || kind == SCRATCH || kind == DIGESTS {
            continue;
        }
        for path in children(&part)? {
            let name = file_name(&path);
            let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
            if name.starts_with('.') || BESIDE.contains(&end) {
                continue;
            }
            entries.extend(entry(&kind, name, path));
        }
    }
    entries.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    Ok(entries)
}

/// Removes what was not used for `unused`, and digests of files that are gone. An error if another run uses
/// the cache.
pub fn prune(root: &Path, unused: Duration) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    if !root.is_dir() {
        return Ok(pruned);
    }
    let _lock = lock_exclusively(root)?;
    let now = SystemTime::now();
    for entry in list(root)? {
        if now.duration_since(entry.time).unwrap_or_default() < unused {
            pruned.kept += 1;
            continue;
        }
        // What stands beside it, whatever is there of it.
        for end in BESIDE {
            let _ = fs::remove_file(entry.path.with_extension(end));
        }
        files::remove_tree(&entry.path)
            .map_err(|error| Error::io(format!("removing '{}'", entry.path.display()), error))?;
        pruned.removed += 1;
        pruned.bytes += entry.size;
    }
    for path in children(&root.join(DIGESTS))? {
        let current = digests::read_entry(&path)
            .is_some_and(|known| Stamp::of(&known.stamp.path).is_ok_and(|now| now == known.stamp));
        if !current || unused.is_zero() {
            // One that stays is a few bytes too many.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(pruned)
}

fn entry(kind: &str, name: String, path: PathBuf) -> Option<Entry> {
    let about = path.with_extension("json");
    let metadata = fs::symlink_metadata(&path).ok()?;
    // A directory notes its use in the record inside.
    let records = [about.clone(), path.join("package.json")];
    let record = records.iter().find_map(|record| fs::metadata(record).ok());
    let time = record.unwrap_or_else(|| metadata.clone()).modified().ok()?;
    let files = WalkDir::new(&path).into_iter().flatten();
    let size = files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file());
    Some(Entry {
        kind: kind.to_owned(),
        name,
        size: size.map(|file| file.len()).sum(),
        used: rfc3339(time.into()),
        url: About::read(&about).map(|about| about.url),
        path,
        time,
    })
}

/// What a directory holds; nothing, if there is none.
fn children(directory: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io(format!("reading the directory '{}'", directory.display()), error)),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
