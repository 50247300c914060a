//! The agent's blobstore: complete files in one directory, named by blob id.

use std::fs::{File, Permissions};
use std::io::Seek;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{digest, directories};
use base::error::ResultExt;
use base::{Error, Result};

/// The blobstore.
#[derive(Debug, Clone)]
pub(super) struct Blobs {
    directory: PathBuf,
}

impl Blobs {
    /// Opens the blobstore in an existing directory.
    pub(super) fn new(directory: PathBuf) -> Self {
        Blobs { directory }
    }

    /// Returns the path of a blob, which need not exist, or `None` for an invalid id.
    pub(super) fn path(&self, id: &str) -> Option<PathBuf> {
        directories::is_safe_name(id).then(|| self.directory.join(id))
    }

    /// Creates a temporary file for a blob that is being received or created.
    pub(super) fn create_incoming(&self) -> Result<NamedTempFile> {
        tempfile::Builder::new().prefix(".incoming-").tempfile_in(&self.directory).map_err(|error| {
            Error::io(format!("creating a file for a blob in '{}'", self.directory.display()), error)
        })
    }

    /// Turns a complete temporary file into the blob with this id.
    pub(super) fn commit(&self, file: NamedTempFile, id: &str) -> Result<()> {
        let path = self.path(id).ok_or_else(|| Error::invalid(format!("'{id}' is not a blob id")))?;
        file.persist(path).map_err(|error| Error::io(format!("storing blob '{id}'"), error.error))?;
        Ok(())
    }

    /// Stores a temporary file as a new blob. Returns its id and digest.
    pub(super) fn store(&self, mut file: NamedTempFile) -> Result<(String, String)> {
        let id = uuid::Uuid::new_v4().to_string();
        file.rewind().map_err(|error| Error::io("reading a new blob", error))?;
        let digest = digest::compute(file.as_file_mut())?;
        self.commit(file, &id)?;
        Ok((id, digest))
    }

    /// Opens a blob. Fails if it does not have the digest.
    pub(super) fn open(&self, id: &str, digest: &str) -> Result<File> {
        let not_found_error = || Error::failure(format!("Blob '{id}' not found"));
        let path = self.path(id).ok_or_else(not_found_error)?;
        let mut file = File::open(&path).map_err(|error| not_found_error().with_source(error))?;
        digest::verify(digest, &mut file, "stream").context(|| format!("Checking blob '{id}'"))?;
        file.rewind().map_err(|error| Error::io(format!("reading blob '{id}'"), error))?;
        Ok(file)
    }

    /// Deletes a blob. Returns false if it does not exist.
    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let Some(path) = self.path(id) else { return Ok(false) };
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(format!("deleting blob '{id}'"), error)),
        }
    }

    /// Removes incomplete blobs of an earlier agent process.
    pub(super) fn clean_up(&self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".incoming-") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns the blob id in `/blobs/<id>` or `/blobs/<two hex digits>/<id>`.
pub(super) fn id_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/blobs/")?;
    let id = match rest.split_once('/') {
        None => rest,
        Some((prefix, id)) if prefix.len() == 2 && prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) => id,
        Some(_) => return None,
    };
    directories::is_safe_name(id).then_some(id)
}

/// Creates a temporary directory in `directory` for unpacking, so that the content can later be renamed into
/// place.
pub(super) fn create_scratch(directory: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(".unpack-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(directory)
        .map_err(|error| Error::io(format!("creating a directory in '{}'", directory.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn blob_ids_are_parsed_and_unsafe_ones_rejected() {
        assert_eq!(id_of("/blobs/ab/0b1c"), Some("0b1c"));
        assert_eq!(id_of("/blobs/0b1c-2"), Some("0b1c-2"));
        for bad in
            ["/blobs/", "/blobs/..", "/blobs/ab/../x", "/blobs/abc/x", "/blobs/ab/", "/blobs/%2e%2e", "/x"]
        {
            assert_eq!(id_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn blob_opens_only_with_its_digest() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(directory.path().to_path_buf());
        let mut file = blobs.create_incoming().unwrap();
        file.write_all(b"data").unwrap();
        let (id, digest) = blobs.store(file).unwrap();
        let mut text = String::new();
        blobs.open(&id, &digest).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "data");
        let error = blobs.open(&id, &format!("sha256:{}", "0".repeat(64))).unwrap_err();
        assert!(
            super::super::error_text(&error).starts_with(&format!("Checking blob '{id}': Expected stream"))
        );
        blobs.open("../x", &digest).unwrap_err();
        assert!(blobs.delete(&id).unwrap());
        assert!(!blobs.delete(&id).unwrap());
    }

    #[test]
    fn incomplete_blobs_are_removed_at_start() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(directory.path().to_path_buf());
        let incomplete_blob = blobs.create_incoming().unwrap().keep().unwrap().1;
        std::fs::write(directory.path().join("whole"), "x").unwrap();
        blobs.clean_up();
        assert!(!incomplete_blob.exists());
        assert!(directory.path().join("whole").exists());
    }
}
