//! Disks of a `local` VM: directories, which are mounted by binding them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::hint_part;
use base::{Error, Result};

/// Returns the directory in a hint. Fails for hints of block devices (volume id, LUN, iSCSI).
pub(super) fn find(hint: &Value) -> Result<PathBuf> {
    let path = PathBuf::from(hint_part(hint, &["path"])?.1);
    if !path.is_absolute() {
        return Err(Error::invalid(format!("the disk's path '{}' is not absolute", path.display())));
    }
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(Error::failure(format!("the disk's path '{}' is not a directory", path.display()))),
        Err(error) => {
            Err(Error::failure(format!("the disk's device '{}' is missing", path.display()))
                .with_source(error))
        }
    }
}

/// Returns true if both paths lead to the same directory.
pub(super) fn is_mounted_at(disk_directory: &Path, target: &Path) -> bool {
    match (fs::metadata(disk_directory), fs::metadata(target)) {
        (Ok(disk), Ok(target)) => base::files::is_same_file(&disk, &target),
        _ => false,
    }
}

pub(super) fn mount(disk_directory: &Path, target: &Path) -> Result<()> {
    rustix::mount::mount_bind(disk_directory, target).map_err(|error| {
        Error::io(
            format!(
                "Mounting persistent disk: binding '{}' to '{}'",
                disk_directory.display(),
                target.display()
            ),
            error.into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hint_needs_the_path_of_an_existing_directory() {
        let directory = tempfile::tempdir().unwrap();
        find(&json!(directory.path())).unwrap();
        find(&json!({"path": directory.path()})).unwrap();
        for hint in
            [json!({"volume_id": "v", "iscsi_settings": {"password": "secret"}}), json!(null), json!(3)]
        {
            let error = find(&hint).unwrap_err().to_string();
            assert!(error.contains("no 'path'") && !error.contains("secret"), "{error}");
        }
        assert!(find(&json!("/nowhere/disk")).unwrap_err().to_string().contains("missing"));
        find(&json!("relative")).unwrap_err();
    }
}
