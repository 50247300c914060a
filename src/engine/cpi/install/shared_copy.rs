//! Copies packages that were compiled in a userland from the shared cache or a bundle, and uploads them to
//! the shared cache. Packages of this machine are never shared, because their paths and libraries are its
//! own.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::compile::Build;
use super::package_store::{CpiPackageStore, PackageSlot, SlotState, remove_tree};
use super::{CompileSettings, StopCondition};
use crate::cpi::create_private_directory;
use artifact::archive;
use artifact::shared_cache::{BundledPackage, PackageId, PackageKind, SharedPackage};
use artifact::{Digest, SharedCache};
use base::events::{Stage, Unit};
use base::{Error, Result};

/// The number of parts of a package that may wait to be unpacked. It bounds the memory.
const MAX_WAITING_PARTS: usize = 2;

impl Build<'_, '_> {
    /// Copies the package from the shared cache. Returns false if it must be compiled.
    pub(super) fn copy_shared(&self) -> Result<bool> {
        if self.compile_settings.userland.is_none() {
            return Ok(false);
        }
        let Some(package) = self.compile_settings.shared_cache.find_package(&self.slot.package_id()) else {
            return Ok(false);
        };
        let result = self.copy(&package);
        if let Err(error) = &result {
            self.stop_condition.check()?;
            tracing::debug!(?error, "a package of the CPI is not copied");
            remove_tree(&self.slot.package_directory)?;
        }
        Ok(result.is_ok())
    }

    /// Unpacks the package while it arrives. It gets to its place only if all of it has the signed digest.
    fn copy(&self, package: &SharedPackage) -> Result<()> {
        self.stage.log_line("copying it from the shared cache");
        let (sender, receiver) = sync_channel::<Vec<u8>>(MAX_WAITING_PARTS);
        let (copy_result, unpack_result) = thread::scope(|scope| {
            let parts = PartReader { receiver, part: Cursor::default() };
            let unpack_thread = scope.spawn(move || unpack(self.slot, parts, &package.digest));
            let copy_result = self.compile_settings.shared_cache.copy_package(package, &mut |part| {
                self.stop_condition.check()?;
                self.stage.report_progress(part.offset, Some(part.total), Unit::Bytes);
                // An archive that cannot be unpacked is read to its end, because a wrong digest is a warning.
                let _ = sender.send(part.bytes.to_vec());
                Ok(())
            });
            drop(sender);
            (copy_result, unpack_thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        copy_result?.ok_or_else(|| Error::failure("the shared cache does not provide it"))?;
        unpack_result?;
        self.slot.keep_signature(&package.signed_digest)
    }

    /// Packs a package that was compiled, and uploads it to the shared cache. A failure is only a warning.
    pub(super) fn upload_shared(&self) {
        let CompileSettings { userland, shared_cache, .. } = self.compile_settings;
        if userland.is_none() || !shared_cache.uploads_packages() {
            return;
        }
        let result = self
            .prepare_archive_path()
            .and_then(|archive| Ok((archive::pack_tree(&self.slot.package_directory, &archive)?, archive)));
        match result {
            Ok((digest, archive)) => {
                shared_cache.upload_package(&self.slot.package_id(), &archive, &digest);
            }
            Err(error) => self.stage.reporter().warn(format!(
                "package '{}' of the CPI is not uploaded to the shared cache: {}",
                self.slot.name,
                error.chain().join(": ")
            )),
        }
    }

    /// Returns the path of the archive of the package in the scratch directory.
    fn prepare_archive_path(&self) -> Result<PathBuf> {
        let directory = self.compile_settings.scratch.join("shared");
        create_private_directory(&directory)?;
        Ok(directory.join(format!("{}.tgz", self.package.key)))
    }
}

/// A package that was compiled in a userland and is in the cache of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareablePackage {
    pub(crate) name: String,
    pub(crate) key: String,
    /// True if it was copied from a shared cache or a bundle.
    pub(super) is_copied: bool,
    package_directory: PathBuf,
}

impl ShareablePackage {
    pub(super) fn of(slot: PackageSlot, is_copied: bool) -> Self {
        let package_directory = slot.package_directory.clone();
        let (name, key) = slot.into_name_and_key();
        ShareablePackage { name, key, is_copied, package_directory }
    }

    /// Packs it into the archive `path`, and returns the digest of the archive.
    pub(crate) fn pack(&self, path: &Path) -> Result<Digest> {
        archive::pack_tree(&self.package_directory, path)
    }

    /// Returns the id in a shared cache.
    pub(crate) fn package_id(&self) -> PackageId<'_> {
        PackageId { kind: PackageKind::Cpi, key: &self.key }
    }
}

/// Puts the package `name` of a bundle into the cache of this machine, unless it is there. `shared_cache` has
/// the trusted keys.
pub(crate) fn import_package(
    cache_directory: &Path,
    shared_cache: &SharedCache,
    package: &BundledPackage,
    name: String,
    signal_check: &(dyn Fn() -> Option<u8> + Sync),
    stage: &Stage,
) -> Result<()> {
    let root = cache_directory.join(PackageKind::Cpi.folder());
    let slot = CpiPackageStore::open_cache(&root, shared_cache)?.slot_of(name, package.key.clone());
    let stop_condition = StopCondition { signal_check, has_failed: AtomicBool::new(false) };
    let _lock = slot.lock_exclusively(&stop_condition, stage)?;
    if slot.state()? == SlotState::Whole {
        return Ok(());
    }
    slot.begin(&[])?;
    let path = &package.archive;
    let archive =
        File::open(path).map_err(|error| Error::io(format!("reading '{}'", path.display()), error))?;
    unpack(&slot, archive, &package.digest)?;
    slot.keep_signature(&package.signed_digest)?;
    slot.finish()
}

/// Unpacks a package into its place.
fn unpack(slot: &PackageSlot, archive: impl Read, digest: &Digest) -> Result<()> {
    let source_name = format!("the compiled package '{}'", slot.name);
    archive::unpack_tree(archive, &source_name, &slot.package_directory, digest)
}

/// The parts of a package, in order, read as one stream.
struct PartReader {
    receiver: Receiver<Vec<u8>>,
    part: Cursor<Vec<u8>>,
}

impl Read for PartReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.part.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        // The sender is dropped after the last part.
        let Ok(next_part) = self.receiver.recv() else { return Ok(0) };
        self.part = Cursor::new(next_part);
        self.part.read(buffer)
    }
}
