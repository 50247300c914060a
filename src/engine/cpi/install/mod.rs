//! Installs the packages of a CPI's jobs on this machine: compiled once, then shared by all environments of a user.
//!
//! [`install`] finds out which packages the jobs need, looks which of them are there already, checks that the
//! tools for the others are there, compiles those (dependencies first, independent ones at once), and returns a
//! directory in which every package is found by its name: the CPI's `BOSH_PACKAGES_DIR`.
//!
//! Packages are compiled where they stay. Many (Ruby, for one) write their own path and those of their
//! dependencies into what they install, so they could not be moved. What makes a package whole is therefore a
//! marker, written last, and a lock held until then; see [`package_store`].

mod compile;
mod key;
mod needed;
mod package_store;
mod preflight;
mod script;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use artifact::{Cache, Release};
use base::task_graph::{self, Lane, Task};
use base::{Error, Result};
use base::{events::Stage, redact::Redactor};

use needed::Needed;
use package_store::{Lock, PackageStore};

/// A job of the CPI.
#[derive(Debug, Clone, Copy)]
pub struct CpiJob<'r> {
    /// The release it is of.
    pub release: &'r Release,
    /// Its name.
    pub name: &'r str,
}

/// Where and how packages are compiled.
pub struct Workshop<'a> {
    /// The user's cache: packages stay below its `cpi` directory.
    pub cache: &'a Path,
    /// `--package-dir`: where packages are compiled and stay instead.
    pub package_dir: Option<&'a Path>,
    /// Scratch space of this run alone.
    pub work: &'a Path,
    /// Whether the scratch space outlives the run.
    pub keep_work: bool,
    /// What packaging scripts find in their environment, besides what is said of their package.
    pub variables: &'a [(String, String)],
    /// How many scripts run at once.
    pub parallel: usize,
    /// Tells whether to give up, and because of which signal.
    pub interrupted: &'a (dyn Fn() -> Option<u8> + Sync),
    /// What must not stay in the scripts' output.
    pub redactor: &'a Redactor,
}

/// Packages that stay as long as this is held: nobody prunes or replaces them meanwhile.
#[derive(Debug)]
pub struct Installed {
    /// Holds every package under its name.
    pub packages: PathBuf,
    _locks: Vec<Lock>,
    _cache: Option<Cache>,
}

/// How a package is to stop, or be kept from beginning: a signal, or another one that failed.
struct Halt<'a> {
    interrupted: &'a (dyn Fn() -> Option<u8> + Sync),
    failed: AtomicBool,
}

impl Halt<'_> {
    fn check(&self) -> Result<()> {
        if let Some(signal) = (self.interrupted)() {
            return Err(Error::new(
                base::ErrorKind::Interrupted(signal),
                "interrupted while the CPI was compiled; nothing else was begun",
            )
            .with_hint("run the same command again; packages that were done need not be compiled again"));
        }
        if self.failed.load(Ordering::SeqCst) {
            return Err(Error::environment("stopped, because another package cannot be compiled"));
        }
        Ok(())
    }
}

/// Installs every package that `jobs` need.
pub fn install(jobs: &[CpiJob<'_>], workshop: &Workshop<'_>, stage: &Stage) -> Result<Installed> {
    let halt = Halt { interrupted: workshop.interrupted, failed: AtomicBool::new(false) };
    match workshop.package_dir {
        Some(directory) => install_in_directory(jobs, directory, workshop, &halt, stage),
        None => install_in_cache(jobs, workshop, &halt, stage),
    }
}

fn install_in_cache(
    jobs: &[CpiJob<'_>],
    workshop: &Workshop<'_>,
    halt: &Halt<'_>,
    stage: &Stage,
) -> Result<Installed> {
    // While this lives, nobody prunes the cache.
    let cache = Cache::open(workshop.cache)?;
    let package_store = PackageStore::cache(&workshop.cache.join("cpi"))?;
    let needed = needed::find(jobs, package_store.root())?;
    preflight::check(&needed, &package_store, workshop)?;
    let locks = parking_lot::Mutex::new(Vec::new());
    task_graph::run(&tasks(&needed), workshop.parallel, &|index| {
        let result = compile::provide(&needed, index, &package_store, workshop, halt, stage);
        if result.is_err() {
            halt.failed.store(true, Ordering::SeqCst);
        }
        locks.lock().extend(result?);
        Ok(())
    })?;
    let packages = workshop.work.join("packages");
    let failed = |error| Error::io(format!("making '{}'", packages.display()), error);
    std::fs::create_dir_all(&packages).map_err(failed)?;
    for package in needed::visible(&needed)? {
        symlink(package_store.slot(package).target, packages.join(&package.package.name)).map_err(failed)?;
    }
    let locks = locks.into_inner();
    Ok(Installed { packages, _locks: locks, _cache: Some(cache) })
}

/// `--package-dir` has room for one package of each name, so runs that want different ones take turns.
fn install_in_directory(
    jobs: &[CpiJob<'_>],
    directory: &Path,
    workshop: &Workshop<'_>,
    halt: &Halt<'_>,
    stage: &Stage,
) -> Result<Installed> {
    let package_store = PackageStore::directory(directory)?;
    let needed = needed::find(jobs, package_store.root())?;
    needed::check_names(&needed)?;
    loop {
        let lock = package_store.lock_exclusively(halt, stage)?;
        for package in &needed {
            package_store.slot(package).check_ours()?;
        }
        preflight::check(&needed, &package_store, workshop)?;
        task_graph::run(&tasks(&needed), workshop.parallel, &|index| {
            let result = compile::provide_alone(&needed, index, &package_store, &lock, workshop, halt, stage);
            if result.is_err() {
                halt.failed.store(true, Ordering::SeqCst);
            }
            result
        })?;
        // Letting go of the one lock and taking the other is not one step: another run may come between.
        drop(lock);
        let lock = package_store.lock_shared(halt, stage)?;
        if needed.iter().all(|package| package_store.slot(package).is_complete()) {
            return Ok(Installed { packages: directory.to_owned(), _locks: vec![lock], _cache: None });
        }
    }
}

/// What most depends on goes first.
fn tasks(needed: &[Needed<'_>]) -> Vec<Task> {
    let dependents =
        |index: usize| needed.iter().filter(|package| package.dependencies.contains(&index)).count();
    needed
        .iter()
        .enumerate()
        .map(|(index, package)| Task {
            after: package.dependencies.clone(),
            priority: dependents(index) as u64,
            lane: Lane::Work,
        })
        .collect()
}
