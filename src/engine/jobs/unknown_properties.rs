//! Properties that no job declares. Templates do not see them, and most of them are misspelt.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::prepare::find_release;
use artifact::Release;
use base::Result;
use base::error::did_you_mean;
use manifest::Deployment;

/// Returns a warning for each property of the instance group and its jobs that none of its jobs declares.
pub(crate) fn unknown_properties(deployment: &Deployment, releases: &[Release]) -> Result<Vec<String>> {
    let group = &deployment.group;
    let mut declared_names = BTreeSet::new();
    for job in &group.jobs {
        let properties = &find_release(releases, &job.release)?.job(&job.name)?.properties;
        declared_names.extend(properties.iter().map(|property| property.name.as_str()));
    }
    let job_properties = group.jobs.iter().filter_map(|job| Some((Some(job), job.properties.as_ref()?)));
    let group_place = format!("instance group '{}'", group.name);
    let mut warnings = Vec::new();
    for (job, properties) in job_properties.chain([(None, &group.properties)]) {
        let mut unknown_names = Vec::new();
        find_unknown(properties, "", &declared_names, &mut unknown_names);
        warnings.extend(unknown_names.into_iter().map(|name| {
            let hint = did_you_mean(&name, with_parents(&declared_names));
            let place = job.map_or(group_place.as_str(), |job| job.place_of(&name));
            format!("{place} sets the property '{name}', which no job declares: it is ignored{hint}")
        }));
    }
    Ok(warnings)
}

/// Collects the undeclared properties. A declared property may be a hash, and a hash may hold several
/// declared properties: `a.b` and `a.c`.
fn find_unknown(
    properties: &Map<String, Value>,
    prefix: &str,
    declared_names: &BTreeSet<&str>,
    unknown_names: &mut Vec<String>,
) {
    for (key, value) in properties {
        let name = format!("{prefix}{key}");
        if declared_names.contains(name.as_str()) {
            continue;
        }
        let child_prefix = format!("{name}.");
        match value {
            _ if !declared_names.iter().any(|declared_name| declared_name.starts_with(&child_prefix)) => {
                unknown_names.push(name)
            }
            Value::Object(hash) => find_unknown(hash, &child_prefix, declared_names, unknown_names),
            _ => {}
        }
    }
}

/// Returns the names, and those of the hashes that contain them.
fn with_parents<'n>(names: &BTreeSet<&'n str>) -> BTreeSet<&'n str> {
    let parents = |name: &'n str| name.match_indices('.').map(move |(index, _)| &name[..index]).chain([name]);
    names.iter().flat_map(|name| parents(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::error::nearest;

    #[test]
    fn finds_undeclared_properties_at_every_level() {
        let declared_names = BTreeSet::from(["a.b", "a.c.d", "whole", "a.hash"]);
        let Value::Object(properties) = serde_json::json!({
            "a": {"b": 1, "c": {"d": 2, "x": 3}, "hash": {"any": "thing"}, "y": {"z": 4}},
            "whole": {"any": "thing"},
            "hole": 5,
        }) else {
            panic!("not a hash");
        };
        let mut unknown_names = Vec::new();
        find_unknown(&properties, "", &declared_names, &mut unknown_names);
        assert_eq!(unknown_names, ["a.c.x", "a.y", "hole"]);
        assert_eq!(nearest("hole", with_parents(&declared_names)), Some("whole"));
        assert_eq!(nearest("a.c.x", with_parents(&declared_names)), Some("a.c.d"));
    }
}
