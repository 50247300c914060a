//! Looks for a VM of this manifest that is not on record, because the state is lost.
//!
//! A second VM would get the same address. So before the first VM is created, the agent's address is asked
//! once. Only `get_state` and `list_disk` are sent, which change nothing.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::thread;

use serde_json::Value;

use crate::agent_client::{
    AGENT_TIMEOUTS, AgentEndpoint, AgentError, UntrustedCause, create_client_with_timeout, identity,
    resolve_endpoint,
};
use crate::protocol::{DiskCid, ResourceKind};
use crate::run_context::RunContext;
use crate::state::{STATE_SUFFIX, State, Storage, read_versions};
use artifact::ArtifactIdentity;
use base::text::shell_word;
use base::{Error, Result};
use manifest::{Deployment, Inputs};
use net::listener::{self, Listener, OTHER_ADDRESS_HINT};

/// The name of an agent's program.
const AGENT_PROGRAM: &str = "bosh-agent";

/// A server that answers at the agent's address although no VM is on record.
pub(crate) enum UntrackedListener {
    /// An agent that accepts the manifest's credentials.
    Vm {
        agent_id: String,
        /// The CID of its VM, as far as the agent knows.
        vm: Option<String>,
        /// The disks that it has mounted.
        disks: Vec<DiskCid>,
    },
    /// A listener that could not be asked for its id, for example because it rejects our credentials. Holds
    /// the error.
    Other(String),
}

/// The result of looking for a VM that is not on record.
pub(super) struct UntrackedCheck {
    /// The address of the agent.
    pub(super) endpoint: AgentEndpoint,
    /// The reason why the address was not asked, as text for the operator; `None` if the address is known or
    /// a VM is on record.
    pub(super) unchecked_reason: Option<String>,
    /// The listener at the address.
    pub(super) untracked_listener: Option<UntrackedListener>,
}

/// Asks the agent's address while `work` is done. With `is_ignored`, asks nothing.
pub(super) fn check_during<T>(
    run: &RunContext,
    deployment: &Deployment,
    state: &State,
    is_ignored: bool,
    work: impl FnOnce() -> T,
) -> (T, Result<UntrackedCheck>) {
    let endpoint = match resolve_endpoint(run, &deployment.cloud_provider) {
        Ok(endpoint) => endpoint,
        Err(error) => return (work(), Err(error)),
    };
    let unchecked_reason = reason_not_to_check(deployment, &endpoint, state);
    let asks = !is_ignored && unchecked_reason.is_none();
    let (outcome, check_result) = thread::scope(|scope| {
        let check_thread = asks.then(|| scope.spawn(|| check_address(run, &endpoint, state)));
        let outcome = work();
        (
            outcome,
            check_thread.map(|check_thread| check_thread.join().unwrap_or_else(|panic| resume_unwind(panic))),
        )
    });
    let untracked_listener = check_result.transpose().map(Option::flatten);
    (
        outcome,
        untracked_listener.map(|untracked_listener| UntrackedCheck {
            endpoint,
            unchecked_reason,
            untracked_listener,
        }),
    )
}

/// Returns the reason why the address cannot be asked. Returns `None` if it can, or if a VM is on record.
fn reason_not_to_check(deployment: &Deployment, endpoint: &AgentEndpoint, state: &State) -> Option<String> {
    let has_address = |network: &Value| network.get("ip").and_then(Value::as_str) == Some(endpoint.host());
    let has_known_address =
        !deployment.has_dynamic_network() || deployment.vm.networks.values().any(has_address);
    (!has_known_address && has_no_vm(state)).then(|| {
        "Not checked: whether an untracked VM of this manifest exists, because the IaaS assigns its address"
            .to_owned()
    })
}

/// Returns true if a failed call may have made a VM. Later checks look for it.
fn has_suspect_vm(state: &State) -> bool {
    state.monopile.suspects.iter().any(|suspect| suspect.kind == ResourceKind::Vm)
}

/// Returns true if no VM is on record, not even one whose deletion is pending and that may still answer.
fn has_no_vm(state: &State) -> bool {
    state.vms().next().is_none()
}

/// Asks once whether an agent answers at the address, if no VM is on record.
fn check_address(
    run: &RunContext,
    endpoint: &AgentEndpoint,
    state: &State,
) -> Result<Option<UntrackedListener>> {
    if !has_no_vm(state) {
        return Ok(None);
    }
    let agent = create_client_with_timeout(run, endpoint.clone(), state, AGENT_TIMEOUTS.search);
    let agent_state = match agent.get_state() {
        Ok(agent_state) => agent_state,
        Err(error) if error.was_caused_by_this_run() => return Err(error.into()),
        Err(
            error @ (AgentError::Unauthorized { .. }
            | AgentError::Untrusted {
                cause: UntrustedCause::Dates | UntrustedCause::Certificate, ..
            }
            | AgentError::Exception { .. }
            | AgentError::Protocol { .. }),
        ) if !has_suspect_vm(state) => {
            return Ok(Some(UntrackedListener::Other(match error.is_of_other_credentials() {
                true => format!("{error}, so it was deployed with another vars store"),
                false => error.to_string(),
            })));
        }
        Err(error) => {
            tracing::info!(%error, "no agent answers at the address of the new VM");
            return Ok(None);
        }
    };
    let agent_id = identity::id(&agent_state).to_owned();
    if state.suspected_vm(&agent_id).is_some() {
        return Ok(None);
    }
    let vm = identity::vm_cid(&agent_state).map(str::to_owned);
    let disks = agent.list_disk().unwrap_or_default();
    Ok(Some(UntrackedListener::Vm { agent_id, vm, disks }))
}

impl UntrackedListener {
    /// Returns the error of a run that must not create another VM.
    pub(super) fn untracked_error(
        &self,
        run: &RunContext,
        endpoint: &AgentEndpoint,
        inputs: &Inputs,
        stemcell: &ArtifactIdentity,
    ) -> Error {
        let override_hint = "to create a VM regardless: `monopile create-env MANIFEST --ignore-untracked-vm`";
        let (address, storage) = (endpoint.address(), &run.paths.storage);
        match self {
            UntrackedListener::Vm { agent_id, vm, disks } => {
                let disk_note = match disks.as_slice() {
                    [] => "it has no disk mounted".to_owned(),
                    disks => {
                        let names: Vec<&str> = disks.iter().map(DiskCid::as_str).collect();
                        format!("it has mounted disk {}", names.join(", "))
                    }
                };
                let error = Error::failure(format!("an untracked VM answers at {address}"))
                    .with_source(format!(
                        "it accepts the manifest's credentials, but no VM is on record in '{storage}'"
                    ))
                    .with_note(format!("its agent ID is {agent_id}, and {disk_note}"))
                    .with_note("nothing was changed in the IaaS; another VM would get the same address");
                let has_this_agent = |state: &State| state.vm().is_some_and(|vm| vm.agent_id == *agent_id);
                let has_state = storage
                    .resolve_links()
                    .is_ok_and(|storage| State::read(&storage).is_ok_and(|state| state.is_some()));
                let place = if storage.is_shared() { "URL" } else { "FILE" };
                let other_state_hint =
                    format!("if the VM has another state: `monopile SAME-COMMAND --state {place}`");
                let error = match find_state_hint(run, inputs, "this VM", has_this_agent) {
                    Some(hint) => error.with_hint(hint),
                    // `state import` needs a state that does not exist.
                    None if has_state => error.with_hint(other_state_hint),
                    None => {
                        let import = import_command(run, inputs, vm.as_deref(), disks, stemcell);
                        let cids = match vm {
                            Some(_) => "the CID of its stemcell",
                            None => "its CID and that of its stemcell",
                        };
                        error.with_hint(other_state_hint).with_hint(format!(
                            "if its state is lost, find {cids} in the IaaS, and record the VM: `{import}`"
                        ))
                    }
                };
                error
                    .with_hint(match vm {
                        // `delete-vm` needs a state.
                        Some(vm) if has_state => format!(
                            "if no environment uses the VM, delete it: `monopile delete-vm MANIFEST {}`",
                            shell_word(vm)
                        ),
                        _ => "if no environment uses the VM, delete it in the IaaS".to_owned(),
                    })
                    .with_hint(format!("if another environment uses it: {OTHER_ADDRESS_HINT}"))
                    .with_hint(override_hint)
            }
            UntrackedListener::Other(problem) => {
                let owner = find_owner(endpoint);
                let error = Error::failure(format!(
                    "the address {address} is in use, and no VM is on record in '{storage}'"
                ))
                .with_notes(owner.as_ref().map(|owner| format!("{owner} listens there")))
                .with_note(problem.clone());
                let other_address_hint = other_address_hint(endpoint, inputs);
                let has_address =
                    |state: &State| state.vm_addresses().iter().any(|address| address == endpoint.host());
                if let Some(hint) = find_state_hint(run, inputs, "a VM at this address", has_address) {
                    return error.with_hint(hint).with_hint(other_address_hint);
                }
                let error = error.with_hint(
                    "if it is the VM of this environment, pass the state and the vars store of its deploy: \
                     `monopile SAME-COMMAND --state FILE --vars-store FILE`",
                );
                match owner {
                    // The VM of the agent and the disks of the VM may be on record in another state. An agent
                    // that is killed is started again by its VM.
                    Some(Listener::Process { name, .. }) if name == AGENT_PROGRAM => error
                        .with_hint(
                            "to delete the environment of that VM: `monopile delete-env OTHER-MANIFEST`",
                        )
                        .with_hint(other_address_hint),
                    Some(Listener::Process { pid, .. }) => error
                        .with_hint(format!("if process {pid} is not needed: `kill {pid}`"))
                        .with_hint(other_address_hint),
                    // A CPI cannot use an address of this machine that is in use.
                    Some(Listener::ProcessOfUser(_)) => error.with_hint(other_address_hint),
                    None => error.with_hint(other_address_hint).with_hint(override_hint),
                }
            }
        }
    }
}

/// Returns a hint for a kept version of the state, or the state beside the manifest, for which `records` is
/// true. `vm` names the VM.
fn find_state_hint(
    run: &RunContext,
    inputs: &Inputs,
    vm: &str,
    records: impl Fn(&State) -> bool,
) -> Option<String> {
    let storage = run.paths.storage.resolve_links().ok()?;
    let kept_versions = read_versions(&storage).unwrap_or_default();
    if let Some(version) = kept_versions.iter().find(|version| version.state.as_ref().is_ok_and(&records)) {
        let state = shell_word(&storage.to_string()).into_owned();
        return Some(format!(
            "'{}' records {vm}: restore it with `monopile state backup --restore {} --state {state}`",
            version.path_or_url, version.name
        ));
    }
    let stem = inputs.manifest.file_stem()?.to_string_lossy().into_owned();
    let default_path = inputs.manifest.with_file_name(format!("{stem}{STATE_SUFFIX}"));
    let state = State::read(&Storage::from(default_path.as_path())).ok()??;
    let path = default_path.to_string_lossy();
    records(&state)
        .then(|| format!("'{path}' records {vm}: `monopile SAME-COMMAND --state {}`", shell_word(&path)))
}

/// Returns the hint to give the environment another address: for one in the loopback network that stands in
/// the manifest, the command that replaces it by an address where no process listens.
fn other_address_hint(endpoint: &AgentEndpoint, inputs: &Inputs) -> String {
    let command = || {
        let address: Ipv4Addr = endpoint.host().parse().ok().filter(Ipv4Addr::is_loopback)?;
        let [first, second, third, host] = address.octets();
        let manifest = fs::read_to_string(&inputs.manifest).ok()?;
        manifest.contains(&address.to_string()).then_some(())?;
        let is_free = |network: &u8| {
            let other = Ipv4Addr::new(first, second, *network, host).to_string();
            listener::find(&other, endpoint.port()).is_none() && !manifest.contains(&other)
        };
        let network = (third.saturating_add(1)..=u8::MAX).find(is_free)?;
        let path = inputs.manifest.to_string_lossy();
        Some(format!(
            "sed -i 's/{first}\\.{second}\\.{third}\\./{first}.{second}.{network}./g' {}",
            shell_word(&path)
        ))
    };
    match command() {
        Some(command) => format!("to use another address: `{command}`"),
        None => format!("to use another address: {OTHER_ADDRESS_HINT}"),
    }
}

/// Finds the process that listens at the agent's address, if the run connects to it without a proxy.
fn find_owner(endpoint: &AgentEndpoint) -> Option<Listener> {
    listener::find(endpoint.host(), endpoint.port()).filter(|_| !endpoint.has_proxy())
}

/// Returns the command that records the VM. Placeholders for unknown values are in capital letters.
fn import_command(
    run: &RunContext,
    inputs: &Inputs,
    vm: Option<&str>,
    disks: &[DiskCid],
    stemcell: &ArtifactIdentity,
) -> String {
    let mut command = format!("monopile state import {}", shell_word(&inputs.manifest.to_string_lossy()));
    let mut add = |option: &str, value: &str| {
        let _ = write!(command, " {option} {}", shell_word(value));
    };
    inputs.ops_files.iter().for_each(|path| add("-o", &path.to_string_lossy()));
    inputs.vars.iter().for_each(|pair| add("-v", pair));
    inputs.var_files.iter().for_each(|pair| add("--var-file", pair));
    inputs.vars_files.iter().for_each(|path| add("-l", &path.to_string_lossy()));
    inputs.vars_exec.iter().for_each(|program| add("--vars-exec", &program.command_line()));
    inputs.vars_env.iter().for_each(|prefix| add("--vars-env", prefix));
    let path_options = [
        ("--vars-store", &inputs.vars_store),
        ("--cpi-config", &inputs.cpi_config),
        ("--cloud-config", &inputs.cloud_config),
    ];
    for (option, path) in path_options {
        path.iter().for_each(|path| add(option, &path.to_string_lossy()));
    }
    add("--state", &run.paths.storage.to_string());
    add("--vm", vm.unwrap_or("VM-CID"));
    if let [disk] = disks {
        add("--disk", disk.as_str());
    }
    add("--stemcell", &format!("STEMCELL-CID={}/{}", stemcell.name, stemcell.version));
    command
}
