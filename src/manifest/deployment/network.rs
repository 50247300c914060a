//! Networks of the manifest, and the VM's interfaces in them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::az::Az;
use super::sections::{AZS, BY_CPI, Sections};
use crate::reader::{Field, Problems};
use base::error::did_you_mean;

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

/// A network of the manifest or the cloud config.
#[derive(Debug, Clone)]
pub struct Network {
    /// The name that instance groups refer to.
    pub name: String,
    /// The way it assigns addresses.
    pub kind: NetworkKind,
    /// Its subnets. A dynamic network without `subnets` and a floating network have one for all zones.
    subnets: Vec<Subnet>,
}

/// A subnet of a network.
#[derive(Debug, Clone)]
struct Subnet {
    /// The addresses and the gateway of a manual network.
    range: Option<(IpNet, IpAddr)>,
    /// The place of `range`.
    range_place: String,
    dns: Vec<String>,
    cloud_properties: Map<String, Value>,
    /// The names of its zones; empty for all zones.
    zones: Vec<String>,
}

impl Network {
    /// Reads a network. A manual network needs subnets, a dynamic one may have them, and otherwise the
    /// network itself is the only subnet.
    pub(super) fn parse(field: &Field<'_>, sections: &Sections<'_>, problems: &mut Problems) -> Option<Self> {
        let name = field.required_text("name", problems);
        let kind = match field.required_text("type", problems).as_deref() {
            Some("manual") => Some(NetworkKind::Manual),
            Some("dynamic") => Some(NetworkKind::Dynamic),
            Some("vip") => Some(NetworkKind::Vip),
            Some(other) => {
                if let Some(kind) = field.get("type") {
                    let hint = did_you_mean(other, ["manual", "dynamic", "vip"]);
                    kind.add_problem(
                        problems,
                        format!("must be 'manual', 'dynamic' or 'vip', not '{other}'{hint}"),
                    );
                }
                None
            }
            None => None,
        };
        let (name, kind) = (name?, kind?);
        let subnets = match kind {
            NetworkKind::Manual => {
                let fields = field.list("subnets", problems);
                if fields.is_empty() {
                    field.add_problem(problems, "must have a subnet in `subnets`");
                }
                fields.iter().map(|subnet| Subnet::parse_manual(subnet, sections, problems)).collect()
            }
            NetworkKind::Dynamic if field.get("subnets").is_some() => {
                for key in ["cloud_properties", BY_CPI, "dns"] {
                    if let Some(value) = field.get(key) {
                        value.add_problem(problems, "and `subnets` cannot both be given");
                    }
                }
                let fields = field.list("subnets", problems);
                fields.iter().map(|subnet| Some(Subnet::parse(subnet, sections, problems))).collect()
            }
            NetworkKind::Dynamic | NetworkKind::Vip => {
                Some(vec![Subnet { zones: Vec::new(), ..Subnet::parse(field, sections, problems) }])
            }
        };
        Some(Network { name, kind, subnets: subnets? })
    }

    /// Finds the subnet of a member's address, among the subnets of its zone. A group without a zone can be
    /// in any subnet.
    fn find_subnet(
        &self,
        membership: &Field<'_>,
        ips: &[String],
        az: Option<&Az>,
        problems: &mut Problems,
    ) -> Option<&Subnet> {
        let in_zone =
            |subnet: &&Subnet| az.is_none_or(|az| subnet.zones.is_empty() || subnet.zones.contains(&az.name));
        let candidates: Vec<&Subnet> = self.subnets.iter().filter(in_zone).collect();
        if let (Some(az), []) = (az, candidates.as_slice()) {
            let zones: Vec<&str> =
                self.subnets.iter().flat_map(|subnet| &subnet.zones).map(String::as_str).collect();
            let (name, az, zones) = (&self.name, &az.name, zones.join(", "));
            let problem = format!(
                "names network '{name}', which has no subnet in availability zone '{az}', only in {zones}"
            );
            membership.add_problem(problems, problem);
            return None;
        }
        let ranges: Vec<(IpNet, &str)> = candidates
            .iter()
            .filter_map(|subnet| Some((subnet.range.as_ref()?.0, subnet.range_place.as_str())))
            .collect();
        let mut first_subnet = None;
        for ip in ips {
            let Ok(address) = ip.parse::<IpAddr>() else {
                membership.add_problem_at(
                    "static_ips",
                    problems,
                    format!("has the static IP '{ip}', which is not an IP address"),
                );
                continue;
            };
            let contains_address =
                |subnet: &&&Subnet| subnet.range.as_ref().is_none_or(|(range, _)| range.contains(&address));
            match (candidates.iter().find(contains_address), ranges.as_slice()) {
                (Some(subnet), _) => first_subnet = first_subnet.or(Some(*subnet)),
                (None, [(range, place)]) => {
                    let problem = format!("has the static IP '{ip}', which is not in the `range` {range}");
                    membership.add_problem_at("static_ips", problems, problem);
                    problems.add_hint(format!("use an address of {range}, or change the `range` ({place})"));
                }
                (None, ranges) => {
                    let ranges: Vec<String> = ranges.iter().map(|(range, _)| range.to_string()).collect();
                    let problem = format!(
                        "has the static IP '{ip}', which is in no `range` of its zone: {}",
                        ranges.join(", ")
                    );
                    membership.add_problem_at("static_ips", problems, problem);
                }
            }
        }
        first_subnet.or(candidates.first().copied())
    }

    /// Returns the VM's interface in this network, in the format of `create_vm`.
    fn interface(&self, subnet: &Subnet, ip: Option<&str>, defaults: &[String]) -> Value {
        let mut interface = Map::new();
        let kind = match self.kind {
            NetworkKind::Manual => "manual",
            NetworkKind::Dynamic => "dynamic",
            NetworkKind::Vip => "vip",
        };
        interface.insert("type".into(), kind.into());
        if let Some((range, gateway)) = &subnet.range {
            interface.insert("netmask".into(), netmask(range).into());
            interface.insert("gateway".into(), gateway.to_string().into());
        }
        if self.kind != NetworkKind::Vip && !subnet.dns.is_empty() {
            interface.insert("dns".into(), json!(subnet.dns));
        }
        interface.insert("cloud_properties".into(), subnet.cloud_properties.clone().into());
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
    /// Reads what the subnets of all kinds of network have, or a network without subnets.
    fn parse(field: &Field<'_>, sections: &Sections<'_>, problems: &mut Problems) -> Self {
        let dns = field.texts("dns", problems);
        let cloud_properties = sections.read_cloud_properties(field, problems);
        let zones = read_zones(field, sections, problems);
        Subnet { range: None, range_place: String::new(), dns, cloud_properties, zones }
    }

    /// Reads a subnet of a manual network.
    fn parse_manual(field: &Field<'_>, sections: &Sections<'_>, problems: &mut Problems) -> Option<Self> {
        let range = field.required_text("range", problems).and_then(|text| match text.parse::<IpNet>() {
            Ok(range) => Some(range),
            Err(_) => {
                field.add_problem_at(
                    "range",
                    problems,
                    format!("has the `range` '{text}', which is not a CIDR range, such as 10.0.0.0/24"),
                );
                None
            }
        });
        let gateway =
            field.required_text("gateway", problems).and_then(|text| match text.parse::<IpAddr>() {
                Ok(gateway) => Some(gateway),
                Err(_) => {
                    field.add_problem_at(
                        "gateway",
                        problems,
                        format!("has the `gateway` '{text}', which is not an IP address"),
                    );
                    None
                }
            });
        let subnet = Subnet::parse(field, sections, problems);
        let (range, gateway) = (range?, gateway?);
        if !range.contains(&gateway) {
            let problem = format!("has the `gateway` {gateway}, which is not in its `range` {range}");
            field.add_problem_at("gateway", problems, problem);
        } else if gateway == range.network() {
            field.add_problem_at(
                "gateway",
                problems,
                format!("has the `gateway` {gateway}, which is the network address of its `range` {range}"),
            );
        } else if gateway == range.broadcast() {
            field.add_problem_at(
                "gateway",
                problems,
                format!("has the `gateway` {gateway}, which is the broadcast address of its `range` {range}"),
            );
        }
        let range_place = field.get("range").map(|range| range.node.position.describe()).unwrap_or_default();
        Some(Subnet { range: Some((range, gateway)), range_place, ..subnet })
    }
}

/// Reads the zones of a subnet: `az` or `azs`. Their names are checked if zones are defined at all, because a
/// manifest for create-env may have zones of a director.
fn read_zones(subnet: &Field<'_>, sections: &Sections<'_>, problems: &mut Problems) -> Vec<String> {
    let fields = match (subnet.get("az"), subnet.get("azs")) {
        (Some(_), Some(azs)) => {
            azs.add_problem(problems, "and `az` cannot both be given");
            return Vec::new();
        }
        (Some(az), None) => vec![az],
        (None, _) => subnet.list("azs", problems),
    };
    let az_names = sections.names(AZS.key);
    let mut zones = Vec::new();
    for field in fields {
        let Some(name) = field.text(problems) else { continue };
        if !az_names.is_empty() && !az_names.contains(&name) {
            let hint = sections.suggest(AZS, &name);
            field.add_problem(
                problems,
                format!("names availability zone '{name}', which is not in `azs`{hint}"),
            );
        }
        zones.push(name);
    }
    zones
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
pub(super) fn read_interfaces(
    group: &Field<'_>,
    networks: &[Network],
    names: &[String],
    az: Option<&Az>,
    problems: &mut Problems,
) -> Map<String, Value> {
    let mut interfaces = Map::new();
    let memberships = group.list("networks", problems);
    if memberships.is_empty() {
        group.add_problem(problems, "must be in at least one network (`networks`)");
    }
    let mut roles: Vec<String> = Vec::new();
    for membership in &memberships {
        let mut defaults = membership.texts("default", problems);
        for role in &defaults {
            if role != "dns" && role != "gateway" {
                membership
                    .add_problem(problems, format!("`default` must be 'dns' or 'gateway', not '{role}'"));
            }
            if roles.contains(role) {
                membership.add_problem(problems, format!("only one network can be the default for '{role}'"));
            }
            roles.push(role.clone());
        }
        let Some(name) = membership.required_text("name", problems) else { continue };
        let Some(network) = networks.iter().find(|network| network.name == name) else {
            if !names.contains(&name) {
                let hint = base::error::did_you_mean(&name, names.iter().map(String::as_str));
                membership.add_problem_at(
                    "name",
                    problems,
                    format!("names network '{name}', which is not in `networks`{hint}"),
                );
            }
            continue;
        };
        let ips = membership.texts("static_ips", problems);
        let is_given = membership.get("static_ips").is_some();
        if network.kind == NetworkKind::Manual && ips.is_empty() && !is_given {
            membership
                .add_problem(problems, format!("needs `static_ips`, because network '{name}' is manual"));
        }
        if memberships.len() == 1 {
            defaults = vec!["dns".into(), "gateway".into()];
        }
        if interfaces.contains_key(&name) {
            membership.add_problem_at("name", problems, format!("lists network '{name}' a second time"));
        }
        if let Some(subnet) = network.find_subnet(membership, &ips, az, problems) {
            let ip = ips.first().map(String::as_str);
            interfaces.insert(name, network.interface(subnet, ip, &defaults));
        }
    }
    if memberships.len() > 1 {
        for role in ["dns", "gateway"] {
            if !roles.iter().any(|listed_role| listed_role == role) {
                group.add_problem(
                    problems,
                    format!("is in several networks, so one of them needs `default: [{role}]`"),
                );
            }
        }
    }
    interfaces
}
