//! Compiles the packages of the jobs on the VM, dependencies first, independent ones at once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::prepare::find;
use super::run::Run;
use super::signals;
use crate::agent::{Agent, CompiledPackage, PackageSource};
use crate::artifact::Release;
use crate::artifact::release::Package;
use crate::ui::{Stage, Unit};
use crate::{Error, Result};

/// Compiled packages by release and name.
type Compiled = BTreeMap<(String, String), CompiledPackage>;

/// Uploads and compiles every package the jobs need; the result is in the order of their names.
pub(super) fn compile(run: &Run<'_>, agent: &Agent, stage: &Stage) -> Result<Vec<CompiledPackage>> {
    let mut compiled = Compiled::new();
    for (release, jobs) in jobs_by_release(run) {
        let release = find(&run.opened.releases, release)?;
        for level in release.package_levels(&jobs)? {
            let done = compile_level(run, agent, release, &level, &compiled, stage)?;
            compiled.extend(done);
        }
    }
    let mut packages: BTreeMap<String, CompiledPackage> = BTreeMap::new();
    for ((release, name), package) in compiled {
        if packages.contains_key(&name) {
            return Err(Error::invalid(format!(
                "package '{name}' of release '{release}' has the name of a package of another release"
            ))
            .with_hint("the agent installs packages by name, so jobs that need both cannot share a VM"));
        }
        packages.insert(name, package);
    }
    Ok(packages.into_values().collect())
}

fn jobs_by_release<'r>(run: &'r Run<'_>) -> BTreeMap<&'r str, Vec<&'r str>> {
    let mut jobs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in &run.prepared.deployment.group.jobs {
        jobs.entry(&job.release).or_default().push(&job.name);
    }
    jobs
}

/// Compiles packages that do not depend on each other.
fn compile_level(
    run: &Run<'_>,
    agent: &Agent,
    release: &Release,
    level: &[&Package],
    compiled: &Compiled,
    stage: &Stage,
) -> Result<Compiled> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let workers = run.environment.parallel.clamp(1, level.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(package) = level.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let result = signals::check(run.environment)
                        .and_then(|()| compile_one(agent, release, package, compiled, stage));
                    let failed = result.is_err();
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
                    if failed {
                        // The others finish what they are at; nothing new begins.
                        next.store(level.len(), Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let packages = results.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(packages.into_iter().map(|package| ((release.name.clone(), package.name.clone()), package)).collect())
}

fn compile_one(
    agent: &Agent,
    release: &Release,
    package: &Package,
    compiled: &Compiled,
    stage: &Stage,
) -> Result<CompiledPackage> {
    let compiling =
        stage.reporter().stage(format!("Compiling package '{}/{}'", package.name, short(&package.version)));
    let blobstore_id = uuid::Uuid::new_v4().to_string();
    let size = std::fs::metadata(&package.archive).map(|metadata| metadata.len()).ok();
    agent
        .put_blob(&blobstore_id, &package.archive, &mut |done| compiling.progress(done, size, Unit::Bytes))?;
    let digest = package.digest.to_string();
    if package.compiled_for.is_some() {
        compiling.skip("it comes compiled");
        let (name, version) = (package.name.clone(), package.version.clone());
        return Ok(CompiledPackage { name, version, sha1: digest, blobstore_id });
    }
    let dependencies = release
        .dependencies(package)?
        .into_iter()
        .map(|dependency| {
            let key = (release.name.clone(), dependency.name.clone());
            let built = compiled.get(&key).ok_or_else(|| {
                Error::environment(format!("package '{}' is not compiled yet", dependency.name))
            })?;
            Ok((dependency.name.clone(), built.clone()))
        })
        .collect::<Result<BTreeMap<_, _>>>()?;
    let source =
        PackageSource { name: package.name.clone(), version: package.version.clone(), digest, blobstore_id };
    let built = agent.compile_package(&source, &dependencies).map_err(|error| {
        Error::from(error).context(format!("package '{}' cannot be compiled", package.name))
    })?;
    compiling.finish();
    Ok(built)
}

/// Fingerprints are long; what tells them apart is not.
fn short(fingerprint: &str) -> &str {
    fingerprint.get(..12).unwrap_or(fingerprint)
}
