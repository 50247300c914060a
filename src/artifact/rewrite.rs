//! Makes changed copies of artifacts: a stemcell with another name, version, image or cloud properties, and a
//! release with digests of another algorithm.
//!
//! The result is written under a temporary name and renamed. Equal input gives equal bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_yaml::{Mapping, Value};

use super::archive::{self, Input, Packer, UnpackOptions};
use super::digest::{Algorithm, Digest};
use super::documents::{self, StemcellManifest};
use super::limits::MAX_DOCUMENT_BYTES;
use super::release::{self, Release};
use super::{Source, stemcell};
use base::events::{Stage, Unit};
use base::files::directory::check_directory;
use base::text::shell_word;
use base::{Error, Result};

/// Changes to a stemcell. The default changes nothing.
#[derive(Debug, Clone, Default)]
pub struct StemcellChanges {
    /// The new name.
    pub name: Option<String>,
    /// The new version.
    pub version: Option<String>,
    /// A YAML mapping to merge into the cloud properties, at the top level.
    pub cloud_properties: Option<String>,
    /// Replaces the image with an empty file.
    pub empties_image: bool,
    /// The new formats. Empty leaves those of the stemcell.
    pub formats: Vec<String>,
}

/// Writes a changed copy of the stemcell tarball `source` to `result`. `work` is an empty directory for it.
pub fn repack_stemcell(
    source: &Source,
    changes: &StemcellChanges,
    result: &Path,
    work: &Path,
    stage: &Stage,
) -> Result<()> {
    let source_name = source.describe("stemcell");
    let is_image_unpacked = source.path.join(stemcell::IMAGE_FILE).is_dir();
    refuse_directory(source, &source_name, |directory| match is_image_unpacked {
        true => format!(
            "pack it: `work=$(mktemp -d) && tar -czf \"$work/image\" -C {directory}/image . && tar -czf \
             packed.tgz -C {directory} stemcell.MF -C \"$work\" image`"
        ),
        false => format!("pack it: `tar -czf packed.tgz -C {directory} .`"),
    })
    .map_err(|error| error.with_hint("then name packed.tgz in its place"))?;
    if let (Ok(old), Ok(new)) = (fs::canonicalize(&source.path), fs::canonicalize(result))
        && old == new
    {
        return Err(Error::invalid(format!("{source_name} would be overwritten by its changed copy"))
            .with_hint("name another file for the copy"));
    }
    let directory = work.join("stemcell");
    let mut progress = |bytes, total| stage.report_progress(bytes, Some(total), Unit::Bytes);
    archive::unpack_file(
        &source.path,
        &source_name,
        &directory,
        None,
        &UnpackOptions::default(),
        &mut progress,
    )?;
    let image = directory.join(stemcell::IMAGE_FILE);
    if !image.is_file() {
        return Err(stemcell::no_image_error(&source_name));
    }
    if changes.empties_image {
        fs::write(&image, "").map_err(|error| Error::io(format!("emptying '{}'", image.display()), error))?;
    }
    let manifest_path = directory.join(stemcell::MANIFEST_FILE);
    // Reading it with types checks its size and its required keys.
    let typed_manifest = stemcell::read_manifest(&manifest_path, &source_name)?;
    let text = fs::read(&manifest_path)
        .map_err(|error| Error::io(format!("reading '{}'", manifest_path.display()), error))?;
    let manifest: Mapping =
        documents::decode(&text, &format!("{} of {source_name}", stemcell::MANIFEST_FILE))?;
    let manifest = change(manifest, typed_manifest, changes)?;
    pack(&directory, (stemcell::MANIFEST_FILE, to_yaml(&manifest)?), result)
}

/// Applies the changes to a stemcell's manifest. Name and version are written as text, because YAML would
/// read the version 1.10 as a number.
fn change(
    mut manifest: Mapping,
    typed_manifest: StemcellManifest,
    changes: &StemcellChanges,
) -> Result<Mapping> {
    // The typed values are as written. In `manifest`, the version 1.10 is the number 1.1.
    manifest.insert("name".into(), changes.name.clone().unwrap_or(typed_manifest.name).into());
    manifest.insert("version".into(), changes.version.clone().unwrap_or(typed_manifest.version).into());
    if let Some(system) = typed_manifest.operating_system {
        manifest.insert("operating_system".into(), system.into());
    }
    if changes.empties_image && typed_manifest.sha1.is_some() {
        // The digest of the empty image, with the same algorithm as before.
        let algorithm = typed_manifest.sha1.as_deref().and_then(|text| text.parse().ok());
        let algorithm = algorithm.map_or(Algorithm::Sha1, |digest: Digest| digest.strongest());
        manifest.insert("sha1".into(), Digest::compute(b"", &[algorithm]).to_string().into());
    }
    if !changes.formats.is_empty() {
        let formats = changes.formats.iter().map(|format| Value::from(format.as_str())).collect();
        manifest.insert("stemcell_formats".into(), Value::Sequence(formats));
    }
    if let Some(text) = &changes.cloud_properties {
        let new_properties: Mapping =
            documents::decode(text.as_bytes(), "--cloud-properties").map_err(|error| {
                Error::usage(error.to_string()).with_hint("write a mapping, such as '{key: value}'")
            })?;
        let properties = manifest.entry("cloud_properties".into()).or_insert(Value::Null);
        if properties.is_null() {
            *properties = Value::Mapping(Mapping::new());
        }
        let properties = properties
            .as_mapping_mut()
            .ok_or_else(|| Error::invalid("cloud_properties in stemcell.MF must be a mapping"))?;
        properties.extend(new_properties);
    }
    Ok(manifest)
}

/// Verifies the release tarball `source`, and writes a copy to `result` whose `release.MF` has digests of
/// `algorithm`. Returns the release with the new digests. `work` is an empty directory for it.
pub fn redigest_release(
    source: &Source,
    algorithm: Algorithm,
    result: &Path,
    work: &Path,
    stage: &Stage,
) -> Result<Release> {
    let source_name = source.describe("release");
    refuse_directory(source, &source_name, |directory| {
        format!("make a tarball of it: `bosh create-release --dir {directory} --tarball release.tgz`")
    })?;
    let mut release = release::open(source, None, work, stage)?;
    let directory = work.join("release");
    let digest = |path: &Path| Digest::from_file(path, &[algorithm]);
    for job in &mut release.jobs {
        job.digest = digest(&job.archive)?;
    }
    for package in release.packages.iter_mut().chain(&mut release.compiled_packages) {
        package.digest = digest(&package.archive)?;
    }
    let license = match &release.license {
        Some(license) => Some(ManifestEntry {
            version: license.fingerprint.clone(),
            fingerprint: license.fingerprint.clone(),
            sha1: digest(&license.archive)?.to_string(),
            ..ManifestEntry::default()
        }),
        None => None,
    };
    let manifest_path = directory.join("release.MF");
    let text = fs::read(&manifest_path)
        .map_err(|error| Error::io(format!("reading '{}'", manifest_path.display()), error))?;
    let is_uncompressed = documents::decode::<Mapping>(&text, "release.MF")
        .ok()
        .and_then(|manifest| manifest.get("no_compression").and_then(Value::as_bool))
        .unwrap_or_default();
    let manifest = Manifest {
        name: &release.name,
        version: &release.version,
        commit_hash: &release.commit_hash,
        has_uncommitted_changes: release.has_uncommitted_changes,
        jobs: release.jobs.iter().map(ManifestEntry::for_job).collect(),
        packages: release.packages.iter().map(ManifestEntry::for_package).collect(),
        compiled_packages: release.compiled_packages.iter().map(ManifestEntry::for_package).collect(),
        license,
        is_uncompressed,
    };
    pack(&directory, ("release.MF", to_yaml(&manifest)?), result)?;
    Ok(release)
}

/// `release.MF`, with the keys that `bosh` writes.
#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    version: &'a str,
    commit_hash: &'a str,
    #[serde(rename = "uncommitted_changes")]
    has_uncommitted_changes: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<ManifestEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    packages: Vec<ManifestEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compiled_packages: Vec<ManifestEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<ManifestEntry>,
    #[serde(rename = "no_compression")]
    is_uncompressed: bool,
}

/// A job, a package or the license in `release.MF`.
#[derive(Default, Serialize)]
struct ManifestEntry {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    version: String,
    fingerprint: String,
    sha1: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    packages: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stemcell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<Vec<String>>,
}

impl ManifestEntry {
    fn for_job(job: &release::Job) -> Self {
        ManifestEntry {
            name: job.name.clone(),
            version: job.version.clone(),
            fingerprint: job.fingerprint.clone(),
            sha1: job.digest.to_string(),
            packages: Some(job.packages.clone()),
            ..ManifestEntry::default()
        }
    }

    fn for_package(package: &release::Package) -> Self {
        ManifestEntry {
            name: package.name.clone(),
            version: package.version.clone(),
            fingerprint: package.fingerprint.clone(),
            sha1: package.digest.to_string(),
            stemcell: package.compiled_for.clone(),
            dependencies: Some(package.dependencies.clone()),
            ..ManifestEntry::default()
        }
    }
}

/// Fails if the source is a directory. `packing_hint` gets it as a word of a command.
fn refuse_directory(
    source: &Source,
    source_name: &str,
    packing_hint: impl FnOnce(&str) -> String,
) -> Result<()> {
    if source.is_directory {
        let directory = shell_word(&source.path.to_string_lossy()).into_owned();
        return Err(Error::invalid(format!("{source_name} is a directory, but a tarball is needed"))
            .with_hint(packing_hint(&directory)));
    }
    Ok(())
}

fn to_yaml(document: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_yaml::to_string(document)
        .map_err(|error| Error::failure("encoding a manifest as YAML failed").with_source(error))?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(Error::invalid(format!("the manifest would be larger than {MAX_DOCUMENT_BYTES} bytes")));
    }
    Ok(text.into_bytes())
}

/// Packs `directory` into the archive `result`. The manifest comes first and has this content, so that
/// readers find it without reading the rest.
fn pack(directory: &Path, (manifest, content): (&str, Vec<u8>), result: &Path) -> Result<()> {
    let write_error =
        |error| Error::io(format!("writing '{}'", result.display()), error).with_path_hint(result, "RESULT");
    let parent = result.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_directory(parent, "")?;
    let temporary_file =
        tempfile::Builder::new().prefix(".monopile-").tempfile_in(parent).map_err(write_error)?;
    let mut packer = Packer::create(temporary_file.path())?;
    packer.add(Path::new(manifest), &Input::Bytes(content))?;
    let inputs: BTreeMap<PathBuf, Input> = archive::list_tree(directory)?.into_iter().collect();
    for (name, input) in inputs.iter().filter(|(name, _)| name.as_path() != Path::new(manifest)) {
        packer.add(name, input)?;
    }
    packer.finish()?;
    make_readable(temporary_file.path()).map_err(write_error)?;
    temporary_file.persist(result).map_err(|error| write_error(error.error))?;
    Ok(())
}

/// Sets the mode 0644. Temporary files are created with 0600.
fn make_readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}
