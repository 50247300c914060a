//! The network of a guest: each network in the settings has an interface, which is found by its MAC address,
//! and a fixed address.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::DEVICE_TIMEOUT;
use crate::agent::directories::write_atomically;
use crate::agent::settings::AgentSettings;
use crate::agent::tools;
use base::{Error, Result};

const INTERFACES_DIRECTORY: &str = "/sys/class/net";
const RESOLVER_FILE: &str = "/etc/resolv.conf";
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// The settings of the system for the networks of a VM.
#[derive(Debug, Default, PartialEq, Eq)]
struct SystemNetworkPlan {
    /// The arguments of `ip`.
    commands: Vec<Vec<String>>,
    name_servers: Vec<String>,
}

/// Sets up all networks, the name servers and the name of the machine.
pub(super) fn set_up(settings: &AgentSettings) -> Result<()> {
    let deadline = Instant::now() + DEVICE_TIMEOUT;
    let plan = loop {
        match plan(&settings.networks, &list_interfaces(Path::new(INTERFACES_DIRECTORY))) {
            // The kernel may not have found the interface yet.
            Err(_) if Instant::now() < deadline => thread::sleep(POLL_PAUSE),
            result => break result?,
        }
    };
    for command in &plan.commands {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        tools::run("ip", &arguments)?;
    }
    if !plan.name_servers.is_empty() {
        let lines: String = plan.name_servers.iter().map(|server| format!("nameserver {server}\n")).collect();
        write_atomically(Path::new(RESOLVER_FILE), lines.as_bytes(), 0o644)?;
    }
    if !settings.vm.name.is_empty() {
        rustix::system::sethostname(settings.vm.name.as_bytes())
            .map_err(|errno| Error::io("setting the host name", errno.into()))?;
    }
    Ok(())
}

/// Returns the interfaces by their MAC addresses, without the loopback.
fn list_interfaces(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name != "lo")?;
            let mac = fs::read_to_string(entry.path().join("address")).ok()?;
            Some((mac.trim().to_lowercase(), name))
        })
        .collect()
}

/// Returns the commands that configure the interfaces of the guest. Networks find their interface by MAC
/// address; a single network without one takes the only interface.
fn plan(networks: &Map<String, Value>, interfaces: &BTreeMap<String, String>) -> Result<SystemNetworkPlan> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let mut plan =
        SystemNetworkPlan { commands: vec![words(&["link", "set", "lo", "up"])], ..Default::default() };
    let cards: Vec<_> = networks.iter().filter(|(_, network)| network["type"] != "vip").collect();
    for (name, network) in &cards {
        let text = |key: &str| network.get(key).and_then(Value::as_str).unwrap_or_default();
        let network_error =
            |reason: String| Error::invalid(format!("the network '{name}' in the settings {reason}"));
        let address: IpAddr = text("ip").parse().map_err(|_| {
            network_error(
                "has no address, and this agent does not ask a DHCP server: set one in the CPI".to_owned(),
            )
        })?;
        let prefix =
            prefix(text("netmask")).ok_or_else(|| network_error("has no valid netmask".to_owned()))?;
        let mac = text("mac").to_lowercase();
        let interface = match (mac.as_str(), cards.len()) {
            ("", 1) => interfaces.values().next().filter(|_| interfaces.len() == 1),
            (mac, _) => interfaces.get(mac),
        };
        let interface = interface.ok_or_else(|| network_error(format!("has no interface (MAC '{mac}')")))?;
        plan.commands.push(words(&["link", "set", "dev", interface, "up"]));
        let with_prefix = format!("{address}/{prefix}");
        plan.commands.push(words(&["address", "replace", &with_prefix, "dev", interface]));
        let has_role = |role: &str| {
            let roles = network.get("default").and_then(Value::as_array);
            cards.len() == 1 || roles.is_some_and(|roles| roles.iter().any(|listed_role| listed_role == role))
        };
        if has_role("gateway")
            && let Ok(gateway) = text("gateway").parse::<IpAddr>()
        {
            let gateway = gateway.to_string();
            plan.commands.push(words(&["route", "replace", "default", "via", &gateway, "dev", interface]));
        }
        if has_role("dns") {
            let servers = network.get("dns").and_then(Value::as_array).into_iter().flatten();
            // Only addresses get into the file.
            let servers = servers.filter_map(|server| server.as_str()?.parse::<IpAddr>().ok());
            plan.name_servers.extend(servers.map(|server| server.to_string()));
        }
    }
    Ok(plan)
}

/// Returns the length of the prefix of a netmask.
fn prefix(netmask: &str) -> Option<u32> {
    match netmask.parse().ok()? {
        IpAddr::V4(mask) => {
            let bits = mask.to_bits();
            (bits.leading_ones() == bits.count_ones()).then(|| bits.leading_ones())
        }
        IpAddr::V6(mask) => {
            let bits = mask.to_bits();
            (bits.leading_ones() == bits.count_ones()).then(|| bits.leading_ones())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan_networks(networks: Value, interfaces: &[(&str, &str)]) -> Result<SystemNetworkPlan> {
        let interfaces =
            interfaces.iter().map(|(mac, name)| ((*mac).to_owned(), (*name).to_owned())).collect();
        plan(networks.as_object().unwrap(), &interfaces)
    }

    #[test]
    fn only_network_gets_the_default_route_and_the_name_servers() {
        let network = json!({"type": "dynamic", "ip": "10.0.2.15", "netmask": "255.255.255.0",
            "gateway": "10.0.2.2", "dns": ["10.0.2.3", "x\ny"], "mac": "52:54:00:AA:bb:01"});
        let plan =
            plan_networks(json!({"a": network, "v": {"type": "vip"}}), &[("52:54:00:aa:bb:01", "eth0")]);
        let plan = plan.unwrap();
        let commands: Vec<String> = plan.commands.iter().map(|command| command.join(" ")).collect();
        assert_eq!(
            commands,
            [
                "link set lo up",
                "link set dev eth0 up",
                "address replace 10.0.2.15/24 dev eth0",
                "route replace default via 10.0.2.2 dev eth0",
            ]
        );
        assert_eq!(plan.name_servers, ["10.0.2.3"]);
    }

    #[test]
    fn roles_decide_with_several_networks() {
        let network = |ip: &str, mac: &str, roles: Value| {
            json!({"ip": ip, "netmask": "255.255.0.0", "gateway": "10.1.0.1", "dns": ["10.9.9.9"], "mac": mac,
                "default": roles})
        };
        let networks = json!({"a": network("10.1.0.2", "m1", json!(["gateway"])),
            "b": network("10.2.0.2", "m2", json!(["dns"]))});
        let plan = plan_networks(networks.clone(), &[("m1", "eth1"), ("m2", "eth0")]).unwrap();
        assert_eq!(plan.commands.iter().filter(|command| command[0] == "route").count(), 1);
        assert_eq!(plan.name_servers, ["10.9.9.9"]);
        assert!(plan_networks(networks, &[("m1", "eth1")]).unwrap_err().to_string().contains("(MAC 'm2')"));
    }

    #[test]
    fn networks_without_address_or_netmask_are_errors() {
        for (network, part) in [
            (json!({"type": "dynamic"}), "does not ask a DHCP server"),
            (json!({"ip": "10.0.0.2"}), "no valid netmask"),
            (json!({"ip": "10.0.0.2", "netmask": "255.0.255.0"}), "no valid netmask"),
        ] {
            let error = plan_networks(json!({"a": network}), &[("m", "eth0")]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(prefix("ffff:ffff::"), Some(32));
    }
}
