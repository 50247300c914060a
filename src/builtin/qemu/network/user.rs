//! QEMU's user-mode network: the VM is alone in it. Ports on an address of this machine are forwarded to the
//! VM: that of the agent, and those in the cloud property `ports`.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use serde::{Deserialize, Serialize};

use super::unusable_network_error;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::listen::describe_occupant;
use crate::qemu::properties::Port;

// The addresses of the network are QEMU's defaults.
/// The range of the network's addresses.
const SUBNET: &str = "10.0.2.0/24";
/// The address of the VM.
pub(super) const GUEST_ADDRESS: &str = "10.0.2.15";
/// The mask of [`SUBNET`].
pub(super) const NETMASK: &str = "255.255.255.0";
/// The address of the router, which is QEMU.
pub(super) const GATEWAY: &str = "10.0.2.2";
/// The address of the name server, which is QEMU.
pub(super) const NAME_SERVER: &str = "10.0.2.3";

/// The user-mode network of a VM, as its record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UserNetwork {
    pub(super) mac: String,
    forwards: Vec<Forward>,
    /// True if the VM cannot open connections to other machines.
    #[serde(rename = "restrict")]
    is_restricted: bool,
}

/// A forwarded port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Forward {
    name: String,
    /// The address on this machine.
    #[serde(rename = "from")]
    host_address: SocketAddr,
    /// The port in the VM.
    #[serde(rename = "to")]
    guest_port: u16,
}

impl UserNetwork {
    /// Plans the network. `manual_address` is the address of the forwarded ports; without one, it is the host
    /// of the agent's URL, `mbus`. Without `mbus`, the port of the agent is not forwarded.
    pub(super) fn plan(
        mac: String,
        manual_address: Option<IpAddr>,
        mbus: Option<SocketAddr>,
        ports: &[Port],
        is_restricted: bool,
    ) -> CpiResult<UserNetwork> {
        let agent_port =
            mbus.map(|mbus| Port { name: "agent".to_owned(), host: mbus.port(), guest: mbus.port() });
        let mut forwards: Vec<Forward> = Vec::new();
        for port in agent_port.iter().chain(ports) {
            let address = match (manual_address, mbus) {
                (Some(address), _) => address,
                (None, Some(mbus)) if mbus.ip().is_loopback() => mbus.ip(),
                (None, Some(mbus)) => {
                    return Err(CpiFailure::cloud(format!(
                        "agent.mbus must name the address at which this machine forwards the agent's port, \
                         one of 127.0.0.0/8, not {}: set the host in `cloud_provider.mbus` and \
                         `properties.agent.mbus` to 127.0.10.2, for instance",
                        mbus.ip()
                    )));
                }
                (None, None) => {
                    return Err(CpiFailure::invalid_call(format!(
                        "create_vm: no address is known at which this machine can forward port '{}': use a \
                         network of type manual with an address of 127.0.0.0/8 in `static_ips`",
                        port.name
                    )));
                }
            };
            let host_address = SocketAddr::new(address, port.host);
            if let Some(other) = forwards.iter().find(|other| other.host_address == host_address) {
                return Err(CpiFailure::invalid_call(format!(
                    "create_vm: the ports '{}' and '{}' are both at {host_address}: choose another port in \
                     the cloud property `ports`",
                    other.name, port.name
                )));
            }
            forwards.push(Forward { name: port.name.clone(), host_address, guest_port: port.guest });
        }
        Ok(UserNetwork { mac, forwards, is_restricted })
    }

    /// Returns the value of QEMU's option `-netdev`, without the id.
    pub(super) fn netdev(&self) -> String {
        let restrict = if self.is_restricted { "on" } else { "off" };
        let mut option = format!("user,net={SUBNET},dhcpstart={GUEST_ADDRESS},restrict={restrict}");
        for Forward { host_address, guest_port, .. } in &self.forwards {
            let (ip, port) = (host_address.ip(), host_address.port());
            option.push_str(&format!(",hostfwd=tcp:{ip}:{port}-{GUEST_ADDRESS}:{guest_port}"));
        }
        option
    }

    /// Fails if another process listens on a port that will be forwarded.
    pub(super) fn check_ports_are_free(&self) -> CpiResult<()> {
        for Forward { name, host_address, .. } in &self.forwards {
            let Err(error) = TcpListener::bind(host_address) else { continue };
            if error.kind() != io::ErrorKind::AddrInUse {
                return Err(unusable_network_error(format!(
                    "port '{name}' of the VM cannot be forwarded at {host_address}: {error}"
                )));
            }
            let (occupant, hints) = describe_occupant(host_address);
            let error = unusable_network_error(format!("port '{name}' of the VM is in use: {occupant}"));
            return Err(error.with_hints(hints));
        }
        Ok(())
    }
}
