//! Networks on devices of this machine, which an administrator set up: a bridge, or a tap device that already
//! exists. On a bridge, QEMU creates a tap device, which disappears with it.

use std::fmt::{self, Display, Formatter};
use std::process::Command;
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use super::unusable_network_error;
use crate::cpi::failure::CpiResult;
use crate::cpi::programs::{ProgramOutput, run};
use crate::qemu::programs::{find_ip, run_error};

const IP_TIMEOUT: Duration = Duration::from_secs(30);

/// A network device of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::qemu) enum HostDevice {
    Bridge(String),
    Tap(String),
}

impl Display for HostDevice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            HostDevice::Bridge(name) => write!(f, "the bridge '{name}'"),
            HostDevice::Tap(name) => write!(f, "the tap device '{name}'"),
        }
    }
}

/// A network of a VM on a device of this machine, as the VM's record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeviceNetwork {
    pub mac: String,
    device: HostDevice,
}

impl DeviceNetwork {
    pub(super) fn new(mac: String, device: HostDevice) -> Self {
        DeviceNetwork { mac, device }
    }

    /// Returns the name of the tap device. That of a new one has the digits of the MAC address that belong to
    /// the VM.
    fn tap(&self) -> String {
        match &self.device {
            HostDevice::Tap(name) => name.clone(),
            HostDevice::Bridge(_) => {
                let digits: Vec<&str> = self.mac.split(':').skip(3).collect();
                format!("mp{}", digits.concat())
            }
        }
    }

    /// Returns the value of QEMU's option `-netdev`, without the id.
    pub(super) fn netdev(&self) -> String {
        format!("tap,ifname={},script=no,downscript=no", self.tap())
    }

    /// Fails if this machine lacks the device, or if a new tap device needs privileges that this process
    /// lacks.
    pub(super) fn check(&self) -> CpiResult<()> {
        let (name, kind, creation) = match &self.device {
            HostDevice::Bridge(name) => (name, "bridge", format!("ip link add {name} type bridge")),
            HostDevice::Tap(name) => (name, "tun", format!("ip tuntap add dev {name} mode tap user $USER")),
        };
        let output = run_ip(&["-o", "link", "show", "dev", name, "type", kind])?;
        if !output.status.success() {
            return Err(unusable_network_error(format!(
                "this machine does not have {}, which a network of the VM names. Create it (`{creation}`), \
                 or correct the `cloud_properties` of the subnet",
                self.device
            )));
        }
        if output.stdout.is_empty() {
            return Err(unusable_network_error(format!(
                "the network device '{name}' of this machine is not {}: correct the `cloud_properties` of \
                 the subnet",
                match self.device {
                    HostDevice::Bridge(_) => "a bridge",
                    HostDevice::Tap(_) => "a tap device",
                }
            )));
        }
        if let HostDevice::Bridge(bridge) = &self.device
            && !may_administer_networks()
        {
            return Err(unusable_network_error(format!(
                "a VM on {} needs root or the capability CAP_NET_ADMIN. Run monopile with it, or let an \
                 administrator create a tap device for you (`ip tuntap add dev tap0 mode tap user $USER`, \
                 then `ip link set dev tap0 master {bridge} up`) and set `tap: tap0` instead of `bridge`",
                self.device
            )));
        }
        Ok(())
    }

    /// Connects the new tap device of a running QEMU with its bridge.
    pub(super) fn connect(&self) -> CpiResult<()> {
        let HostDevice::Bridge(bridge) = &self.device else { return Ok(()) };
        let tap = self.tap();
        let output = run_ip(&["link", "set", "dev", &tap, "master", bridge, "up"])?;
        if !output.status.success() {
            let reason = output.reason();
            return Err(unusable_network_error(format!(
                "connecting the VM's network device '{tap}' with {} failed: {reason}",
                self.device
            )));
        }
        Ok(())
    }
}

fn run_ip(arguments: &[&str]) -> CpiResult<ProgramOutput> {
    let ip = find_ip()?;
    run(Command::new(&ip).args(arguments).env_clear(), IP_TIMEOUT).map_err(|error| run_error(&ip, error))
}

/// Returns true if this process may create and connect network devices.
fn may_administer_networks() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN))
}

/// Returns true if a text can be the name of a network device, and has no meaning to `ip` or QEMU.
pub(in crate::qemu) fn is_device_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..16).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_have_no_meaning_to_other_programs() {
        for name in ["br0", "virbr-1", "a.100"] {
            assert!(is_device_name(name), "{name}");
        }
        for name in ["", "-br0", "..", "br0,script=x", "br 0", "a/b", "sixteen-letters-"] {
            assert!(!is_device_name(name), "{name}");
        }
    }

    #[test]
    fn new_tap_devices_have_names_of_their_own() {
        let network = |device| DeviceNetwork::new("52:54:00:0a:0b:0c".to_owned(), device);
        let bridge = network(HostDevice::Bridge("br0".to_owned()));
        assert_eq!(bridge.netdev(), "tap,ifname=mp0a0b0c,script=no,downscript=no");
        assert!(network(HostDevice::Tap("tap7".to_owned())).netdev().contains("ifname=tap7,"));
    }
}
