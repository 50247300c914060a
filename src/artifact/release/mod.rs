//! Releases: jobs (templates and monit files) and the packages they need, source or compiled.
//!
//! [`open`] verifies every tarball inside and resolves all names, so that later steps need not check them.
//! Formats: docs-bosh `release.md`, `jobs.md`, `packages.md`, `compiled-releases.md`.

mod graph;
mod load;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::digest::{Algorithm, Digest};
use super::{ArtifactIdentity, Stamp};
use base::{Error, Result};

pub use load::open;
pub(super) use load::read_name_and_version;

/// A verified release with unpacked jobs.
#[derive(Debug, Clone)]
pub struct Release {
    /// The name in `release.MF`, checked to be usable in paths.
    pub name: String,
    /// The version, unchanged from `release.MF`; `0+dev.…` for a directory in source form.
    pub version: String,
    /// The commit of the release repository; empty if `release.MF` has none.
    pub commit_hash: String,
    /// True if the repository had changes beyond that commit.
    pub has_uncommitted_changes: bool,
    /// Its jobs in the order of `release.MF`.
    pub jobs: Vec<Job>,
    /// Source packages.
    pub packages: Vec<Package>,
    /// Compiled packages, each for one stemcell.
    pub compiled_packages: Vec<Package>,
    /// The license, if the release has one.
    pub license: Option<License>,
    /// Digest of the tarball: SHA-256, and the strongest algorithm of the expected digest. For a directory in
    /// source form, SHA-256 of its content.
    pub digest: Digest,
    /// Stamp of the tarball. `None` for a directory.
    pub stamp: Option<Stamp>,
}

/// A job of a release.
#[derive(Debug, Clone)]
pub struct Job {
    /// The name in `release.MF`, checked to be usable in paths.
    pub name: String,
    /// Its version, usually the fingerprint.
    pub version: String,
    /// Hash of its content.
    pub fingerprint: String,
    /// Digest of `archive` from `release.MF`.
    pub digest: Digest,
    /// The job's own tarball.
    pub archive: PathBuf,
    /// Directory of the unpacked tarball, with `job.MF`, `monit` and `templates/`.
    pub directory: PathBuf,
    /// The monit file, if the job has one. It is also a template.
    pub monit: Option<PathBuf>,
    /// Its templates in the order of `job.MF`.
    pub templates: Vec<Template>,
    /// Names of the packages that it needs at run time.
    pub packages: Vec<String>,
    /// Its properties in the order of `job.MF`.
    pub properties: Vec<Property>,
    /// Links that it consumes, unchanged from `job.MF`.
    pub consumes: Vec<Value>,
    /// Links that it provides, unchanged from `job.MF`.
    pub provides: Vec<Value>,
}

/// A template of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The path of an existing file below the job's `templates/`. Relative, without `..`.
    pub source: String,
    /// Path of the rendered file below the job's directory, such as `bin/ctl`. Relative, without `..`.
    pub target: String,
}

/// A property of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    /// Its dotted name.
    pub name: String,
    /// Its description; may be empty.
    pub description: String,
    /// The default value. `None` also stands for null, which is the same for templates.
    pub default: Option<Value>,
}

/// A package, source or compiled.
#[derive(Debug, Clone)]
pub struct Package {
    /// The name in `release.MF`, checked to be usable in paths.
    pub name: String,
    /// Its version, usually the fingerprint.
    pub version: String,
    /// Hash of its content.
    pub fingerprint: String,
    /// Digest of `archive` from `release.MF`.
    pub digest: Digest,
    /// SHA-256 of `archive`, computed by this program. Two packages with the same digest have the same
    /// content, even if `release.MF` says something else.
    pub content_digest: Digest,
    /// Names of the packages that it needs for its compilation.
    pub dependencies: Vec<String>,
    /// Its tarball.
    pub archive: PathBuf,
    /// `os/version` of the stemcell for which it is compiled. `None` for a source package.
    pub compiled_for: Option<String>,
}

/// The license of a release.
#[derive(Debug, Clone)]
pub struct License {
    /// Hash of its content.
    pub fingerprint: String,
    /// Path of `license.tgz`.
    pub archive: PathBuf,
}

impl Job {
    /// Returns the path of a template's file.
    pub fn template_path(&self, template: &Template) -> PathBuf {
        self.directory.join("templates").join(&template.source)
    }
}

impl Release {
    /// Returns its identity, for comparison with the identities that other runs recorded.
    pub fn identity(&self) -> ArtifactIdentity {
        ArtifactIdentity {
            name: self.name.clone(),
            version: self.version.clone(),
            digest: self.digest.part_for(Algorithm::Sha256).unwrap_or_else(|| self.digest.clone()),
            stamp: self.stamp.clone(),
        }
    }

    /// Returns the job `name`. The error for an unknown name suggests a job or lists all of them.
    pub fn job(&self, name: &str) -> Result<&Job> {
        self.jobs.iter().find(|job| job.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.jobs.iter().map(|job| job.name.as_str()).collect();
            let error = Error::invalid(format!("the release '{}' has no job '{name}'", self.name));
            error.with_nearest(name, names.iter().copied(), || {
                Some(match names.as_slice() {
                    [] => "the release has no jobs".to_owned(),
                    [name] => format!("its only job is '{name}'"),
                    _ => format!("its jobs are {}", names.join(", ")),
                })
            })
        })
    }

    /// Returns the package `name`: the compiled one if there is one, else the source package.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.all_packages().find(|package| package.name == name)
    }

    /// Iterates over all packages. Compiled ones come first, because they take precedence over source
    /// packages.
    fn all_packages(&self) -> impl Iterator<Item = &Package> {
        self.compiled_packages.iter().chain(&self.packages)
    }

    /// Returns the packages that `jobs` need, including dependencies, in levels sorted by name.
    ///
    /// A package depends only on packages of earlier levels, so the packages of one level can be compiled in
    /// parallel. Compiled packages are included, with the dependencies that they declare.
    pub fn package_levels(&self, jobs: &[&str]) -> Result<Vec<Vec<&Package>>> {
        let mut roots = Vec::new();
        for name in jobs {
            roots.extend(self.job(name)?.packages.iter().map(String::as_str));
        }
        graph::levels(&roots, self.all_packages())
    }

    /// Returns the dependencies of `package` and their dependencies, each after its own dependencies.
    pub fn dependencies(&self, package: &Package) -> Result<Vec<&Package>> {
        let roots: Vec<&str> = package.dependencies.iter().map(String::as_str).collect();
        Ok(graph::levels(&roots, self.all_packages())?.into_iter().flatten().collect())
    }

    /// Checks that every compiled package is available for this stemcell. A source release always passes.
    pub fn check_compiled_for(&self, os: &str, version: &str) -> Result<()> {
        let stemcell = format!("{os}/{version}");
        // A package may be compiled for several stemcells. One of them must match.
        let fits_stemcell = |package: &Package| {
            self.compiled_packages.iter().any(|other| {
                other.name == package.name && other.compiled_for.as_deref() == Some(stemcell.as_str())
            })
        };
        match self.compiled_packages.iter().find(|package| !fits_stemcell(package)) {
            None => Ok(()),
            Some(package) => Err(Error::invalid(format!(
                "the release '{}/{}' is compiled for stemcell '{}', but the manifest has stemcell \
                 '{stemcell}'",
                self.name,
                self.version,
                package.compiled_for.as_deref().unwrap_or("?"),
            ))
            .with_hint(format!(
                "use a release compiled for '{stemcell}', a source release, or that stemcell"
            ))),
        }
    }
}

/// Checks the name of a release, job or package, which becomes a part of paths on the VM.
fn check_name(name: &str, owner: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(is_plain) {
        return Err(Error::invalid(format!(
            "{owner} has the name '{}', which is not allowed",
            name.escape_debug()
        ))
        .with_hint("use at most 200 letters, digits, '-', '_', '.' and '+', and do not begin with '.'"));
    }
    Ok(())
}

/// Checks that a path of a job's spec is relative and without `..`, and returns it.
fn check_relative(path: &str, owner: &str) -> Result<PathBuf> {
    match super::archive::path::entry_path(path.as_bytes()) {
        Ok(clean) if clean.as_os_str() != Path::new("").as_os_str() => Ok(clean),
        Ok(_) => {
            Err(Error::invalid(format!("{owner} has an empty path"))
                .with_hint("correct it in the job's spec"))
        }
        Err(reason) => Err(Error::invalid(format!(
            "{owner} has the path '{}', which is not allowed",
            path.escape_debug()
        ))
        .with_source(reason)
        .with_hint("write it in the job's spec as a relative path without '..'")),
    }
}

#[cfg(test)]
mod tests;
