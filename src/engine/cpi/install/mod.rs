//! Installs the packages of a CPI's jobs on this machine. They are compiled once, and shared by all
//! environments of a user.
//!
//! [`install`] finds the packages that the jobs need, checks that the tools for the missing ones exist, and
//! compiles those: dependencies first, independent ones in parallel. It returns a directory with every
//! package under its name: the CPI's `BOSH_PACKAGES_DIR`.
//!
//! Packages are compiled in their final place and cannot be moved, because many (such as Ruby) write their
//! own path and those of their dependencies into their files. So a marker, written last, shows that a package
//! is complete, and a lock is held until then; see [`package_store`]. A package whose files have changed
//! since is compiled again; see [`contents`].
//!
//! In a userland, packages have the same paths on every machine. So those are copied from a shared cache if
//! it has them, and uploaded to it after they were compiled; see [`shared_copy`]. VMs of the same root file
//! system can use them, too; see [`userland_packages`].

mod compile;
mod contents;
mod key;
mod needed_packages;
mod package_store;
mod preflight;
mod script;
mod shared_copy;
mod userland_packages;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use artifact::cache::VerifyReport;
use artifact::shared_cache::PackageKind;
use artifact::{Cache, Release, SharedCache};
use base::task_graph::{self, Lane, Task};
use base::{Error, Result};
use base::{events::Stage, redact::Redactor};

use super::create_private_directory;
use super::userland::Userland;
use key::CompileSite;
use needed_packages::NeededPackage;
use package_store::{CpiPackageStore, PackageLock};
pub(crate) use shared_copy::{ShareablePackage, import_package};
pub(crate) use userland_packages::UserlandPackages;

/// Environment variables with which programs do not write into their packages. Python would store bytecode
/// there, and each run would find its packages changed.
pub const UNCHANGED_PACKAGES: [(&str, &str); 1] = [("PYTHONDONTWRITEBYTECODE", "1")];

/// A job of a release whose packages the CPI needs.
#[derive(Debug, Clone, Copy)]
pub struct CpiJob<'r> {
    /// Its release.
    pub release: &'r Release,
    /// Its name in the release.
    pub name: &'r str,
}

/// The settings for compiling packages.
pub struct CompileSettings<'a> {
    /// The user's cache, which has packages in its `cpi` directory.
    pub cache_directory: &'a Path,
    /// `--package-dir`: the directory for packages instead of the cache.
    pub package_directory: Option<&'a Path>,
    /// The shared cache of packages that are compiled in a userland.
    pub shared_cache: &'a SharedCache,
    /// The scratch directory of this run.
    pub scratch: &'a Path,
    /// True to keep the scratch directory after the run.
    pub keep_scratch: bool,
    /// The userland in which packages are compiled; `None` for this machine.
    pub(crate) userland: Option<&'a Userland>,
    /// The environment of packaging scripts on this machine, without the variables about their package.
    pub env_vars: &'a [(String, String)],
    /// The number of scripts that run in parallel.
    pub parallel: usize,
    /// Returns the signal that ends the run, if any.
    pub signal_check: &'a (dyn Fn() -> Option<u8> + Sync),
    /// The redactor for the output of scripts.
    pub redactor: &'a Redactor,
}

impl CompileSettings<'_> {
    /// Returns the site of packages that are compiled in `root`.
    fn compile_site<'p>(&self, root: &'p Path) -> CompileSite<'p> {
        match self.userland {
            Some(userland) => CompileSite::in_userland(&userland.compile_key()),
            None => CompileSite::on_this_machine(root),
        }
    }
}

/// Installed packages. While this is held, no other run removes or replaces them.
#[derive(Debug)]
pub struct InstalledPackages {
    /// The directory with every package under its name.
    pub packages_directory: PathBuf,
    /// The name and the directory of each of them.
    pub(crate) targets: Vec<(String, PathBuf)>,
    /// Those that another machine can use; `None` without a userland, and with `--package-dir`.
    pub(crate) shareable: Option<UserlandPackages>,
    _locks: Vec<PackageLock>,
    _cache: Option<Cache>,
}

/// The reasons not to begin a package, or to stop its compilation: a signal, or the failure of another
/// package.
struct StopCondition<'a> {
    signal_check: &'a (dyn Fn() -> Option<u8> + Sync),
    has_failed: AtomicBool,
}

impl StopCondition<'_> {
    fn check(&self) -> Result<()> {
        if let Some(signal) = (self.signal_check)() {
            return Err(Error::new(
                base::ErrorKind::Interrupted(signal),
                "interrupted while compiling the CPI; nothing else was started",
            )
            .with_rerun_hint("run the same command again: it keeps the packages that are compiled already"));
        }
        if self.has_failed.load(Ordering::SeqCst) {
            return Err(Error::failure("stopped, because another package cannot be compiled"));
        }
        Ok(())
    }
}

/// Compares the entries of the cache of this machine with their digests.
pub fn verify_cache(cache_directory: &Path) -> Result<VerifyReport> {
    let mut report = artifact::cache::verify(cache_directory)?;
    package_store::verify(&cache_directory.join(PackageKind::Cpi.folder()), &mut report)?;
    Ok(report)
}

/// Installs every package that `jobs` need.
pub fn install(
    jobs: &[CpiJob<'_>],
    compile_settings: &CompileSettings<'_>,
    stage: &Stage,
) -> Result<InstalledPackages> {
    let stop_condition =
        StopCondition { signal_check: compile_settings.signal_check, has_failed: AtomicBool::new(false) };
    match compile_settings.package_directory {
        Some(directory) => install_in_directory(jobs, directory, compile_settings, &stop_condition, stage),
        None => install_in_cache(jobs, compile_settings, &stop_condition, stage),
    }
}

/// Compiles the missing packages into the cache, several at a time, and stops all of them when one fails. The
/// result keeps the cache and the packages locked.
fn install_in_cache(
    jobs: &[CpiJob<'_>],
    compile_settings: &CompileSettings<'_>,
    stop_condition: &StopCondition<'_>,
    stage: &Stage,
) -> Result<InstalledPackages> {
    // While this is held, no other run prunes the cache.
    let cache = Cache::open(compile_settings.cache_directory)?;
    let root = compile_settings.cache_directory.join(PackageKind::Cpi.folder());
    let package_store = CpiPackageStore::open_cache(&root, compile_settings.shared_cache)?;
    let needed_packages = needed_packages::find(jobs, &compile_settings.compile_site(package_store.root()))?;
    needed_packages::check_operating_systems(&needed_packages, compile_settings.userland)?;
    preflight::check(&needed_packages, &package_store, compile_settings)?;
    let locks = parking_lot::Mutex::new(Vec::new());
    task_graph::run(&tasks(&needed_packages), compile_settings.parallel, &|index| {
        let result = compile::provide_in_cache(
            &needed_packages,
            index,
            &package_store,
            compile_settings,
            stop_condition,
            stage,
        );
        if result.is_err() {
            stop_condition.has_failed.store(true, Ordering::SeqCst);
        }
        locks.lock().extend(result?);
        Ok(())
    })?;
    let packages_directory = compile_settings.scratch.join("packages");
    let create_error = |error| Error::io(format!("making '{}'", packages_directory.display()), error);
    create_private_directory(&packages_directory)?;
    let mut targets = Vec::new();
    for package in needed_packages::visible(&needed_packages)? {
        let target = package_store.slot(package).package_directory;
        symlink(&target, packages_directory.join(&package.package.name)).map_err(create_error)?;
        targets.push((package.package.name.clone(), target));
    }
    let shareable = compile_settings
        .userland
        .map(|userland| UserlandPackages::of(&needed_packages, &package_store, userland));
    let locks = locks.into_inner();
    Ok(InstalledPackages { packages_directory, targets, shareable, _locks: locks, _cache: Some(cache) })
}

/// Installs the packages in `--package-dir`. It holds one package per name, so runs that need different
/// packages take turns.
fn install_in_directory(
    jobs: &[CpiJob<'_>],
    directory: &Path,
    compile_settings: &CompileSettings<'_>,
    stop_condition: &StopCondition<'_>,
    stage: &Stage,
) -> Result<InstalledPackages> {
    let package_store = CpiPackageStore::open_directory(directory, compile_settings.shared_cache)?;
    let needed_packages = needed_packages::find(jobs, &compile_settings.compile_site(package_store.root()))?;
    needed_packages::check_operating_systems(&needed_packages, compile_settings.userland)?;
    needed_packages::check_names(&needed_packages)?;
    loop {
        let lock = package_store.lock_exclusively(stop_condition, stage)?;
        for package in &needed_packages {
            package_store.slot(package).check_ours()?;
        }
        preflight::check(&needed_packages, &package_store, compile_settings)?;
        task_graph::run(&tasks(&needed_packages), compile_settings.parallel, &|index| {
            let result = compile::provide_in_directory(
                &needed_packages,
                index,
                &package_store,
                &lock,
                compile_settings,
                stop_condition,
                stage,
            );
            if result.is_err() {
                stop_condition.has_failed.store(true, Ordering::SeqCst);
            }
            result
        })?;
        // Between releasing one lock and taking the other, another run may change the packages.
        drop(lock);
        let lock = package_store.lock_shared(stop_condition, stage)?;
        if needed_packages.iter().all(|package| package_store.slot(package).is_complete()) {
            let target = |package: &NeededPackage<'_>| {
                (package.package.name.clone(), package_store.slot(package).package_directory)
            };
            return Ok(InstalledPackages {
                packages_directory: directory.to_owned(),
                targets: needed_packages.iter().map(target).collect(),
                shareable: None,
                _locks: vec![lock],
                _cache: None,
            });
        }
    }
}

/// Returns the tasks. Packages with the most dependents go first.
fn tasks(needed_packages: &[NeededPackage<'_>]) -> Vec<Task> {
    let dependents =
        |index: usize| needed_packages.iter().filter(|package| package.dependencies.contains(&index)).count();
    needed_packages
        .iter()
        .enumerate()
        .map(|(index, package)| Task {
            dependencies: package.dependencies.clone(),
            priority: dependents(index) as u64,
            lane: Lane::Work,
        })
        .collect()
}
