//! The packages of a CPI that are compiled in a userland. If that is the stemcell of the VM, the VM can use
//! them.

use std::path::Path;

use super::CpiJob;
use super::key::{CompileSite, package_key};
use super::needed_packages::{self, NeededPackage};
use super::package_store::{CpiPackageStore, PackageSlot};
use super::shared_copy::ShareablePackage;
use crate::cpi::userland::Userland;
use artifact::release::Package;
use artifact::shared_cache::PackageKind;
use artifact::{Algorithm, SharedCache, Stemcell};
use base::Result;

/// Packages that are compiled in a userland, into the cache of this machine.
#[derive(Debug, Clone)]
pub(crate) struct UserlandPackages {
    /// The key of the userland.
    compile_key: String,
    pub(crate) packages: Vec<ShareablePackage>,
}

impl UserlandPackages {
    /// Returns those of `needed_packages`, which must be installed.
    pub(super) fn of(
        needed_packages: &[NeededPackage<'_>],
        package_store: &CpiPackageStore,
        userland: &Userland,
    ) -> Self {
        let packages = shareable_packages(needed_packages, package_store, PackageSlot::is_signed);
        UserlandPackages { compile_key: userland.compile_key(), packages }
    }

    /// Returns those that [`install`](super::install) would provide for `jobs` in a stemcell. Compiles
    /// nothing.
    pub(crate) fn plan(
        jobs: &[CpiJob<'_>],
        stemcell: &Stemcell,
        cache_directory: &Path,
        shared_cache: &SharedCache,
    ) -> Result<Self> {
        let compile_key = stemcell.digest.hex(Algorithm::Sha256).unwrap_or_default().to_owned();
        let needed_packages = needed_packages::find(jobs, &CompileSite::in_userland(&compile_key))?;
        let root = cache_directory.join(PackageKind::Cpi.folder());
        let package_store = CpiPackageStore::open_cache(&root, shared_cache)?;
        let packages =
            shareable_packages(&needed_packages, &package_store, |slot| match slot.is_complete() {
                true => slot.is_signed(),
                false => shared_cache.find_package(&slot.package_id()).is_some(),
            });
        Ok(UserlandPackages { compile_key, packages })
    }

    /// Returns true if the userland is this stemcell, and scripts had no network.
    pub(crate) fn are_compiled_in(&self, stemcell: &Stemcell) -> bool {
        // With a network, the key is longer than the digest.
        stemcell.digest.hex(Algorithm::Sha256) == Some(&self.compile_key)
    }

    /// Returns the key of a package in this userland. Each dependency has its name and its key.
    pub(crate) fn key(&self, package: &Package, dependencies: &[(&str, &str)]) -> String {
        package_key(package, dependencies, &CompileSite::in_userland(&self.compile_key))
    }

    /// Finds a package that this machine compiles itself. One that was copied counts only while the key that
    /// signed it is trusted, so nothing else is made of it.
    pub(crate) fn find_own(&self, key: &str) -> Option<&ShareablePackage> {
        self.packages.iter().find(|package| package.key == key && !package.is_copied)
    }
}

/// Returns the packages that are compiled here, and not by the maker of their release.
fn shareable_packages(
    needed_packages: &[NeededPackage<'_>],
    package_store: &CpiPackageStore,
    is_copied: impl Fn(&PackageSlot) -> bool,
) -> Vec<ShareablePackage> {
    let packages = needed_packages.iter().filter(|package| package.package.compiled_for.is_none());
    let slots = packages.map(|package| package_store.slot(package));
    slots
        .map(|slot| {
            let is_copied = is_copied(&slot);
            ShareablePackage::of(slot, is_copied)
        })
        .collect()
}
