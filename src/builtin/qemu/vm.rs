//! VMs: creation, deletion, reboot and records. A VM that is being created is in `staging/` until its QEMU
//! runs.
//!
//! A VM exists as long as its directory does, even if it does not run, like a machine that is switched off.
//! `has_vm` answers true as long as the directory exists.

use std::fs;

use serde_json::{Value, json};

use super::accelerator;
use super::command_line::{
    BASE_IMAGE_FILE, CONFIG_IMAGE_FILE, EPHEMERAL_DEVICE, EPHEMERAL_IMAGE_FILE, Machine, ROOT_IMAGE_FILE,
    extra_device, extra_image,
};
use super::image::QemuImg;
use super::kernel;
use super::network::{self, NetworksRecord};
use super::process;
use super::programs::QemuSystem;
use super::properties::VmHardware;
use super::rpc::QemuCall;
use super::{disk, stemcell};
use crate::cpi::agent_settings::AgentSettingsInput;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{Cloud, ObjectLock};
use crate::cpi::config_drive;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records::{self, CreateVmArguments, VmRecord};
use base::JsonObject;

const MIB: u64 = 1 << 20;

/// The record of a VM. Only this CPI has its networks as well.
type QemuRecord = VmRecord<NetworksRecord>;

/// `create_vm`: returns `[cid, networks]` under contract v2, and the CID alone under contract v1.
pub(super) fn create(
    call: &mut QemuCall,
    cloud: &Cloud,
    mut arguments: CreateVmArguments,
) -> CpiResult<Value> {
    let cid = ObjectKind::Vm.new_cid();
    let (hardware, system, qemu_img, vm_networks, stemcell) = (|| {
        let hardware = VmHardware::parse(&arguments.cloud_properties)?;
        let programs = call.programs();
        let (system, qemu_img) = (programs.find_qemu_system()?, QemuImg::new(&programs)?);
        let config = &call.config;
        let ports = &hardware.ports;
        let vm_networks =
            network::plan(&cid, &arguments.networks, &config.agent, ports, config.is_restricted)?;
        Ok((hardware, system, qemu_img, vm_networks, cloud.lock_existing(&arguments.stemcell)?))
    })()
    .map_err(CpiFailure::before_any_effect)?;

    let env = std::mem::take(&mut arguments.env);
    let staging = cloud.create_staging(&cid)?;
    // After a failure from here on, the staged directory is removed.
    let result = (|| {
        fs::hard_link(stemcell.path.join(stemcell::IMAGE_FILE), staging.path.join(BASE_IMAGE_FILE))
            .map_err(|error| CpiFailure::io("linking the image of the stemcell", error))?;
        kernel::link(&stemcell.path, &staging.path)?;
        drop(stemcell);
        make_disks(&qemu_img, &staging, &hardware)?;
        let record = VmRecord::new(&cid, &arguments, call.is_v2, &vm_networks.answer, vm_networks.record);
        records::write(&staging, cid.kind(), &record)?;
        let settings = vm_networks.agent.settings(AgentSettingsInput {
            agent_id: &arguments.agent_id,
            vm_cid: cid.as_str(),
            networks: &vm_networks.guest,
            env,
            ntp: &call.config.ntp,
        })?;
        let settings = with_disks(settings, &hardware);
        config_drive::create_image(&staging.path.join(CONFIG_IMAGE_FILE), cid.as_str(), &settings)?;
        boot(call, &staging, &cid, &record, &hardware, &system)
    })();
    if let Err(failure) = result {
        cloud.remove_staged(staging)?;
        return Err(failure);
    }
    cloud.publish(&cid, staging)?;
    call.log(format_args!("VM '{cid}' created, with agent '{}'", arguments.agent_id));
    Ok(if call.is_v2 { json!([cid.as_str(), vm_networks.answer]) } else { json!(cid.as_str()) })
}

/// Creates the root disk, the ephemeral disk and the extra disks in the VM's staged directory.
fn make_disks(qemu_img: &QemuImg, staging: &ObjectLock, hardware: &VmHardware) -> CpiResult<()> {
    let directory = staging.path.as_path();
    qemu_img.create_overlay(directory, BASE_IMAGE_FILE, ROOT_IMAGE_FILE)?;
    let root_image = directory.join(ROOT_IMAGE_FILE);
    if let Some(size) = hardware.root_disk_size {
        let minimum = qemu_img.read_info(&root_image)?.virtual_size.div_ceil(MIB);
        if size < minimum {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: cloud property 'root_disk_size' is {size} MiB, and the image of the stemcell has \
                 {minimum} MiB: set it to {minimum} or more, or remove it"
            )));
        }
        qemu_img.resize(staging, &root_image, size)?;
    }
    if let Some(size) = hardware.ephemeral_disk {
        qemu_img.create(&directory.join(EPHEMERAL_IMAGE_FILE), size)?;
    }
    for (index, size) in hardware.extra_disks.iter().enumerate() {
        qemu_img.create(&directory.join(extra_image(index)), *size)?;
    }
    Ok(())
}

/// Adds the devices of the VM's own disks to the agent's settings.
fn with_disks(mut settings: JsonObject, hardware: &VmHardware) -> JsonObject {
    if let Some(disks) = settings.get_mut("disks") {
        if hardware.ephemeral_disk.is_some() {
            disks["ephemeral"] = json!(EPHEMERAL_DEVICE);
        }
        let extra_disks = 0..hardware.extra_disks.len();
        if !extra_disks.is_empty() {
            disks["raw_ephemeral"] = extra_disks.map(|index| json!({"path": extra_device(index)})).collect();
        }
    }
    settings
}

/// `delete_vm`: ends the VM and removes its directory. This also detaches its persistent disks.
pub(super) fn delete(call: &mut QemuCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let Some(lock) = cloud.lock(cid)? else {
        let was_running = process::stop_unrecorded(cid.as_str())?;
        let outcome = if was_running { "its process is ended" } else { "nothing to delete" };
        call.log(format_args!("VM '{cid}' does not exist: {outcome}"));
        return Ok(());
    };
    process::stop(&lock.path)?;
    process::stop_unrecorded(cid.as_str())?;
    cloud.delete(cid, lock)?;
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(())
}

/// `reboot_vm`: leaves the VM running, even if it was off.
pub(super) fn reboot(call: &mut QemuCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let lock = cloud.lock_existing(cid)?;
    let record: QemuRecord = records::read(&lock, cid)?;
    let hardware = VmHardware::parse(&record.cloud_properties)?;
    let system = call.programs().find_qemu_system()?;
    process::shut_down(&lock.path, call.config.guest_timeout())?;
    let networks = &record.cpi_fields;
    networks.check_host()?;
    boot(call, &lock, cid, &record, &hardware, &system)?;
    call.log(format_args!("VM '{cid}' rebooted"));
    Ok(())
}

/// Starts the QEMU of the VM in this directory.
fn boot(
    call: &mut QemuCall,
    lock: &ObjectLock,
    cid: &Cid,
    record: &QemuRecord,
    hardware: &VmHardware,
    system: &QemuSystem,
) -> CpiResult<()> {
    let (choice, cpi_root) = (call.config.accelerator, call.config.root.clone());
    let accelerator = accelerator::choose(choice, system, &cpi_root, |line| call.log(line))?;
    let disks = disk::attached_disks(&lock.path)?;
    let kernel = kernel::start(&lock.path, &call.config);
    let networks = &record.cpi_fields;
    let machine = Machine { cid, accelerator, hardware, networks, disks: &disks, kernel: kernel.as_ref() };
    let arguments = machine.arguments();
    let start_commands =
        process::StartCommands { executable: call.executable, qemu: &system.path, arguments: &arguments };
    process::start(&start_commands, &lock.path)?;
    networks.connect().inspect_err(|_| {
        // The error names the cause. What still runs is stopped when the directory is removed.
        let _ = process::stop(&lock.path);
    })
}
