//! Durable files: JSON documents replaced atomically.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::{CpiFailure, CpiResult};
use base::Error;
use base::files::durable::remove_temporaries;
use base::files::{self, JsonLayout};

/// Replaces the document at `path` atomically and durably.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> CpiResult<()> {
    // The caller holds the lock of the directory, so these files are leftovers of interrupted calls.
    remove_temporaries(path)
        .map_err(|error| CpiFailure::io(format_args!("writing '{}'", path.display()), error))?;
    files::write_json(path, value, JsonLayout::Indented).map_err(cpi_error)
}

/// Reads a document written by [`write_json`], or returns `None` if the file does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> CpiResult<Option<T>> {
    files::read_json(path).map_err(cpi_error)
}

fn cpi_error(error: Error) -> CpiFailure {
    CpiFailure::cloud(error.chain().join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn documents_are_private_and_replaced_atomically() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        write_json(&path, &vec![1, 2]).unwrap();
        write_json(&path, &vec![3]).unwrap();
        assert_eq!(read_json::<Vec<u8>>(&path).unwrap(), Some(vec![3]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(read_json::<u8>(&directory.path().join("b.json")).unwrap(), None);
    }
}
