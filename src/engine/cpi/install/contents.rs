//! The content of an installed package: recorded when the package is complete, and compared before each use.
//!
//! The stamp is a digest of the names, modes, sizes and change times of all files. It takes a few
//! milliseconds, and every write changes it, because programs cannot set the change time of a file. Only if
//! it differs, as after restoring a backup, are the files read and compared with their digests.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use artifact::{Algorithm, Digest};
use base::{Error, Result};

/// The mode bit without which the owner cannot read a file.
const OWNER_READS: u32 = 0o400;

/// The mode and content of each file, by its path below the root.
pub(super) type FileRecords = BTreeMap<String, String>;

/// Returns the stamp of a directory tree.
pub(super) fn compute_stamp(root: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    visit_files(root, &mut |path, metadata| {
        let name = relative(root, path).as_os_str().as_encoded_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(metadata.mode().to_le_bytes());
        hash.update(metadata.size().to_le_bytes());
        hash.update(metadata.ctime().to_le_bytes());
        hash.update(metadata.ctime_nsec().to_le_bytes());
        Ok(())
    })?;
    Ok(hex::encode(hash.finalize()))
}

/// Reads a directory tree. Links are not followed.
pub(super) fn read_records(root: &Path) -> Result<FileRecords> {
    let mut records = FileRecords::new();
    visit_files(root, &mut |path, metadata| {
        let kind = metadata.file_type();
        let content = if kind.is_symlink() {
            let target = std::fs::read_link(path).map_err(|error| read_error(path, error))?;
            printable(&target)
        } else if kind.is_file() && metadata.mode() & OWNER_READS != 0 {
            Digest::from_file(path, &[Algorithm::Sha256])?.to_string()
        } else if kind.is_file() {
            // The owner cannot read this file, so it counts as changed if it was written again.
            format!("{} {}", metadata.ctime(), metadata.ctime_nsec())
        } else {
            String::new()
        };
        records.insert(printable(relative(root, path)), format!("{:o} {content}", metadata.mode()));
        Ok(())
    })?;
    Ok(records)
}

/// Returns the first path at which two trees differ.
pub(super) fn first_difference<'r>(
    old_records: &'r FileRecords,
    new_records: &'r FileRecords,
) -> Option<&'r str> {
    let is_changed = |(path, record): &(&'r String, &'r String)| new_records.get(*path) != Some(*record);
    let changed_path = old_records.iter().find(is_changed).map(|(path, _)| path.as_str());
    let added_path = new_records.keys().find(|path| !old_records.contains_key(*path)).map(String::as_str);
    changed_path.into_iter().chain(added_path).min()
}

/// Calls `visit` with the path and the metadata of everything below a directory, in a fixed order.
fn visit_files(root: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> Result<()>) -> Result<()> {
    for entry in WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| read_error(root, error.into()))?;
        let metadata = entry.metadata().map_err(|error| read_error(entry.path(), error.into()))?;
        visit(entry.path(), &metadata)?;
    }
    Ok(())
}

fn relative<'p>(root: &Path, path: &'p Path) -> &'p Path {
    path.strip_prefix(root).unwrap_or(path)
}

/// Returns a path as text. Two paths never have the same text.
fn printable(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

fn read_error(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("reading '{}'", path.display()), error)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn every_change_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("packages");
        let path = |name: &str| root.join(name);
        fs::create_dir_all(path("a/bin")).unwrap();
        fs::write(path("a/bin/program"), "text").unwrap();
        fs::write(path("a/data"), "1234").unwrap();
        symlink("program", path("a/bin/link")).unwrap();
        let changes: [(&str, &dyn Fn()); 7] = [
            ("a/data", &|| {
                // The size and the time of modification stay the same.
                let time = fs::metadata(path("a/data")).unwrap().modified().unwrap();
                fs::write(path("a/data"), "1235").unwrap();
                File::options().write(true).open(path("a/data")).unwrap().set_modified(time).unwrap();
            }),
            ("a/data", &|| fs::write(path("a/data"), "12").unwrap()),
            ("a/data", &|| fs::remove_file(path("a/data")).unwrap()),
            ("a/more", &|| fs::write(path("a/more"), "").unwrap()),
            ("b", &|| symlink("/elsewhere", path("b")).unwrap()),
            ("a/bin/link", &|| {
                fs::remove_file(path("a/bin/link")).unwrap();
                symlink("/elsewhere", path("a/bin/link")).unwrap();
            }),
            ("a/bin/program", &|| {
                fs::set_permissions(path("a/bin/program"), Permissions::from_mode(0o711)).unwrap();
            }),
        ];
        for (changed_path, change) in changes {
            let (stamp_before, records_before) =
                (compute_stamp(&root).unwrap(), read_records(&root).unwrap());
            assert_eq!(compute_stamp(&root).unwrap(), stamp_before);
            // The clock of change times ticks every few milliseconds.
            std::thread::sleep(Duration::from_millis(20));
            change();
            assert_ne!(compute_stamp(&root).unwrap(), stamp_before, "{changed_path}");
            assert_eq!(first_difference(&records_before, &read_records(&root).unwrap()), Some(changed_path));
        }
        // The content of a file that cannot be read is unknown.
        fs::set_permissions(path("a/bin/program"), Permissions::from_mode(0o111)).unwrap();
        let records_before = read_records(&root).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::set_permissions(path("a/bin/program"), Permissions::from_mode(0o111)).unwrap();
        assert_eq!(first_difference(&records_before, &read_records(&root).unwrap()), Some("a/bin/program"));
        fs::set_permissions(path("a/bin/program"), Permissions::from_mode(0o755)).unwrap();
        // Other times are no difference.
        let records_before = read_records(&root).unwrap();
        File::open(path("a/bin/program")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(first_difference(&records_before, &read_records(&root).unwrap()), None);
    }
}
