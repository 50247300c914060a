//! Cloud properties of VMs, networks and disks: their names, types and limits.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cpi::args::type_name;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::machine;
use crate::qemu::network::host_device::{HostDevice, is_device_name};
use base::JsonObject;
use base::error::{did_you_mean, did_you_mean_question, nearest};

/// The cloud properties of a VM.
const VM_KEYS: [&str; 6] = ["cpu", "ram", "root_disk_size", "ephemeral_disk", "extra_disks", "ports"];
/// The cloud properties of a network.
const NETWORK_KEYS: [&str; 2] = ["bridge", "tap"];
/// The memory of a VM in MiB if the manifest sets none.
const DEFAULT_RAM_MIB: u64 = 1024;
/// The memory in MiB below which no ordinary stemcell boots.
const MIN_RAM_MIB: u64 = 16;
/// The largest size of a disk in MiB: 64 TiB.
pub(super) const MAX_DISK_MIB: u64 = 64 << 20;
const MAX_PORTS: usize = 64;
const MAX_EXTRA_DISKS: usize = 8;

/// The hardware of a VM, as its cloud properties describe it. Sizes are in MiB.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VmHardware {
    pub cpu: u64,
    pub ram: u64,
    /// The size of the root disk, unless it is that of the stemcell's image.
    pub root_disk_size: Option<u64>,
    pub ephemeral_disk: Option<u64>,
    /// The sizes of further disks, which the agent leaves to the jobs.
    pub extra_disks: Vec<u64>,
    pub ports: Vec<Port>,
}

/// A port of the VM that is forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    pub name: String,
    /// The port on this machine.
    pub host: u16,
    /// The port in the VM.
    pub guest: u16,
}

impl VmHardware {
    /// Checks the cloud properties of `create_vm`.
    pub(super) fn parse(properties: &JsonObject) -> CpiResult<VmHardware> {
        check_keys("create_vm", "cloud property", properties, &VM_KEYS)?;
        let ephemeral_disk = match properties.get("ephemeral_disk") {
            None | Some(Value::Null) => None,
            Some(disk) => Some(disk_size("ephemeral_disk", disk)?),
        };
        let memory = machine::memory_mib();
        let ram = whole_number(properties, "ram", memory)?.unwrap_or(DEFAULT_RAM_MIB);
        if ram < MIN_RAM_MIB {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: cloud property 'ram' is in MiB, and {ram} MiB are too few: use {MIN_RAM_MIB} \
                 or more"
            )));
        }
        Ok(VmHardware {
            cpu: whole_number(properties, "cpu", 255)?.unwrap_or(1),
            ram,
            root_disk_size: whole_number(properties, "root_disk_size", MAX_DISK_MIB)?,
            ephemeral_disk,
            extra_disks: parse_extra_disks(properties.get("extra_disks").unwrap_or(&Value::Null))?,
            ports: parse_ports(properties.get("ports").unwrap_or(&Value::Null))?,
        })
    }
}

/// Rejects cloud properties of a disk, which has none.
pub(super) fn refuse_disk_properties(method: &str, properties: &JsonObject) -> CpiResult<()> {
    check_keys(method, "cloud property", properties, &[])
}

/// Returns the device of this machine that the cloud properties of a network name. Other properties belong to
/// the CPI of another cloud, unless they resemble a known one: that is an error.
pub(super) fn host_device(network: &str, properties: Option<&Value>) -> CpiResult<Option<HostDevice>> {
    let Some(Value::Object(properties)) = properties else { return Ok(None) };
    let network_error = |problem: String| {
        CpiFailure::invalid_call(format!("create_vm: the cloud properties of network '{network}' {problem}"))
    };
    if let Some((key, suggestion)) = misspelt_key(properties, NETWORK_KEYS) {
        let key = key.escape_debug();
        return Err(network_error(format!(
            "have the unknown key '{key}': {}",
            did_you_mean_question(suggestion)
        )));
    }
    let device = |key: &str| match properties.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if is_device_name(name) => Ok(Some(name.clone())),
        Some(_) => Err(network_error(format!("need the name of a network device in '{key}'"))),
    };
    match (device("bridge")?, device("tap")?) {
        (Some(_), Some(_)) => Err(network_error("have 'bridge' and 'tap': remove one".to_owned())),
        (bridge, tap) => Ok(bridge.map(HostDevice::Bridge).or(tap.map(HostDevice::Tap))),
    }
}

/// Returns the first unknown key that resembles a known one, and the known one.
pub(super) fn misspelt_key(
    properties: &JsonObject,
    known_keys: impl IntoIterator<Item = &'static str> + Clone,
) -> Option<(&str, &'static str)> {
    let is_known = |key: &str| known_keys.clone().into_iter().any(|known_key| known_key == key);
    let mut unknown = properties.keys().map(String::as_str).filter(|key| !is_known(key));
    unknown.find_map(|key| Some((key, nearest(key, known_keys.clone())?)))
}

fn check_keys(method: &str, kind: &str, hash: &JsonObject, known_keys: &[&str]) -> CpiResult<()> {
    let Some(unknown) = hash.keys().find(|key| !known_keys.contains(&key.as_str())) else { return Ok(()) };
    let suggestion = did_you_mean(unknown, known_keys.iter().copied());
    let list = match known_keys {
        [] => "the 'qemu' CPI has none here".to_owned(),
        known_keys => format!("the 'qemu' CPI knows {}", known_keys.join(", ")),
    };
    Err(CpiFailure::invalid_call(format!(
        "{method}: unknown {kind} '{}'{suggestion}; {list}. Correct the manifest, or remove it with an ops \
         file",
        unknown.escape_debug()
    )))
}

/// Returns a whole number from 1 to `maximum`, or `None` if it is missing or null.
fn whole_number(properties: &JsonObject, key: &str, maximum: u64) -> CpiResult<Option<u64>> {
    match properties.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if number > maximum => Err(CpiFailure::invalid_call(format!(
                "create_vm: cloud property '{key}' is {number}: use at most {maximum}"
            ))),
            Some(number) if number > 0 => Ok(Some(number)),
            _ => Err(type_error(key, "a whole number above 0", value)),
        },
    }
}

/// Returns the size in a cloud property that describes a disk, such as `{size: 1024}`.
fn disk_size(key: &str, disk: &Value) -> CpiResult<u64> {
    let Value::Object(disk) = disk else {
        return Err(type_error(key, "an object with a size in MiB", disk));
    };
    check_keys("create_vm", &format!("key of '{key}'"), disk, &["size"])?;
    whole_number(disk, "size", MAX_DISK_MIB)?.ok_or_else(|| {
        CpiFailure::invalid_call(format!("create_vm: cloud property '{key}' needs a size in MiB"))
    })
}

/// Parses `extra_disks`: a list of disks.
fn parse_extra_disks(value: &Value) -> CpiResult<Vec<u64>> {
    let disks = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(disks) => disks,
        other => return Err(type_error("extra_disks", "a list of objects with a size in MiB", other)),
    };
    if disks.len() > MAX_EXTRA_DISKS {
        return Err(CpiFailure::invalid_call(format!(
            "create_vm: cloud property 'extra_disks' has {} disks, and a VM can have {MAX_EXTRA_DISKS}: \
             remove some",
            disks.len()
        )));
    }
    disks.iter().enumerate().map(|(index, disk)| disk_size(&format!("extra_disks.{index}"), disk)).collect()
}

fn type_error(key: &str, expected: &str, value: &Value) -> CpiFailure {
    let actual = type_name(value);
    CpiFailure::invalid_call(format!("create_vm: cloud property '{key}' must be {expected}, not {actual}"))
}

/// Parses `ports`: a hash from names to a port, or to the ports of host and guest.
fn parse_ports(value: &Value) -> CpiResult<Vec<Port>> {
    const FORM: &str = "an object whose values are ports, or {host: PORT, guest: PORT}";
    let hash = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(hash) => hash,
        other => return Err(type_error("ports", FORM, other)),
    };
    if hash.len() > MAX_PORTS {
        return Err(CpiFailure::invalid_call(format!("create_vm: more than {MAX_PORTS} ports")));
    }
    let number = |value: Option<&Value>| {
        value.and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
    };
    let mut hosts = BTreeSet::new();
    let mut ports = Vec::new();
    for (name, value) in hash {
        let numbers = match value {
            Value::Object(pair) => {
                check_keys("create_vm", "key of a port", pair, &["host", "guest"])?;
                number(pair.get("host")).zip(number(pair.get("guest")))
            }
            value => number(Some(value)).map(|port| (port, port)),
        };
        let Some((host, guest)) = numbers else {
            return Err(type_error(
                &format!("ports.{}", name.escape_debug()),
                "a port from 1 to 65535",
                value,
            ));
        };
        if !hosts.insert(host) {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: cloud property 'ports' names port {host} of this machine twice"
            )));
        }
        ports.push(Port { name: name.clone(), host, guest });
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: Value) -> Result<VmHardware, String> {
        VmHardware::parse(value.as_object().unwrap()).map_err(|failure| failure.message)
    }

    #[test]
    fn defaults_and_all_properties() {
        let minimal = parse(json!({})).unwrap();
        assert_eq!((minimal.cpu, minimal.ram, minimal.ports), (1, DEFAULT_RAM_MIB, vec![]));
        assert_eq!(minimal.extra_disks, [0; 0]);
        let all = json!({"cpu": 2, "ram": 512, "root_disk_size": 4096, "ephemeral_disk": {"size": 1024},
            "extra_disks": [{"size": 8}, {"size": 16}],
            "ports": {"web": {"host": 8080, "guest": 80}, "ssh": 22}});
        let all = parse(all).unwrap();
        assert_eq!((all.root_disk_size, all.ephemeral_disk), (Some(4096), Some(1024)));
        assert_eq!(all.extra_disks, [8, 16]);
        let port = |name: &str, host, guest| Port { name: name.to_owned(), host, guest };
        let mut ports = all.ports;
        ports.sort_by_key(|port| port.guest);
        assert_eq!(ports, [port("ssh", 22, 22), port("web", 8080, 80)]);
    }

    #[test]
    fn mistakes_are_named() {
        for (bad_properties, part) in [
            (json!({"cpus": 2}), "did you mean 'cpu'?"),
            (json!({"instance_type": "m3"}), "knows cpu, ram"),
            (json!({"ram": "1024"}), "'ram' must be a whole number above 0, not a string"),
            (json!({"ram": 4}), "is in MiB"),
            (json!({"ram": 1_u64 << 40}), "at most"),
            (json!({"ephemeral_disk": 5}), "an object with a size"),
            (json!({"ephemeral_disk": {}}), "needs a size"),
            (json!({"extra_disk": []}), "did you mean 'extra_disks'?"),
            (json!({"extra_disks": {"size": 5}}), "must be a list of objects"),
            (json!({"extra_disks": [{"size": 5}, 6]}), "'extra_disks.1' must be an object with a size"),
            (json!({"extra_disks": [{"sise": 5}]}), "did you mean 'size'?"),
            (json!({"extra_disks": [{"size": 0}]}), "'size' must be a whole number above 0"),
            (json!({"extra_disks": [{"size": 1_u64 << 40}]}), "at most"),
            (json!({"extra_disks": vec![json!({"size": 1}); 9]}), "has 9 disks, and a VM can have 8"),
            (json!({"ports": [22]}), "an object whose values are ports"),
            (json!({"ports": {"a": 0}}), "ports.a"),
            (json!({"ports": {"a": {"host": 1, "gest": 2}}}), "did you mean 'guest'?"),
            (json!({"ports": {"a": 1, "b": {"host": 1, "guest": 2}}}), "twice"),
        ] {
            let error = parse(bad_properties.clone()).unwrap_err();
            assert!(error.contains(part), "{bad_properties}: {error}");
        }
        for (bad_properties, part) in [
            (json!({"brige": "br0"}), "did you mean 'bridge'?"),
            (json!({"bridge": 1}), "need the name of a network device in 'bridge'"),
            (json!({"tap": "tap0,script=x"}), "need the name of a network device in 'tap'"),
            (json!({"bridge": "br0", "tap": "tap0"}), "have 'bridge' and 'tap'"),
        ] {
            let error = host_device("a", Some(&bad_properties)).unwrap_err().message;
            assert!(error.contains(part), "{bad_properties}: {error}");
        }
        assert_eq!(host_device("a", Some(&json!({"net_id": "another cloud"}))).unwrap(), None);
        assert!(refuse_disk_properties("create_disk", json!({"type": "ssd"}).as_object().unwrap()).is_err());
        assert!(refuse_disk_properties("create_disk", &JsonObject::new()).is_ok());
    }
}
