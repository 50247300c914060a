//! The persistent disk: of a size, of a disk pool, or of a disk type.

use serde_json::Map;

use super::DiskSpec;
use super::sections::{DISK_TYPES, Sections};
use crate::reader::{Field, Problems};
use base::error::did_you_mean;

/// Reads the persistent disk of the instance group. Checks all disk pools.
pub(super) fn read(sections: &Sections<'_>, group: &Field<'_>, problems: &mut Problems) -> Option<DiskSpec> {
    let size = group.optional_mebibytes("persistent_disk", 0, problems);
    let pool_name = group.optional_text("persistent_disk_pool", problems).filter(|name| !name.is_empty());
    let mut pools = Vec::new();
    for pool in sections.root.list("disk_pools", problems) {
        let name = pool.required_text("name", problems);
        // A pool with an invalid size keeps its name, so that references to it cause no second error.
        let spec = read_spec(sections, &pool, problems);
        pools.extend(name.map(|name| (name, spec)));
    }
    if let Some(disk_type) = group.get("persistent_disk_type") {
        for other in ["persistent_disk", "persistent_disk_pool"] {
            if group.get(other).is_some() {
                disk_type.add_problem(problems, format!("and `{other}` cannot both be given"));
            }
        }
        let disk_type_entry = sections.find(DISK_TYPES, &disk_type, problems)?;
        return read_spec(sections, &disk_type_entry, problems);
    }
    match pool_name {
        Some(pool_name) => match pools.iter().position(|(name, _)| *name == pool_name) {
            Some(index) => pools.swap_remove(index).1,
            None => {
                let hint = did_you_mean(&pool_name, pools.iter().map(|(name, _)| name.as_str()));
                group.add_problem_at(
                    "persistent_disk_pool",
                    problems,
                    format!("names disk pool '{pool_name}', which is not in `disk_pools`{hint}"),
                );
                None
            }
        },
        None => size
            .filter(|size| *size > 0)
            .map(|size| DiskSpec { size: size.unsigned_abs(), cloud_properties: Map::new() }),
    }
}

/// Reads a disk pool or a disk type.
fn read_spec(sections: &Sections<'_>, field: &Field<'_>, problems: &mut Problems) -> Option<DiskSpec> {
    let size = field.optional_mebibytes("disk_size", 1, problems);
    if field.get("disk_size").is_none() {
        field.add_problem(problems, "needs a `disk_size` in MiB");
    }
    let cloud_properties = sections.read_cloud_properties(field, problems);
    Some(DiskSpec { size: size?.unsigned_abs(), cloud_properties })
}
