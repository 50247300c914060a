//! VMs: creation, deletion, reboot and records. A VM that is being created is in `staging/` until its QEMU
//! runs.
//!
//! A VM exists as long as its directory does, even if it does not run, like a machine that is switched off.
//! `has_vm` answers accordingly.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::accelerator;
use super::command_line::{BASE, CONFIG, EPHEMERAL, EPHEMERAL_DEVICE, Machine, ROOT};
use super::image::Images;
use super::network::{self, UserNetwork};
use super::process;
use super::programs::System;
use super::properties::VmProperties;
use super::rpc::QemuCall;
use super::{disk, stemcell};
use crate::cpi::agent::AgentSettingsInput;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{Cloud, ObjectLock};
use crate::cpi::config_drive;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::files::{read_json, write_json};
use base::JsonObject;

const DOCUMENT_NAME: &str = "vm.json";
const MIB: u64 = 1 << 20;

/// The arguments of `create_vm`.
pub(super) struct VmRequest {
    pub agent_id: String,
    pub stemcell: Cid,
    pub cloud_properties: JsonObject,
    pub networks: JsonObject,
    pub disk_cids: Vec<String>,
    pub env: JsonObject,
}

/// The record of a VM. It does not include `env`, which contains secrets that only the agent needs.
#[derive(Debug, Serialize, Deserialize)]
struct VmRecord {
    cid: String,
    agent_id: String,
    stemcell_cid: String,
    /// The contract under which the VM was created: 1 or 2.
    #[serde(rename = "api_version")]
    contract: u8,
    cloud_properties: JsonObject,
    networks: JsonObject,
    user_network: UserNetwork,
    disk_cids: Vec<String>,
    created_at: String,
    #[serde(default)]
    metadata: JsonObject,
}

/// `create_vm`: returns `[cid, networks]` under contract v2, and the CID alone under contract v1.
pub(super) fn create(call: &mut QemuCall, cloud: &Cloud, wanted: VmRequest) -> CpiResult<Value> {
    let cid = ObjectKind::Vm.new_cid();
    let (properties, system, images, planned, stemcell) = (|| {
        let properties = VmProperties::parse(&wanted.cloud_properties)?;
        let programs = call.programs();
        let (system, images) = (programs.system()?, Images::new(&programs)?);
        let config = &call.config;
        let ports = &properties.ports;
        let planned = network::plan(&cid, &wanted.networks, &config.agent, ports, config.restrict)?;
        Ok((properties, system, images, planned, cloud.require(&wanted.stemcell)?))
    })()
    .map_err(CpiFailure::before_any_effect)?;

    let staged = cloud.stage(&cid)?;
    // After a failure from here on, the staged directory is removed.
    let created = (|| {
        fs::hard_link(stemcell.path.join(stemcell::IMAGE), staged.path.join(BASE))
            .map_err(|error| CpiFailure::io("linking the image of the stemcell", error))?;
        drop(stemcell);
        make_disks(&images, &staged.path, &properties)?;
        let settings = planned.agent.settings(AgentSettingsInput {
            agent_id: &wanted.agent_id,
            vm_cid: cid.as_str(),
            networks: &planned.guest,
            env: wanted.env,
            ntp: &call.config.ntp,
        })?;
        let settings = with_disks(settings, &properties);
        config_drive::create_image(&staged.path.join(CONFIG), cid.as_str(), &settings)?;
        let record = VmRecord {
            cid: cid.to_string(),
            agent_id: wanted.agent_id.clone(),
            stemcell_cid: wanted.stemcell.to_string(),
            contract: if call.is_v2 { 2 } else { 1 },
            cloud_properties: wanted.cloud_properties,
            networks: planned.answered.clone(),
            user_network: planned.user,
            disk_cids: wanted.disk_cids,
            created_at: base::encoding::now(),
            metadata: JsonObject::new(),
        };
        write_json(&staged.path.join(DOCUMENT_NAME), &record)?;
        boot(call, &staged, &cid, &record, &properties, &system)
    })();
    if let Err(failure) = created {
        cloud.sweep_one(staged)?;
        return Err(failure);
    }
    cloud.publish(&cid, staged)?;
    call.log(format_args!("VM '{cid}' created, with agent '{}'", wanted.agent_id));
    Ok(if call.is_v2 { json!([cid.as_str(), planned.answered]) } else { json!(cid.as_str()) })
}

/// Creates the root disk and the ephemeral disk in the VM's directory.
fn make_disks(images: &Images, directory: &Path, properties: &VmProperties) -> CpiResult<()> {
    images.overlay(directory, BASE, ROOT)?;
    let root = directory.join(ROOT);
    if let Some(size) = properties.root_disk_size {
        let least = images.info(&root)?.virtual_size.div_ceil(MIB);
        if size < least {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: cloud property 'root_disk_size' is {size} MiB, and the image of the stemcell has \
                 {least} MiB: set it to {least} or more, or remove it"
            )));
        }
        images.resize(&root, size)?;
    }
    match properties.ephemeral_disk {
        Some(size) => images.create(&directory.join(EPHEMERAL), size),
        None => Ok(()),
    }
}

/// Adds the devices of the VM's own disks to the agent's settings.
fn with_disks(mut settings: JsonObject, properties: &VmProperties) -> JsonObject {
    if let Some(disks) = settings.get_mut("disks")
        && properties.ephemeral_disk.is_some()
    {
        disks["ephemeral"] = json!(EPHEMERAL_DEVICE);
    }
    settings
}

/// `delete_vm`: ends the VM and removes its directory. Its persistent disks are detached by that.
pub(super) fn delete(call: &mut QemuCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let Some(held) = cloud.hold(cid)? else {
        let lost = process::stop_lost(cid.as_str())?;
        let what = if lost { "its process is ended" } else { "nothing to delete" };
        call.log(format_args!("VM '{cid}' does not exist: {what}"));
        return Ok(());
    };
    process::stop(&held.path)?;
    process::stop_lost(cid.as_str())?;
    cloud.discard(cid, held)?;
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(())
}

/// `reboot_vm`: leaves the VM running, even if it was off.
pub(super) fn reboot(call: &mut QemuCall, cloud: &Cloud, cid: &Cid) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    let record = document(&held, cid)?;
    let properties = VmProperties::parse(&record.cloud_properties)?;
    let system = call.programs().system()?;
    process::shut_down(&held.path, call.config.guest_timeout())?;
    record.user_network.check_ports_are_free()?;
    boot(call, &held, cid, &record, &properties, &system)?;
    call.log(format_args!("VM '{cid}' rebooted"));
    Ok(Value::Null)
}

/// `set_vm_metadata`.
pub(super) fn set_metadata(cloud: &Cloud, cid: &Cid, metadata: JsonObject) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    let document = VmRecord { metadata, ..document(&held, cid)? };
    write_json(&held.path.join(DOCUMENT_NAME), &document)?;
    Ok(Value::Null)
}

/// `get_disks`: returns the CIDs of the attached disks.
pub(super) fn disks(cloud: &Cloud, cid: &Cid) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    Ok(json!(disk::of_vm(&held.path)?.iter().map(Cid::as_str).collect::<Vec<_>>()))
}

fn document(held: &ObjectLock, cid: &Cid) -> CpiResult<VmRecord> {
    read_json(&held.path.join(DOCUMENT_NAME))?.ok_or_else(|| {
        let path = held.path.join(DOCUMENT_NAME);
        CpiFailure::cloud(format!("the record of VM '{cid}' is missing: '{}'", path.display()))
    })
}

/// Starts the QEMU of the VM in this directory.
fn boot(
    call: &mut QemuCall,
    held: &ObjectLock,
    cid: &Cid,
    record: &VmRecord,
    properties: &VmProperties,
    system: &System,
) -> CpiResult<()> {
    let (choice, root) = (call.config.accelerator, call.config.root.clone());
    let accelerator = accelerator::choose(choice, system, &root, |line| call.log(line))?;
    let disks = disk::of_vm(&held.path)?;
    let machine = Machine { cid, accelerator, properties, network: &record.user_network, disks: &disks };
    let arguments = machine.arguments();
    let start = process::Start { executable: call.executable, qemu: &system.path, arguments: &arguments };
    process::start(&start, &held.path)
}
