//! VMs: creation, deletion, reboot and records. A VM that is being created is in `staging/` until it has
//! booted.
//!
//! A VM exists as long as its directory does, even if it does not run, like a machine that is switched off.
//! `has_vm` answers true as long as the directory exists.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::copy::copy_tree;
use super::disk;
use super::launch;
use super::rpc::LocalCall;
use super::{network, settings, stemcell};
use crate::cpi::agent_settings;
use crate::cpi::args::type_name;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{self, Cloud, ObjectLock};
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::files::{read_json, write_json};
use crate::cpi::listen;
use crate::cpi::process::ProcessIdentity;
use crate::cpi::records::{self, CreateVmArguments, VmRecord};
use base::JsonObject;
use base::files;

/// The directory of attached disks, below the VM's directory.
pub(super) const DEVICES_DIRECTORY: &str = "devices";
/// The file with the identity of a VM's init.
pub(super) const PROCESS_FILE: &str = "process.json";
/// The time that init and the agent have to end before they are killed.
const TERM_TIMEOUT: Duration = Duration::from_secs(5);

/// The fields of a VM's record that only this CPI has.
#[derive(Debug, Serialize, Deserialize)]
struct LocalFields {
    /// True if the agent's settings are in the registry instead of this directory.
    #[serde(default, rename = "settings_in_registry")]
    settings_are_in_registry: bool,
}

/// `create_vm`: returns `[cid, networks]` under contract v2, and the CID alone under contract v1.
pub(super) fn create(
    call: &mut LocalCall,
    cloud: &Cloud,
    mut arguments: CreateVmArguments,
) -> CpiResult<Value> {
    let (namespace, networks, stemcell_lock) = (|| -> CpiResult<_> {
        let namespace = network::namespace(&arguments.cloud_properties)?;
        let addresses = call.config.agent.listen_addresses()?;
        let networks = network::run_inside(namespace.as_deref(), || {
            let networks = assign_addresses(arguments.networks.clone())?;
            listen::check_can_listen(&addresses)?;
            Ok(networks)
        })?;
        Ok((namespace, networks, cloud.lock_existing(&arguments.stemcell)?))
    })()
    .map_err(CpiFailure::before_any_effect)?;

    let cid = ObjectKind::Vm.new_cid();
    let env = std::mem::take(&mut arguments.env);
    let staging = cloud.create_staging(&cid)?;
    // After a failure from here on, the staged directory is removed.
    let result = (|| {
        copy_tree(&stemcell_lock.path.join(stemcell::IMAGE_DIRECTORY), &staging.path.join("root"))?;
        drop(stemcell_lock);
        DirBuilder::new()
            .mode(0o755)
            .create(staging.path.join(DEVICES_DIRECTORY))
            .map_err(|error| CpiFailure::io("creating the VM's directory for devices", error))?;
        let cpi_fields = LocalFields { settings_are_in_registry: false };
        let mut record = VmRecord::new(&cid, &arguments, call.is_v2, &networks, cpi_fields);
        let settings = call.config.agent.settings(agent_settings::AgentSettingsInput {
            agent_id: &arguments.agent_id,
            vm_cid: cid.as_str(),
            networks: &networks,
            env,
            ntp: &call.config.ntp,
        })?;
        record.cpi_fields.settings_are_in_registry = settings::deliver(call, &staging.path, &cid, settings)?;
        records::write(&staging, cid.kind(), &record)?;
        boot(call, &staging, namespace.as_deref())
    })();
    if let Err(failure) = result {
        cloud.remove_staged(staging)?;
        if !call.is_v2 && call.config.registry.is_some() {
            settings::withdraw(call, &cid);
        }
        return Err(failure);
    }
    cloud.publish(&cid, staging)?;
    call.log(format_args!("VM '{cid}' created, with agent '{}'", arguments.agent_id));
    Ok(if call.is_v2 { json!([cid.as_str(), networks]) } else { json!(cid.as_str()) })
}

/// `delete_vm`: stops the VM, moves the data of its disks back, and removes its directory.
pub(super) fn delete(call: &mut LocalCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let Some(lock) = cloud.lock(cid)? else {
        let outcome =
            if stop_unrecorded(cloud, cid)? { "its processes are ended" } else { "nothing to delete" };
        call.log(format_args!("VM '{cid}' does not exist: {outcome}"));
        return Ok(());
    };
    stop(&lock)?;
    stop_unrecorded(cloud, cid)?;
    return_disks(cloud, &lock.path)?;
    // An unreadable record must not prevent the deletion.
    let must_withdraw_settings = settings_are_in_registry(&lock).unwrap_or(false);
    cloud.delete(cid, lock)?;
    if must_withdraw_settings {
        settings::withdraw(call, cid);
    }
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(())
}

/// `reboot_vm`: leaves the VM running, even if it was off.
pub(super) fn reboot(call: &mut LocalCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let lock = cloud.lock_existing(cid)?;
    stop(&lock)?;
    // On a real machine these directories are in memory.
    for volatile_path in ["root/var/vcap/data/sys/run", "root/tmp"] {
        let path = lock.path.join(volatile_path);
        if is_real_directory(&lock.path, volatile_path) {
            files::remove_tree(&path)
                .map_err(|error| CpiFailure::io(format_args!("clearing '{}'", path.display()), error))?;
        }
    }
    let record: VmRecord<LocalFields> = records::read(&lock, cid)?;
    let namespace = network::namespace(&record.cloud_properties)?;
    boot(call, &lock, namespace.as_deref())?;
    call.log(format_args!("VM '{cid}' rebooted"));
    Ok(())
}

/// Returns true if the VM was created with its agent's settings in the registry.
pub(super) fn settings_are_in_registry(lock: &ObjectLock) -> CpiResult<bool> {
    let record: Option<VmRecord<LocalFields>> = records::read_if_any(lock, ObjectKind::Vm)?;
    Ok(record.is_some_and(|record| record.cpi_fields.settings_are_in_registry))
}

/// `get_disks`: returns the disks whose data is among the devices of the VM.
pub(super) fn disks(cloud: &Cloud, cid: &Cid) -> CpiResult<Vec<Cid>> {
    let lock = cloud.lock_existing(cid)?;
    let names = cloud::list_names(&lock.path.join(DEVICES_DIRECTORY))?;
    Ok(names.iter().filter_map(|name| ObjectKind::Disk.parse(name)).collect())
}

/// Returns the path of the data of an attached disk.
pub(super) fn device_path(vm_directory: &Path, disk: &Cid) -> PathBuf {
    vm_directory.join(DEVICES_DIRECTORY).join(disk.as_str())
}

/// Returns true if the running VM has mounted the attached disk.
pub(super) fn has_mounted(lock: &ObjectLock, disk: &Cid) -> CpiResult<bool> {
    let Some(process) = read_json::<ProcessIdentity>(&lock.path.join(PROCESS_FILE))? else {
        return Ok(false);
    };
    let is_running = process.is_running().map_err(|error| CpiFailure::io("checking the VM's init", error))?;
    if !is_running {
        return Ok(false);
    }
    let path = format!("/proc/{}/mountinfo", process.pid);
    match fs::read_to_string(&path) {
        // proc_pid_mountinfo(5): field 4 is the path inside the file system that is mounted.
        Ok(text) => Ok(text.lines().any(|line| {
            let source = line.split(' ').nth(3).unwrap_or_default();
            source.split('/').any(|part| part == disk.as_str())
        })),
        // The process has ended, or is ending and no longer has mounts.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            Ok(false)
        }
        Err(error) => Err(CpiFailure::io(format_args!("reading '{path}'"), error)),
    }
}

/// Stops init with SIGTERM, and with SIGKILL after [`TERM_TIMEOUT`]. The kernel ends all processes of the VM
/// with it.
fn stop_init(process: &ProcessIdentity) -> CpiResult<()> {
    process
        .stop(TERM_TIMEOUT)
        .map_err(|error| CpiFailure::io(format_args!("stopping the VM's init (pid {})", process.pid), error))
}

/// Moves the data of all disks out of a VM's directory, which may be incomplete.
pub(super) fn return_disks(cloud: &Cloud, vm_directory: &Path) -> CpiResult<()> {
    for name in cloud::list_names(&vm_directory.join(DEVICES_DIRECTORY))? {
        if let Some(cid) = ObjectKind::Disk.parse(&name) {
            disk::return_disk(cloud, &device_path(vm_directory, &cid), &cid)?;
        }
    }
    Ok(())
}

/// Stops the VM in a staged directory and moves the data of its disks back, before the directory is removed.
pub(super) fn prepare_removal(cloud: &Cloud, path: &Path) -> CpiResult<()> {
    if let Some(process) = read_json::<ProcessIdentity>(&path.join(PROCESS_FILE))? {
        stop_init(&process)?;
    }
    launch::wait_for_processes_to_end(path)?;
    return_disks(cloud, path)?;
    match fs::remove_dir(path.join(DEVICES_DIRECTORY)) {
        // If the directory is not empty, a leftover is better than a lost disk.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CpiFailure::io(format_args!("removing '{}'", path.join(DEVICES_DIRECTORY).display()), error))
        }
        _ => Ok(()),
    }
}

/// Stops the VM by the init on record, if there is one.
fn stop(lock: &ObjectLock) -> CpiResult<()> {
    match read_json::<ProcessIdentity>(&lock.path.join(PROCESS_FILE))? {
        Some(process) => stop_init(&process),
        None => Ok(()),
    }
}

/// Stops a VM whose directory, or the record of its init in it, was removed by hand. The command line of init
/// still names the directory. Returns true if such processes existed.
fn stop_unrecorded(cloud: &Cloud, cid: &Cid) -> CpiResult<bool> {
    let directories = [cloud.path(cid), cloud.staged_path(cid)];
    let names_vm_directory = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == 0).skip(1);
        words.next() == Some(b"vm-boot")
            && words.skip_while(|word| *word != b"--vm-dir").nth(1).is_some_and(|word| {
                directories.iter().any(|directory| directory.as_os_str().as_bytes() == word)
            })
    };
    let mut has_stopped = false;
    for name in cloud::list_names(Path::new("/proc"))? {
        let Ok(pid) = name.parse::<i32>() else { continue };
        // The process is identified first, so that no other process with this pid gets the signal.
        let Ok(process) = ProcessIdentity::of(pid) else { continue };
        if fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| names_vm_directory(&line)) {
            stop_init(&process)?;
            has_stopped = true;
        }
    }
    Ok(has_stopped)
}

/// Boots the VM in this directory and records its init.
fn boot(call: &mut LocalCall, lock: &ObjectLock, namespace: Option<&Path>) -> CpiResult<()> {
    let booted_vm = launch::boot(call.executable, &lock.path, namespace)?;
    for note in &booted_vm.notes {
        call.log(note);
    }
    // If the call is killed before this line, the VM ends. If it is killed after it, the next call finds the
    // VM.
    write_json(&lock.path.join(PROCESS_FILE), &booted_vm.init)?;
    booted_vm.commit()
}

/// Returns true if every component of `path`, below `base_directory`, is a directory and not a link.
fn is_real_directory(base_directory: &Path, path: &str) -> bool {
    let mut path_so_far = base_directory.to_owned();
    path.split('/').all(|part| {
        path_so_far.push(part);
        fs::symlink_metadata(&path_so_far).is_ok_and(|metadata| metadata.is_dir())
    })
}

/// Checks the addresses of manual networks, and gives dynamic networks the address 127.0.0.1. A VM uses the
/// network of the machine or of its namespace.
fn assign_addresses(mut networks: JsonObject) -> CpiResult<JsonObject> {
    for (name, network) in &mut networks {
        let actual = type_name(network);
        let Value::Object(network) = network else {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: network '{name}' must be an object, not {actual}"
            )));
        };
        let kind = match network.get("type") {
            None => "manual",
            Some(kind) => kind.as_str().unwrap_or_default(),
        };
        match kind {
            "manual" => check_is_local(name, network.get("ip"))?,
            "dynamic" => {
                network.insert("ip".to_owned(), json!("127.0.0.1"));
            }
            "vip" => {}
            _ => {
                return Err(CpiFailure::invalid_call(format!(
                    "create_vm: network '{name}' must be of type manual, dynamic or vip"
                )));
            }
        }
    }
    Ok(networks)
}

/// Fails if a manual address is not an address of this machine.
fn check_is_local(name: &str, ip: Option<&Value>) -> CpiResult<()> {
    let ip = ip.and_then(Value::as_str).unwrap_or_default();
    let address: IpAddr = ip.parse().map_err(|_| {
        CpiFailure::invalid_call(format!("create_vm: network '{name}' needs an ip address, not '{ip}'"))
    })?;
    TcpListener::bind((address, 0)).map(drop).map_err(|error| {
        creation_error(format!(
            "the address {ip} of network '{name}' cannot be used: {error}; VMs of the 'local' CPI share this \
             machine's network, use one of its addresses, or any of 127.0.0.0/8"
        ))
    })
}

fn creation_error(message: String) -> CpiFailure {
    CpiFailure::new(FailureKind::VmCreationFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn every_network_gets_an_address_or_an_error() {
        let networks = hash(json!({
            "a": {"type": "manual", "ip": "127.0.3.4", "netmask": "255.0.0.0"}, "b": {"type": "dynamic"},
            "c": {"type": "vip", "ip": "8.8.8.8"},
        }));
        let new_networks = assign_addresses(networks.clone()).unwrap();
        assert_eq!(new_networks["a"], networks["a"]);
        assert_eq!(new_networks["b"], json!({"type": "dynamic", "ip": "127.0.0.1"}));
        assert_eq!(
            assign_addresses(hash(json!({"a": {"ip": "nope"}}))).unwrap_err().kind,
            FailureKind::InvalidCall
        );
        assert_eq!(
            assign_addresses(hash(json!({"a": {"type": "x"}}))).unwrap_err().kind,
            FailureKind::InvalidCall
        );
        // TEST-NET-1 is not assigned to any machine.
        let foreign = assign_addresses(hash(json!({"a": {"ip": "192.0.2.7"}}))).unwrap_err();
        assert_eq!(foreign.kind, FailureKind::VmCreationFailed);
    }

    #[test]
    fn disks_of_half_made_vms_are_moved_back() {
        let directory = tempfile::tempdir().unwrap();
        let cloud = Cloud::open_or_create(&directory.path().join("cloud"), prepare_removal).unwrap();
        let disk = ObjectKind::Disk.new_cid();
        let staging = cloud.create_staging(&disk).unwrap();
        drop(cloud.publish(&disk, staging).unwrap());
        let leftover = cloud.staged_path(&ObjectKind::Vm.new_cid());
        let device = leftover.join(DEVICES_DIRECTORY).join(disk.as_str());
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("counter"), "7").unwrap();
        cloud.remove_leftovers().unwrap();
        assert!(!leftover.exists());
        assert_eq!(fs::read_to_string(cloud.path(&disk).join("data/counter")).unwrap(), "7");
    }

    #[test]
    fn data_without_a_disk_record_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let cloud = Cloud::open_or_create(&directory.path().join("cloud"), prepare_removal).unwrap();
        let leftover = cloud.staged_path(&ObjectKind::Vm.new_cid());
        let device = leftover.join(DEVICES_DIRECTORY).join(ObjectKind::Disk.new_cid().as_str());
        fs::create_dir_all(&device).unwrap();
        assert!(cloud.remove_leftovers().is_err());
        assert!(device.exists());
    }
}
