//! Lists, prunes and verifies the entries of a cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use walkdir::WalkDir;

use super::downloads::DownloadRecord;
use super::{DIGESTS_DIRECTORY, DOWNLOADS_DIRECTORY, digests, lock_exclusively};
use crate::Stamp;
use crate::digest::{Algorithm, Digest};
use base::encoding::rfc3339;
use base::{Error, Result, files};

/// Extensions of the files beside an entry, which are removed with it: its record, its entity tag, its lock.
const COMPANION_EXTENSIONS: [&str; 3] = ["json", "etag", "lock"];
/// Directory of packages that were compiled on VMs.
const COMPILED_PACKAGES: &str = "compiled";
/// Directory of the runs' scratch space, which is not listed and not pruned.
const SCRATCH_DIRECTORY: &str = "tmp";

/// A file or directory in a cache.
#[derive(Debug, Clone, Serialize)]
pub struct CacheEntry {
    /// Name of its directory in the cache: `downloads`, `partial`, or that of another module.
    pub kind: String,
    /// The name of the file or directory.
    pub name: String,
    /// Size in bytes of all its files.
    pub size: u64,
    /// Time of its last use (RFC 3339). If no use is recorded, its modification time.
    #[serde(rename = "used")]
    pub last_use: String,
    /// URL without credentials. Only downloads have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    time: SystemTime,
}

/// The result of [`prune`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// Number of entries removed, without stored digests.
    #[serde(rename = "removed")]
    pub removed_count: usize,
    /// Size of the removed entries in bytes.
    pub bytes: u64,
    /// Number of entries left.
    #[serde(rename = "kept")]
    pub kept_count: usize,
}

/// The result of verifying a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Number of entries that were read.
    pub entries: usize,
    /// Entries with another content than expected.
    #[serde(rename = "damaged")]
    pub damaged_entries: Vec<DamagedEntry>,
}

/// An entry of a cache that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedEntry {
    /// The kind, as in a list of entries.
    pub kind: String,
    /// The name of the entry.
    pub name: String,
    /// The difference from the expected content.
    pub problem: String,
}

impl VerifyReport {
    /// Counts an entry, and keeps its problem if it has one.
    pub fn add(&mut self, kind: &str, name: &str, problem: Option<String>) {
        self.entries += 1;
        let entry = |problem| DamagedEntry { kind: kind.to_owned(), name: name.to_owned(), problem };
        self.damaged_entries.extend(problem.map(entry));
    }

    /// Returns true if this entry has a problem.
    pub fn has_problem(&self, kind: &str, name: &str) -> bool {
        self.damaged_entries.iter().any(|entry| entry.kind == kind && entry.name == name)
    }
}

/// Compares downloads and packages of jobs in the cache `root` with the SHA-256 in their names.
pub fn verify(root: &Path) -> Result<VerifyReport> {
    let mut verification = VerifyReport::default();
    for entry in list(root)?
        .iter()
        .filter(|entry| entry.kind == DOWNLOADS_DIRECTORY || entry.kind == COMPILED_PACKAGES)
    {
        // The key of a package comes before the digest of its content.
        let digits = entry.path.file_stem().and_then(|stem| stem.to_str()?.rsplit('.').next());
        let expected = digits.and_then(|digits| format!("sha256:{digits}").parse::<Digest>().ok());
        let problem = match expected {
            Some(expected) => {
                let digest = Digest::from_file(&entry.path, &[Algorithm::Sha256])?;
                expected.check(&digest, "the file").err().map(|mismatch| mismatch.to_string())
            }
            None => Some("its name has no digest".to_owned()),
        };
        verification.add(&entry.kind, &entry.name, problem);
    }
    Ok(verification)
}

/// Lists the entries of the cache `root`, sorted by kind and name. Returns an empty list if there is no
/// cache.
pub fn list(root: &Path) -> Result<Vec<CacheEntry>> {
    let mut entries = Vec::new();
    for part in list_children(root)? {
        let kind = file_name(&part);
        if !part.is_dir() || kind == SCRATCH_DIRECTORY || kind == DIGESTS_DIRECTORY {
            continue;
        }
        for path in list_children(&part)? {
            let name = file_name(&path);
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if name.starts_with('.') || COMPANION_EXTENSIONS.contains(&extension) {
                continue;
            }
            entries.extend(read_entry(&kind, name, path));
        }
    }
    entries.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    Ok(entries)
}

/// Removes entries that were not used for `unused_duration`, and stored digests of files that have changed or
/// are gone. With zero, removes every stored digest. Fails if another run uses the cache.
pub fn prune(root: &Path, unused_duration: Duration) -> Result<PruneReport> {
    let mut counts = PruneReport::default();
    if !root.is_dir() {
        return Ok(counts);
    }
    let _lock = lock_exclusively(root)?;
    let now = SystemTime::now();
    for entry in list(root)? {
        if now.duration_since(entry.time).unwrap_or_default() < unused_duration {
            counts.kept_count += 1;
            continue;
        }
        // Most entries have only some of these files.
        for extension in COMPANION_EXTENSIONS {
            let _ = fs::remove_file(entry.path.with_extension(extension));
        }
        files::remove_tree(&entry.path)
            .map_err(|error| Error::io(format!("removing '{}'", entry.path.display()), error))?;
        counts.removed_count += 1;
        counts.bytes += entry.size;
    }
    for path in list_children(&root.join(DIGESTS_DIRECTORY))? {
        let is_current = digests::read_entry(&path)
            .is_some_and(|entry| Stamp::of(&entry.stamp.path).is_ok_and(|now| now == entry.stamp));
        if !is_current || unused_duration.is_zero() {
            // A stored digest that cannot be removed takes only some hundred bytes.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(counts)
}

/// Reads the size and the times of an entry. Returns `None` if it is gone.
fn read_entry(kind: &str, name: String, path: PathBuf) -> Option<CacheEntry> {
    let record_path = path.with_extension("json");
    let metadata = fs::symlink_metadata(&path).ok()?;
    // The record of a directory is inside it. The time of the record is that of the last use.
    let records = [record_path.clone(), path.join("package.json")];
    let record = records.iter().find_map(|record| fs::metadata(record).ok());
    let time = record.unwrap_or_else(|| metadata.clone()).modified().ok()?;
    let files = WalkDir::new(&path).into_iter().flatten();
    let regular_files = files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file());
    Some(CacheEntry {
        kind: kind.to_owned(),
        name,
        size: regular_files.map(|file| file.len()).sum(),
        last_use: rfc3339(time.into()),
        url: DownloadRecord::read(&record_path).map(|record| record.url),
        path,
        time,
    })
}

/// Lists a directory. Returns an empty list if it does not exist.
fn list_children(directory: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io(format!("reading the directory '{}'", directory.display()), error)),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
