//! Finds the packages that the jobs of a CPI need, and the dependencies of each.

use std::collections::{BTreeMap, BTreeSet};

use super::CpiJob;
use super::key::{CompileSite, package_key};
use crate::cpi::userland::Userland;
use artifact::Release;
use artifact::release::Package;
use base::{Error, Result};

/// A package that a job of the CPI needs, directly or through other packages.
pub(super) struct NeededPackage<'r> {
    pub(super) release: &'r Release,
    pub(super) package: &'r Package,
    /// Its key, a hash of everything that determines the compiled package.
    pub(super) key: String,
    /// The indices of the packages that it is compiled with. They are all smaller than its own.
    pub(super) dependencies: Vec<usize>,
    /// True if a job names it, so the CPI needs it at run time.
    is_named_by_job: bool,
}

/// Returns the packages of the jobs and their dependencies, each after its own dependencies.
pub(super) fn find<'r>(jobs: &[CpiJob<'r>], site: &CompileSite<'_>) -> Result<Vec<NeededPackage<'r>>> {
    let mut needed_packages: Vec<NeededPackage<'r>> = Vec::new();
    // Indexes by release and name. Two releases with the same package share one index.
    let mut positions: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for job in jobs {
        let release = job.release;
        let named_by_job = &release.job(job.name)?.packages;
        for package in release.package_levels(&[job.name])?.into_iter().flatten() {
            let mut dependencies = BTreeSet::new();
            let mut dependency_keys = Vec::new();
            for dependency in release.dependencies(package)? {
                let position = positions.get(&(release.name.as_str(), dependency.name.as_str()));
                let (index, compiled_before) = position
                    .and_then(|index| Some((*index, needed_packages.get(*index)?)))
                    .ok_or_else(|| {
                        Error::invalid(format!(
                            "package '{}' is listed after a package that depends on it",
                            dependency.name
                        ))
                    })?;
                dependency_keys.push((compiled_before.package.name.as_str(), compiled_before.key.as_str()));
                dependencies.insert(index);
            }
            let key = package_key(package, &dependency_keys, site);
            let dependencies = dependencies.into_iter().collect();
            let index = needed_packages.iter().position(|other| other.key == key).unwrap_or_else(|| {
                needed_packages.push(NeededPackage {
                    release,
                    package,
                    key,
                    dependencies,
                    is_named_by_job: false,
                });
                needed_packages.len() - 1
            });
            if let Some(needed_package) = needed_packages.get_mut(index) {
                needed_package.is_named_by_job |= named_by_job.contains(&package.name);
            }
            positions.insert((&release.name, &package.name), index);
        }
    }
    Ok(needed_packages)
}

/// Returns the packages that the CPI sees under their names. A package that a job names takes precedence over
/// one of the same name that was only a dependency.
pub(super) fn visible<'n, 'r>(
    needed_packages: &'n [NeededPackage<'r>],
) -> Result<Vec<&'n NeededPackage<'r>>> {
    let mut visible: Vec<&NeededPackage<'r>> = Vec::new();
    for package in needed_packages.iter().filter(|package| package.is_named_by_job) {
        if let Some(other) = visible.iter().find(|other| other.package.name == package.package.name) {
            return Err(same_name_error(other, package));
        }
        visible.push(package);
    }
    for package in needed_packages {
        if !visible.iter().any(|other| other.package.name == package.package.name) {
            visible.push(package);
        }
    }
    Ok(visible)
}

/// Fails if two packages have the same name, because `--package-dir` holds one package per name.
pub(super) fn check_names(needed_packages: &[NeededPackage<'_>]) -> Result<()> {
    for (index, package) in needed_packages.iter().enumerate() {
        if let Some(other) =
            needed_packages[..index].iter().find(|other| other.package.name == package.package.name)
        {
            return Err(same_name_error(other, package));
        }
    }
    Ok(())
}

/// Fails if a package was compiled for another operating system than that of the userland.
pub(super) fn check_operating_systems(
    needed_packages: &[NeededPackage<'_>],
    userland: Option<&Userland>,
) -> Result<()> {
    let Some(Userland { content, name, .. }) = userland else { return Ok(()) };
    for NeededPackage { package, release, .. } in needed_packages {
        let Some(compiled_for) = package.compiled_for.as_deref() else { continue };
        let system = compiled_for.split_once('/').map_or(compiled_for, |(system, _)| system);
        if content.operating_systems.iter().any(|operating_system| operating_system == system) {
            continue;
        }
        let mismatch = match content.operating_systems.as_slice() {
            [] => "names no operating system".to_owned(),
            [first, ..] => format!("is '{first}'"),
        };
        return Err(Error::invalid(format!(
            "package '{}' of the CPI's release '{}/{}' is compiled for '{compiled_for}', but the userland \
             '{name}' {mismatch}",
            package.name, release.name, release.version
        ))
        .with_hint(format!(
            "use a root file system of '{system}', such as its stemcell for warden, or the source of the \
             release"
        )));
    }
    Ok(())
}

fn same_name_error(one: &NeededPackage<'_>, other: &NeededPackage<'_>) -> Error {
    Error::invalid(format!(
        "the CPI needs two different packages '{}': one of release '{}', one of release '{}'",
        one.package.name, one.release.name, other.release.name
    ))
    .with_hint("the CPI finds packages by name: use releases that share one version of this package")
}
