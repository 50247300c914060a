//! `cache export`: collects the artifacts of a manifest in a bundle.

use std::fs;
use std::path::PathBuf;

use crate::cpi::create_private_directory;
use crate::cpi_set::{OwnedCpiInputs, ResolvedCpis};
use crate::jobs::Packages;
use crate::prepare;
use crate::prepare::obtain::{self, ArtifactRefs, IdentifyBy};
use crate::run_context::{RunContext, signals};
use artifact::shared_cache::{BundleContent, BundleWriter, SshKey};
use artifact::{Release, Stemcell};
use base::events::Stage;
use base::files::directory::parent;
use base::{Error, Result};
use erb::RendererChoice;
use manifest::Inputs;

/// The request of `cache export`.
pub struct ExportRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--renderer`: the renderer for the templates of CPIs, which are rendered when a CPI is compiled.
    pub renderer_choice: RendererChoice,
    /// The key that signs compiled packages. Without it, the bundle has only downloads.
    pub signing_key: Option<SshKey>,
    /// The path of the new file.
    pub bundle_path: PathBuf,
}

/// Downloads the artifacts of a manifest that this machine lacks, compiles its CPIs that have a userland, and
/// writes all of them into a new file. Packages of jobs are included if they were compiled before.
pub fn export(request: &ExportRequest, run: &RunContext) -> Result<BundleContent> {
    let stage = run.reporter.begin_stage("Collecting artifacts");
    let mut bundle = BundleWriter::create(&request.bundle_path, request.signing_key.as_ref())?;
    let manifest = prepare::load(run, &request.inputs)?;
    let deployment = manifest.deployment()?;
    let manifest_path = &request.inputs.manifest;
    let identify_by = if request.signing_key.is_some() { IdentifyBy::Unpacking } else { IdentifyBy::Reading };
    let refs =
        ArtifactRefs { stemcell: &deployment.stemcell, releases: &deployment.releases, userlands: &[] };
    let (stemcell, releases) =
        obtain::obtain_all(run, &refs, identify_by, None, parent(manifest_path), &stage)?;
    for artifact in std::iter::once(&stemcell).chain(&releases).filter(|artifact| artifact.is_downloaded) {
        signals::check_may_continue(run)?;
        // The manifest needs a digest for every URL.
        if let Some(digest) = &artifact.expected_digest {
            bundle.add_download(digest, &artifact.source.path)?;
        }
    }
    let releases =
        releases.iter().map(|release| release.open_release(run, &stage)).collect::<Result<Vec<Release>>>()?;
    let cpi_inputs = OwnedCpiInputs::for_deployment(
        run,
        request.renderer_choice,
        &deployment,
        manifest.cpis()?,
        manifest_path.clone(),
        releases,
    )?;
    let resolved_cpis = ResolvedCpis::find(run, cpi_inputs.borrowed())?;
    let stemcell = request.signing_key.as_ref().map(|_| stemcell.open_stemcell(run, &stage)).transpose()?;
    let packages = match &stemcell {
        Some(stemcell) => Some(Packages::collect(&deployment, cpi_inputs.borrowed().releases, stemcell)?),
        None => None,
    };
    let packages_and_stemcell = packages.as_ref().zip(stemcell.as_ref());
    for name in resolved_cpis.names() {
        add_cpi(&resolved_cpis, name, packages_and_stemcell, run, &mut bundle, &stage)?;
    }
    // The packages come after the CPIs, which may be compiled in the stemcell.
    if let Some(packages) = packages {
        packages.add_to_bundle(run, &mut bundle)?;
    }
    signals::check_may_continue(run)?;
    let content = bundle.finish()?;
    stage.finish();
    Ok(content)
}

/// Adds the userland of a CPI. With the packages of the VM, adds its packages, too, and puts those that the
/// VM can use into the cache.
fn add_cpi(
    resolved_cpis: &ResolvedCpis<'_>,
    name: Option<&str>,
    vm_packages: Option<(&Packages<'_>, &Stemcell)>,
    run: &RunContext,
    bundle: &mut BundleWriter<'_>,
    stage: &Stage,
) -> Result<()> {
    let Some(userland_ref) = resolved_cpis.userland_of(name)? else { return Ok(()) };
    for (digest, path) in resolved_cpis.download_userland(&userland_ref, stage)? {
        bundle.add_download(&digest, &path)?;
    }
    let Some((vm_packages, stemcell)) = vm_packages else { return Ok(()) };
    let runnable_cpi = resolved_cpis.install(name, stage)?;
    if let Some(cpi_packages) = runnable_cpi.packages_in_stemcell(stemcell) {
        vm_packages.take_from_cpi(run, cpi_packages, stage)?;
    }
    let shareable = runnable_cpi.packages.as_ref().and_then(|packages| packages.shareable.as_ref());
    let directory = run.paths.scratch.join("bundle");
    create_private_directory(&directory)?;
    for package in shareable.into_iter().flat_map(|userland_packages| &userland_packages.packages) {
        signals::check_may_continue(run)?;
        let archive = directory.join(format!("{}.tgz", package.key));
        let digest = package.pack(&archive)?;
        bundle.add_package(&package.package_id(), &package.name, &archive, &digest)?;
        fs::remove_file(&archive)
            .map_err(|error| Error::io(format!("removing '{}'", archive.display()), error))?;
    }
    Ok(())
}
