//! Availability zones: cloud properties and CPI of the VM.
//!
//! They are in the manifest or in a cloud config, in the same form (docs-bosh, `cloud-config.md`).

use serde_json::{Map, Value};

use super::parse::did_you_mean;
use crate::reader::{Field, Problems};
use yaml::Node;

/// The availability zone of the instance group.
#[derive(Debug, Clone, PartialEq)]
pub struct Az {
    /// The name that instance groups refer to.
    pub name: String,
    /// The name of its CPI; `None` for the CPI of `cloud_provider`.
    pub cpi: Option<String>,
    /// Defaults for the cloud properties of a VM in the zone.
    pub cloud_properties: Map<String, Value>,
}

impl Az {
    /// Merges a zone's cloud properties with `own`, which take precedence.
    pub(super) fn merge_cloud_properties(az: Option<&Az>, own: Map<String, Value>) -> Map<String, Value> {
        let mut merged = az.map(|az| az.cloud_properties.clone()).unwrap_or_default();
        merged.extend(own);
        merged
    }
}

/// Returns the zone that the instance group names, with its node. `defines` is the document with `azs`.
pub(super) fn of_group<'a>(
    defines: &Field<'a>,
    group: &Field<'_>,
    problems: &mut Problems,
) -> Option<(Az, &'a Node)> {
    let mut zones: Vec<(Az, &Node)> = Vec::new();
    for field in defines.list("azs", problems) {
        let name = field.required_text("name", problems);
        let cpi = field.optional_text("cpi", problems).filter(|cpi| !cpi.is_empty());
        let cloud_properties = field.object("cloud_properties", problems);
        let Some(name) = name else { continue };
        if zones.iter().any(|(az, _)| az.name == name) {
            field.problem(problems, format!("defines AZ '{name}' a second time"));
        }
        zones.push((Az { name, cpi, cloud_properties }, field.node));
    }
    let wanted = group.texts("azs", problems);
    let name = match wanted.as_slice() {
        [] => return None,
        [name] => name,
        several => {
            let count = several.len();
            group.problem(
                problems,
                format!("must be in one AZ (`azs`), not in {count}, because it is a single VM"),
            );
            return None;
        }
    };
    let found = zones.iter().position(|(az, _)| az.name == *name);
    if found.is_none() {
        let names: Vec<&str> = zones.iter().map(|(az, _)| az.name.as_str()).collect();
        let known = match names.as_slice() {
            [] => "; neither the manifest nor a --cloud-config defines `azs`".to_owned(),
            names => match did_you_mean(name, names.iter().copied()) {
                near if near.is_empty() => format!("; the AZs are {}", names.join(", ")),
                near => near,
            },
        };
        group.problem(problems, format!("names AZ '{name}', which is not in `azs`{known}"));
    }
    found.map(|index| zones.swap_remove(index))
}
