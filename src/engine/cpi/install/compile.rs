//! Provides one package: compiles, unpacks or copies it, unless it is already in its place.

use std::path::Path;

use super::needed_packages::NeededPackage;
use super::package_store::{self, CpiPackageStore, PackageLock, PackageSlot, SlotState};
use super::{CompileSettings, StopCondition, script};
use crate::cpi::create_private_directory;
use artifact::archive::{self, Links, UnpackOptions};
use base::Result;
use base::events::{Stage, Unit};

/// Provides a package in the cache, and returns the lock that keeps it there.
pub(super) fn provide_in_cache(
    needed_packages: &[NeededPackage<'_>],
    index: usize,
    package_store: &CpiPackageStore,
    compile_settings: &CompileSettings<'_>,
    stop_condition: &StopCondition<'_>,
    stage: &Stage,
) -> Result<Option<PackageLock>> {
    let Some(package) = needed_packages.get(index) else { return Ok(None) };
    stop_condition.check()?;
    let slot = package_store.slot(package);
    let package_stage = begin_stage(package, stage);
    let mut origin = None;
    loop {
        let lock = slot.lock_shared(stop_condition, &package_stage)?;
        // A package that this run has just built was not changed since.
        let is_usable = if origin.is_some() { slot.is_complete() } else { slot.state()? == SlotState::Whole };
        if is_usable {
            slot.touch();
            match origin {
                Some(origin) => end_stage(package_stage, origin),
                None => package_stage.skip("it is in the cache"),
            }
            return Ok(Some(lock));
        }
        // A shared lock cannot become exclusive in one step, so another run may have compiled the package in
        // the meantime.
        drop(lock);
        let lock = slot.lock_exclusively(stop_condition, &package_stage)?;
        if must_build(package, &slot, stage)? {
            let build = Build {
                needed_packages,
                package,
                slot: &slot,
                lock: &lock,
                package_store,
                compile_settings,
                stop_condition,
                stage: &package_stage,
            };
            origin = Some(build.run()?);
        }
    }
}

/// Provides a package in a directory that this run has locked.
pub(super) fn provide_in_directory(
    needed_packages: &[NeededPackage<'_>],
    index: usize,
    package_store: &CpiPackageStore,
    lock: &PackageLock,
    compile_settings: &CompileSettings<'_>,
    stop_condition: &StopCondition<'_>,
    stage: &Stage,
) -> Result<()> {
    let Some(package) = needed_packages.get(index) else { return Ok(()) };
    stop_condition.check()?;
    let slot = package_store.slot(package);
    let package_stage = begin_stage(package, stage);
    if !must_build(package, &slot, stage)? {
        package_stage.skip("it is installed already");
        return Ok(());
    }
    let build = Build {
        needed_packages,
        package,
        slot: &slot,
        lock,
        package_store,
        compile_settings,
        stop_condition,
        stage: &package_stage,
    };
    let origin = build.run()?;
    end_stage(package_stage, origin);
    Ok(())
}

/// Returns true unless the package is complete. Warns if it has changed since it was complete.
fn must_build(package: &NeededPackage<'_>, slot: &PackageSlot, stage: &Stage) -> Result<bool> {
    match slot.state()? {
        SlotState::Whole => Ok(false),
        SlotState::Incomplete => Ok(true),
        SlotState::Changed(path) => {
            stage.reporter().warn(format!(
                "'{}' has changed since package '{}' of the CPI was installed; the package is installed \
                 again",
                path.display(),
                package.package.name
            ));
            Ok(true)
        }
    }
}

fn begin_stage(package: &NeededPackage<'_>, stage: &Stage) -> Stage {
    let version = package.package.version.as_str();
    // The first digits are enough to tell fingerprints apart.
    let short_version = version.get(..12).unwrap_or(version);
    let action = if package.package.compiled_for.is_some() { "Unpacking compiled" } else { "Compiling" };
    let name = &package.package.name;
    stage
        .reporter()
        .begin_timed_stage(format!("cpi/{name}"), format!("{action} package '{name}/{short_version}'"))
}

/// Ends the stage of a package that was built.
fn end_stage(stage: Stage, origin: PackageOrigin) {
    match origin {
        PackageOrigin::Here => stage.finish(),
        // A skipped stage does not count for the usual duration of compilations: a copy takes less time.
        PackageOrigin::Copied => stage.skip("it is in the shared cache"),
    }
}

/// The way in which a package was built.
#[derive(Clone, Copy)]
enum PackageOrigin {
    /// Compiled or unpacked.
    Here,
    /// Copied from the shared cache.
    Copied,
}

/// The work of building one package.
pub(super) struct Build<'a, 'r> {
    needed_packages: &'a [NeededPackage<'r>],
    pub(super) package: &'a NeededPackage<'r>,
    pub(super) slot: &'a PackageSlot,
    lock: &'a PackageLock,
    package_store: &'a CpiPackageStore,
    pub(super) compile_settings: &'a CompileSettings<'a>,
    pub(super) stop_condition: &'a StopCondition<'a>,
    pub(super) stage: &'a Stage,
}

impl Build<'_, '_> {
    fn run(&self) -> Result<PackageOrigin> {
        let dependencies: Vec<PackageSlot> = self
            .package
            .dependencies
            .iter()
            .filter_map(|index| self.needed_packages.get(*index))
            .map(|dependency| self.package_store.slot(dependency))
            .collect();
        // In a userland, they are mounted.
        let links = if self.compile_settings.userland.is_some() { &[][..] } else { &dependencies[..] };
        self.slot.begin(links)?;
        let is_compiled = self.package.package.compiled_for.is_none();
        if is_compiled && self.copy_shared()? {
            self.slot.finish()?;
            return Ok(PackageOrigin::Copied);
        }
        let result = if is_compiled {
            self.compile(&dependencies)
        } else {
            self.unpack(&self.slot.package_directory, true)
        };
        result.inspect_err(|_| {
            if !self.compile_settings.keep_scratch {
                self.slot.discard();
            }
        })?;
        self.slot.finish()?;
        if is_compiled {
            self.upload_shared();
        }
        Ok(PackageOrigin::Here)
    }

    /// Unpacks the archive of the package. Reports progress if `reports_progress`.
    fn unpack(&self, target: &Path, reports_progress: bool) -> Result<()> {
        let (package, release) = (self.package.package, self.package.release);
        let source_name = format!("the package '{}' of release '{}'", package.name, release.name);
        // Links may lead to other packages. Refusing them would gain nothing, because the unpacked files are
        // executed anyway.
        let options = UnpackOptions { links: Links::Verbatim, ..UnpackOptions::default() };
        let mut progress = |bytes_done, total| {
            if reports_progress {
                self.stage.report_progress(bytes_done, Some(total), Unit::Bytes);
            }
        };
        archive::unpack_file(&package.archive, &source_name, target, None, &options, &mut progress)?;
        Ok(())
    }

    /// Compiles a package into its slot. The directory of its source is removed at the end, unless the
    /// operator keeps it to look into a failure.
    fn compile(&self, dependencies: &[PackageSlot]) -> Result<()> {
        let (package, release) = (self.package.package, self.package.release);
        // The source has a parent directory of its own, because packaging scripts also use `..`.
        let short_key = self.package.key.get(..12).unwrap_or(&self.package.key);
        let space =
            self.compile_settings.scratch.join("compile").join(format!("{}-{short_key}", package.name));
        package_store::remove_tree(&space)?;
        create_private_directory(&space)?;
        create_private_directory(&self.slot.package_directory)?;
        // In a userland, the path of the source is part of what compilers record.
        let source = match self.compile_settings.userland {
            Some(_) => space.join("compile").join(&package.name),
            None => space.join("source"),
        };
        if let Some(parent) = source.parent() {
            create_private_directory(parent)?;
        }
        self.unpack(&source, false)?;
        let script_run = script::ScriptRun {
            package,
            source: &source,
            dependencies,
            slot: self.slot,
            lock: self.lock,
            compile_settings: self.compile_settings,
            stop_condition: self.stop_condition,
            stage: self.stage,
        };
        let outcome = script_run.run().map_err(|error| match error.kind() {
            base::ErrorKind::Interrupted(_) => error,
            _ => error.context(format!(
                "package '{}' of the CPI's release '{}' cannot be compiled",
                package.name, release.name
            )),
        });
        match outcome {
            Err(error)
                if self.compile_settings.keep_scratch
                    && !matches!(error.kind(), base::ErrorKind::Interrupted(_)) =>
            {
                Err(error.with_note(format!("it was compiled in '{}'", source.display())))
            }
            Err(error) => {
                package_store::remove_tree(&space)?;
                Err(error)
            }
            Ok(()) if self.compile_settings.keep_scratch => Ok(()),
            Ok(()) => package_store::remove_tree(&space),
        }
    }
}
