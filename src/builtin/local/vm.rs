//! VMs: what is asked for is checked, written down, booted, and only then known.
//!
//! A VM exists as long as its directory does, running or not, like a machine that is switched off:
//! that is what `has_vm` answers.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cid::{Cid, Resource};
use super::copy::copy_tree;
use super::disk;
use super::launch;
use super::rpc::LocalCall;
use super::store::{self, Held, Store};
use super::{network, settings, stemcell};
use crate::cpi::agent;
use crate::cpi::args::{Arguments, Hash, type_name};
use crate::cpi::failure::{Failure, FailureKind, Outcome};
use crate::cpi::files::{read_json, write_json};
use crate::cpi::process::Identity;
use base::files;

/// Attached disks, inside a VM's directory.
pub(super) const DEVICES: &str = "devices";
/// The identity of a VM's init.
pub(super) const PROCESS: &str = "process.json";
const DOCUMENT: &str = "vm.json";
/// How long init and agent may take to end before they are killed.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The arguments of `create_vm`.
pub(super) struct Wanted {
    pub agent_id: String,
    pub stemcell: Cid,
    pub cloud_properties: Hash,
    pub networks: Hash,
    pub disk_cids: Vec<String>,
    pub env: Hash,
}

/// What is recorded about a VM. `env` is not: it holds secrets that only the agent needs.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    cid: String,
    agent_id: String,
    stemcell_cid: String,
    /// The contract the VM was made under.
    api_version: u8,
    /// Whether the agent's settings are in the registry, and not in this directory.
    #[serde(default)]
    settings_in_registry: bool,
    cloud_properties: Hash,
    networks: Hash,
    disk_cids: Vec<String>,
    created_at: String,
    #[serde(default)]
    metadata: Hash,
}

/// `create_vm`: `[cid, networks]` under contract 2, the CID alone under contract 1.
pub(super) fn create(call: &mut LocalCall, store: &Store, wanted: Wanted) -> Outcome<Value> {
    let namespace = network::namespace(&wanted.cloud_properties)?;
    let listener = call.config.agent.listener()?;
    let networks = network::inside(namespace.as_deref(), || {
        let networks = assign_addresses(wanted.networks)?;
        check_port_is_free(&listener)?;
        Ok(networks)
    })?;
    let stemcell = store.require(&wanted.stemcell)?;

    let cid = Resource::Vm.new_cid();
    let staged = store.stage(&cid)?;
    // Whatever fails from here on leaves nothing: the staged directory is no VM.
    let made = (|| {
        copy_tree(&stemcell.path.join(stemcell::IMAGE), &staged.path.join("root"))?;
        drop(stemcell);
        DirBuilder::new()
            .mode(0o755)
            .create(staged.path.join(DEVICES))
            .map_err(|error| Failure::io("making the VM's directory", error))?;
        let mut document = Document {
            cid: cid.to_string(),
            agent_id: wanted.agent_id.clone(),
            stemcell_cid: wanted.stemcell.to_string(),
            api_version: if call.v2 { 2 } else { 1 },
            settings_in_registry: false,
            cloud_properties: wanted.cloud_properties,
            networks: networks.clone(),
            disk_cids: wanted.disk_cids,
            created_at: base::encoding::now(),
            metadata: Hash::new(),
        };
        let given = call.config.agent.settings(agent::Identity {
            agent_id: &wanted.agent_id,
            vm_cid: cid.as_str(),
            networks: &networks,
            env: wanted.env,
            ntp: &call.config.ntp,
        })?;
        document.settings_in_registry = settings::deliver(call, &staged.path, &cid, given)?;
        write_json(&staged.path.join(DOCUMENT), &document)?;
        boot(call, &staged, namespace.as_deref())
    })();
    if let Err(failure) = made {
        store.sweep_one(staged)?;
        if !call.v2 && call.config.registry.is_some() {
            settings::withdraw(call, &cid);
        }
        return Err(failure);
    }
    store.publish(&cid, staged)?;
    call.log(format_args!("VM '{cid}' runs for agent '{}'", wanted.agent_id));
    Ok(if call.v2 { json!([cid.as_str(), networks]) } else { json!(cid.as_str()) })
}

/// `delete_vm`: the VM ends first, its disks go home, then it is forgotten.
pub(super) fn delete(call: &mut LocalCall, store: &Store, cid: &Cid) -> Outcome<()> {
    let Some(held) = store.hold(cid)? else {
        call.log(format_args!("VM '{cid}' is gone already"));
        return Ok(());
    };
    halt(&held)?;
    return_disks(store, &held.path)?;
    // A document that cannot be read is no reason to keep the VM.
    let in_registry = settings_are_in_registry(&held).unwrap_or(false);
    store.discard(cid, held)?;
    if in_registry {
        settings::withdraw(call, cid);
    }
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(())
}

/// `reboot_vm`: on or off before, it is on afterwards.
pub(super) fn reboot(call: &mut LocalCall, store: &Store, cid: &Cid) -> Outcome<Value> {
    let held = store.require(cid)?;
    halt(&held)?;
    // What is in memory on a real machine does not outlive it.
    for volatile in ["root/var/vcap/data/sys/run", "root/tmp"] {
        let path = held.path.join(volatile);
        if is_real_dir(&held.path, volatile) {
            files::remove_tree(&path)
                .map_err(|error| Failure::io(format_args!("clearing '{}'", path.display()), error))?;
        }
    }
    let namespace = network::namespace(&document(&held, cid)?.cloud_properties)?;
    boot(call, &held, namespace.as_deref())?;
    call.log(format_args!("VM '{cid}' booted again"));
    Ok(Value::Null)
}

/// `set_vm_metadata`.
pub(super) fn set_metadata(store: &Store, cid: &Cid, metadata: Hash) -> Outcome<Value> {
    let held = store.require(cid)?;
    let document = Document { metadata, ..document(&held, cid)? };
    write_json(&held.path.join(DOCUMENT), &document)?;
    Ok(Value::Null)
}

fn document(held: &Held, cid: &Cid) -> Outcome<Document> {
    read_json(&held.path.join(DOCUMENT))?
        .ok_or_else(|| Failure::cloud(format!("VM '{cid}' has lost its {DOCUMENT}")))
}

/// Whether the VM was made with its agent's settings in the registry.
pub(super) fn settings_are_in_registry(held: &Held) -> Outcome<bool> {
    Ok(read_json::<Document>(&held.path.join(DOCUMENT))?.is_some_and(|known| known.settings_in_registry))
}

/// `get_disks`: what is attached, now.
pub(super) fn disks(store: &Store, cid: &Cid) -> Outcome<Value> {
    let held = store.require(cid)?;
    let names = store::names(&held.path.join(DEVICES))?;
    Ok(json!(names.into_iter().filter(|name| Resource::Disk.parse(name).is_some()).collect::<Vec<_>>()))
}

/// `calculate_vm_cloud_properties`. A VM shares the machine, so its size can only be too large for it.
pub(super) fn size(wanted: Hash) -> Outcome<Value> {
    let names = ["cpu", "ram", "ephemeral_disk_size"];
    let values = names.iter().map(|name| wanted.get(*name).cloned().unwrap_or(Value::Null)).collect();
    let mut arguments = Arguments::new("calculate_vm_cloud_properties", values, 3, 3)?;
    let (cpu, ram, disk) =
        (arguments.size("cpu")?, arguments.size("ram")?, arguments.size("ephemeral_disk_size")?);
    let cpus = std::thread::available_parallelism().map_or(u64::MAX, |count| count.get() as u64);
    if cpu > cpus {
        return Err(Failure::cloud(format!("{cpu} CPUs wanted, this machine has {cpus}")));
    }
    let info = rustix::system::sysinfo();
    let memory = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) >> 20;
    if ram > memory {
        return Err(Failure::cloud(format!("{ram} MiB of memory wanted, this machine has {memory} MiB")));
    }
    Ok(json!({"cpu": cpu, "ram": ram, "ephemeral_disk": {"size": disk}}))
}

/// Where an attached disk's data is.
pub(super) fn device(vm: &Path, disk: &Cid) -> PathBuf {
    vm.join(DEVICES).join(disk.as_str())
}

/// Whether the running VM has the attached disk mounted (other than as a device).
pub(super) fn mounts(held: &Held, disk: &Cid) -> Outcome<bool> {
    let Some(process) = read_json::<Identity>(&held.path.join(PROCESS))? else { return Ok(false) };
    let running = process.is_running().map_err(|error| Failure::io("looking for the VM's init", error))?;
    if !running {
        return Ok(false);
    }
    let path = format!("/proc/{}/mountinfo", process.pid);
    match fs::read_to_string(&path) {
        // proc_pid_mountinfo(5): field 4 is the path inside the file system that is mounted.
        Ok(text) => Ok(text.lines().any(|line| {
            let source = line.split(' ').nth(3).unwrap_or_default();
            source.split('/').any(|part| part == disk.as_str())
        })),
        // It has ended, or is about to and has given up its mounts.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            Ok(false)
        }
        Err(error) => Err(Failure::io(format_args!("reading '{path}'"), error)),
    }
}

/// Ends whatever runs under this identity.
pub(super) fn stop(process: &Identity) -> Outcome<()> {
    process
        .stop(STOP_GRACE)
        .map_err(|error| Failure::io(format_args!("stopping the VM's init (pid {})", process.pid), error))
}

/// Moves every disk out of a directory that is, or was to be, a VM.
pub(super) fn return_disks(store: &Store, vm: &Path) -> Outcome<()> {
    for name in store::names(&vm.join(DEVICES))? {
        if let Some(cid) = Resource::Disk.parse(&name) {
            disk::give_back(store, &device(vm, &cid), &cid)?;
        }
    }
    Ok(())
}

fn halt(held: &Held) -> Outcome<()> {
    match read_json::<Identity>(&held.path.join(PROCESS))? {
        Some(process) => stop(&process),
        None => Ok(()),
    }
}

/// Boots the VM in this directory: it runs, and its directory says as what.
fn boot(call: &mut LocalCall, held: &Held, namespace: Option<&Path>) -> Outcome<()> {
    let booted = launch::boot(call.executable, &held.path, namespace)?;
    for note in &booted.notes {
        call.log(note);
    }
    // A call killed before this line takes the VM with it; after it, the VM can be found.
    write_json(&held.path.join(PROCESS), &booted.init)?;
    booted.commit()
}

/// Whether every step of a path below `base` is a directory and no link.
fn is_real_dir(base: &Path, path: &str) -> bool {
    let mut walked = base.to_owned();
    path.split('/').all(|part| {
        walked.push(part);
        fs::symlink_metadata(&walked).is_ok_and(|metadata| metadata.is_dir())
    })
}

/// The networks with an address each. All VMs share the machine's network, where any of
/// 127.0.0.0/8 can be used, so a dynamic one gets loopback.
fn assign_addresses(mut networks: Hash) -> Outcome<Hash> {
    for (name, network) in &mut networks {
        let given = type_name(network);
        let Value::Object(network) = network else {
            return Err(Failure::call(format!("create_vm: network '{name}' must be a hash, {given} given")));
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
                return Err(Failure::call(format!(
                    "create_vm: network '{name}' must be of type manual, dynamic or vip"
                )));
            }
        }
    }
    Ok(networks)
}

/// Whether a manual address is one of this machine's.
fn check_is_local(name: &str, ip: Option<&Value>) -> Outcome<()> {
    let ip = ip.and_then(Value::as_str).unwrap_or_default();
    let address: IpAddr = ip
        .parse()
        .map_err(|_| Failure::call(format!("create_vm: network '{name}' needs an ip address, not '{ip}'")))?;
    TcpListener::bind((address, 0)).map(drop).map_err(|error| {
        creation_failed(format!(
            "the address {ip} of network '{name}' cannot be used: {error}; VMs of the 'local' CPI share this machine's network, use one of its addresses, or any of 127.0.0.0/8"
        ))
    })
}

/// Whether the agent will be able to listen. Told now, it is an error with a reason; told by a
/// silent agent, it would be a time-out.
fn check_port_is_free(listener: &[SocketAddr]) -> Outcome<()> {
    for address in listener {
        match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(creation_failed(format!(
                    "the agent's port is in use: something on this machine listens on {address} already (another VM?)"
                )));
            }
            Err(error) if Some(address) == listener.last() => {
                return Err(creation_failed(format!("the agent cannot listen on {address}: {error}")));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn creation_failed(message: String) -> Failure {
    Failure::new(FailureKind::VmCreationFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: Value) -> Hash {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn every_network_gets_an_address_or_an_error() {
        let networks = hash(json!({
            "a": {"type": "manual", "ip": "127.0.3.4", "netmask": "255.0.0.0"}, "b": {"type": "dynamic"}, "c": {"type": "vip", "ip": "8.8.8.8"},
        }));
        let assigned = assign_addresses(networks.clone()).unwrap();
        assert_eq!(assigned["a"], networks["a"]);
        assert_eq!(assigned["b"], json!({"type": "dynamic", "ip": "127.0.0.1"}));
        assert_eq!(
            assign_addresses(hash(json!({"a": {"ip": "nope"}}))).unwrap_err().kind,
            FailureKind::InvalidCall
        );
        assert_eq!(
            assign_addresses(hash(json!({"a": {"type": "x"}}))).unwrap_err().kind,
            FailureKind::InvalidCall
        );
        // TEST-NET-1 belongs to nobody's machine.
        let foreign = assign_addresses(hash(json!({"a": {"ip": "192.0.2.7"}}))).unwrap_err();
        assert_eq!(foreign.kind, FailureKind::VmCreationFailed);
    }

    #[test]
    fn sizes_beyond_the_machine_are_refused() {
        let small = json!({"cpu": 1, "ram": 16, "ephemeral_disk_size": 10});
        assert_eq!(size(hash(small)).unwrap(), json!({"cpu": 1, "ram": 16, "ephemeral_disk": {"size": 10}}));
        assert!(size(hash(json!({"cpu": 100_000, "ram": 16, "ephemeral_disk_size": 10}))).is_err());
        assert!(size(hash(json!({"cpu": 1, "ram": 1_000_000_000, "ephemeral_disk_size": 10}))).is_err());
        assert_eq!(size(hash(json!({"cpu": 1}))).unwrap_err().kind, FailureKind::InvalidCall);
    }

    #[test]
    fn a_port_in_use_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = check_port_is_free(&[taken.local_addr().unwrap()]).unwrap_err();
        assert_eq!((error.kind, error.ok_to_retry), (FailureKind::VmCreationFailed, false));
    }
}
