//! `state show`: the records of a state, without secrets.

use serde::Serialize;
use serde_json::Value;

use crate::cpi::Method;
use crate::effects::{Effect, instructions_to_forget};
use crate::protocol::{Contract, DiskCid, RequestId, StemcellCid, VmCid};
use crate::recovery::open_calls::{self, OpenCallStatus};
use crate::run_context::RunContext;
use crate::run_context::state_lock::no_state_error;
use crate::state::{Holder, Journal, SnapshotRecord, State, Storage, Suspect, UndeletedResource, VmHandle};
use base::{Error, ErrorKind, Result};

/// The content of a state and its journal.
#[derive(Debug, Serialize)]
pub struct StateOverview {
    /// The path or URL of the state.
    pub state: String,
    /// The id by which monopile identifies this environment to CPIs and agents.
    pub director_id: String,
    /// True if the last deploy succeeded.
    #[serde(rename = "deployed")]
    pub is_deployed: bool,
    /// The reason why a VM is on record, but the environment does not count as deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undeployed_reason: Option<&'static str>,
    /// The VM on record, if any.
    pub vm: Option<ShownVm>,
    /// Persistent disks, those that are no longer in use included.
    pub disks: Vec<ShownDisk>,
    /// Snapshots of disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotRecord>,
    /// Stemcells, those of earlier deploys included.
    pub stemcells: Vec<ShownStemcell>,
    /// Releases last deployed: `name/version`.
    pub releases: Vec<String>,
    /// Resources that should have been deleted and may still exist.
    pub undeleted: Vec<UndeletedResource>,
    /// The suspects: resources that failed calls may have created.
    pub suspects: Vec<Suspect>,
    /// Calls of earlier runs whose outcome is not on record yet.
    pub open_calls: Vec<ShownCall>,
}

/// The VM on record.
#[derive(Debug, Serialize)]
pub struct ShownVm {
    /// The CID that the CPI assigned.
    pub cid: VmCid,
    /// The name of its CPI; `None` for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The id of its agent, if known.
    pub agent_id: Option<String>,
    /// The instance on it: `bosh/0`.
    pub instance: Option<String>,
    /// The contract under which it was created.
    pub contract: Option<Contract>,
}

/// A persistent disk on record.
#[derive(Debug, Serialize)]
pub struct ShownDisk {
    /// The CID that the CPI assigned.
    pub cid: DiskCid,
    /// The name of its CPI; `None` for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// Its size in MiB.
    pub size: u64,
    /// True if the VM uses it.
    pub in_use: bool,
    /// The disk hint from `attach_disk`, credentials redacted.
    pub hint: Option<Value>,
}

/// A stemcell on record.
#[derive(Debug, Serialize)]
pub struct ShownStemcell {
    /// The CID that the CPI assigned.
    pub cid: StemcellCid,
    /// The name of its CPI; `None` for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The name in `stemcell.MF`.
    pub name: String,
    /// The version in `stemcell.MF`.
    pub version: String,
    /// The `api_version` in `stemcell.MF`; `None` if it is not on record.
    pub api_version: Option<u32>,
    /// True if the VM was made from it.
    pub in_use: bool,
}

/// An open call.
#[derive(Debug, Serialize)]
pub struct ShownCall {
    /// The id of the call, which is also in the CPI's log.
    pub request_id: RequestId,
    /// The CPI method.
    pub method: String,
    /// The name of the CPI; `None` for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The reason for the call.
    pub reason: String,
    /// A description of the resource that it creates, changes or deletes.
    pub target: String,
    /// The process that made the call, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// The way in which the next run treats it.
    #[serde(skip)]
    pub status: OpenCallStatus,
    /// The ids of its processes, if they run on this machine.
    #[serde(skip)]
    pub processes: Vec<u32>,
    /// The steps that look for what it may have created, and forget the call.
    #[serde(skip)]
    pub steps_to_forget: Vec<String>,
}

/// Reads the records at `storage`. Takes no lock, so a concurrent run may already have changed them.
pub fn show(storage: &Storage) -> Result<StateOverview> {
    let storage = storage.resolve_links()?;
    let recorded_calls = Journal::of(&storage).read_open_calls::<Effect>()?;
    let state = match State::read(&storage)? {
        Some(state) => state,
        None if recorded_calls.is_empty() => return Err(no_state_error(&storage)),
        None => State::default(),
    };
    let open_calls = recorded_calls.into_iter().map(|(intent, call)| {
        let status = open_calls::read_status(&state, &intent, &call)?;
        Ok(ShownCall {
            status,
            processes: if status == OpenCallStatus::Running { call.find_processes() } else { Vec::new() },
            steps_to_forget: instructions_to_forget(&intent),
            request_id: intent.request_id,
            method: intent.method,
            cpi: intent.cpi,
            holder: intent.holder,
            target: intent.effect.target(),
            reason: intent.reason,
        })
    });
    let open_calls = open_calls.collect::<Result<_>>()?;
    Ok(overview(&storage, &state, open_calls))
}

/// Returns the VM on record. Without one, fails with a hint that fits the open calls of earlier runs.
pub(crate) fn vm_on_record(run: &RunContext, state: &State) -> Result<VmHandle> {
    if let Some(vm) = state.vm_handle() {
        return Ok(vm);
    }
    let open_calls = show(&run.paths.storage)?.open_calls;
    let hints = hints_for_open_calls(&open_calls, "create-env").unwrap_or_else(|| {
        vec![
            match open_calls.is_empty() {
                true => "create one: `monopile create-env MANIFEST`",
                false => "a run was interrupted; to finish the deploy: `monopile create-env MANIFEST`",
            }
            .to_owned(),
        ]
    });
    Err(Error::invalid("no VM is on record").with_hints(hints))
}

/// Returns the hints for an open call whose outcome is unknown, or whose CPI process still runs. `command`
/// waits for the process.
pub(crate) fn hints_for_open_calls(open_calls: &[ShownCall], command: &str) -> Option<Vec<String>> {
    let find_call = |status| open_calls.iter().find(|call| call.status == status);
    if let Some(call) = find_call(OpenCallStatus::Unknown) {
        let mut steps = call.steps_to_forget.clone();
        if let Some(first_step) = steps.first_mut() {
            first_step.insert_str(0, &format!("the outcome of `{}` is unknown: ", call.method));
        }
        return Some(steps);
    }
    find_call(OpenCallStatus::Running).map(|call| vec![waiting_hint(call, command)])
}

fn waiting_hint(call: &ShownCall, command: &str) -> String {
    format!(
        "the CPI's `{}` of an earlier run is still running; to wait for it: `monopile {command} MANIFEST`",
        call.method
    )
}

/// Replaces the error of an agent that does not answer by one with the cause, if the CPI is still deleting
/// its VM.
pub(crate) fn explain_deletion(error: Error, run: &RunContext, vm: &VmHandle) -> Error {
    if error.kind() != ErrorKind::AgentUnreachable {
        return error;
    }
    let open_calls = show(&run.paths.storage).map(|overview| overview.open_calls).unwrap_or_default();
    let is_deletion =
        |call: &&ShownCall| call.method == Method::DeleteVm.name() && call.status == OpenCallStatus::Running;
    let Some(call) = open_calls.iter().find(is_deletion) else { return error };
    let is_of_deletion = call.holder.as_ref().is_some_and(|holder| holder.command == "delete-env");
    let command = if is_of_deletion { "delete-env" } else { "create-env" };
    Error::new(ErrorKind::AgentUnreachable, format!("the agent of VM {vm} does not answer"))
        .with_source("the VM is being deleted")
        .with_hint(waiting_hint(call, command))
}

/// Collects what the state and the journal record. Disks that the manifest no longer has count as not in use.
fn overview(storage: &Storage, state: &State, open_calls: Vec<ShownCall>) -> StateOverview {
    let vm = state.vm_handle().map(|handle| {
        let vm = state.vm();
        ShownVm {
            cid: handle.cid,
            cpi: handle.cpi,
            agent_id: vm.map(|vm| vm.agent_id.clone()),
            instance: vm.map(|vm| vm.instance.clone()),
            contract: vm.map(|vm| vm.contract),
        }
    });
    let is_detached = state.detached_disk().is_some();
    let disks = state
        .disks
        .iter()
        .map(|disk| ShownDisk {
            cid: disk.cid.clone(),
            cpi: disk.cpi.clone(),
            size: disk.size,
            in_use: disk.id == state.current_disk_id && !is_detached,
            hint: disk.hint.as_ref().map(|hint| without_credentials(hint.as_json())),
        })
        .collect();
    let stemcells = state
        .stemcells
        .iter()
        .map(|stemcell| ShownStemcell {
            cid: stemcell.cid.clone(),
            cpi: stemcell.cpi.clone(),
            name: stemcell.name.clone(),
            version: stemcell.version.clone(),
            api_version: stemcell.api_version,
            in_use: stemcell.id == state.current_stemcell_id,
        })
        .collect();
    StateOverview {
        state: storage.to_string(),
        director_id: state.director_id.clone(),
        is_deployed: !state.current_deploy_digest.is_empty(),
        undeployed_reason: state.unfinished_reason(),
        vm,
        disks,
        snapshots: state.monopile.snapshots.clone(),
        stemcells,
        releases: state
            .current_releases()
            .map(|release| format!("{}/{}", release.name, release.version))
            .collect(),
        undeleted: state.monopile.undeleted.clone(),
        suspects: state.monopile.suspects.clone(),
        open_calls,
    }
}

/// Keys of a hint whose values only locate a disk. Other keys of the agent's `DiskSettings` hold credentials.
const LOCATING_KEYS: [&str; 9] = [
    "path",
    "id",
    "device_id",
    "volume_id",
    "host_device_id",
    "lun",
    "initiator_name",
    "target",
    "file_system_type",
];

/// Redacts every value of a hint unless it only locates the disk.
fn without_credentials(hint: &Value) -> Value {
    match hint {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let value = match value {
                    Value::Object(_) | Value::Array(_) => without_credentials(value),
                    value if LOCATING_KEYS.contains(&key.as_str()) => value.clone(),
                    _ => Value::from("<redacted>"),
                };
                (key.clone(), value)
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::Object(_) => without_credentials(item),
                _ => Value::from("<redacted>"),
            })
            .collect(),
        // A plain hint is a device path or the disk's id.
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn disk_hints_are_shown_without_credentials() {
        assert_eq!(without_credentials(&json!("/dev/sdc")), json!("/dev/sdc"));
        assert_eq!(
            without_credentials(&json!({
                "path": "/dev/sdc",
                "iscsi_settings": {"initiator_name": "iqn", "username": "u", "password": "p", "target": "t"},
                "tokens": ["a", {"lun": 1, "key": "k"}],
            })),
            json!({
                "path": "/dev/sdc",
                "iscsi_settings": {
                    "initiator_name": "iqn", "username": "<redacted>", "password": "<redacted>", "target": "t"
                },
                "tokens": ["<redacted>", {"lun": 1, "key": "<redacted>"}],
            })
        );
    }
}
