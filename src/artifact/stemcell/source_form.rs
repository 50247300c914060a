//! Stemcells in source form: a directory with `stemcell.MF`, and either a file `image` or a directory
//! `image/`, which is packed as the image.

use std::fs;
use std::path::Path;

use super::{IMAGE_FILE, MANIFEST_FILE, read_manifest};
use crate::ArtifactIdentity;
use crate::archive::{self, Input};
use crate::digest::Digest;
use crate::source_form::files::{FileSet, compute_fingerprint};
use base::{Error, Result};

/// Returns the name and version, and the digest of the manifest and the image.
pub(crate) fn identify(directory: &Path, source_name: &str) -> Result<ArtifactIdentity> {
    let manifest = read_manifest(&directory.join(MANIFEST_FILE), source_name)?;
    let digest = hash_content(directory, source_name)?;
    Ok(ArtifactIdentity { name: manifest.name, version: manifest.version, digest, stamp: None })
}

/// Creates the directory `target` with `stemcell.MF` and `image`. Returns the digest of the content.
pub(crate) fn build(directory: &Path, source_name: &str, target: &Path) -> Result<Digest> {
    let manifest = read_manifest(&directory.join(MANIFEST_FILE), source_name)?;
    let image = directory.join(IMAGE_FILE);
    if image.is_dir() && manifest.sha1.is_some_and(|sha1| !sha1.trim().is_empty()) {
        return Err(Error::invalid(format!(
            "{MANIFEST_FILE} of {source_name} has a sha1 for the image, but image/ is a directory"
        ))
        .with_hint(format!("remove `sha1` from '{}'", directory.join(MANIFEST_FILE).display())));
    }
    let digest = hash_content(directory, source_name)?;
    let create_error = |error| Error::io(format!("creating '{}'", target.display()), error);
    fs::create_dir(target).map_err(create_error)?;
    let result = fs::copy(directory.join(MANIFEST_FILE), target.join(MANIFEST_FILE)).map_err(create_error);
    let result = result.and_then(|_| {
        if image.is_dir() {
            archive::pack_directory(&image, &target.join(IMAGE_FILE)).map(drop)
        } else {
            fs::copy(&image, target.join(IMAGE_FILE)).map(drop).map_err(create_error)
        }
    });
    if let Err(error) = result {
        let _ = fs::remove_dir_all(target);
        return Err(error);
    }
    Ok(digest)
}

fn hash_content(directory: &Path, source_name: &str) -> Result<Digest> {
    let image = directory.join(IMAGE_FILE);
    let mut files = FileSet::new();
    let file = |path| Input::File { path, is_executable: Some(false) };
    files.insert(MANIFEST_FILE.into(), file(directory.join(MANIFEST_FILE)));
    if image.is_dir() {
        for (name, input) in archive::list_tree(&image)? {
            files.insert(Path::new(IMAGE_FILE).join(name), input);
        }
    } else if image.is_file() {
        files.insert(IMAGE_FILE.into(), file(image));
    } else {
        return Err(Error::invalid(format!("{source_name} has no {IMAGE_FILE}"))
            .with_hint("add the image beside stemcell.MF, as a file or as a directory to be packed"));
    }
    Digest::parse(&format!("sha256:{}", compute_fingerprint(&files, &[])?), source_name)
}
