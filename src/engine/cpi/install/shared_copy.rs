//! Copies packages that were compiled in a userland from the shared cache or a bundle, and uploads them to
//! the shared cache. Packages of this machine are never shared, because their paths and libraries are its
//! own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::compile::Build;
use super::package_store::{CpiPackageStore, PackageSlot, SlotState, remove_tree};
use super::{CompileSettings, StopCondition};
use crate::cpi::create_private_directory;
use artifact::archive;
use artifact::shared_cache::{BundledPackage, PackageId, PackageKind, SharedPackage, SignedDigest};
use artifact::{Digest, SharedCache};
use base::events::{Stage, Unit};
use base::files::durable::create_private;
use base::{Error, Result};

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

    fn copy(&self, package: &SharedPackage) -> Result<()> {
        let archive = self.prepare_archive_path()?;
        remove_tree(&archive)?;
        let write_error = |error| Error::io(format!("writing '{}'", archive.display()), error);
        let mut file = create_private(&archive).map_err(write_error)?;
        self.stage.log_line("copying it from the shared cache");
        let digest = self
            .compile_settings
            .shared_cache
            .copy_package(package, &mut |part| {
                self.stop_condition.check()?;
                self.stage.progress(part.offset, Some(part.total), Unit::Bytes);
                file.write_all(part.bytes).map_err(write_error)
            })?
            .ok_or_else(|| Error::failure("the shared cache does not provide it"))?;
        unpack(self.slot, &archive, &digest, &package.signed_digest)?;
        remove_tree(&archive)
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
    unpack(&slot, &package.archive, &package.digest, &package.signed_digest)?;
    slot.finish()
}

/// Unpacks a package into its place.
fn unpack(slot: &PackageSlot, archive: &Path, digest: &Digest, signed_digest: &SignedDigest) -> Result<()> {
    let source_name = format!("the compiled package '{}'", slot.name);
    archive::unpack_tree(archive, &source_name, &slot.package_directory, digest)?;
    slot.keep_signature(signed_digest)
}
