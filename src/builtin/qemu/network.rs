//! The network of a VM: QEMU's user-mode network, which needs no privileges. The VM is alone in it. Ports on
//! an address of this machine are forwarded to the VM: that of the agent, and those in the cloud property
//! `ports`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::properties::Port;
use crate::cpi::agent::AgentConfig;
use crate::cpi::args::type_name;
use crate::cpi::cid::Cid;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use base::JsonObject;
use net::listener;

/// The addresses of the user-mode network, which are QEMU's defaults.
const SUBNET: &str = "10.0.2.0/24";
pub(super) const GUEST: &str = "10.0.2.15";
const NETMASK: &str = "255.255.255.0";
const GATEWAY: &str = "10.0.2.2";
const DNS: &str = "10.0.2.3";

/// The network of a VM, as its record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UserNetwork {
    pub mac: String,
    forwards: Vec<Forward>,
    /// True if the VM cannot open connections to other machines.
    restrict: bool,
}

/// A forwarded port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Forward {
    name: String,
    /// The address on this machine.
    from: SocketAddr,
    /// The port in the VM.
    to: u16,
}

/// The networks of a VM for its parties.
#[derive(Debug)]
pub(super) struct VmNetworks {
    pub user: UserNetwork,
    /// The answer of `create_vm`.
    pub answered: JsonObject,
    /// The networks in the agent's settings.
    pub guest: JsonObject,
    /// The configuration of the agent, which listens on all addresses of the VM.
    pub agent: AgentConfig,
}

/// Plans the networks of a VM. Fails if they are not possible without privileges, or if a port is in use.
pub(super) fn plan(
    vm: &Cid,
    networks: &JsonObject,
    agent: &AgentConfig,
    ports: &[Port],
    restrict: bool,
) -> CpiResult<VmNetworks> {
    let (name, manual) = card(networks)?;
    let listener = agent.listener()?;
    let Some(mbus) = listener.first().copied() else {
        return Err(CpiFailure::cloud("the host of agent.mbus has no address"));
    };
    let address = match manual {
        Some(address) => IpAddr::V4(address),
        None if mbus.ip().is_loopback() => mbus.ip(),
        None => {
            return Err(CpiFailure::cloud(format!(
                "agent.mbus must name the address at which this machine forwards the agent's port, one of \
                 127.0.0.0/8, not {}: set the host in `cloud_provider.mbus` and `properties.agent.mbus` to \
                 127.0.10.2, for instance",
                mbus.ip()
            )));
        }
    };
    let agent_port = Port { name: "agent".to_owned(), host: mbus.port(), guest: mbus.port() };
    let mut forwards: Vec<Forward> = Vec::new();
    for port in std::iter::once(&agent_port).chain(ports) {
        let from = SocketAddr::new(address, port.host);
        if let Some(other) = forwards.iter().find(|other| other.from == from) {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: the ports '{}' and '{}' are both at {from}: choose another port in the cloud \
                 property `ports`",
                other.name, port.name
            )));
        }
        forwards.push(Forward { name: port.name.clone(), from, to: port.guest });
    }
    let user = UserNetwork { mac: mac(vm), forwards, restrict };
    user.check_ports_are_free()?;
    let mut guest = networks.clone();
    let mut answered = networks.clone();
    if let Some(Value::Object(network)) = guest.get_mut(name) {
        let given =
            json!({"ip": GUEST, "netmask": NETMASK, "gateway": GATEWAY, "dns": [DNS], "mac": user.mac});
        network.extend(given.as_object().cloned().unwrap_or_default());
    }
    if manual.is_none()
        && let Some(Value::Object(network)) = answered.get_mut(name)
    {
        let given = json!({"ip": GUEST, "netmask": NETMASK, "gateway": GATEWAY});
        network.extend(given.as_object().cloned().unwrap_or_default());
    }
    let agent = AgentConfig { mbus: Some(everywhere(agent.url()?)), cert: agent.cert.clone() };
    Ok(VmNetworks { user, answered, guest, agent })
}

/// Returns the name of the only network with a card, and its address if it is manual.
fn card(networks: &JsonObject) -> CpiResult<(&str, Option<Ipv4Addr>)> {
    let mut cards = Vec::new();
    for (name, network) in networks {
        let Value::Object(network) = network else {
            let given = type_name(network);
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: network '{name}' must be a hash, {given} given"
            )));
        };
        match network.get("type").map_or(Some("manual"), Value::as_str) {
            Some("manual") => cards.push((name.as_str(), Some(manual_address(name, network)?))),
            Some("dynamic") => cards.push((name.as_str(), None)),
            Some("vip") => {}
            _ => {
                return Err(CpiFailure::invalid_call(format!(
                    "create_vm: network '{name}' must be of type manual, dynamic or vip"
                )));
            }
        }
    }
    match cards.as_slice() {
        [card] => Ok(*card),
        [] => Err(CpiFailure::invalid_call("create_vm: the VM needs a network of type manual or dynamic")),
        cards => Err(not_possible(format!(
            "the VM has {} networks, and a user-mode network is the only one that VMs of the 'qemu' CPI can \
             have: leave one in `networks` of the instance group",
            cards.len()
        ))),
    }
}

fn manual_address(name: &str, network: &JsonObject) -> CpiResult<Ipv4Addr> {
    let ip = network.get("ip").and_then(Value::as_str).unwrap_or_default();
    let address: IpAddr = ip.parse().map_err(|_| {
        CpiFailure::invalid_call(format!("create_vm: network '{name}' needs an ip address, not '{ip}'"))
    })?;
    match address {
        IpAddr::V4(address) if address.is_loopback() => Ok(address),
        _ => Err(not_possible(format!(
            "the address {ip} of network '{name}' cannot be used: this machine forwards ports of a VM of the \
             'qemu' CPI at an address of 127.0.0.0/8. Use one, or apply examples/qemu/loopback.yml \
             (`monopile example qemu`): `--ops-file qemu/loopback.yml`"
        ))),
    }
}

fn not_possible(message: String) -> CpiFailure {
    CpiFailure::new(FailureKind::VmCreationFailed, message)
}

/// Replaces the host of an mbus URL by 0.0.0.0, because the address in it exists only outside the VM.
fn everywhere(url: &str) -> String {
    let (rest, path) = match url.strip_prefix("https://").unwrap_or(url).split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (url.strip_prefix("https://").unwrap_or(url), String::new()),
    };
    let (user, host_port) = rest.rsplit_once('@').map_or(("", rest), |(user, host_port)| (user, host_port));
    let port = host_port.rsplit_once(':').map_or(host_port, |(_, port)| port);
    format!("https://{user}@0.0.0.0:{port}{path}")
}

/// Returns a MAC address in the range of QEMU, which the VM keeps.
fn mac(vm: &Cid) -> String {
    let digits: String = vm.as_str().chars().rev().take(6).collect();
    let pairs: Vec<&str> = [0, 2, 4].into_iter().filter_map(|at| digits.get(at..at + 2)).collect();
    format!("52:54:00:{}", pairs.join(":"))
}

impl UserNetwork {
    /// Returns the value of QEMU's option `-netdev`.
    pub(super) fn netdev(&self) -> String {
        let restrict = if self.restrict { "on" } else { "off" };
        let mut option = format!("user,id=net0,net={SUBNET},dhcpstart={GUEST},restrict={restrict}");
        for Forward { from, to, .. } in &self.forwards {
            let (ip, port) = (from.ip(), from.port());
            option.push_str(&format!(",hostfwd=tcp:{ip}:{port}-{GUEST}:{to}"));
        }
        option
    }

    /// Fails if another process listens on a port that will be forwarded.
    pub(super) fn check_ports_are_free(&self) -> CpiResult<()> {
        for Forward { name, from, .. } in &self.forwards {
            let Err(error) = TcpListener::bind(from) else { continue };
            if error.kind() != io::ErrorKind::AddrInUse {
                return Err(not_possible(format!(
                    "port '{name}' of the VM cannot be forwarded at {from}: {error}"
                )));
            }
            let owner = listener::find(&from.ip().to_string(), from.port());
            let owner =
                owner.map_or_else(|| "a process on this machine".to_owned(), |owner| owner.to_string());
            return Err(not_possible(format!(
                "port '{name}' of the VM is in use: {owner} listens on {from}. Stop it, or choose another \
                 address in the manifest: in `networks`, `static_ips` and `cloud_provider.mbus`"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpi::cid::ObjectKind;

    fn planned(networks: Value, mbus: &str, ports: &[Port]) -> Result<VmNetworks, String> {
        let agent = AgentConfig { mbus: Some(mbus.to_owned()), cert: None };
        let cid = ObjectKind::Vm.parse("vm-00000000-0000-4000-8000-0000000a0b0c").unwrap();
        plan(&cid, networks.as_object().unwrap(), &agent, ports, false).map_err(|failure| failure.message)
    }

    #[test]
    fn dynamic_network_reports_the_address_in_the_vm() {
        let web = Port { name: "web".to_owned(), host: 39781, guest: 80 };
        let plan = planned(json!({"a": {"type": "dynamic"}}), "https://u:p@127.9.8.7:39780", &[web]).unwrap();
        assert_eq!(plan.answered["a"]["ip"], GUEST);
        assert_eq!(plan.guest["a"]["mac"], "52:54:00:c0:b0:a0");
        assert_eq!(plan.agent.mbus.as_deref(), Some("https://u:p@0.0.0.0:39780"));
        assert_eq!(
            plan.user.netdev(),
            "user,id=net0,net=10.0.2.0/24,dhcpstart=10.0.2.15,restrict=off,\
             hostfwd=tcp:127.9.8.7:39780-10.0.2.15:39780,hostfwd=tcp:127.9.8.7:39781-10.0.2.15:80"
        );
    }

    #[test]
    fn manual_address_is_that_of_forwarded_ports() {
        let networks = json!({"a": {"ip": "127.9.8.6"}, "b": {"type": "vip", "ip": "8.8.8.8"}});
        let plan = planned(networks.clone(), "https://u:p@0.0.0.0:39782/x", &[]).unwrap();
        assert!(plan.user.netdev().contains("tcp:127.9.8.6:39782-"));
        assert_eq!(json!(plan.answered), networks);
        assert_eq!(plan.guest["a"]["ip"], GUEST);
        assert_eq!(plan.agent.mbus.as_deref(), Some("https://u:p@0.0.0.0:39782/x"));
    }

    #[test]
    fn networks_that_need_privileges_are_refused() {
        let mbus = "https://u:p@127.9.8.5:39783";
        let dynamic = json!({"type": "dynamic"});
        for (networks, part) in [
            (json!({"a": {"ip": "10.0.0.6"}}), "examples/qemu/loopback.yml"),
            (json!({"a": {"ip": "nope"}}), "needs an ip address"),
            (json!({"a": dynamic, "b": dynamic}), "has 2 networks"),
            (json!({"a": {"type": "vip"}}), "needs a network"),
            (json!({"a": {"type": "x"}}), "of type manual"),
            (json!({"a": 1}), "must be a hash"),
        ] {
            let error = planned(networks.clone(), mbus, &[]).unwrap_err();
            assert!(error.contains(part), "{networks}: {error}");
        }
        let anywhere = planned(json!({"a": dynamic}), "https://u:p@0.0.0.0:39784", &[]).unwrap_err();
        assert!(anywhere.contains("one of 127.0.0.0/8"), "{anywhere}");
    }

    #[test]
    fn ports_in_use_are_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let web = Port { name: "web".to_owned(), host: port, guest: 80 };
        let dynamic = json!({"a": {"type": "dynamic"}});
        let error =
            planned(dynamic.clone(), "https://u:p@127.0.0.1:39785", std::slice::from_ref(&web)).unwrap_err();
        assert!(error.contains("port 'web' of the VM is in use: process"), "{error}");
        let both = planned(dynamic, &format!("https://u:p@127.0.0.1:{port}"), &[web]).unwrap_err();
        assert!(both.contains("'agent' and 'web' are both at"), "{both}");
    }
}
