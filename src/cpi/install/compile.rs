//! Brings one package to its place: compiled, unpacked, or found there already.

use super::needed::Needed;
use super::shelf::{self, Lock, Shelf, Slot};
use super::{Halt, Workshop, script};
use crate::Result;
use crate::artifact::archive::{self, Links, Options};
use crate::error::ResultExt;
use crate::ui::{Stage, Unit};

/// Makes sure that a package is in the cache, and returns the lock that keeps it there.
pub(super) fn provide(
    needed: &[Needed<'_>],
    index: usize,
    shelf: &Shelf,
    workshop: &Workshop<'_>,
    halt: &Halt<'_>,
    stage: &Stage,
) -> Result<Option<Lock>> {
    let Some(package) = needed.get(index) else { return Ok(None) };
    halt.check()?;
    let slot = shelf.slot(package);
    let own = begin_stage(package, stage);
    let mut built = false;
    loop {
        let lock = slot.lock_shared(halt, &own)?;
        if slot.is_complete() {
            if built {
                own.finish()
            } else {
                own.skip("it is in the cache")
            }
            return Ok(Some(lock));
        }
        // A lock cannot be made exclusive in one step: whoever comes between may have done the work.
        drop(lock);
        let _lock = slot.lock_exclusively(halt, &own)?;
        if !slot.is_complete() {
            build(needed, package, &slot, shelf, workshop, halt, &own)?;
            built = true;
        }
    }
}

/// Makes sure that a package is in a directory that this run has locked.
pub(super) fn provide_alone(
    needed: &[Needed<'_>],
    index: usize,
    shelf: &Shelf,
    workshop: &Workshop<'_>,
    halt: &Halt<'_>,
    stage: &Stage,
) -> Result<()> {
    let Some(package) = needed.get(index) else { return Ok(()) };
    halt.check()?;
    let slot = shelf.slot(package);
    let own = begin_stage(package, stage);
    if slot.is_complete() {
        own.skip("it is there already");
        return Ok(());
    }
    build(needed, package, &slot, shelf, workshop, halt, &own)?;
    own.finish();
    Ok(())
}

fn begin_stage(package: &Needed<'_>, stage: &Stage) -> Stage {
    let version = package.package.version.as_str();
    // Fingerprints are long; what tells them apart is not.
    let short = version.get(..12).unwrap_or(version);
    let what = if package.package.compiled_for.is_some() { "Unpacking compiled" } else { "Compiling" };
    stage.reporter().stage(format!("{what} package '{}/{short}'", package.package.name))
}

fn build(
    needed: &[Needed<'_>],
    package: &Needed<'_>,
    slot: &Slot,
    shelf: &Shelf,
    workshop: &Workshop<'_>,
    halt: &Halt<'_>,
    stage: &Stage,
) -> Result<()> {
    let dependencies: Vec<Slot> = package
        .dependencies
        .iter()
        .filter_map(|index| needed.get(*index))
        .map(|dependency| shelf.slot(dependency))
        .collect();
    slot.begin(&dependencies)?;
    let made = if package.package.compiled_for.is_some() {
        unpack(package, &slot.target, stage)
    } else {
        compile(package, slot, workshop, halt, stage)
    };
    made.inspect_err(|_| {
        if !workshop.keep_work {
            slot.discard();
        }
    })?;
    slot.finish()
}

fn unpack(package: &Needed<'_>, target: &std::path::Path, stage: &Stage) -> Result<()> {
    let what = format!("the package '{}' of release '{}'", package.package.name, package.release.name);
    // Links may lead to other packages. What is unpacked here will be run as it is: there is nothing to gain by
    // refusing some of it.
    let options = Options { links: Links::Verbatim, ..Options::default() };
    let mut progress = |done, total| stage.progress(done, Some(total), Unit::Bytes);
    archive::unpack_file(&package.package.archive, &what, target, None, &options, &mut progress)?;
    Ok(())
}

fn compile(
    package: &Needed<'_>,
    slot: &Slot,
    workshop: &Workshop<'_>,
    halt: &Halt<'_>,
    stage: &Stage,
) -> Result<()> {
    // A directory of its own above the source, because packaging scripts also use `..`.
    let short = package.key.get(..12).unwrap_or(&package.key);
    let space = workshop.work.join("compile").join(format!("{}-{short}", package.package.name));
    shelf::remove_tree(&space)?;
    shelf::make_directory(&space)?;
    shelf::make_directory(&slot.target)?;
    let source = space.join("source");
    unpack(package, &source, stage)?;
    let run = script::Run { package: package.package, source: &source, slot, workshop, halt, stage };
    let outcome = run.packaging().context(|| {
        format!(
            "package '{}' of the CPI's release '{}' cannot be compiled",
            package.package.name, package.release.name
        )
    });
    match outcome {
        Err(error) if workshop.keep_work && !matches!(error.kind(), crate::ErrorKind::Interrupted(_)) => {
            Err(error.with_hint(format!("it was compiled in '{}'", source.display())))
        }
        Err(error) => {
            shelf::remove_tree(&space)?;
            Err(error)
        }
        Ok(()) if workshop.keep_work => Ok(()),
        Ok(()) => shelf::remove_tree(&space),
    }
}
