//! `cache import`: puts the content of a bundle into the cache of this machine.

use std::path::Path;

use crate::cpi::install;
use crate::jobs;
use crate::run_context::{RunContext, signals};
use artifact::Cache;
use artifact::cache::VerifyReport;
use artifact::shared_cache::{Bundle, PackageKind, VerifyingKey};
use base::Result;

/// Verifies the bundle `file`, and puts its entries into the cache of this machine. Packages must be signed
/// by one of `keys`. Entries with a problem are left out.
pub fn import(file: &Path, keys: &[VerifyingKey], run: &RunContext) -> Result<VerifyReport> {
    let stage = run.reporter.begin_stage(format!("Importing '{}'", file.display()));
    let bundle = Bundle::unpack(file, &run.paths.scratch.join("bundle"), &stage)?;
    signals::check_may_continue(run)?;
    let report = bundle.verify(keys)?;
    signals::check_may_continue(run)?;
    bundle.import_downloads(&Cache::open(&run.paths.cache_directory)?, &report)?;
    for package in bundle.packages(keys, &report)? {
        signals::check_may_continue(run)?;
        match package.kind {
            PackageKind::Vm => jobs::import_package(run, &package)?,
            PackageKind::Cpi => {
                let name = bundle.package_name(&package.key)?;
                let (cache, keys) = (&run.paths.cache_directory, &run.shared_cache);
                install::import_package(cache, keys, &package, name, &|| run.signal(), &stage)?;
            }
        }
    }
    stage.finish();
    Ok(report)
}
