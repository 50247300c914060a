//! Stemcells: `stemcell.MF` and `image`, in a tarball or in source form.
//!
//! `create_stemcell` gets the path of the image and the cloud properties. The API version decides the
//! contract with the CPI and the agent. Format: docs-bosh `stemcell.md`,
//! `cpi-api-v1-method/create-stemcell.md`.

pub(crate) mod source_form;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::archive::{self, ArchiveError, UnpackOptions};
use crate::digest::{Algorithm, Digest};
use crate::documents::{self, StemcellManifest};
use crate::limits::MAX_DOCUMENT_BYTES;
use crate::{ArtifactIdentity, ArtifactUrl, Source, Stamp};
use base::events::{Stage, Unit};
use base::files::input;
use base::{Error, Result};

pub(super) const MANIFEST_FILE: &str = "stemcell.MF";
pub(super) const IMAGE_FILE: &str = "image";
/// The file that shows that an archive is a release.
const RELEASE_MANIFEST: &str = "release.MF";
/// The hint for an archive that is no stemcell.
const STEMCELL_HINT: &str = "name a stemcell tarball, which has stemcell.MF and image at its top";

/// Returns true if an archive has a `stemcell.MF` at its top.
pub(super) fn is_stemcell(archive: fs::File) -> Result<bool, ArchiveError> {
    archive::read_member(archive, Path::new(MANIFEST_FILE), MAX_DOCUMENT_BYTES).map(|member| member.is_some())
}

/// A verified and unpacked stemcell.
#[derive(Debug, Clone)]
pub struct Stemcell {
    /// The name in `stemcell.MF`, such as `bosh-openstack-kvm-ubuntu-jammy-go_agent`.
    pub name: String,
    /// The version, unchanged from `stemcell.MF`.
    pub version: String,
    /// Its operating system; empty if `stemcell.MF` has none. Compiled packages are for one operating system
    /// and version.
    pub operating_system: String,
    /// The version of the contract with its agent, at least 1. It is 1 if `stemcell.MF` has none.
    pub api_version: u32,
    /// The digest of the image from `stemcell.MF`, already checked. `None` if it has none, or if the stemcell
    /// is a light one with the digest of the full image.
    pub image_digest: Option<Digest>,
    /// The cloud properties for `create_stemcell`, always an object.
    pub cloud_properties: Value,
    /// The formats of the image, such as `openstack-qcow2` or `local-directory`.
    pub stemcell_formats: Vec<String>,
    /// Path of the image file.
    pub image: PathBuf,
    /// Digest of the tarball: SHA-256, and the strongest algorithm of the expected digest. For a directory in
    /// source form, SHA-256 of its content.
    pub digest: Digest,
    /// Stamp of the tarball. `None` for a directory.
    pub stamp: Option<Stamp>,
}

impl Stemcell {
    /// Returns its identity, for comparison with the identities that other runs recorded.
    pub fn identity(&self) -> ArtifactIdentity {
        ArtifactIdentity {
            name: self.name.clone(),
            version: self.version.clone(),
            digest: self.digest.part_for(Algorithm::Sha256).unwrap_or_else(|| self.digest.clone()),
            stamp: self.stamp.clone(),
        }
    }

    /// Returns `os/version`, the form in which compiled packages name their stemcell.
    pub fn os_and_version(&self) -> String {
        format!("{}/{}", self.operating_system, self.version)
    }
}

/// Returns the name and version of the tarball `source`. Reads it only up to its manifest.
pub(super) fn read_name_and_version(source: &Source) -> Result<(String, String)> {
    let manifest = read_tarball_manifest(source)?;
    Ok((manifest.name, manifest.version))
}

fn read_tarball_manifest(source: &Source) -> Result<StemcellManifest> {
    let source_name = source.describe("stemcell");
    let file =
        fs::File::open(&source.path).map_err(|error| input::read_error("stemcell", &source.path, error))?;
    let text = archive::read_member(file, Path::new(MANIFEST_FILE), MAX_DOCUMENT_BYTES)
        .map_err(|error: ArchiveError| error.into_error(&source_name))?
        .ok_or_else(|| {
            let archive = fs::File::open(&source.path).ok();
            let is_release = archive.is_some_and(|archive| {
                archive::read_member(archive, Path::new(RELEASE_MANIFEST), MAX_DOCUMENT_BYTES)
                    .is_ok_and(|member| member.is_some())
            });
            no_manifest_error(&source_name, is_release)
        })?;
    documents::decode(&text, &format!("{MANIFEST_FILE} of {source_name}"))
}

/// The content of a `stemcell.MF`, with defaults filled in.
pub(super) struct StemcellDescription {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) operating_system: String,
    pub(super) api_version: u32,
    pub(super) cloud_properties: Value,
    pub(super) stemcell_formats: Vec<String>,
}

/// Reads the `stemcell.MF` of a tarball or directory. Reads a tarball only up to it.
pub(super) fn read_description(source: &Source) -> Result<StemcellDescription> {
    let source_name = source.describe("stemcell");
    let manifest = match source.is_directory {
        true => read_manifest(&source.path.join(MANIFEST_FILE), &source_name)?,
        false => read_tarball_manifest(source)?,
    };
    let file = format!("{MANIFEST_FILE} of {source_name}");
    Ok(StemcellDescription {
        api_version: parse_api_version(manifest.api_version.as_ref(), &file)?,
        cloud_properties: parse_cloud_properties(manifest.cloud_properties, &file)?,
        name: manifest.name,
        version: manifest.version,
        operating_system: manifest.operating_system.unwrap_or_default(),
        stemcell_formats: manifest.stemcell_formats.unwrap_or_default(),
    })
}

/// Returns the options for unpacking a tarball: only what is needed, with the digest of the image.
fn unpack_options() -> UnpackOptions<'static> {
    let is_needed = &|path: &Path| path == Path::new(MANIFEST_FILE) || path == Path::new(IMAGE_FILE);
    UnpackOptions { selector: Some(is_needed), algorithms: &[Algorithm::Sha1], ..UnpackOptions::default() }
}

/// Verifies and unpacks a tarball like [`open`], while it is read. `url` names it in messages.
pub fn open_stream(
    stream: impl Read,
    url: &ArtifactUrl,
    expected: Option<&Digest>,
    scratch: &Path,
    stage: &Stage,
) -> Result<Stemcell> {
    let source_name = format!("the stemcell '{url}'");
    let directory = scratch.join("stemcell");
    let mut content = archive::unpack_stream(stream, &source_name, &directory, expected, &unpack_options())?;
    let image = content.file_digests.remove(Path::new(IMAGE_FILE));
    load(&directory, &source_name, content.digest, image, None, stage).inspect_err(|_| discard(&directory))
}

/// Verifies and unpacks a stemcell into `scratch/stemcell`, which must not exist. `scratch` must exist.
pub fn open(source: &Source, expected: Option<&Digest>, scratch: &Path, stage: &Stage) -> Result<Stemcell> {
    let source_name = source.describe("stemcell");
    let directory = scratch.join("stemcell");
    let (digest, image, stamp) = if source.is_directory {
        source.refuse_digest("stemcell", expected)?;
        let digest = source_form::build(&source.path, &source_name, &directory)?;
        (digest, Some(Digest::from_file(&directory.join(IMAGE_FILE), &[Algorithm::Sha1])?), None)
    } else {
        let stamp = source.stamp();
        let options = unpack_options();
        let mut progress = |bytes, total| stage.report_progress(bytes, Some(total), Unit::Bytes);
        let mut content =
            archive::unpack_file(&source.path, &source_name, &directory, expected, &options, &mut progress)?;
        (content.digest, content.file_digests.remove(Path::new(IMAGE_FILE)), stamp)
    };
    load(&directory, &source_name, digest, image, stamp, stage).inspect_err(|_| discard(&directory))
}

/// Removes the directory of a stemcell that cannot be loaded.
fn discard(directory: &Path) {
    // A failure to clean up must not hide the first error.
    let _ = fs::remove_dir_all(directory);
}

/// Reads `stemcell.MF` and checks the digest of the image that it declares. Tolerates the wrong digest of a
/// light stemcell, whose image is empty.
fn load(
    directory: &Path,
    source_name: &str,
    digest: Digest,
    image_digest: Option<Digest>,
    stamp: Option<Stamp>,
    stage: &Stage,
) -> Result<Stemcell> {
    let manifest = read_manifest(&directory.join(MANIFEST_FILE), source_name)?;
    let image_digest = image_digest.ok_or_else(|| no_image_error(source_name))?;
    let image = directory.join(IMAGE_FILE);
    let file = format!("{MANIFEST_FILE} of {source_name}");
    let mut declared_digest = match manifest.sha1.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => Some(Digest::parse(text, &format!("the image in {file}"))?),
        None => None,
    };
    if let Some(expected) = &declared_digest {
        let algorithm = [expected.strongest()];
        let result = match image_digest.hex(expected.strongest()) {
            Some(_) => expected.check(&image_digest, &format!("the image of {source_name}")),
            None => expected
                .check(&Digest::from_file(&image, &algorithm)?, &format!("the image of {source_name}")),
        };
        if let Err(mismatch) = result {
            // Light stemcells are published with an empty image and the digest of the full one.
            if !is_empty(&image)? {
                return Err(mismatch.with_hint("download or copy the stemcell again"));
            }
            stage.reporter().note(format!(
                "{source_name} is a light stemcell: its image is empty, and the sha1 in {MANIFEST_FILE} is \
                 that of the full image, which the CPI finds by the cloud_properties"
            ));
            declared_digest = None;
        }
    }
    Ok(Stemcell {
        api_version: parse_api_version(manifest.api_version.as_ref(), &file)?,
        cloud_properties: parse_cloud_properties(manifest.cloud_properties, &file)?,
        name: manifest.name,
        version: manifest.version,
        operating_system: manifest.operating_system.unwrap_or_default(),
        image_digest: declared_digest,
        stemcell_formats: manifest.stemcell_formats.unwrap_or_default(),
        image,
        digest,
        stamp,
    })
}

fn is_empty(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len() == 0),
        Err(error) => Err(Error::io(format!("reading '{}'", path.display()), error)),
    }
}

/// Reads and decodes the `stemcell.MF` at `path`.
pub(super) fn read_manifest(path: &Path, source_name: &str) -> Result<StemcellManifest> {
    let mut text = Vec::new();
    match fs::File::open(path) {
        Ok(file) => {
            let read_error = |error| Error::io(format!("reading '{}'", path.display()), error);
            file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut text).map_err(read_error)?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let has_file = |name: &str| path.with_file_name(name).is_file();
            return Err(no_manifest_error(
                source_name,
                has_file(RELEASE_MANIFEST) || has_file("config/final.yml"),
            ));
        }
        Err(error) => return Err(input::read_error("stemcell manifest", path, error)),
    }
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(Error::invalid(format!(
            "{MANIFEST_FILE} of {source_name} is larger than {MAX_DOCUMENT_BYTES} bytes"
        )));
    }
    documents::decode(&text, &format!("{MANIFEST_FILE} of {source_name}"))
}

fn no_manifest_error(source_name: &str, is_release: bool) -> Error {
    let explanation = if is_release { ": it is a release" } else { "" };
    Error::invalid(format!("{source_name} has no {MANIFEST_FILE}{explanation}")).with_hint(STEMCELL_HINT)
}

pub(super) fn no_image_error(source_name: &str) -> Error {
    Error::invalid(format!("{source_name} has no {IMAGE_FILE}")).with_hint(STEMCELL_HINT)
}

fn parse_api_version(value: Option<&serde_yaml::Value>, file: &str) -> Result<u32> {
    match value {
        None | Some(serde_yaml::Value::Null) => Ok(1),
        Some(value) => {
            let version = value.as_u64().and_then(|version| u32::try_from(version).ok());
            version.filter(|version| *version > 0).ok_or_else(|| {
                let text = serde_yaml::to_string(value).unwrap_or_default();
                Error::invalid(format!(
                    "api_version in {file} must be a whole number of at least 1, not '{}'",
                    text.trim()
                ))
            })
        }
    }
}

fn parse_cloud_properties(value: Option<Value>, file: &str) -> Result<Value> {
    match value {
        None | Some(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Some(object @ Value::Object(_)) => Ok(object),
        Some(_) => Err(Error::invalid(format!("cloud_properties in {file} must be a mapping"))),
    }
}

#[cfg(test)]
mod tests;
