//! Artifacts made from others: a stemcell with another name, version, image or cloud properties; a release
//! whose digests are by another hash function.
//!
//! The result appears complete or not at all. Equal input gives equal bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_yaml::{Mapping, Value};

use super::archive::{self, Input, Options, Packer};
use super::digest::{Algorithm, Digest};
use super::documents::{self, MAX_DOCUMENT, StemcellManifest};
use super::release::{self, Release};
use super::{Source, stemcell};
use base::events::{Stage, Unit};
use base::{Error, Result};

/// What changes in a stemcell.
#[derive(Debug, Clone, Default)]
pub struct StemcellChanges {
    /// Another name.
    pub name: Option<String>,
    /// Another version.
    pub version: Option<String>,
    /// A YAML mapping that is merged into its cloud properties, at the top level.
    pub cloud_properties: Option<String>,
    /// An image of no bytes.
    pub empty_image: bool,
    /// Other formats, in place of those it has; none leaves them.
    pub formats: Vec<String>,
}

/// Makes the stemcell `result` of the tarball `source`, using the empty directory `work`.
pub fn repack_stemcell(
    source: &Source,
    changes: &StemcellChanges,
    result: &Path,
    work: &Path,
    stage: &Stage,
) -> Result<()> {
    let what = source.describe("stemcell");
    refuse_directory(source, &what)?;
    let dir = work.join("stemcell");
    let mut progress = |done, total| stage.progress(done, Some(total), Unit::Bytes);
    archive::unpack_file(&source.path, &what, &dir, None, &Options::default(), &mut progress)?;
    let image = dir.join(stemcell::IMAGE);
    if !image.is_file() {
        return Err(Error::invalid(format!("{what} has no '{}'", stemcell::IMAGE)));
    }
    if changes.empty_image {
        fs::write(&image, "").map_err(|error| Error::io(format!("emptying '{}'", image.display()), error))?;
    }
    let manifest_path = dir.join(stemcell::MANIFEST);
    // Its limits and what it must have are checked there.
    let typed = stemcell::read_manifest(&manifest_path, &what)?;
    let text = fs::read(&manifest_path)
        .map_err(|error| Error::io(format!("reading '{}'", manifest_path.display()), error))?;
    let manifest: Mapping = documents::decode(&text, &format!("{} of {what}", stemcell::MANIFEST))?;
    let manifest = change(manifest, typed, changes)?;
    pack(&dir, (stemcell::MANIFEST, to_yaml(&manifest)?), result)
}

fn change(mut manifest: Mapping, typed: StemcellManifest, changes: &StemcellChanges) -> Result<Mapping> {
    // As they were written, and not what YAML makes of them: `version: 1.10` is no number.
    manifest.insert("name".into(), changes.name.clone().unwrap_or(typed.name).into());
    manifest.insert("version".into(), changes.version.clone().unwrap_or(typed.version).into());
    if let Some(system) = typed.operating_system {
        manifest.insert("operating_system".into(), system.into());
    }
    if changes.empty_image && typed.sha1.is_some() {
        // By the function that it had: the image must still be what the manifest says.
        let algorithm = typed.sha1.as_deref().and_then(|text| text.parse().ok());
        let algorithm = algorithm.map_or(Algorithm::Sha1, |digest: Digest| digest.strongest());
        manifest.insert("sha1".into(), Digest::of(b"", &[algorithm]).to_string().into());
    }
    if !changes.formats.is_empty() {
        let formats = changes.formats.iter().map(|format| Value::from(format.as_str())).collect();
        manifest.insert("stemcell_formats".into(), Value::Sequence(formats));
    }
    if let Some(text) = &changes.cloud_properties {
        let wrong = || Error::usage("the cloud properties are no YAML mapping");
        let more: Mapping = serde_yaml::from_str(text).map_err(|error| wrong().with_source(error))?;
        let properties = manifest.entry("cloud_properties".into()).or_insert(Value::Null);
        if properties.is_null() {
            *properties = Value::Mapping(Mapping::new());
        }
        let properties = properties
            .as_mapping_mut()
            .ok_or_else(|| Error::invalid("the stemcell's cloud_properties are no mapping"))?;
        properties.extend(more);
    }
    Ok(manifest)
}

/// Makes the release `result` of the tarball `source`, in which every digest is by `algorithm`. What is in it
/// is verified first. Uses the empty directory `work`.
pub fn redigest_release(
    source: &Source,
    algorithm: Algorithm,
    result: &Path,
    work: &Path,
    stage: &Stage,
) -> Result<Release> {
    let what = source.describe("release");
    refuse_directory(source, &what)?;
    let mut release = release::open(source, None, work, stage)?;
    let dir = work.join("release");
    let digest = |path: &Path| Digest::of_file(path, &[algorithm]);
    for job in &mut release.jobs {
        job.digest = digest(&job.archive)?;
    }
    for package in release.packages.iter_mut().chain(&mut release.compiled_packages) {
        package.digest = digest(&package.archive)?;
    }
    let license = match &release.license {
        Some(license) => Some(Part {
            version: license.fingerprint.clone(),
            fingerprint: license.fingerprint.clone(),
            sha1: digest(&license.archive)?.to_string(),
            ..Part::default()
        }),
        None => None,
    };
    let manifest_path = dir.join("release.MF");
    let text = fs::read(&manifest_path)
        .map_err(|error| Error::io(format!("reading '{}'", manifest_path.display()), error))?;
    let no_compression = documents::decode::<Mapping>(&text, "release.MF")
        .ok()
        .and_then(|manifest| manifest.get("no_compression").and_then(Value::as_bool))
        .unwrap_or_default();
    let manifest = Manifest {
        name: &release.name,
        version: &release.version,
        commit_hash: &release.commit_hash,
        uncommitted_changes: release.uncommitted_changes,
        jobs: release.jobs.iter().map(Part::job).collect(),
        packages: release.packages.iter().map(Part::package).collect(),
        compiled_packages: release.compiled_packages.iter().map(Part::package).collect(),
        license,
        no_compression,
    };
    pack(&dir, ("release.MF", to_yaml(&manifest)?), result)?;
    Ok(release)
}

/// `release.MF`, with the keys that `bosh` writes.
#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    version: &'a str,
    commit_hash: &'a str,
    uncommitted_changes: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<Part>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    packages: Vec<Part>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compiled_packages: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<Part>,
    no_compression: bool,
}

/// A job, a package or the license in `release.MF`.
#[derive(Default, Serialize)]
struct Part {
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

impl Part {
    fn job(job: &release::Job) -> Self {
        Part {
            name: job.name.clone(),
            version: job.version.clone(),
            fingerprint: job.fingerprint.clone(),
            sha1: job.digest.to_string(),
            packages: Some(job.packages.clone()),
            ..Part::default()
        }
    }

    fn package(package: &release::Package) -> Self {
        Part {
            name: package.name.clone(),
            version: package.version.clone(),
            fingerprint: package.fingerprint.clone(),
            sha1: package.digest.to_string(),
            stemcell: package.compiled_for.clone(),
            dependencies: Some(package.dependencies.clone()),
            ..Part::default()
        }
    }
}

fn refuse_directory(source: &Source, what: &str) -> Result<()> {
    if source.is_dir {
        return Err(Error::invalid(format!("{what} is a directory, but a tarball is needed")));
    }
    Ok(())
}

fn to_yaml(document: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_yaml::to_string(document)
        .map_err(|error| Error::environment("a manifest has no YAML form").with_source(error))?;
    if text.len() as u64 > MAX_DOCUMENT {
        return Err(Error::invalid(format!("the manifest would be larger than {MAX_DOCUMENT} bytes")));
    }
    Ok(text.into_bytes())
}

/// Packs `dir` into the archive `result`, the manifest, with this content, before everything else: those who
/// want only that need not read further.
fn pack(dir: &Path, (manifest, content): (&str, Vec<u8>), result: &Path) -> Result<()> {
    let making = |error| Error::io(format!("making '{}'", result.display()), error);
    let parent = result.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".monopile-").tempfile_in(parent).map_err(making)?;
    let mut packer = Packer::create(temporary.path())?;
    packer.add(Path::new(manifest), &Input::Bytes(content))?;
    let inputs: BTreeMap<PathBuf, Input> = archive::tree(dir)?.into_iter().collect();
    for (name, input) in inputs.iter().filter(|(name, _)| name.as_path() != Path::new(manifest)) {
        packer.add(name, input)?;
    }
    packer.finish()?;
    share(temporary.path()).map_err(making)?;
    temporary.persist(result).map_err(|error| making(error.error))?;
    Ok(())
}

/// Temporary files are for their owner alone; the result is a file like others.
#[cfg(unix)]
fn share(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn share(_: &Path) -> std::io::Result<()> {
    Ok(())
}
