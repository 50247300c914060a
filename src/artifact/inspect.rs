//! Reports on the content of releases and stemcells, for output as text or JSON.

use serde::Serialize;
use serde_json::Value;

use super::release::{Job, Package, Release};
use super::{ArtifactIdentity, Source, stemcell};
use base::Result;

/// The content of a release, with jobs and packages sorted by name.
#[derive(Debug, Clone, Serialize)]
pub struct ReleaseReport {
    /// The name in `release.MF`.
    pub name: String,
    /// The version in `release.MF`, or the one computed for a directory in source form.
    pub version: String,
    /// The commit of the release repository; empty if `release.MF` has none.
    pub commit_hash: String,
    /// True if the repository had changes beyond that commit.
    #[serde(rename = "uncommitted_changes")]
    pub has_uncommitted_changes: bool,
    /// Path of the release.
    pub archive: String,
    /// The jobs, sorted by name.
    pub jobs: Vec<JobRow>,
    /// Its packages, source and compiled.
    pub packages: Vec<PackageRow>,
}

/// A job of a release.
#[derive(Debug, Clone, Serialize)]
pub struct JobRow {
    /// The name in `release.MF`.
    pub name: String,
    /// Hash of its content.
    pub fingerprint: String,
    /// Digest of its tarball.
    pub digest: String,
    /// Names of the packages that it needs at run time.
    pub packages: Vec<String>,
}

/// A package of a release.
#[derive(Debug, Clone, Serialize)]
pub struct PackageRow {
    /// The name in `release.MF`.
    pub name: String,
    /// Hash of its content.
    pub fingerprint: String,
    /// Digest of its tarball.
    pub digest: String,
    /// Names of the packages that it needs for its compilation.
    pub dependencies: Vec<String>,
    /// The operating system of the stemcell. Only compiled packages have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The version of the stemcell. Only compiled packages have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
}

impl ReleaseReport {
    /// Reports on `release`, which was read from `archive`.
    pub fn new(release: &Release, archive: &str) -> Self {
        let mut jobs: Vec<JobRow> = release.jobs.iter().map(JobRow::new).collect();
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        let packages = release.packages.iter().chain(&release.compiled_packages);
        let mut packages: Vec<PackageRow> = packages.map(PackageRow::new).collect();
        packages.sort_by(|a, b| (&a.name, &a.os).cmp(&(&b.name, &b.os)));
        ReleaseReport {
            name: release.name.clone(),
            version: release.version.clone(),
            commit_hash: release.commit_hash.clone(),
            has_uncommitted_changes: release.has_uncommitted_changes,
            archive: archive.to_owned(),
            jobs,
            packages,
        }
    }
}

impl JobRow {
    fn new(job: &Job) -> Self {
        JobRow {
            name: job.name.clone(),
            fingerprint: job.fingerprint.clone(),
            digest: job.digest.to_string(),
            packages: job.packages.clone(),
        }
    }
}

impl PackageRow {
    fn new(package: &Package) -> Self {
        let target = package.compiled_for.as_ref();
        let target = target.map(|target| target.split_once('/').unwrap_or((target, "")));
        PackageRow {
            name: package.name.clone(),
            fingerprint: package.fingerprint.clone(),
            digest: package.digest.to_string(),
            dependencies: package.dependencies.clone(),
            os: target.map(|(os, _)| os.to_owned()),
            os_version: target.map(|(_, version)| version.to_owned()),
        }
    }
}

/// The content of a stemcell.
#[derive(Debug, Clone, Serialize)]
pub struct StemcellReport {
    /// The name in `stemcell.MF`.
    pub name: String,
    /// The operating system; empty if `stemcell.MF` has none.
    pub os: String,
    /// The version in `stemcell.MF`.
    pub version: String,
    /// `infrastructure` of its cloud properties, or "unknown".
    pub infrastructure: String,
    /// `hypervisor` of its cloud properties, or "-".
    pub hypervisor: String,
    /// The version of the contract with its agent.
    pub api_version: u32,
    /// The formats of the image.
    pub stemcell_formats: Vec<String>,
    /// The cloud properties for `create_stemcell`.
    pub cloud_properties: Value,
    /// SHA-256 of the tarball, or of the content of a directory in source form.
    pub digest: String,
}

impl StemcellReport {
    /// Reads the `stemcell.MF` of `source`. `identity` must be that of the same source. It supplies the
    /// digest.
    pub fn new(source: &Source, identity: &ArtifactIdentity) -> Result<Self> {
        let description = stemcell::read_description(source)?;
        let text = |key: &str, otherwise: &str| {
            description.cloud_properties.get(key).and_then(Value::as_str).unwrap_or(otherwise).to_owned()
        };
        Ok(StemcellReport {
            name: description.name,
            os: description.operating_system,
            version: description.version,
            infrastructure: text("infrastructure", "unknown"),
            hypervisor: text("hypervisor", "-"),
            api_version: description.api_version,
            stemcell_formats: description.stemcell_formats,
            digest: identity.digest.to_string(),
            cloud_properties: description.cloud_properties,
        })
    }
}
