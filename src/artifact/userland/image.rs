//! OCI images as files: the layout of `oci-archive:` (`index.json`, `blobs/`) and that of `docker save`
//! (`manifest.json`). Formats: the OCI image specification, `image-layout.md` and `layer.md`.
//!
//! The layers are unpacked one after the other, and each is merged into the tree of those below it. A file
//! `.wh.NAME` in a layer deletes NAME, and `.wh..wh..opq` deletes all that lower layers have in its
//! directory.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::archive;
use crate::digest::Digest;
use crate::limits::MAX_DOCUMENT_BYTES;
use base::files::{open_inside, remove_tree};
use base::text::json_problem;
use base::{Error, Result};

const INDEX: &str = "index.json";
const MANIFEST: &str = "manifest.json";
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";
/// The maximum number of layers, as that of overlay file systems.
const MAX_LAYERS: usize = 500;

/// A layer of an image.
pub(super) struct Layer {
    /// The path of its tarball in the image.
    path: PathBuf,
    digest: Option<Digest>,
}

/// A reference to a blob.
#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
}

/// An index, which has manifests, or the manifest of an image, which has layers.
#[derive(Deserialize)]
struct IndexOrManifest {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// An entry of `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    layers: Vec<PathBuf>,
}

/// Returns the layers of an unpacked image, the lowest first. Returns `None` if the tree is no image.
pub(super) fn layers(image: &Path, source_name: &str) -> Result<Option<Vec<Layer>>> {
    let has = |name: &str| image.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let layers = if has(INDEX) && has("oci-layout") {
        layers_of_index(image, source_name)?
    } else if has(MANIFEST) {
        let saved: Vec<SavedImage> = read(image, Path::new(MANIFEST), source_name)?;
        let [saved] = saved.as_slice() else {
            return Err(Error::invalid(format!("{source_name} has {} images, not one", saved.len()))
                .with_hint("save one image alone: `docker save IMAGE -o FILE`"));
        };
        saved.layers.iter().map(|path| Layer { path: path.clone(), digest: None }).collect()
    } else {
        return Ok(None);
    };
    if layers.is_empty() || layers.len() > MAX_LAYERS {
        return Err(Error::invalid(format!(
            "{source_name} has {} layers, not 1 to {MAX_LAYERS}",
            layers.len()
        )));
    }
    Ok(Some(layers))
}

fn layers_of_index(image: &Path, source_name: &str) -> Result<Vec<Layer>> {
    let mut document: IndexOrManifest = read(image, Path::new(INDEX), source_name)?;
    // An index may have another one with a manifest for each platform.
    for _ in 0..2 {
        if document.manifests.is_empty() {
            break;
        }
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let fits = |manifest: &&Descriptor| {
            manifest.platform.as_ref().is_none_or(|platform| platform.architecture == architecture)
        };
        let manifest = document.manifests.iter().find(fits).ok_or_else(|| {
            Error::invalid(format!("{source_name} has no image for the architecture '{architecture}'"))
                .with_hint(format!("save the image of that platform: `--platform linux/{architecture}`"))
        })?;
        let blob = blob(manifest, source_name)?;
        let digest = Digest::of_file(&image.join(&blob.path), &[crate::digest::Algorithm::Sha256])?;
        if let Some(expected) = &blob.digest {
            expected
                .check(&digest, &format!("the manifest of {source_name}"))
                .map_err(|mismatch| mismatch.with_hint("download the image again, or save it again"))?;
        }
        document = read(image, &blob.path, source_name)?;
    }
    document.layers.iter().map(|layer| blob(layer, source_name)).collect()
}

/// Returns the place of a blob, which its digest names.
fn blob(descriptor: &Descriptor, source_name: &str) -> Result<Layer> {
    let digest = Digest::parse(&descriptor.digest, source_name)?;
    let (algorithm, digits) = descriptor.digest.split_once(':').unwrap_or_default();
    Ok(Layer { path: Path::new("blobs").join(algorithm).join(digits), digest: Some(digest) })
}

fn read<T: DeserializeOwned>(image: &Path, path: &Path, source_name: &str) -> Result<T> {
    let read_error = |error| Error::io(format!("reading '{}' of {source_name}", path.display()), error);
    let mut text = Vec::new();
    let file = open_inside(image, path).map_err(read_error)?;
    file.take(MAX_DOCUMENT_BYTES).read_to_end(&mut text).map_err(read_error)?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::invalid(format!("'{}' of {source_name} is not valid", path.display()))
            .with_source(json_problem(&error))
    })
}

/// Unpacks the layers of an image into the new directory `root`. `work` is for single layers.
pub(super) fn unpack(
    image: &Path,
    layers: &[Layer],
    work: &Path,
    root: &Path,
    source_name: &str,
) -> Result<()> {
    let create_error = |error| Error::io(format!("creating '{}'", root.display()), error);
    fs::create_dir(root).map_err(create_error)?;
    fs::set_permissions(root, Permissions::from_mode(0o755)).map_err(create_error)?;
    for (index, Layer { path, digest }) in layers.iter().enumerate() {
        let layer_name = format!("layer {} of {source_name}", index + 1);
        let unpack_error = |error| Error::io(format!("unpacking {layer_name}"), error);
        let file = open_inside(image, path).map_err(unpack_error)?;
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
    if entries.iter().any(|entry| entry.file_name() == OPAQUE) {
        for entry in fs::read_dir(root)? {
            remove_tree(&entry?.path())?;
        }
    }
    for entry in &entries {
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_prefix(WHITEOUT)) {
            // `.wh...` would delete the parent.
            if !["", ".", "..", ".wh..opq"].contains(&name) {
                remove_tree(&root.join(name))?;
            }
        }
    }
    for entry in entries {
        let (name, target) = (entry.file_name(), root.join(entry.file_name()));
        if name.as_encoded_bytes().starts_with(WHITEOUT.as_bytes()) {
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
