//! Turns the inputs of a request into everything that a plan and its run need, without an effect on the IaaS.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use super::credentials;
use super::obtain::{self, ArtifactRefs, IdentifyBy, LeadingReleases, ObtainedArtifact};
use super::untracked::{self, UntrackedCheck, UntrackedListener};
use crate::agent_client::AgentEndpoint;
use crate::plan::{DesiredDeployment, DesiredLeaf};
use crate::protocol::{BuiltinCpi, DiskHint};
use crate::run_context::RunContext;
use crate::state::{CredentialDigests, RunCredentials, State, VmProperties};
use artifact::{ArtifactIdentity, Release, Stemcell};
use base::error::ResultExt;
use base::events::{Stage, Warning};
use base::secret::Secret;
use base::{Error, Result};
use manifest::deployment::{CpiSource, Deployment, ReleaseRef};
use manifest::variables::VariableOrigin;
use manifest::vars_store::{self, VarsStore};
use manifest::{self, CpiConfig, CpiEntry, Inputs, LoadedManifest, SavePolicy, UserlandRef, VariableValue};

/// A validated manifest with its identified artifacts.
pub(crate) struct PreparedDeployment {
    pub(crate) deployment: Deployment,
    /// The CPI config, if any.
    pub(crate) cpi_config: Option<CpiConfig>,
    pub(crate) deploy_digest: String,
    pub(crate) leaves: Vec<DesiredLeaf>,
    pub(crate) vm_properties: VmProperties,
    /// Salted digests of the values of declared variables.
    pub(crate) credential_digests: Option<CredentialDigests>,
    /// The variables whose values differ from the deployed ones.
    pub(crate) changed_credentials: Vec<String>,
    /// The values of the declared variables in this run, not digested.
    pub(crate) run_credentials: RunCredentials,
    /// The variables whose values this run generated.
    pub(crate) generated_names: Vec<String>,
    /// The vars store, if the environment is deployed and the generated values are still to be saved. A plan
    /// that is not carried out must not change it: the next run would replace the VM to deploy them.
    pub(crate) unsaved_store: Option<VarsStore>,
    /// The address of the agent.
    pub(crate) endpoint: AgentEndpoint,
    /// A check that could not be made, as text for the operator.
    pub(crate) unchecked_reason: Option<String>,
    /// The listener at the address of the agent, if no VM is on record.
    untracked_listener: Option<UntrackedListener>,
    /// The vars store in use, and the variables that are declared with a type.
    vars_store: Option<(PathBuf, Vec<String>)>,
    pub(crate) manifest_path: PathBuf,
    /// The certificate that the agent will present, if the manifest has it.
    pub(crate) mbus_certificate: Option<MbusCertificate>,
    stemcell: ObtainedArtifact,
    releases: Vec<ObtainedArtifact>,
}

/// The certificate of the agent's HTTPS server.
pub(crate) struct MbusCertificate {
    /// The property that holds it.
    pub(crate) property: String,
    pub(crate) pem: String,
    /// The variable that has the certificate.
    pub(crate) variable: Option<VariableOrigin>,
    /// True if the variable is declared with the host of the agent.
    pub(crate) declares_host: bool,
    /// True if the variable is declared as a CA.
    pub(crate) declares_ca: bool,
    /// False if the private key beside it is that of another certificate, and an error if the agent cannot
    /// use that key. True also without a key, and if the certificate cannot be read.
    pub(crate) key_fits: Result<bool>,
}

/// The artifacts, verified and unpacked.
pub(crate) struct OpenedArtifacts {
    pub(crate) stemcell: Stemcell,
    pub(crate) releases: Vec<Release>,
}

/// Reads a manifest and reports its warnings and notes.
pub(crate) fn load(run: &RunContext, inputs: &Inputs) -> Result<LoadedManifest> {
    report_messages(run, manifest::load(inputs, &run.redactor)?)
}

/// Returns the inputs for reading the manifest of the environment with this state, without saving generated
/// values. Marks the environment as deployed if the state has resources.
pub(crate) fn read_only_inputs(inputs: &Inputs, state: &State) -> Inputs {
    Inputs { save_policy: SavePolicy::Never, is_deployed: !state.is_empty_of_resources(), ..inputs.clone() }
}

/// Reads the manifest of a deployed environment for a run that changes nothing in it, and therefore saves no
/// generated values. Fails if the deployed credentials are missing, or others are given in their place.
pub(crate) fn load_deployed(run: &RunContext, inputs: &Inputs, state: &State) -> Result<LoadedManifest> {
    let inputs = read_only_inputs(inputs, state);
    let check = |values: &[VariableValue]| credentials::check_source(run, &inputs, state, values);
    report_messages(run, manifest::load_with_check(&inputs, &run.redactor, &check)?)
}

/// Reads a manifest for a run that only deletes, and therefore saves no generated values. If the deployed
/// credentials are missing, or others are given in their place, warns and returns true: the VM's agent will
/// refuse the run. Fails if they and the addresses are those of another environment.
pub(crate) fn load_to_delete(
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
) -> Result<(LoadedManifest, bool)> {
    let inputs = read_only_inputs(inputs, state);
    let has_other_credentials = Cell::new(false);
    let mut manifest = manifest::load_with_check(&inputs, &run.redactor, &|values| {
        if let Err(error) = credentials::check_source(run, &inputs, state, values) {
            if let Some(other) = credentials::other_environment_error(run, &inputs, state, &error) {
                return Err(other);
            }
            if state.vm_handle().is_some() {
                has_other_credentials.set(true);
                let warning = Warning::new(format!(
                    "{error}: the VM's agent refuses other credentials, so this run deletes the VM without \
                     stopping its jobs"
                ));
                run.reporter.warn(warning.with_hints(error.hints().iter().cloned()));
            }
        }
        Ok(())
    })?;
    // Its notes are about the next deploy.
    manifest.notes.clear();
    Ok((report_messages(run, manifest)?, has_other_credentials.get()))
}

/// Reports the warnings and notes of a manifest.
fn report_messages(run: &RunContext, manifest: LoadedManifest) -> Result<LoadedManifest> {
    for warning in manifest.warnings.iter().chain(&manifest::unknown_keys(&manifest)) {
        run.reporter.warn(warning);
    }
    for note in &manifest.notes {
        run.reporter.note(note);
    }
    Ok(manifest)
}

/// Registers the credentials in a disk hint with the redactor.
pub(crate) fn register_hint_secrets(run: &RunContext, hint: &DiskHint) {
    manifest::register_named_secrets(hint.as_json(), &run.redactor);
}

/// The checks that the operator overrides.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overrides {
    /// `--new-credentials`: deploy other values although the deployed ones are not given.
    pub accepts_new_credentials: bool,
    /// `--ignore-untracked-vm`: create a VM although another one, not on record, has its address.
    pub ignores_untracked_vm: bool,
}

/// Begins to install the CPI of this deployment from its releases, while the other artifacts are obtained.
pub(crate) type BeginInstallation<'a> = &'a dyn Fn(&Deployment, Option<&CpiConfig>, Vec<Release>);

/// Reads and validates the manifest and identifies its artifacts. If `state` has no stemcell on record,
/// unpacks the stemcell at once. Unless `overrides` allows it, fails if the deployed credentials are not
/// given, and looks for a VM that is not on record ([`PreparedDeployment::check_untracked`]).
///
/// If a deploy is certain to need a CPI of releases, obtains these first and calls `begin_installation`.
pub(crate) fn prepare(
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
    overrides: Overrides,
    begin_installation: Option<BeginInstallation<'_>>,
    stage: &Stage,
) -> Result<PreparedDeployment> {
    let is_deployed = !state.is_empty_of_resources();
    let save_policy = match inputs.save_policy {
        SavePolicy::AtOnce if is_deployed => SavePolicy::ByCaller,
        policy => policy,
    };
    let inputs = &Inputs { is_deployed, save_policy, ..inputs.clone() };
    let manifest = manifest::load_with_check(inputs, &run.redactor, &|values| {
        let check_result = credentials::check(run, inputs, state, values);
        if !overrides.accepts_new_credentials {
            return check_result;
        }
        if check_result.is_ok() {
            run.reporter.warn("--new-credentials has no effect: no deployed credential is missing");
        }
        Ok(())
    })?;
    let manifest = report_messages(run, manifest)?;
    let deployment = manifest.deployment()?;
    let cpi_config = manifest.cpis()?;
    let deploy_digest = deploy_digest(&manifest);
    let directory = inputs.manifest.parent().unwrap_or(Path::new(".")).to_owned();
    // In these cases every plan deploys, even with unchanged artifacts.
    let deploys = state.vm_cid().is_none() || state.current_deploy_digest != deploy_digest;
    let obtain = || {
        let identify_by = IdentifyBy::for_state(state);
        let (deployment, config) = (&deployment, cpi_config.as_ref());
        let leading_releases = begin_installation.filter(|_| deploys).map(|begin| LeadingReleases {
            includes: Box::new(move |release| needs_release(deployment, config, release)),
            on_unpacked: Box::new(move |releases| begin(deployment, config, releases)),
        });
        // Without a network, all missing artifacts are reported at once.
        let userland = if run.is_offline && deploys { userland(run, deployment, config) } else { None };
        let refs = ArtifactRefs {
            stemcell: &deployment.stemcell,
            releases: &deployment.releases,
            userlands: &Vec::from_iter(userland),
        };
        obtain::obtain_all(run, &refs, identify_by, leading_releases.as_ref(), &directory, stage)
    };
    let (artifacts, untracked_check) =
        untracked::check_during(run, &deployment, state, overrides.ignores_untracked_vm, obtain);
    let (stemcell, releases) = artifacts?;
    let UntrackedCheck { endpoint, unchecked_reason, untracked_listener } = untracked_check?;
    let (leaves, vm_properties) = (leaves(run, &manifest), vm_properties(&deployment));
    let manifest_path = inputs.manifest.clone();
    let mbus_certificate = mbus_certificate(&manifest, &deployment, endpoint.host());
    let variable_names = || manifest.values.iter().map(|variable| variable.name.clone()).collect();
    let vars_store = manifest.vars_store.clone().map(|path| (path, variable_names()));
    Ok(PreparedDeployment {
        deployment,
        cpi_config,
        deploy_digest,
        leaves,
        vm_properties,
        credential_digests: credentials::digests_of_manifest(&manifest),
        changed_credentials: credentials::changed_credentials(state, &manifest.values),
        run_credentials: (&manifest).into(),
        generated_names: manifest.generated_names,
        unsaved_store: manifest.unsaved_store,
        vars_store,
        endpoint,
        unchecked_reason,
        untracked_listener,
        manifest_path,
        mbus_certificate,
        stemcell,
        releases,
    })
}

/// Returns true if the CPI of the deployment may need this release for its installation. With a CPI config,
/// that is every release, because any release may have the job of a type.
fn needs_release(deployment: &Deployment, config: Option<&CpiConfig>, release: &str) -> bool {
    match (deployment.cpi(), &deployment.cloud_provider.cpi) {
        (Some(name), _) => {
            config.into_iter().flat_map(|config| &config.cpis).any(|cpi| cpi.name == name && is_job(cpi))
        }
        (None, CpiSource::Jobs(jobs)) => config.is_some() || jobs.iter().any(|(_, name)| name == release),
        (None, CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None) => false,
    }
}

/// Returns true if a job of a release implements the CPI, as far as its entry shows.
fn is_job(cpi: &CpiEntry) -> bool {
    cpi.exec_path.is_none() && BuiltinCpi::named(&cpi.kind).is_none()
}

/// Returns the userland in which the CPI of the deployment runs; `None` for this machine.
fn userland(run: &RunContext, deployment: &Deployment, config: Option<&CpiConfig>) -> Option<UserlandRef> {
    let provider = &deployment.cloud_provider;
    let userland_ref = match (deployment.cpi(), &provider.cpi) {
        (Some(name), _) => {
            config?.cpis.iter().find(|cpi| cpi.name == name).filter(|cpi| is_job(cpi))?.userland.as_ref()
        }
        (None, CpiSource::Jobs(_)) => provider.userland.as_ref(),
        (None, CpiSource::Builtin(_) | CpiSource::Path { .. } | CpiSource::None) => return None,
    };
    run.userland(userland_ref)
}

/// Returns the certificate of the agent. The agent takes it from the environment of the VM, or else from the
/// settings that the CPI passes.
fn mbus_certificate(
    manifest: &LoadedManifest,
    deployment: &Deployment,
    host: &str,
) -> Option<MbusCertificate> {
    let cert = deployment.vm.env.get("bosh").map(|bosh| &bosh["mbus"]["cert"]);
    let vm_cert_key = |key: &str| cert.and_then(|cert| cert[key].as_str());
    let cpi_cert = &deployment.cloud_provider.cert;
    let (property, pem, key) = match vm_cert_key("certificate").filter(|pem| !pem.trim().is_empty()) {
        Some(pem) => (format!("{}.bosh.mbus.cert", deployment.vm.env_path), pem, vm_cert_key("private_key")),
        None => (
            "cloud_provider.cert".to_owned(),
            cpi_cert.certificate.as_deref().filter(|pem| !pem.trim().is_empty())?,
            cpi_cert.private_key.as_ref().map(Secret::expose),
        ),
    };
    let key_fits = key.map_or(Ok(None), |key| vars_store::has_key(pem, key));
    let key_fits = key_fits.map(|has_key| has_key != Some(false));
    let variable = manifest.variable_of_certificate(pem).cloned();
    let declares_host =
        variable.as_ref().is_some_and(|variable| manifest.declares_host(&variable.name, host));
    let declares_ca = variable.as_ref().is_some_and(|variable| manifest.declares_ca(&variable.name));
    Some(MbusCertificate { property, pem: pem.to_owned(), variable, declares_host, declares_ca, key_fits })
}

/// Returns the leaves of the manifest. A leaf is secret if the redactor changes its value.
pub(crate) fn leaves(run: &RunContext, manifest: &LoadedManifest) -> Vec<DesiredLeaf> {
    manifest
        .leaves()
        .into_iter()
        .map(|leaf| {
            let is_secret = run.redactor.redact(&leaf.value) != leaf.value;
            DesiredLeaf { path: leaf.path, value: leaf.value, is_secret }
        })
        .collect()
}

/// Returns the VM properties of the manifest. If one other than the tags differs from the record, a new VM is
/// needed.
fn vm_properties(deployment: &Deployment) -> VmProperties {
    // Changed tags need no new VM: they are added to `env` only for the CPI call.
    let mut env = deployment.vm.env.clone();
    if let Some(Value::Object(bosh)) = env.get_mut("bosh") {
        // The agent presents its certificate and does not use the CA, so the VM need not be replaced at the
        // end of a rotation.
        if let Some(cert) = bosh.get_mut("mbus").and_then(|mbus| mbus.get_mut("cert")) {
            remove_ca(cert);
        }
        bosh.remove("tags");
        if bosh.is_empty() {
            env.remove("bosh");
        }
    }
    let provider = &deployment.cloud_provider;
    let property = |key: &str| provider.properties.get(key).cloned().unwrap_or_default();
    let mut cert = provider.cert.to_json();
    remove_ca(&mut cert);
    VmProperties {
        az: json!(deployment.az_name()),
        cloud_properties: deployment.vm.described_cloud_properties(),
        networks: Value::Object(deployment.vm.networks.clone()),
        env: Value::Object(env),
        // Other CPI properties do not reach the VM's agent.
        agent: json!({
            "mbus": provider.mbus.expose(),
            "cert": cert,
            "agent": property("agent"),
            "ntp": property("ntp"),
            "blobstore": property("blobstore"),
        }),
        persistent_disk: json!(deployment.disk.is_some()),
        tags: json!(deployment.tags),
    }
}

fn remove_ca(cert: &mut Value) {
    if let Value::Object(cert) = cert {
        cert.remove("ca");
    }
}

/// Returns the SHA-512 (hex) of everything in the manifest that decides whether a deploy is needed.
pub(crate) fn deploy_digest(manifest: &LoadedManifest) -> String {
    hex::encode(Sha512::digest(manifest::deploy_text(manifest)))
}

/// Checks that the stemcell is the one that the manifest describes.
fn check_stemcell(deployment: &Deployment, stemcell: &Stemcell) -> Result<()> {
    let Stemcell { name, operating_system, version, .. } = stemcell;
    let spec = deployment.stemcell_spec.as_ref();
    spec.map_or(Ok(()), |spec| spec.check(name, operating_system, version))
}

/// Obtains and opens only these releases.
pub(crate) fn open_releases(
    run: &RunContext,
    release_refs: &[ReleaseRef],
    manifest: &Path,
    stage: &Stage,
) -> Result<Vec<Release>> {
    let directory = manifest.parent().unwrap_or(Path::new("."));
    obtain::obtain_releases(run, release_refs, directory, stage)?
        .iter()
        .map(|artifact| artifact.open_release(run, stage))
        .collect()
}

/// Obtains and opens only the stemcell of the manifest.
pub(crate) fn open_stemcell(
    run: &RunContext,
    deployment: &Deployment,
    directory: &Path,
    stage: &Stage,
) -> Result<Stemcell> {
    let stemcell_ref = &deployment.stemcell;
    let artifact = obtain::obtain_stemcell(run, stemcell_ref, IdentifyBy::Unpacking, directory, stage)?;
    let stemcell = artifact.open_stemcell(run, stage)?;
    check_stemcell(deployment, &stemcell)?;
    Ok(stemcell)
}

impl PreparedDeployment {
    pub(crate) fn stemcell_identity(&self) -> &ArtifactIdentity {
        &self.stemcell.identity
    }

    pub(crate) fn release_identities(&self) -> Vec<ArtifactIdentity> {
        self.releases.iter().map(|release| release.identity.clone()).collect()
    }

    /// Removes values from before a rotation from the vars store, because the current ones are deployed.
    pub(crate) fn drop_previous_credentials(&self, run: &RunContext, inputs: &Inputs) {
        let Some((path, names)) = &self.vars_store else { return };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let result = VarsStore::open(path, &inputs.encryption)
            .and_then(|mut store| store.drop_previous_values(&names))
            .context(|| format!("removing replaced credentials from '{}' failed", path.display()));
        if let Err(error) = result {
            run.reporter.warn(&error);
        }
    }

    /// Fails if a VM that is not on record answers at the agent's address. Errors of the manifest come first,
    /// so this is the last check before the first CPI call.
    pub(crate) fn check_untracked(&self, run: &RunContext, inputs: &Inputs) -> Result<()> {
        match &self.untracked_listener {
            Some(listener) => {
                Err(listener.untracked_error(run, &self.endpoint, inputs, self.stemcell_identity()))
            }
            None => Ok(()),
        }
    }

    /// Returns the desired state for a plan.
    pub(crate) fn desired_deployment<'p>(
        &'p self,
        releases: &'p [ArtifactIdentity],
    ) -> DesiredDeployment<'p> {
        DesiredDeployment {
            deploy_digest: &self.deploy_digest,
            leaves: &self.leaves,
            vm_properties: &self.vm_properties,
            stemcell: self.stemcell_identity(),
            releases,
            disk: self.deployment.disk.as_ref(),
            cpi: self.deployment.cpi(),
            az: self.deployment.az.as_ref().map(|az| az.name.as_str()),
        }
    }

    /// Verifies and unpacks the artifacts, and checks the jobs of the manifest against them.
    pub(crate) fn open(&self, run: &RunContext, stage: &Stage) -> Result<OpenedArtifacts> {
        let mut releases = Vec::new();
        for artifact in &self.releases {
            releases.push(artifact.open_release(run, stage)?);
        }
        for job in &self.deployment.group.jobs {
            let release = find_release(&releases, &job.release)?;
            release.job(&job.name).context(|| format!("{} cannot be deployed", job.place))?;
        }
        let stemcell = self.stemcell.open_stemcell(run, stage)?;
        check_stemcell(&self.deployment, &stemcell)?;
        Ok(OpenedArtifacts { stemcell, releases })
    }
}

/// Finds the release with this name. Validation has already rejected unknown names in the manifest.
pub(crate) fn find_release<'r>(releases: &'r [Release], name: &str) -> Result<&'r Release> {
    releases
        .iter()
        .find(|release| release.name == name)
        .ok_or_else(|| Error::invalid(format!("there is no release '{name}' in `releases`")))
}
