//! A release: jobs (templates and monit files) and the packages they need, source or compiled.
//!
//! [`open`] verifies every tarball inside and checks that all names resolve, so that later steps need not.
//! Formats: docs-bosh `release.md`, `jobs.md`, `packages.md`, `compiled-releases.md`.

mod graph;
mod load;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::digest::{Algorithm, Digest};
use super::{Identity, Stamp};
use base::{Error, Result};

pub(super) use load::name_and_version;
pub use load::open;

/// A release, verified, its jobs unpacked.
#[derive(Debug, Clone)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its version, as written; `0+dev.…` for a directory in source form.
    pub version: String,
    /// The commit it was made from; empty when not said.
    pub commit_hash: String,
    /// Whether there were changes beyond that commit.
    pub uncommitted_changes: bool,
    /// Its jobs in the order of `release.MF`.
    pub jobs: Vec<Job>,
    /// Packages to be compiled.
    pub packages: Vec<Package>,
    /// Packages that are compiled already, each for one stemcell.
    pub compiled_packages: Vec<Package>,
    /// Its license, if it brings one.
    pub license: Option<License>,
    /// SHA-256 of the tarball (and the digest by the function of the expected one), or of the content of a
    /// directory in source form.
    pub digest: Digest,
    /// Lets a later run see that the tarball was not touched.
    pub stamp: Option<Stamp>,
}

/// A job: what runs on the VM, as templates.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its version: usually the fingerprint.
    pub version: String,
    /// What its content hashes to.
    pub fingerprint: String,
    /// Digest of `archive`, as `release.MF` gives it.
    pub digest: Digest,
    /// The job's own tarball.
    pub archive: PathBuf,
    /// The unpacked tarball: `job.MF`, `monit`, `templates/`.
    pub dir: PathBuf,
    /// The monit file, if there is one: a template as well.
    pub monit: Option<PathBuf>,
    /// Its templates in the order of `job.MF`.
    pub templates: Vec<Template>,
    /// The packages it needs at run time.
    pub packages: Vec<String>,
    /// What can be set, in the order of `job.MF`.
    pub properties: Vec<Property>,
    /// Links it consumes, as written.
    pub consumes: Vec<Value>,
    /// Links it provides, as written.
    pub provides: Vec<Value>,
}

/// A template of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its path below the job's `templates/`. Relative, without `..`, and the file exists.
    pub source: String,
    /// Where its result goes below the job's directory: `bin/ctl`. Relative, without `..`.
    pub target: String,
}

/// A property a job's templates can ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    /// Its dotted name.
    pub name: String,
    /// What it is for; empty when not said.
    pub description: String,
    /// Its default; none where there is none or it is null, which templates cannot tell apart.
    pub default: Option<Value>,
}

/// A package, source or compiled.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version: usually the fingerprint.
    pub version: String,
    /// What its content hashes to.
    pub fingerprint: String,
    /// Digest of `archive`, as `release.MF` gives it.
    pub digest: Digest,
    /// Packages it needs to be compiled.
    pub dependencies: Vec<String>,
    /// Its tarball.
    pub archive: PathBuf,
    /// `os/version` of the stemcell it is compiled for; none for a source package.
    pub compiled_for: Option<String>,
}

/// The license a release brings.
#[derive(Debug, Clone)]
pub struct License {
    /// What its content hashes to.
    pub fingerprint: String,
    /// `license.tgz`.
    pub archive: PathBuf,
}

impl Job {
    /// The file of one of its templates.
    pub fn template_path(&self, template: &Template) -> PathBuf {
        self.dir.join("templates").join(&template.source)
    }
}

impl Release {
    /// What it is, for comparison with other runs.
    pub fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            version: self.version.clone(),
            digest: self.digest.only(Algorithm::Sha256).unwrap_or_else(|| self.digest.clone()),
            stamp: self.stamp.clone(),
        }
    }

    /// The job of this name; the error of one that is not there says which there are.
    pub fn job(&self, name: &str) -> Result<&Job> {
        self.jobs.iter().find(|job| job.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.jobs.iter().map(|job| job.name.as_str()).collect();
            let error = Error::invalid(format!("the release '{}' has no job '{name}'", self.name));
            error.with_nearest(name, names.iter().copied(), || {
                Some(match names.as_slice() {
                    [] => "the release has no jobs at all".to_owned(),
                    _ => format!("its jobs are {}", names.join(", ")),
                })
            })
        })
    }

    /// The package of this name: the compiled one if there is one, else the source.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.all_packages().find(|package| package.name == name)
    }

    /// Of two packages of the same name the one that counts comes first.
    fn all_packages(&self) -> impl Iterator<Item = &Package> {
        self.compiled_packages.iter().chain(&self.packages)
    }

    /// The packages that `jobs` need, dependencies included: level by level, each level needing only
    /// earlier ones, so that what is in one level can be compiled at the same time. Within a level sorted
    /// by name.
    ///
    /// Compiled packages take part with the dependencies they declare.
    pub fn package_levels(&self, jobs: &[&str]) -> Result<Vec<Vec<&Package>>> {
        let mut roots = Vec::new();
        for name in jobs {
            roots.extend(self.job(name)?.packages.iter().map(String::as_str));
        }
        graph::levels(&roots, self.all_packages())
    }

    /// The packages that `package` was or is to be compiled with: its dependencies and theirs.
    pub fn dependencies(&self, package: &Package) -> Result<Vec<&Package>> {
        let roots: Vec<&str> = package.dependencies.iter().map(String::as_str).collect();
        Ok(graph::levels(&roots, self.all_packages())?.into_iter().flatten().collect())
    }

    /// Checks that the compiled packages are for this stemcell. Nothing to check in a source release.
    pub fn check_compiled_for(&self, os: &str, version: &str) -> Result<()> {
        let wanted = format!("{os}/{version}");
        // A package may come compiled for several stemcells; one that fits is enough.
        let fits = |package: &Package| {
            self.compiled_packages.iter().any(|other| {
                other.name == package.name && other.compiled_for.as_deref() == Some(wanted.as_str())
            })
        };
        match self.compiled_packages.iter().find(|package| !fits(package)) {
            None => Ok(()),
            Some(package) => Err(Error::invalid(format!(
                "the release '{}/{}' is compiled for stemcell '{}', but the manifest's stemcell is '{wanted}'",
                self.name,
                self.version,
                package.compiled_for.as_deref().unwrap_or("?"),
            ))
            .with_hint("use a release compiled for this stemcell, a source release, or that stemcell")),
        }
    }
}

/// Names of jobs and packages become file names and parts of paths on the VM.
fn check_name(name: &str, what: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(Error::invalid(format!(
            "{what} has the name '{}', which is refused",
            name.escape_debug()
        ))
        .with_hint("names are letters, digits, '-', '_', '.' and '+', and do not begin with '.'"));
    }
    Ok(())
}

/// A path that a job's spec gives, checked to be relative and without `..`.
fn check_relative(path: &str, what: &str) -> Result<PathBuf> {
    match super::archive::path::entry_path(path.as_bytes()) {
        Ok(clean) if clean.as_os_str() != Path::new("").as_os_str() => Ok(clean),
        Ok(_) => Err(Error::invalid(format!("{what} has an empty path"))),
        Err(reason) => {
            Err(Error::invalid(format!("{what} has the path '{}', which is refused", path.escape_debug()))
                .with_source(reason))
        }
    }
}

#[cfg(test)]
mod tests;
