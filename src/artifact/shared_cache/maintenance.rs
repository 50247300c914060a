//! Lists, prunes and verifies the objects of a shared cache, for an operator. Unlike those of a run, failures
//! are errors.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::storage::{SharedStorage, StoredObject};
use super::trust::{PackageId, PackageKind};
use super::{DOWNLOADS_DIRECTORY, ObjectCopyError, copy, digest_of_download, read_signed_digest};
use crate::InterruptCheck;
use crate::cache::{PruneReport, VerifyReport};
use crate::digest::Digest;
use base::encoding::rfc3339;
use base::{Error, Result};
use net::ssh::VerifyingKey;

pub(super) const PACKAGE_KINDS: [PackageKind; 2] = [PackageKind::Vm, PackageKind::Cpi];
/// The ending of objects with a signed digest, which belong to a package.
pub(super) const SIGNED_DIGEST_ENDING: &str = ".json";

/// An entry of a shared cache: a download or a compiled package.
#[derive(Debug, Clone, Serialize)]
pub struct SharedEntry {
    /// The folder: `downloads`, `compiled` or `cpi`.
    pub kind: String,
    /// The name of the object in that folder.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of its upload (RFC 3339).
    #[serde(rename = "written")]
    pub upload_time: String,
}

/// Lists the entries, sorted by kind and name.
pub fn list(storage: &dyn SharedStorage) -> Result<Vec<SharedEntry>> {
    let objects =
        list_objects(storage)?.into_iter().filter(|(_, object)| !object.name.ends_with(SIGNED_DIGEST_ENDING));
    let entries = objects.map(|(kind, object)| SharedEntry {
        kind: kind.to_owned(),
        name: object.name,
        size: object.size,
        upload_time: rfc3339(object.write_time.into()),
    });
    Ok(entries.collect())
}

/// Removes entries whose upload is longer ago than `age`. A shared cache does not know when an entry was
/// used.
pub fn prune(storage: &dyn SharedStorage, age: Duration) -> Result<PruneReport> {
    let mut prune_report = PruneReport::default();
    let now = SystemTime::now();
    let mut objects = list_objects(storage)?;
    // The signed digest of a package is written after the package, so it is removed first.
    objects.sort_by_key(|(_, object)| !object.name.ends_with(SIGNED_DIGEST_ENDING));
    for (kind, object) in objects {
        let is_entry = !object.name.ends_with(SIGNED_DIGEST_ENDING);
        if now.duration_since(object.write_time).unwrap_or_default() < age {
            prune_report.kept_count += usize::from(is_entry);
            continue;
        }
        storage.remove(&format!("{kind}/{}", object.name)).map_err(storage_error)?;
        if is_entry {
            prune_report.removed_count += 1;
            prune_report.bytes += object.size;
        }
    }
    Ok(prune_report)
}

/// Reads all entries, and compares their digests and signatures.
pub fn verify(storage: &dyn SharedStorage, trusted_keys: &[VerifyingKey]) -> Result<VerifyReport> {
    let mut verify_report = VerifyReport::default();
    let objects = list_objects(storage)?;
    for (kind, object) in objects.iter().filter(|(kind, _)| *kind == DOWNLOADS_DIRECTORY) {
        let problem = match digest_of_download(&object.name) {
            Some(digest) => check_content(storage, &format!("{kind}/{}", object.name), &digest, None)?,
            None => Some("its name has no digest".to_owned()),
        };
        verify_report.add(kind, &object.name, problem);
    }
    for package_kind in PACKAGE_KINDS {
        let folder = package_kind.folder();
        let names = objects.iter().filter(|(kind, _)| *kind == folder).map(|(_, object)| &object.name);
        let (signed_digests, archives): (Vec<&String>, Vec<&String>) =
            names.partition(|name| name.ends_with(SIGNED_DIGEST_ENDING));
        let (mut signed_archives, mut damaged_keys) = (BTreeSet::new(), BTreeSet::new());
        for object_name in signed_digests {
            let key = object_name.strip_suffix(SIGNED_DIGEST_ENDING).unwrap_or(object_name);
            let id = PackageId { kind: package_kind, key };
            let problem = match read_signed_digest(storage, &id, trusted_keys).map_err(storage_error)? {
                Some(Ok(package)) => {
                    let size = Some(package.signed_digest.size());
                    let problem = check_content(storage, &package.object, &package.digest, size)?;
                    signed_archives.insert(package.object);
                    problem
                }
                Some(Err(reason)) => {
                    damaged_keys.insert(key);
                    Some(reason)
                }
                None => continue,
            };
            verify_report.add(folder, object_name, problem);
        }
        for archive in archives {
            let key = archive.split('.').next().unwrap_or_default();
            if !signed_archives.contains(&format!("{folder}/{archive}")) && !damaged_keys.contains(key) {
                verify_report.add(folder, archive, Some("no valid signature names it".to_owned()));
            }
        }
    }
    Ok(verify_report)
}

/// Reads an object. Returns its difference from the expected content, if there is one.
fn check_content(
    storage: &dyn SharedStorage,
    object: &str,
    expected: &Digest,
    size: Option<u64>,
) -> Result<Option<String>> {
    // A signal ends the process itself.
    let end_check: InterruptCheck = Arc::new(|| Ok(()));
    match copy(storage, object, expected, size, &end_check, &mut |_| Ok(())) {
        Ok(_) => Ok(None),
        Err(ObjectCopyError::Missing) => Ok(Some("its content is missing".to_owned())),
        Err(ObjectCopyError::Content(reason)) => Ok(Some(reason)),
        Err(ObjectCopyError::Storage(error)) => Err(storage_error(error)),
        Err(ObjectCopyError::Write(error)) => Err(error),
        Err(ObjectCopyError::Ended) => Ok(None),
    }
}

/// Lists all objects with their folders, sorted.
fn list_objects(storage: &dyn SharedStorage) -> Result<Vec<(&'static str, StoredObject)>> {
    let mut objects = Vec::new();
    for folder in [DOWNLOADS_DIRECTORY].into_iter().chain(PACKAGE_KINDS.map(PackageKind::folder)) {
        let stored_objects = storage.list(folder).map_err(storage_error)?;
        objects.extend(stored_objects.into_iter().map(|object| (folder, object)));
    }
    objects.sort_by(|(one_folder, one), (other_folder, other)| {
        (one_folder, &one.name).cmp(&(other_folder, &other.name))
    });
    Ok(objects)
}

/// Returns the error for a request that failed.
pub(super) fn storage_error(error: std::io::Error) -> Error {
    Error::io("using the shared cache", error)
}
