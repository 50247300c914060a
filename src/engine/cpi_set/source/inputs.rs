//! The inputs from which CPIs are found: parts of the manifest, the CPI config and the releases.

use std::path::{Path, PathBuf};

use super::jobs;
use crate::protocol::BuiltinCpi;
use crate::run_context::RunContext;
use crate::{prepare, templates};
use artifact::Release;
use base::Result;
use base::events::Stage;
use erb::{ChosenRenderer, Renderer, RendererChoice};
use manifest::deployment::{CloudProvider, CpiSource, ReleaseRef};
use manifest::{CpiConfig, Deployment, Inputs, LoadedManifest};

/// The inputs from which CPIs are found, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct CpiInputs<'a> {
    /// The section `cloud_provider`, which defines the default CPI.
    pub(crate) provider: &'a CloudProvider,
    /// The CPI config, if there is one.
    pub(crate) config: Option<&'a CpiConfig>,
    pub(crate) environment_name: &'a str,
    /// The manifest file, to which paths are relative.
    pub(crate) manifest: &'a Path,
    /// At least the releases with jobs of CPIs.
    pub(crate) releases: &'a [Release],
    /// The renderer for the templates of these jobs.
    pub(crate) renderer: &'a dyn Renderer,
}

/// The owner of [`CpiInputs`], for commands that need nothing else of the manifest. It opens only the
/// releases of CPIs, so other releases may be missing.
pub(crate) struct OwnedCpiInputs {
    pub(crate) provider: CloudProvider,
    pub(crate) config: Option<CpiConfig>,
    environment_name: String,
    manifest: PathBuf,
    releases: Vec<Release>,
    renderer: ChosenRenderer,
}

impl OwnedCpiInputs {
    /// Reads the CPI sections of the manifest and opens the releases of CPIs.
    pub(crate) fn open(
        run: &RunContext,
        inputs: &Inputs,
        renderer_choice: RendererChoice,
        manifest: &LoadedManifest,
        stage: &Stage,
    ) -> Result<Self> {
        let provider = manifest.provider()?;
        let config = manifest.cpis()?;
        let releases = open_releases(run, inputs, manifest, &provider, config.as_ref(), stage)?;
        Ok(OwnedCpiInputs {
            provider,
            config,
            environment_name: manifest
                .root
                .get("name")
                .and_then(yaml::Node::as_str)
                .unwrap_or_default()
                .to_owned(),
            manifest: inputs.manifest.clone(),
            releases,
            renderer: templates::create_run_renderer(run, renderer_choice)?,
        })
    }

    /// Returns the inputs of a deployment, whose CPIs are in these releases.
    pub(crate) fn for_deployment(
        run: &RunContext,
        renderer_choice: RendererChoice,
        deployment: &Deployment,
        config: Option<CpiConfig>,
        manifest: PathBuf,
        releases: Vec<Release>,
    ) -> Result<Self> {
        Ok(OwnedCpiInputs {
            provider: deployment.cloud_provider.clone(),
            config,
            environment_name: deployment.name.clone(),
            manifest,
            releases,
            renderer: templates::create_run_renderer(run, renderer_choice)?,
        })
    }

    /// Borrows the inputs.
    pub(crate) fn borrowed(&self) -> CpiInputs<'_> {
        CpiInputs {
            provider: &self.provider,
            config: self.config.as_ref(),
            environment_name: &self.environment_name,
            manifest: &self.manifest,
            releases: &self.releases,
            renderer: &self.renderer,
        }
    }
}

/// Opens the releases of the default CPI, and as many others as are needed to find every type of the config.
/// Those with "cpi" in their names come first.
fn open_releases(
    run: &RunContext,
    inputs: &Inputs,
    manifest: &LoadedManifest,
    provider: &CloudProvider,
    config: Option<&CpiConfig>,
    stage: &Stage,
) -> Result<Vec<Release>> {
    let has_cpi_job = |name: &str| match &provider.cpi {
        CpiSource::Jobs(jobs) => jobs.iter().any(|(_, release)| release == name),
        CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None => false,
    };
    let open_refs =
        |release_refs: &[ReleaseRef]| prepare::open_releases(run, release_refs, &inputs.manifest, stage);
    let mut releases = open_refs(&Deployment::parse_releases(&manifest.root, &has_cpi_job)?)?;
    let types = || config.into_iter().flat_map(|config| &config.cpis).filter(|cpi| cpi.exec_path.is_none());
    if types().next().is_none() {
        return Ok(releases);
    }
    let mut other_refs = Deployment::parse_releases(&manifest.root, &|name| !has_cpi_job(name))?;
    let is_named_like_cpi = |release: &ReleaseRef| release.name.contains("cpi");
    other_refs.sort_by_key(|release| !is_named_like_cpi(release));
    for release in &other_refs {
        let mut missing_types = types()
            .filter(|cpi| !releases.iter().any(|known_release| jobs::has_type(known_release, &cpi.kind)))
            .peekable();
        if missing_types.peek().is_none() {
            break;
        }
        let are_all_builtin = missing_types.all(|cpi| BuiltinCpi::named(&cpi.kind).is_some());
        match open_refs(std::slice::from_ref(release)) {
            Ok(new_releases) => releases.extend(new_releases),
            // Every missing type is also a built-in CPI, so a release that does not look like a CPI may be
            // unreadable.
            Err(error) if are_all_builtin && !is_named_like_cpi(release) => {
                tracing::info!(release = release.name, problem = %error.chain().join(": "),
                    "this release was not searched for CPIs");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(releases)
}
