//! The networks of a VM, each with a card of its own: at most one user-mode network of QEMU, which needs no
//! privileges, and any number of networks on bridges or tap devices of this machine, which an administrator
//! set up.

pub(super) mod host_device;
mod user;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::host_device::{DeviceNetwork, HostDevice};
use self::user::{GATEWAY, GUEST_ADDRESS, NETMASK, UserNetwork};
use super::properties::{self, Port};
use crate::cpi::agent_settings::AgentConfig;
use crate::cpi::args::type_name;
use crate::cpi::cid::Cid;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use base::JsonObject;

/// The PCI slot of the network cards, which are functions of one device.
const PCI_SLOT: u8 = 3;
/// The maximum number of networks with a card. A CID has digits for as many MAC addresses.
const MAX_CARDS: usize = 5;

/// The networks of a VM, as its record keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NetworksRecord {
    user_network: Option<UserNetwork>,
    /// Records of earlier versions lack it.
    #[serde(default)]
    device_networks: Vec<DeviceNetwork>,
}

/// The networks of a VM in the forms for its record, the answer of `create_vm`, the guest and the agent.
#[derive(Debug)]
pub(super) struct NetworkPlan {
    /// The networks as the VM's record keeps them.
    pub record: NetworksRecord,
    /// The answer of `create_vm`.
    pub answer: JsonObject,
    /// The networks in the agent's settings.
    pub guest: JsonObject,
    /// The configuration of the agent, which listens on all addresses of the VM.
    pub agent: AgentConfig,
}

/// A network with a card.
struct Card<'a> {
    name: &'a str,
    /// The address in the manifest, if the network is manual.
    manual_address: Option<IpAddr>,
    /// The device of this machine, unless the network is the user-mode network.
    device: Option<HostDevice>,
}

/// Plans the networks of a VM. Fails if they are not possible on this machine, or if a port is in use.
pub(super) fn plan(
    vm: &Cid,
    networks: &JsonObject,
    agent: &AgentConfig,
    ports: &[Port],
    is_restricted: bool,
) -> CpiResult<NetworkPlan> {
    let cards = cards(networks)?;
    let mut guest = networks.clone();
    let mut answer = networks.clone();
    let mut record = NetworksRecord { user_network: None, device_networks: Vec::new() };
    let Some(mbus) = agent.listen_addresses()?.first().copied() else {
        return Err(CpiFailure::cloud("the host of agent.mbus has no address"));
    };
    let agent_is_on_device =
        cards.iter().any(|card| card.device.is_some() && card.manual_address == Some(mbus.ip()));
    for (index, Card { name, manual_address, device }) in cards.into_iter().enumerate() {
        let mac = mac(vm, index);
        add_keys(&mut guest, name, &json!({"mac": mac}));
        match device {
            Some(device) => record.device_networks.push(DeviceNetwork::new(mac, device)),
            None => {
                let mbus = (!agent_is_on_device).then_some(mbus);
                record.user_network =
                    Some(UserNetwork::plan(mac, manual_address, mbus, ports, is_restricted)?);
                let address = json!({"ip": GUEST_ADDRESS, "netmask": NETMASK, "gateway": GATEWAY});
                add_keys(&mut guest, name, &address);
                add_keys(&mut guest, name, &json!({"dns": [user::NAME_SERVER]}));
                if manual_address.is_none() {
                    add_keys(&mut answer, name, &address);
                }
            }
        }
    }
    if record.user_network.is_none() && !ports.is_empty() {
        return Err(CpiFailure::invalid_call(
            "create_vm: the cloud property `ports` needs a network without `bridge` or `tap`: remove it, \
             because the VM's own addresses have all of its ports",
        ));
    }
    record.check_host()?;
    let agent = AgentConfig { mbus: Some(wildcard_url(agent.url()?)), cert: agent.cert.clone() };
    Ok(NetworkPlan { record, answer, guest, agent })
}

/// Adds keys to a network.
fn add_keys(networks: &mut JsonObject, name: &str, new_keys: &Value) {
    if let (Some(Value::Object(network)), Value::Object(new_keys)) = (networks.get_mut(name), new_keys) {
        network.extend(new_keys.clone());
    }
}

/// Returns the networks with a card. At most one of them is without a device of this machine.
fn cards(networks: &JsonObject) -> CpiResult<Vec<Card<'_>>> {
    let mut cards = Vec::new();
    for (name, network) in networks {
        let Value::Object(network) = network else {
            let actual = type_name(network);
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: network '{name}' must be an object, not {actual}"
            )));
        };
        let device = properties::host_device(name, network.get("cloud_properties"))?;
        match network.get("type").map_or(Some("manual"), Value::as_str) {
            Some("manual") => {
                let manual_address = Some(manual_address(name, network, device.is_some())?);
                cards.push(Card { name, manual_address, device });
            }
            Some("dynamic") => match device {
                None => cards.push(Card { name, manual_address: None, device }),
                Some(device) => {
                    return Err(CpiFailure::invalid_call(format!(
                        "create_vm: network '{name}' is on {device} and of type dynamic, but the address \
                         must be known: use the type manual with `static_ips`"
                    )));
                }
            },
            Some("vip") => {}
            _ => {
                return Err(CpiFailure::invalid_call(format!(
                    "create_vm: network '{name}' must be of type manual, dynamic or vip"
                )));
            }
        }
    }
    let user_mode_count = cards.iter().filter(|card| card.device.is_none()).count();
    match cards.len() {
        0 => Err(CpiFailure::invalid_call("create_vm: the VM needs a network of type manual or dynamic")),
        count if count > MAX_CARDS => Err(unusable_network_error(format!(
            "the VM has {count} networks, and VMs of the 'qemu' CPI can have {MAX_CARDS}: leave fewer in \
             `networks` of the instance group"
        ))),
        count if user_mode_count > 1 => Err(unusable_network_error(format!(
            "the VM has {count} networks, and only one can be without a bridge: leave one in `networks` of \
             the instance group, or set `bridge` or `tap` in the `cloud_properties` of the others' subnets"
        ))),
        _ => Ok(cards),
    }
}

/// Returns the address of a manual network. Without a device, it must be a loopback address.
fn manual_address(name: &str, network: &JsonObject, is_on_device: bool) -> CpiResult<IpAddr> {
    let ip = network.get("ip").and_then(Value::as_str).unwrap_or_default();
    let address: IpAddr = ip.parse().map_err(|_| {
        CpiFailure::invalid_call(format!("create_vm: network '{name}' needs an ip address, not '{ip}'"))
    })?;
    match address {
        _ if is_on_device && !address.is_loopback() => Ok(address),
        _ if is_on_device => Err(unusable_network_error(format!(
            "the address {ip} of network '{name}' cannot be used: it is a loopback address, and the network \
             is on a bridge or a tap device. Use an address of the bridge's subnet"
        ))),
        IpAddr::V4(address) if address.is_loopback() => Ok(address.into()),
        _ => Err(unusable_network_error(format!(
            "the address {ip} of network '{name}' cannot be used: this machine forwards ports of a VM of the \
             'qemu' CPI at an address of 127.0.0.0/8. Use one, or apply examples/qemu/loopback.yml \
             (`monopile example qemu`): `--ops-file qemu/loopback.yml`. If {ip} is in the subnet of a \
             bridge of this machine, set `bridge` in the `cloud_properties` of the subnet"
        ))),
    }
}

fn unusable_network_error(message: String) -> CpiFailure {
    CpiFailure::new(FailureKind::VmCreationFailed, message)
}

/// Replaces the host of an mbus URL by 0.0.0.0, because the address in it may exist only outside the VM.
fn wildcard_url(url: &str) -> String {
    let (rest, path) = match url.strip_prefix("https://").unwrap_or(url).split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (url.strip_prefix("https://").unwrap_or(url), String::new()),
    };
    let (user, host_port) = rest.rsplit_once('@').map_or(("", rest), |(user, host_port)| (user, host_port));
    let port = host_port.rsplit_once(':').map_or(host_port, |(_, port)| port);
    format!("https://{user}@0.0.0.0:{port}{path}")
}

/// Returns the MAC address of a network card, in the range of QEMU. The VM keeps it, because it consists of
/// digits of the CID.
fn mac(vm: &Cid, index: usize) -> String {
    let digits = vm.as_str().chars().rev().filter(char::is_ascii_hexdigit).skip(6 * index).take(6);
    let digits: String = digits.collect();
    let pairs: Vec<&str> = [0, 2, 4].into_iter().filter_map(|start| digits.get(start..start + 2)).collect();
    format!("52:54:00:{}", pairs.join(":"))
}

impl NetworksRecord {
    /// Returns QEMU's options for all networks: their names without a dash, and their values.
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        let user = self.user_network.iter().map(|user| (&user.mac, user.netdev()));
        let devices = self.device_networks.iter().map(|network| (&network.mac, network.netdev()));
        let cards: Vec<_> = user.chain(devices).collect();
        let multifunction_option = if cards.len() > 1 { ",multifunction=on" } else { "" };
        let options = cards.into_iter().enumerate().flat_map(|(index, (mac, netdev))| {
            let address = format!("bus=pci.0,addr={PCI_SLOT:#x}.{index}");
            let device = format!(
                "virtio-net-pci,netdev=net{index},mac={mac},romfile=,{address}{multifunction_option}"
            );
            [("netdev", format!("{netdev},id=net{index}")), ("device", device)]
        });
        options.collect()
    }

    /// Fails if this machine lacks a device, or if another process listens on a port that will be forwarded.
    pub(super) fn check_host(&self) -> CpiResult<()> {
        self.device_networks.iter().try_for_each(DeviceNetwork::check)?;
        self.user_network.iter().try_for_each(UserNetwork::check_ports_are_free)
    }

    /// Connects the cards of a VM whose QEMU runs with their bridges.
    pub(super) fn connect(&self) -> CpiResult<()> {
        self.device_networks.iter().try_for_each(DeviceNetwork::connect)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::cpi::cid::ObjectKind;

    fn plan_networks(networks: Value, mbus: &str, ports: &[Port]) -> Result<NetworkPlan, String> {
        let agent = AgentConfig { mbus: Some(mbus.to_owned()), cert: None };
        let cid = ObjectKind::Vm.parse("vm-00000000-0000-4000-8000-0000000a0b0c").unwrap();
        plan(&cid, networks.as_object().unwrap(), &agent, ports, false).map_err(|failure| failure.message)
    }

    /// Returns the description of the first network for QEMU.
    fn netdev(networks: &NetworkPlan) -> String {
        networks.record.options()[0].1.clone()
    }

    #[test]
    fn dynamic_network_reports_the_address_in_the_vm() {
        let web = Port { name: "web".to_owned(), host: 39781, guest: 80 };
        let plan =
            plan_networks(json!({"a": {"type": "dynamic"}}), "https://u:p@127.9.8.7:39780", &[web]).unwrap();
        assert_eq!(plan.answer["a"]["ip"], GUEST_ADDRESS);
        assert_eq!(plan.guest["a"]["mac"], "52:54:00:c0:b0:a0");
        assert_eq!(plan.agent.mbus.as_deref(), Some("https://u:p@0.0.0.0:39780"));
        assert_eq!(
            netdev(&plan),
            "user,net=10.0.2.0/24,dhcpstart=10.0.2.15,restrict=off,\
             hostfwd=tcp:127.9.8.7:39780-10.0.2.15:39780,hostfwd=tcp:127.9.8.7:39781-10.0.2.15:80,id=net0"
        );
    }

    #[test]
    fn manual_address_is_that_of_forwarded_ports() {
        let networks = json!({"a": {"ip": "127.9.8.6"}, "b": {"type": "vip", "ip": "8.8.8.8"}});
        let plan = plan_networks(networks.clone(), "https://u:p@0.0.0.0:39782/x", &[]).unwrap();
        assert!(netdev(&plan).contains("tcp:127.9.8.6:39782-"));
        assert_eq!(json!(plan.answer), networks);
        assert_eq!(plan.guest["a"]["ip"], GUEST_ADDRESS);
        assert_eq!(plan.agent.mbus.as_deref(), Some("https://u:p@0.0.0.0:39782/x"));
    }

    #[test]
    fn digits_of_the_cid_are_the_mac_addresses() {
        let cid = ObjectKind::Vm.parse("vm-00112233-4455-4677-8899-aabbccddeeff").unwrap();
        let macs: Vec<String> = (0..MAX_CARDS).map(|index| mac(&cid, index)).collect();
        assert_eq!(macs[0], "52:54:00:ff:ee:dd");
        assert_eq!(macs[4], "52:54:00:33:22:11");
    }

    #[test]
    fn networks_that_are_not_possible_are_refused() {
        let mbus = "https://u:p@127.9.8.5:39783";
        let dynamic = json!({"type": "dynamic"});
        for (networks, part) in [
            (json!({"a": {"ip": "10.0.0.6"}}), "examples/qemu/loopback.yml"),
            (json!({"a": {"ip": "nope"}}), "needs an ip address"),
            (json!({"a": dynamic, "b": dynamic}), "only one can be without a bridge"),
            (json!({"a": {"type": "vip"}}), "needs a network"),
            (json!({"a": {"type": "x"}}), "of type manual"),
            (json!({"a": 1}), "must be an object"),
        ] {
            let error = plan_networks(networks.clone(), mbus, &[]).unwrap_err();
            assert!(error.contains(part), "{networks}: {error}");
        }
        let error = plan_networks(json!({"a": dynamic}), "https://u:p@0.0.0.0:39784", &[]).unwrap_err();
        assert!(error.contains("one of 127.0.0.0/8"), "{error}");
    }

    #[test]
    fn ports_in_use_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let web = Port { name: "web".to_owned(), host: port, guest: 80 };
        let dynamic = json!({"a": {"type": "dynamic"}});
        let error = plan_networks(dynamic.clone(), "https://u:p@127.0.0.1:39785", std::slice::from_ref(&web))
            .unwrap_err();
        assert!(error.contains("port 'web' of the VM is in use: process"), "{error}");
        let error = plan_networks(dynamic, &format!("https://u:p@127.0.0.1:{port}"), &[web]).unwrap_err();
        assert!(error.contains("'agent' and 'web' are both at"), "{error}");
    }
}
