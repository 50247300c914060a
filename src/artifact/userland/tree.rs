//! The digest of a userland that is a directory.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use crate::cache::{Cache, DIGESTS_DIRECTORY, key};
use crate::digest::{Algorithm, Digest};
use base::files::{JsonLayout, read_json, write_json};
use base::{Error, Result};

/// The digest of a tree, valid as long as the stamp is the same.
#[derive(Serialize, Deserialize)]
struct TreeDigest {
    stamp: String,
    digest: String,
}

/// Returns the SHA-256 of the names, modes and contents below `root`. The files are read only if a name, a
/// mode, a size or a change time is another one than at the last time.
pub(super) fn compute_digest(cache: &Cache, root: &Path) -> Result<String> {
    // Taken before the files are read, so that a later change will be noticed.
    let stamp = hash(root, &|_, metadata| {
        Ok(format!("{} {}.{}", metadata.size(), metadata.ctime(), metadata.ctime_nsec()))
    })?;
    let path = cache
        .create_directory(DIGESTS_DIRECTORY)?
        .join(format!("tree-{}.json", key(root.as_os_str().as_encoded_bytes())));
    if let Some(entry) = read_json::<TreeDigest>(&path).ok().flatten()
        && entry.stamp == stamp
    {
        return Ok(entry.digest);
    }
    let digest = hash(root, &|path, metadata| read_content(path, metadata))?;
    write_json(&path, &TreeDigest { stamp, digest: digest.clone() }, JsonLayout::Compact)?;
    Ok(digest)
}

/// Returns the content of a file or link as text. What this user cannot read, no process in the userland can.
fn read_content(path: &Path, metadata: &Metadata) -> Result<String> {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(path).map_err(|error| read_error(path, error))?;
        return Ok(target.as_os_str().as_encoded_bytes().escape_ascii().to_string());
    }
    if !kind.is_file() {
        return Ok(String::new());
    }
    match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(String::new()),
        Err(error) => Err(read_error(path, error)),
        Ok(_) => Digest::from_file(path, &[Algorithm::Sha256]).map(|digest| digest.to_string()),
    }
}

/// Returns the SHA-256 of the names and modes below `root`, and of a text about each file from `describe`.
fn hash(root: &Path, describe: &dyn Fn(&Path, &Metadata) -> Result<String>) -> Result<String> {
    let mut hash = Sha256::new();
    let mut add = |field: &[u8]| {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    };
    for entry in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.io_error().map(io::Error::kind) == Some(io::ErrorKind::PermissionDenied) => {
                continue;
            }
            Err(error) => return Err(read_error(root, error.into())),
        };
        let metadata = entry.metadata().map_err(|error| read_error(entry.path(), error.into()))?;
        let name = entry.path().strip_prefix(root).unwrap_or(entry.path());
        add(name.as_os_str().as_encoded_bytes());
        add(&metadata.mode().to_le_bytes());
        add(describe(entry.path(), &metadata)?.as_bytes());
    }
    Ok(hex::encode(hash.finalize()))
}

fn read_error(path: &Path, error: io::Error) -> Error {
    Error::io(format!("reading '{}'", path.display()), error)
}
