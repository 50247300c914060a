//! Networks of the manifest, and the VM's interfaces in them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::reader::{Field, Problems};

/// The way a network assigns addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkKind {
    /// The manifest sets the address.
    Manual,
    /// The IaaS assigns the address.
    Dynamic,
    /// A floating address.
    Vip,
}

/// A network of the manifest.
#[derive(Debug, Clone)]
pub struct Network {
    /// The name that instance groups refer to.
    pub name: String,
    /// The way it assigns addresses.
    pub kind: NetworkKind,
    cloud_properties: Map<String, Value>,
    dns: Vec<String>,
    subnet: Option<Subnet>,
}

#[derive(Debug, Clone)]
struct Subnet {
    range: IpNet,
    gateway: IpAddr,
    dns: Vec<String>,
    cloud_properties: Map<String, Value>,
}

impl Network {
    pub(super) fn parse(field: &Field<'_>, problems: &mut Problems) -> Option<Self> {
        let name = field.required_text("name", problems);
        let kind = match field.required_text("type", problems).as_deref() {
            Some("manual") => Some(NetworkKind::Manual),
            Some("dynamic") => Some(NetworkKind::Dynamic),
            Some("vip") => Some(NetworkKind::Vip),
            Some(_) => {
                if let Some(kind) = field.get("type") {
                    kind.problem(problems, "must be 'manual', 'dynamic' or 'vip'");
                }
                None
            }
            None => None,
        };
        let subnet = if kind == Some(NetworkKind::Manual) {
            let subnets = field.list("subnets", problems);
            match subnets.as_slice() {
                [subnet] => Subnet::parse(subnet, problems),
                _ => {
                    field.problem(problems, "must have exactly one subnet in `subnets`");
                    None
                }
            }
        } else {
            None
        };
        let cloud_properties = field.object("cloud_properties", problems);
        let dns = field.texts("dns", problems);
        let (name, kind) = (name?, kind?);
        if kind == NetworkKind::Manual && subnet.is_none() {
            return None;
        }
        Some(Network { name, kind, cloud_properties, dns, subnet })
    }

    /// Returns the VM's interface in this network, in the format of `create_vm`.
    fn interface(&self, ip: Option<&str>, defaults: &[String]) -> Value {
        let mut interface = Map::new();
        let kind = match self.kind {
            NetworkKind::Manual => "manual",
            NetworkKind::Dynamic => "dynamic",
            NetworkKind::Vip => "vip",
        };
        interface.insert("type".into(), kind.into());
        match &self.subnet {
            Some(subnet) => {
                interface.insert("netmask".into(), netmask(&subnet.range).into());
                interface.insert("gateway".into(), subnet.gateway.to_string().into());
                if !subnet.dns.is_empty() {
                    interface.insert("dns".into(), json!(subnet.dns));
                }
                interface.insert("cloud_properties".into(), subnet.cloud_properties.clone().into());
            }
            None => {
                if self.kind == NetworkKind::Dynamic && !self.dns.is_empty() {
                    interface.insert("dns".into(), json!(self.dns));
                }
                interface.insert("cloud_properties".into(), self.cloud_properties.clone().into());
            }
        }
        if let Some(ip) = ip {
            interface.insert("ip".into(), ip.into());
        }
        if !defaults.is_empty() {
            interface.insert("default".into(), json!(defaults));
        }
        Value::Object(interface)
    }
}

impl Subnet {
    fn parse(field: &Field<'_>, problems: &mut Problems) -> Option<Self> {
        let range = field.required_text("range", problems).and_then(|text| match text.parse::<IpNet>() {
            Ok(range) => Some(range),
            Err(_) => {
                field.problem(problems, format!("`range` '{text}' is not a CIDR range, such as 10.0.0.0/24"));
                None
            }
        });
        let gateway =
            field.required_text("gateway", problems).and_then(|text| match text.parse::<IpAddr>() {
                Ok(gateway) => Some(gateway),
                Err(_) => {
                    field.problem(problems, format!("`gateway` '{text}' is not an IP address"));
                    None
                }
            });
        let dns = field.texts("dns", problems);
        let cloud_properties = field.object("cloud_properties", problems);
        let (range, gateway) = (range?, gateway?);
        if !range.contains(&gateway) {
            field.problem(problems, format!("`gateway` {gateway} is not in its `range` {range}"));
        } else if gateway == range.network() {
            field.problem(problems, format!("`gateway` {gateway} is the network address of `range` {range}"));
        } else if gateway == range.broadcast() {
            field.problem(
                problems,
                format!("`gateway` {gateway} is the broadcast address of `range` {range}"),
            );
        }
        Some(Subnet { range, gateway, dns, cloud_properties })
    }
}

/// Returns the netmask in BOSH's notation: dotted for IPv4, eight groups of hex digits for IPv6.
fn netmask(range: &IpNet) -> String {
    match range.netmask() {
        IpAddr::V4(mask) => mask.to_string(),
        IpAddr::V6(mask) => mask.segments().map(|segment| format!("{segment:04x}")).join(":"),
    }
}

/// Reads `networks` of the instance group and builds the interfaces of the VM. `names` are those of all
/// networks, including networks with problems.
pub(super) fn interfaces(
    group: &Field<'_>,
    networks: &[Network],
    names: &[String],
    problems: &mut Problems,
) -> Map<String, Value> {
    let mut interfaces = Map::new();
    let memberships = group.list("networks", problems);
    if memberships.is_empty() {
        group.problem(problems, "must be in at least one network (`networks`)");
    }
    let mut roles: Vec<String> = Vec::new();
    for membership in &memberships {
        let mut defaults = membership.texts("default", problems);
        for role in &defaults {
            if role != "dns" && role != "gateway" {
                membership.problem(problems, format!("`default` must be 'dns' or 'gateway', not '{role}'"));
            }
            if roles.contains(role) {
                membership.problem(problems, format!("only one network can be the default for '{role}'"));
            }
            roles.push(role.clone());
        }
        let Some(name) = membership.required_text("name", problems) else { continue };
        let Some(network) = networks.iter().find(|network| network.name == name) else {
            if !names.contains(&name) {
                let hint = super::parse::did_you_mean(&name, names.iter().map(String::as_str));
                membership
                    .problem(problems, format!("names network '{name}', which is not in `networks`{hint}"));
            }
            continue;
        };
        let ips = membership.texts("static_ips", problems);
        for ip in &ips {
            match (ip.parse::<IpAddr>(), &network.subnet) {
                (Err(_), _) => membership.problem(problems, format!("static IP '{ip}' is not an IP address")),
                (Ok(address), Some(subnet)) if !subnet.range.contains(&address) => membership
                    .problem(problems, format!("static IP '{ip}' is not in its `range` {}", subnet.range)),
                _ => {}
            }
        }
        if network.kind == NetworkKind::Manual && ips.is_empty() {
            membership.problem(problems, format!("needs `static_ips`, because network '{name}' is manual"));
        }
        if memberships.len() == 1 {
            defaults = vec!["dns".into(), "gateway".into()];
        }
        if interfaces.contains_key(&name) {
            membership.problem(problems, format!("lists network '{name}' a second time"));
        }
        interfaces.insert(name, network.interface(ips.first().map(String::as_str), &defaults));
    }
    if memberships.len() > 1 {
        for role in ["dns", "gateway"] {
            if !roles.iter().any(|known| known == role) {
                group.problem(
                    problems,
                    format!("is in several networks, so one of them needs `default: [{role}]`"),
                );
            }
        }
    }
    interfaces
}
