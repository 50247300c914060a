//! Copies packages that were compiled in a userland from the shared cache, and uploads them to it. Packages
//! of this machine are never shared, because their paths and libraries are its own.

use std::io::Write;
use std::path::PathBuf;

use super::CompileSettings;
use super::compile::Build;
use super::package_store::remove_tree;
use crate::cpi::create_private_directory;
use artifact::archive;
use artifact::shared_cache::SharedPackage;
use base::events::Unit;
use base::files::durable::create_private;
use base::{Error, Result};

impl Build<'_, '_> {
    /// Copies the package from the shared cache. Returns false if it must be compiled.
    pub(super) fn copy_shared(&self) -> Result<bool> {
        if self.compile_settings.userland.is_none() {
            return Ok(false);
        }
        let Some(package) = self.compile_settings.shared_cache.find_package(&self.slot.shared_name()) else {
            return Ok(false);
        };
        let copied = self.copy(&package);
        if let Err(error) = &copied {
            self.stop_condition.check()?;
            tracing::debug!(?error, "a package of the CPI is not copied");
            remove_tree(&self.slot.target)?;
        }
        Ok(copied.is_ok())
    }

    fn copy(&self, package: &SharedPackage) -> Result<()> {
        let archive = self.shared_archive()?;
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
        let source_name = format!("the compiled package '{}'", self.slot.name);
        archive::unpack_tree(&archive, &source_name, &self.slot.target, &digest)?;
        remove_tree(&archive)?;
        self.slot.keep_signature(&package.signed_digest)
    }

    /// Packs a package that was compiled, and uploads it to the shared cache. A failure is only a warning.
    pub(super) fn upload_shared(&self) {
        let CompileSettings { userland, shared_cache, .. } = self.compile_settings;
        if userland.is_none() || !shared_cache.uploads_packages() {
            return;
        }
        let packed = self
            .shared_archive()
            .and_then(|archive| Ok((archive::pack_tree(&self.slot.target, &archive)?, archive)));
        match packed {
            Ok((digest, archive)) => {
                shared_cache.upload_package(&self.slot.shared_name(), &archive, &digest);
            }
            Err(error) => self.stage.reporter().warn(format!(
                "package '{}' of the CPI is not uploaded to the shared cache: {}",
                self.slot.name,
                error.chain().join(": ")
            )),
        }
    }

    /// Returns the path of the archive of the package in the scratch directory.
    fn shared_archive(&self) -> Result<PathBuf> {
        let directory = self.compile_settings.work.join("shared");
        create_private_directory(&directory)?;
        Ok(directory.join(format!("{}.tgz", self.package.key)))
    }
}
