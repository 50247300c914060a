//! `state import`: builds a state from CIDs, for an environment whose state is lost.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::agent_client::{Agent, create_client, resolve_endpoint};
use crate::cpi_set::{self, CpiConnection, Cpis, OwnedCpiInputs, Presence};
use crate::prepare;
use crate::protocol::{DiskCid, EmptyCid, StemcellCid, VmCid};
use crate::run_context::{RunContext, state_lock};
use crate::state::{
    Change, DiskHandle, DiskRecord, Resource, State, StemcellRecord, Storage, VmHandle, VmRecord,
};
use base::events::{Stage, Warning};
use base::text;
use base::{Error, Result};
use erb::RendererChoice;
use manifest::{Deployment, Inputs, SavePolicy};

/// The request of `state import`.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--vm`: the VM's CID.
    pub vm: Option<VmCid>,
    /// `--disk`: the CID of the persistent disk. There is only one, because a create-env deletes every other
    /// disk on record.
    pub disk: Option<DiskCid>,
    /// `--stemcell`: the stemcells; the VM was made from the first one.
    pub stemcells: Vec<ImportedStemcell>,
    /// `--stemcell-api-version`: the `api_version` in `stemcell.MF`.
    pub stemcell_api_version: u32,
    /// `--renderer`: the renderer for the CPI's templates.
    pub renderer_choice: RendererChoice,
    /// `--cpi-api-version`: the highest API version to use with the CPI.
    pub cpi_api_version: Option<u32>,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
}

/// A stemcell to record: `CID=NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedStemcell {
    /// The CID in the cloud of the environment's CPI.
    pub cid: StemcellCid,
    /// The name, as in `stemcell.MF`.
    pub name: String,
    /// The version, as in `stemcell.MF`.
    pub version: String,
}

impl std::str::FromStr for ImportedStemcell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A CID may contain `=`. Name and version may not, and a version has no `/`.
        let parts = text
            .rsplit_once('=')
            .and_then(|(cid, identity)| identity.rsplit_once('/').map(|(name, version)| [cid, name, version]))
            .filter(|parts| parts.iter().all(|part| !part.trim().is_empty()));
        match parts {
            Some([cid, name, version]) => {
                let cid = cid.parse().map_err(|error: EmptyCid| error.to_string())?;
                Ok(ImportedStemcell { cid, name: name.into(), version: version.into() })
            }
            None => Err("expected CID=NAME/VERSION".to_owned()),
        }
    }
}

/// Builds a state, writes it if none exists yet, and returns a summary in one sentence.
pub fn import(request: &ImportRequest, run: &RunContext) -> Result<String> {
    let mut store = state_lock::open(run, "state import")?;
    if store.has_state() {
        return Err(Error::invalid(format!("the state '{}' exists already", store.storage()))
            .with_note("nothing was changed")
            .with_hint("see what it records: `monopile state show MANIFEST`")
            .with_hint(replacement_hint(store.storage())));
    }
    let validating = run.reporter.begin_stage("Validating");
    // An agent knows no newly generated credentials.
    let inputs = Inputs { save_policy: SavePolicy::Never, ..request.inputs.clone() };
    let manifest = prepare::load(run, &inputs)?;
    let deployment = manifest.deployment()?;
    let cpi_inputs =
        OwnedCpiInputs::open(run, &request.inputs, request.renderer_choice, &manifest, &validating)?;
    let endpoint = resolve_endpoint(run, &cpi_inputs.provider)?;
    cpi_set::check_az(cpi_inputs.config.as_ref(), deployment.az.as_ref())?;
    let mut state = store.state().clone();
    record_disk_and_stemcells(&mut state, request, &deployment)?;
    let cpi = deployment.cpi();
    let mut cpis = Cpis::find(run, cpi_inputs.borrowed(), &state, request.cpi_api_version)?;
    cpis.use_stemcell(cpi, request.stemcell_api_version);
    cpis.install(cpi, &validating)?;
    validating.finish();

    let asking = run.reporter.begin_stage("Asking the CPI what exists");
    let connection = cpis.connect(cpi, &asking)?;
    let contract = connection.contract();
    let vm = request.vm.clone().map(|cid| VmHandle::new(cid, cpi));
    for resource in state.resources().chain(vm.clone().map(Resource::Vm)) {
        check(&connection, &asking, &resource)?;
    }
    asking.finish();

    if let Some(handle) = vm {
        let agent = create_client(run, endpoint, &state);
        let agent_identity = ask_agent(run, request, &agent)?;
        let mounted_disks =
            agent_identity.as_ref().and_then(|agent_identity| agent_identity.mounted_disks.as_deref());
        if let Some(cid) = choose_disk_to_adopt(run, request, &deployment, mounted_disks)? {
            let disk = Resource::Disk(record_disk(&mut state, cid, &deployment)?);
            let asking = run.reporter.begin_stage(format!("Asking the CPI for {disk}"));
            check(&connection, &asking, &disk)?;
            asking.finish();
            run.reporter.note(format!("{disk} is mounted on the VM, so it is recorded too"));
        }
        let vm = agent_identity.map(|AgentIdentity { id: agent_id, .. }| {
            let instance = deployment.instance();
            Box::new(VmRecord {
                cid: handle.cid.clone(),
                agent_id,
                contract,
                networks: None,
                cpi: handle.cpi.clone(),
                instance,
                ssh_host_key: None,
                property_digests: None,
                is_ready: false,
                unknown_keys: Map::new(),
            })
        });
        apply(&mut state, Change::VmAdopted { handle, vm })?;
    }
    let summary = describe_import(&state, deployment.disk.is_some());
    store.commit(Change::Replaced(Box::new(state)))?;
    Ok(format!("Recorded in '{}': {summary}", store.storage()))
}

/// Returns the hint for a state that exists already.
fn replacement_hint(storage: &Storage) -> String {
    let place = text::shell_word(&storage.to_string()).into_owned();
    match storage.is_shared() {
        true => "to record the environment in another one: `monopile SAME-COMMAND --state URL`".to_owned(),
        false => {
            format!(
                "if that environment no longer exists, move its state away: `mv {place} {place}.old`; then \
                 run the same command again"
            )
        }
    }
}

/// Lists the records of an imported state, and says what the next create-env does with them. `wants_disk` is
/// true if the manifest has a persistent disk.
fn describe_import(state: &State, wants_disk: bool) -> String {
    let resources: Vec<String> = state.resources().map(|resource| resource.to_string()).collect();
    let vm = if state.vm_handle().is_some() { "replaces the VM" } else { "creates a VM" };
    let next_deploy = match state.current_disk() {
        Some(disk) => format!("The next create-env {vm}, with disk {}", disk.handle()),
        None if wants_disk => format!(
            "No disk is on record: the next create-env {vm}, with an empty disk. To use an existing disk: \
             `monopile attach-disk MANIFEST CID`"
        ),
        None => format!("The next create-env {vm}"),
    };
    format!("{}. {next_deploy}", text::and_list(&resources))
}

/// Returns the disk to record if the command line names none. `mounted_disks` are the disks that the agent
/// has mounted, if known. Fails if the record would lose a disk.
fn choose_disk_to_adopt<'m>(
    run: &RunContext,
    request: &ImportRequest,
    deployment: &Deployment,
    mounted_disks: Option<&'m [DiskCid]>,
) -> Result<Option<&'m DiskCid>> {
    let wants_disk = deployment.disk.is_some();
    let Some(mounted_disks) = mounted_disks else {
        if wants_disk && request.disk.is_none() {
            run.reporter.warn(
                Warning::new(
                    "the VM's disks are unknown, because its agent gave no list: the next create-env creates \
                     an empty one",
                )
                .with_hint("if the VM has a persistent disk: `monopile SAME-COMMAND --disk CID`"),
            );
        }
        return Ok(None);
    };
    let unnamed_cids: Vec<&DiskCid> =
        mounted_disks.iter().filter(|cid| Some(*cid) != request.disk.as_ref()).collect();
    let refuse = |reason: String, hint: &str| {
        Err(Error::invalid(format!("the disks of the VM cannot be recorded: {reason}"))
            .with_note("nothing was changed")
            .with_hint(hint))
    };
    let names = unnamed_cids.iter().map(|cid| format!("'{cid}'")).collect::<Vec<_>>().join(", ");
    match (unnamed_cids.as_slice(), &request.disk) {
        ([], Some(_)) => Ok(None),
        ([], None) if wants_disk => refuse(
            "the manifest has a persistent disk, but the agent has none mounted".to_owned(),
            "find the disk in the IaaS, and name it with --disk; without --vm only the disk is recorded, and \
             the VM must be deleted in the IaaS",
        ),
        ([], None) => Ok(None),
        (_, _) if !wants_disk => refuse(
            format!("the agent has disk {names} mounted, but the manifest has no persistent disk"),
            "give the instance group the persistent disk with which it was deployed",
        ),
        ([cid], None) => Ok(Some(cid)),
        (_, Some(chosen_disk)) => refuse(
            format!("--disk names '{chosen_disk}', but the agent has disk {names} mounted"),
            "name the disk that the VM uses",
        ),
        (_, None) => refuse(
            format!("the agent has several disks mounted: {names}"),
            "delete the VM in the IaaS, and record only the disk with the data: --disk without --vm",
        ),
    }
}

/// Records the disk and the stemcells as the manifest describes them.
fn record_disk_and_stemcells(
    state: &mut State,
    request: &ImportRequest,
    deployment: &Deployment,
) -> Result<()> {
    for (index, stemcell) in request.stemcells.iter().enumerate() {
        let id = uuid::Uuid::new_v4().to_string();
        let record = StemcellRecord {
            id: id.clone(),
            name: stemcell.name.clone(),
            version: stemcell.version.clone(),
            api_version: Some(request.stemcell_api_version),
            cid: stemcell.cid.clone(),
            cpi: deployment.cpi().map(str::to_owned),
            digest: None,
            is_kept: false,
            unknown_keys: Map::new(),
        };
        apply(state, Change::StemcellCreated(record))?;
        if index == 0 {
            apply(state, Change::StemcellUsed { id })?;
        }
    }
    if let Some(cid) = &request.disk {
        record_disk(state, cid, deployment)?;
    }
    Ok(())
}

/// Records a disk as the manifest describes it, and returns its handle.
fn record_disk(state: &mut State, cid: &DiskCid, deployment: &Deployment) -> Result<DiskHandle> {
    let Some(spec) = &deployment.disk else {
        return Err(Error::invalid(format!("--disk names '{cid}', but the manifest has no persistent disk"))
            .with_hint("add the persistent disk to the instance group, or leave out --disk"));
    };
    let record = DiskRecord {
        id: uuid::Uuid::new_v4().to_string(),
        cid: cid.clone(),
        size: spec.size,
        cloud_properties: spec.cloud_properties.clone(),
        hint: None,
        cpi: deployment.cpi().map(str::to_owned),
        az: deployment.az.as_ref().map(|az| az.name.clone()),
        vm_at_replacement: None,
        unknown_keys: Map::new(),
    };
    let handle = record.handle();
    apply(state, Change::DiskCreated(record))?;
    apply(state, Change::DiskUsed(handle.clone()))?;
    Ok(handle)
}

fn apply(state: &mut State, change: Change) -> Result<()> {
    state.apply(change).map_err(|error| Error::invalid("the state cannot record this").with_source(error))
}

fn check(connection: &CpiConnection<'_>, stage: &Stage, resource: &Resource) -> Result<()> {
    match connection.ask_presence(stage, resource)? {
        Presence::Exists => Ok(()),
        Presence::Gone => Err(Error::invalid(format!("the CPI does not find {resource}"))
            .with_note("nothing was changed")
            .with_hint(
                "correct the CID, or the account, region or project in the properties of the manifest's CPI",
            )),
        Presence::Unknown(doubt) => {
            stage.reporter().warn(format!("{resource} is recorded without a check: {doubt}"));
            Ok(())
        }
    }
}

/// The answers of the VM's agent.
struct AgentIdentity {
    id: String,
    /// The disks that it has mounted; `None` if it does not report them.
    mounted_disks: Option<Vec<DiskCid>>,
}

/// Asks the VM's agent for its id and its disks. Returns `None` if it does not answer.
fn ask_agent(run: &RunContext, request: &ImportRequest, agent: &Agent) -> Result<Option<AgentIdentity>> {
    let asking = run.reporter.begin_stage("Asking the agent for its ID");
    let agent_state = agent
        .wait_until_ready(request.agent_timeout, &mut |problem| asking.log_line(problem))
        .and_then(|()| agent.get_state());
    let id = match agent_state {
        Ok(agent_state) => {
            agent_state.get("agent_id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned)
        }
        Err(error) if error.was_caused_by_this_run() => return Err(error.into()),
        Err(error) => {
            asking.give_up(format!("it does not answer: {error}"));
            run.reporter.warn(
                "the agent does not answer, so its ID is unknown: until the next create-env, any agent at \
                 its address is accepted",
            );
            return Ok(None);
        }
    };
    let agent_identity = id.map(|id| AgentIdentity { id, mounted_disks: agent.list_disk().ok() });
    asking.finish();
    Ok(agent_identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_stemcells_on_the_command_line() {
        let stemcell: ImportedStemcell = "ami=1 light=bosh-aws/jammy/1.2".parse().unwrap();
        assert_eq!(
            stemcell,
            ImportedStemcell {
                cid: "ami=1 light".parse().unwrap(),
                name: "bosh-aws/jammy".into(),
                version: "1.2".into()
            }
        );
        for bad_text in ["", "ami", "ami=", "ami=jammy", "=jammy/1", "ami=/1", "ami=jammy/", " =jammy/1"] {
            bad_text.parse::<ImportedStemcell>().unwrap_err();
        }
    }
}
