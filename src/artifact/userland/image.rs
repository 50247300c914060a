//! OCI images: downloaded from a registry, or as files with the layout of `oci-archive:` (`index.json`,
//! `blobs/`) or of `docker save` (`manifest.json`). Formats: `image-layout.md` and `layer.md` of the OCI
//! image specification.
//!
//! The layers are unpacked one after the other, and each is merged into the tree of those below it. A file
//! `.wh.NAME` in a layer deletes NAME, and `.wh..wh..opq` deletes all that lower layers have in its
//! directory.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::archive;
use crate::digest::Digest;
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::oci::{self, ImageDocument};
use crate::source::ImageBlob;
use base::files::input;
use base::files::{open_inside, remove_tree};
use base::text::json_problem;
use base::{Error, Result};

pub(super) const INDEX_FILE: &str = "index.json";
pub(super) const MANIFEST_FILE: &str = "manifest.json";
const WHITEOUT_PREFIX: &str = ".wh.";
const OPAQUE_MARKER: &str = ".wh..wh..opq";

/// A layer of an image.
pub(super) struct Layer {
    /// Its tarball.
    file: File,
    /// The digest that the manifest of the image has. `docker save` writes none.
    digest: Option<Digest>,
}

/// An entry of `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    layers: Vec<PathBuf>,
}

/// Opens the layers of an unpacked image, the lowest first. Returns `None` if the tree is no image.
pub(super) fn open_layers(image: &Path, image_name: &str) -> Result<Option<Vec<Layer>>> {
    let has_file = |name: &str| image.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let open = |path: &Path, digest| {
        let read_error = |error| Error::io(format!("reading '{}' of {image_name}", path.display()), error);
        open_inside(image, path).map(|file| Layer { file, digest }).map_err(read_error)
    };
    let layers = if has_file(INDEX_FILE) && has_file("oci-layout") {
        let index = ImageDocument::decode(
            &read(image, Path::new(INDEX_FILE), image_name)?,
            &describe_file(INDEX_FILE, image_name),
        )?;
        let digests = oci::resolve_layers(index, image_name, &mut |digest| {
            let path = blob_path(digest);
            let json = read(image, &path, image_name)?;
            digest
                .check(
                    &Digest::compute(&json, &[digest.strongest()]),
                    &format!("the manifest of {image_name}"),
                )
                .map_err(|mismatch| mismatch.with_hint("download the image again, or save it again"))?;
            ImageDocument::decode(&json, &describe_file(&path.display().to_string(), image_name))
        })?;
        digests.into_iter().map(|digest| open(&blob_path(&digest), Some(digest))).collect::<Result<_>>()?
    } else if has_file(MANIFEST_FILE) {
        let json = read(image, Path::new(MANIFEST_FILE), image_name)?;
        let images: Vec<SavedImage> = serde_json::from_slice(&json).map_err(|error| {
            let file = describe_file(MANIFEST_FILE, image_name);
            Error::invalid(format!("{file} is not valid: {}", json_problem(&error)))
        })?;
        let [saved_image] = images.as_slice() else {
            return Err(Error::invalid(format!(
                "{image_name} has {} images, but must have one",
                images.len()
            ))
            .with_hint("save one image alone: `docker save IMAGE -o image.tar`"));
        };
        oci::check_layer_count(saved_image.layers.len(), image_name)?;
        saved_image.layers.iter().map(|path| open(path, None)).collect::<Result<_>>()?
    } else {
        return Ok(None);
    };
    Ok(Some(layers))
}

/// Opens the layers of a downloaded image, the lowest first.
pub(super) fn open_downloaded_layers(blobs: &[ImageBlob], image_name: &str) -> Result<Vec<Layer>> {
    let open = |blob: &ImageBlob| {
        let file = File::open(&blob.path)
            .map_err(|error| Error::io(format!("reading a layer of {image_name}"), error))?;
        Ok(Layer { file, digest: Some(blob.digest.clone()) })
    };
    blobs.iter().filter(|blob| blob.is_layer).map(open).collect()
}

/// Returns the name of a file of the image for messages.
fn describe_file(file: &str, image_name: &str) -> String {
    format!("'{file}' of {image_name}")
}

/// Returns the path of the file with a digest in the layout of `oci-archive:`.
fn blob_path(digest: &Digest) -> PathBuf {
    let algorithm = digest.strongest();
    Path::new("blobs").join(algorithm.name()).join(digest.hex(algorithm).unwrap_or_default())
}

fn read(image: &Path, path: &Path, image_name: &str) -> Result<Vec<u8>> {
    let read_error = |error| Error::io(format!("reading '{}' of {image_name}", path.display()), error);
    open_inside(image, path).and_then(|file| input::read_file(&file, MAX_DOCUMENT_BYTES)).map_err(read_error)
}

/// Unpacks the layers of an image into the new directory `root`. `work` is for single layers.
pub(super) fn unpack(layers: Vec<Layer>, work: &Path, root: &Path, image_name: &str) -> Result<()> {
    let create_error = |error| Error::io(format!("creating '{}'", root.display()), error);
    fs::create_dir(root).map_err(create_error)?;
    fs::set_permissions(root, Permissions::from_mode(0o755)).map_err(create_error)?;
    for (index, Layer { file, digest }) in layers.into_iter().enumerate() {
        let layer_name = format!("layer {} of {image_name}", index + 1);
        let unpack_error = |error| Error::io(format!("unpacking {layer_name}"), error);
        let directory = work.join("layer");
        archive::unpack_stream(file, &layer_name, &directory, digest.as_ref(), &super::options())?;
        merge(&directory, root).map_err(unpack_error)?;
        remove_tree(&directory).map_err(unpack_error)?;
    }
    Ok(())
}

/// Moves the entries of a layer into the tree of those below it. No link is followed.
fn merge(layer: &Path, root: &Path) -> io::Result<()> {
    let entries: Vec<fs::DirEntry> = fs::read_dir(layer)?.collect::<io::Result<_>>()?;
    if entries.iter().any(|entry| entry.file_name() == OPAQUE_MARKER) {
        for entry in fs::read_dir(root)? {
            remove_tree(&entry?.path())?;
        }
    }
    for entry in &entries {
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_prefix(WHITEOUT_PREFIX)) {
            // `.wh...` would delete the parent.
            if !["", ".", "..", ".wh..opq"].contains(&name) {
                remove_tree(&root.join(name))?;
            }
        }
    }
    for entry in entries {
        let (name, target) = (entry.file_name(), root.join(entry.file_name()));
        if name.as_encoded_bytes().starts_with(WHITEOUT_PREFIX.as_bytes()) {
            continue;
        }
        let is_directory = target.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if !entry.file_type()?.is_dir() {
            remove_tree(&target)?;
            fs::rename(entry.path(), &target)?;
            continue;
        }
        if !is_directory {
            remove_tree(&target)?;
            fs::create_dir(&target)?;
        }
        merge(&entry.path(), &target)?;
        fs::set_permissions(&target, entry.metadata()?.permissions())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn upper_layers_replace_and_delete() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (file, text) in [
            ("root/a/one", "1"),
            ("root/a/two", "1"),
            ("root/opaque/old", "1"),
            ("root/file", "1"),
            ("outside/x", "1"),
            ("layer/a/.wh.one", ""),
            ("layer/a/two", "2"),
            ("layer/a/.wh...", ""),
            ("layer/a/.wh..", ""),
            ("layer/opaque/.wh..wh..opq", ""),
            ("layer/opaque/new", "2"),
            ("layer/file/now-a-directory", "2"),
            ("layer/link/x", "2"),
            ("layer/new/.wh.nothing", ""),
        ] {
            fs::create_dir_all(path(file).parent().unwrap()).unwrap();
            fs::write(path(file), text).unwrap();
        }
        symlink(path("outside"), path("root/link")).unwrap();
        symlink(path("outside"), path("layer/up")).unwrap();
        merge(&path("layer"), &path("root")).unwrap();
        let mut paths = Vec::new();
        for entry in walkdir::WalkDir::new(path("root")).sort_by_file_name().into_iter().flatten() {
            if !entry.file_type().is_dir() {
                paths.push(entry.path().strip_prefix(path("root")).unwrap().display().to_string());
            }
        }
        assert_eq!(paths, ["a/two", "file/now-a-directory", "link/x", "opaque/new", "up"]);
        assert_eq!(fs::read_to_string(path("root/a/two")).unwrap(), "2");
        assert_eq!(fs::read_to_string(path("outside/x")).unwrap(), "1");
    }
}
