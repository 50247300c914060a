//! Checks for the programs of this machine that VMs of a stemcell use. VMs share the machine's userland, and
//! the cloud property `needs` of a stemcell names the required programs with their packages.

use serde_json::Value;

use crate::agent::SCRIPT_PATH;
use crate::cpi::args::type_name;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::programs;
use base::JsonObject;

/// The name of the cloud property.
const NEEDS_PROPERTY: &str = "needs";

/// Fails if this machine lacks a program in `needs`, a hash from programs to packages.
pub(crate) fn check(cloud_properties: &JsonObject) -> CpiResult<()> {
    let mut missing_programs = Vec::new();
    for (program, package) in needs(cloud_properties)? {
        if programs::find(program, SCRIPT_PATH).is_none() {
            missing_programs.push((program, package));
        }
    }
    if missing_programs.is_empty() {
        return Ok(());
    }
    let programs: Vec<String> = missing_programs
        .iter()
        .map(|(program, package)| format!("'{program}' (package '{package}')"))
        .collect();
    let mut packages: Vec<&str> = missing_programs.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    Err(CpiFailure::new(
        FailureKind::Cloud,
        format!(
            "this machine lacks {}, which VMs of this stemcell need; looked in {SCRIPT_PATH}. Install it (on \
             Debian and Ubuntu: `apt-get install {}`), then run the same command again",
            programs.join(", "),
            packages.join(" ")
        ),
    ))
}

/// Returns the programs and their packages.
fn needs(cloud_properties: &JsonObject) -> CpiResult<Vec<(&str, &str)>> {
    let property_error = |actual: String| {
        CpiFailure::invalid_call(format!(
            "create_stemcell: cloud property {NEEDS_PROPERTY} must be an object of program names to package \
             names, not {actual}"
        ))
    };
    match cloud_properties.get(NEEDS_PROPERTY) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(needs)) => needs
            .iter()
            .map(|(program, package)| match package {
                Value::String(package) if !program.is_empty() && !program.contains('/') => {
                    Ok((program.as_str(), package.as_str()))
                }
                Value::String(_) => Err(property_error(format!("the program '{}'", program.escape_debug()))),
                other => {
                    Err(property_error(format!("{} for '{}'", type_name(other), program.escape_debug())))
                }
            })
            .collect(),
        Some(other) => Err(property_error(type_name(other).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_needs(cloud_properties: Value) -> Result<(), (FailureKind, String)> {
        check(cloud_properties.as_object().unwrap()).map_err(|failure| (failure.kind, failure.message))
    }

    #[test]
    fn programs_of_this_machine_are_found() {
        for fine in
            [json!({}), json!({"needs": null}), json!({"needs": {}}), json!({"needs": {"sh": "dash"}})]
        {
            assert_eq!(check_needs(fine), Ok(()));
        }
    }

    #[test]
    fn missing_program_is_named_with_its_package() {
        let needs =
            json!({"needs": {"sh": "dash", "no-such-program": "b", "nor-this": "a", "nor-that": "b"}});
        let (kind, message) = check_needs(needs).unwrap_err();
        assert_eq!(kind, FailureKind::Cloud);
        for part in ["'no-such-program' (package 'b')", "'nor-this' (package 'a')", "`apt-get install a b`"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("'sh'"), "{message}");
    }

    #[test]
    fn paths_and_other_types_are_rejected() {
        for bad_needs in [json!(["perl"]), json!({"perl": 1}), json!({"": "a"}), json!({"/bin/sh": "dash"})] {
            let (kind, message) = check_needs(json!({"needs": bad_needs})).unwrap_err();
            assert_eq!(kind, FailureKind::InvalidCall, "{message}");
        }
    }
}
