//! A stemcell: `stemcell.MF` and `image`, in a tarball or in source form.
//!
//! The image is what `create_stemcell` gets; its cloud properties, name and API version decide how the CPI
//! and the agent are spoken to. Format: docs-bosh `stemcell.md`, `cpi-api-v1-method/create-stemcell.md`.

pub(crate) mod source_form;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::archive::{self, ArchiveError, Options};
use crate::digest::{Algorithm, Digest};
use crate::documents::{self, MAX_DOCUMENT, StemcellManifest};
use crate::{Identity, Source, Stamp};
use base::events::{Stage, Unit};
use base::{Error, Result};

pub(super) const MANIFEST: &str = "stemcell.MF";
pub(super) const IMAGE: &str = "image";

/// A stemcell, verified and unpacked.
#[derive(Debug, Clone)]
pub struct Stemcell {
    /// Its name: `bosh-openstack-kvm-ubuntu-jammy-go_agent`.
    pub name: String,
    /// Its version, as written.
    pub version: String,
    /// What compiled packages are matched against, together with the version; empty when not given.
    pub operating_system: String,
    /// The contract its agent speaks, 1 or more; 1 where `stemcell.MF` says nothing.
    pub api_version: u32,
    /// What `stemcell.MF` says the image hashes to; checked when given.
    pub image_digest: Option<Digest>,
    /// Handed to `create_stemcell`; an object.
    pub cloud_properties: Value,
    /// What the image is: `openstack-qcow2`, `local-directory`.
    pub stemcell_formats: Vec<String>,
    /// The image file.
    pub image: PathBuf,
    /// SHA-256 of the tarball (and the digest by the function of the expected one), or of the content of a
    /// directory in source form.
    pub digest: Digest,
    /// Lets a later run see that the tarball was not touched.
    pub stamp: Option<Stamp>,
}

impl Stemcell {
    /// What it is, for comparison with other runs.
    pub fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            version: self.version.clone(),
            digest: self.digest.only(Algorithm::Sha256).unwrap_or_else(|| self.digest.clone()),
            stamp: self.stamp.clone(),
        }
    }

    /// `os/version`, as compiled packages name the stemcell they are for.
    pub fn os_and_version(&self) -> String {
        format!("{}/{}", self.operating_system, self.version)
    }
}

/// Name and version of the tarball `source`, which is read no further than to its manifest.
pub(super) fn name_and_version(source: &Source) -> Result<(String, String)> {
    let manifest = read_tarball_manifest(source)?;
    Ok((manifest.name, manifest.version))
}

fn read_tarball_manifest(source: &Source) -> Result<StemcellManifest> {
    let what = source.describe("stemcell");
    let file = fs::File::open(&source.path).map_err(|error| Error::io(format!("reading {what}"), error))?;
    let text = archive::read_member(file, Path::new(MANIFEST), MAX_DOCUMENT)
        .map_err(|error: ArchiveError| error.about(&what))?
        .ok_or_else(|| no_manifest(&what))?;
    documents::decode(&text, &format!("{MANIFEST} of {what}"))
}

/// What a `stemcell.MF` says.
pub(super) struct Description {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) operating_system: String,
    pub(super) api_version: u32,
    pub(super) cloud_properties: Value,
    pub(super) stemcell_formats: Vec<String>,
}

/// Reads the `stemcell.MF` of a tarball or directory and nothing more.
pub(super) fn describe(source: &Source) -> Result<Description> {
    let what = source.describe("stemcell");
    let manifest = match source.is_dir {
        true => read_manifest(&source.path.join(MANIFEST), &what)?,
        false => read_tarball_manifest(source)?,
    };
    let file = format!("{MANIFEST} of {what}");
    Ok(Description {
        api_version: api_version(manifest.api_version.as_ref(), &file)?,
        cloud_properties: cloud_properties(manifest.cloud_properties, &file)?,
        name: manifest.name,
        version: manifest.version,
        operating_system: manifest.operating_system.unwrap_or_default(),
        stemcell_formats: manifest.stemcell_formats.unwrap_or_default(),
    })
}

/// Verifies and unpacks a stemcell into `workdir/stemcell`, which must not exist yet; `workdir` must.
pub fn open(source: &Source, expected: Option<&Digest>, workdir: &Path, stage: &Stage) -> Result<Stemcell> {
    let what = source.describe("stemcell");
    let dir = workdir.join("stemcell");
    let (digest, image, stamp) = if source.is_dir {
        source.refuse_digest("stemcell", expected)?;
        let digest = source_form::build(&source.path, &what, &dir)?;
        (digest, Some(Digest::of_file(&dir.join(IMAGE), &[Algorithm::Sha1])?), None)
    } else {
        let stamp = source.stamp();
        let wanted = |path: &Path| path == Path::new(MANIFEST) || path == Path::new(IMAGE);
        let options = Options { only: Some(&wanted), hash: &[Algorithm::Sha1], ..Options::default() };
        let mut progress = |done, total| stage.progress(done, Some(total), Unit::Bytes);
        let mut unpacked =
            archive::unpack_file(&source.path, &what, &dir, expected, &options, &mut progress)?;
        (unpacked.digest, unpacked.files.remove(Path::new(IMAGE)), stamp)
    };
    load(&dir, &what, digest, image, stamp).inspect_err(|_| {
        // Nothing usable is left behind; the error that matters is the first one.
        let _ = fs::remove_dir_all(&dir);
    })
}

fn load(
    dir: &Path,
    what: &str,
    digest: Digest,
    image_digest: Option<Digest>,
    stamp: Option<Stamp>,
) -> Result<Stemcell> {
    let manifest = read_manifest(&dir.join(MANIFEST), what)?;
    let image_digest = image_digest.ok_or_else(|| Error::invalid(format!("{what} has no '{IMAGE}'")))?;
    let image = dir.join(IMAGE);
    let file = format!("{MANIFEST} of {what}");
    let declared = match manifest.sha1.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => Some(Digest::parse(text, &format!("the image in {file}"))?),
        None => None,
    };
    if let Some(declared) = &declared {
        let image_name = format!("the image of {what}");
        if image_digest.hex(declared.strongest()).is_some() {
            declared.check(&image_digest, &image_name)?;
        } else {
            declared.check(&Digest::of_file(&image, &[declared.strongest()])?, &image_name)?;
        }
    }
    Ok(Stemcell {
        api_version: api_version(manifest.api_version.as_ref(), &file)?,
        cloud_properties: cloud_properties(manifest.cloud_properties, &file)?,
        name: manifest.name,
        version: manifest.version,
        operating_system: manifest.operating_system.unwrap_or_default(),
        image_digest: declared,
        stemcell_formats: manifest.stemcell_formats.unwrap_or_default(),
        image,
        digest,
        stamp,
    })
}

/// Reads and decodes the `stemcell.MF` at `path`.
pub(super) fn read_manifest(path: &Path, what: &str) -> Result<StemcellManifest> {
    let mut text = Vec::new();
    match fs::File::open(path) {
        Ok(file) => {
            let reading = |error| Error::io(format!("reading '{}'", path.display()), error);
            file.take(MAX_DOCUMENT + 1).read_to_end(&mut text).map_err(reading)?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(no_manifest(what)),
        Err(error) => return Err(Error::io(format!("reading '{}'", path.display()), error)),
    }
    if text.len() as u64 > MAX_DOCUMENT {
        return Err(Error::invalid(format!("{MANIFEST} of {what} is larger than {MAX_DOCUMENT} bytes")));
    }
    documents::decode(&text, &format!("{MANIFEST} of {what}"))
}

fn no_manifest(what: &str) -> Error {
    Error::invalid(format!("{what} has no {MANIFEST}"))
        .with_hint("a stemcell is a tarball with stemcell.MF and image at its top")
}

fn api_version(value: Option<&serde_yaml::Value>, file: &str) -> Result<u32> {
    match value {
        None | Some(serde_yaml::Value::Null) => Ok(1),
        Some(value) => {
            let version = value.as_u64().and_then(|version| u32::try_from(version).ok());
            version.filter(|version| *version > 0).ok_or_else(|| {
                let shown = serde_yaml::to_string(value).unwrap_or_default();
                Error::invalid(format!(
                    "api_version in {file} must be a whole number from 1, not '{}'",
                    shown.trim()
                ))
            })
        }
    }
}

fn cloud_properties(value: Option<Value>, file: &str) -> Result<Value> {
    match value {
        None | Some(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Some(object @ Value::Object(_)) => Ok(object),
        Some(_) => Err(Error::invalid(format!("cloud_properties in {file} must be a mapping"))),
    }
}

#[cfg(test)]
mod tests;
