//! Availability zones: cloud properties and CPI of the VM.
//!
//! They are in the manifest or in a cloud config, in the same form (docs-bosh, `cloud-config.md`).

use serde_json::{Map, Value};

use super::sections::{AZS, Sections};
use crate::reader::{Field, Problems};

/// The availability zone of the instance group.
#[derive(Debug, Clone, PartialEq)]
pub struct Az {
    /// The name that instance groups refer to.
    pub name: String,
    /// The name of its CPI; `None` for the CPI of `cloud_provider`.
    pub cpi: Option<String>,
    /// Defaults for the cloud properties of the VM in the zone.
    pub cloud_properties: Map<String, Value>,
}

/// Reads the zone that the instance group names.
pub(super) fn read(sections: &Sections<'_>, group: &Field<'_>, problems: &mut Problems) -> Option<Az> {
    let az_field = group.list("azs", problems);
    let az_field = match az_field.as_slice() {
        [] => return None,
        [az_field] => az_field,
        fields => {
            let count = fields.len();
            group.add_problem(
                problems,
                format!(
                    "must be in one availability zone (`azs`), not in {count}, because it is a single VM"
                ),
            );
            return None;
        }
    };
    let zone = sections.find(AZS, az_field, problems)?;
    let name = zone.required_text("name", problems)?;
    let cpi = zone.optional_text("cpi", problems).filter(|cpi| !cpi.is_empty());
    Some(Az { name, cpi, cloud_properties: zone.object("cloud_properties", problems) })
}
